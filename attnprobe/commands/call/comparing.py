"""The function that compares the heads of two checkpoints."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from attnprobe.commands.call.call import (
    Call,
    check_model,
    load_model,
    open_call,
    parse_layers,
    read_first,
    read_task,
)
from attnprobe.commands.call.record import describe_call
from attnprobe.commands.call.several import Series, list_checkpoints, measure_checkpoints
from attnprobe.commands.call.surveying import survey_texts
from attnprobe.commands.call.texts import Texts, check_standard_input, open_to_replay, replay
from attnprobe.commands.census import entropy
from attnprobe.commands.intervene import importance
from attnprobe.corpus.sources.document import Label
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.corpus.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.request import Method, check_method
from attnprobe.model.folders import find_local_folder
from attnprobe.run.training import expand_patterns, pair_revisions, parse_revisions
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.model.checkpoint import Checkpoint
    from attnprobe.statistics.statistic import Statistic
    from attnprobe.statistics.tabulation import Tabulation
    from attnprobe.survey.comparison import Comparison
    from attnprobe.survey.pairing import Within

    Model = str | Path | PreTrainedModel

#: The measure that is every column of the census, and the one that is none of them.
CENSUS = "census"
IMPORTANCE = "importance"
#: Where partners are looked for by what heads give.
_BY_OUTPUTS: "dict[str | None, Within]" = {"outputs": "model", "outputs-layer": "layer"}
#: What only attention weights have a use for.
_ATTENTION = ("weights", "frequencies")


def compare(
    model: "Sequence[Model] | str | Path",
    texts: Texts = None,
    labels: Iterable[Label] | None = None,
    *,
    revisions: str | Sequence[str] | None = None,
    measure: str = CENSUS,
    by: Literal["head", "layer"] = "head",
    match: Literal["layer", "model", "outputs", "outputs-layer"] | None = None,
    nearest: bool = True,
    spread: bool = False,
    method: Method = "gradient",
    keep: bool = True,
    tokenizers: Sequence[Tokenizer] | None = None,
    **options: Any,
) -> HeadTable:
    """Compare the heads of two checkpoints; the arguments are those of the command."""
    if spread or measure == IMPORTANCE:
        more = {"revisions": revisions, "spread": spread, "keep": keep}
        return _compare_series(model, texts, labels, measure, method, options, **more)
    named = _name_pair(model, revisions, options)
    if tokenizers is not None and len(tokenizers) != len(named):
        raise AttnprobeError(f"There are {len(named)} models, but {len(tokenizers)} tokenizers.")
    spoken = list(tokenizers) if tokenizers is not None else [None] * len(named)
    if isinstance(texts, str):
        check_standard_input(texts)
    layers = parse_layers(options.get("layers"))
    with open_call(options, *(one for one, _ in named)) as call:
        for (one, _), tokenizer in zip(named, spoken, strict=True):
            check_model(one, tokenizer, options)
        labels = replay(labels)
        given = {**options, "order": call.order}
        texts, source = open_to_replay(replay(texts), labels, given, find_labels=False)
        source = read_first(source)
        downloaded = [(one, revision) for one, revision in named if isinstance(one, str)]
        with nullcontext() if keep else Series(downloaded, call, keep=False):
            outputs = _BY_OUTPUTS.get(match)
            asked = measure, nearest, outputs
            by_maps = None if match is None or outputs is not None else cast("Within", match)
            tabulate = partial(_tabulate_pair, by=by, match=by_maps, layers=layers)
            found = _compare_pair(named, spoken, texts, labels, source, asked, given, call, tabulate=tabulate)
        return tabulate(found)


def _tabulate_pair(
    found: "Comparison", by: str, match: "Within | None", layers: Sequence[int] | None
) -> HeadTable:
    """Tabulate heads, or layers, those that are asked for."""
    from attnprobe.findings.comparison import tabulate_heads, tabulate_layers
    from attnprobe.survey.tables import check_layers, keep_layers

    if layers is not None:
        check_layers(layers, (place.layer for place in found.labels.places), found.labels.model)
    table = tabulate_layers(found) if by == "layer" else tabulate_heads(found, match)
    return table if layers is None else keep_layers(table, layers)


def _compare_series(
    models: Any,
    texts: Any,
    labels: Any,
    measure: str,
    method: Method,
    options: Any,
    *,
    revisions: Any,
    spread: bool,
    keep: bool,
) -> HeadTable:
    """Measure named checkpoints one after the other, and compare importance or say where columns vary."""
    checkpoints = _name_series(models, revisions, options.get("revision"))
    if spread and len(checkpoints) < 2:
        raise AttnprobeError(
            f"{checkpoints[0][0]} is the only checkpoint; --spread needs two of one shape, or more."
        )
    if not spread and len(checkpoints) != 2:
        raise AttnprobeError(
            f"--measure importance compares two checkpoints, not {len(checkpoints)}; --spread takes more."
        )
    layers = None if spread else parse_layers(options.pop("layers", None))
    series = partial(measure_checkpoints, checkpoints, texts, labels, keep=keep)
    record: dict[str, Any] = {"command": describe_call("compare")}
    if measure == IMPORTANCE:
        options = {name: one for name, one in options.items() if name not in _ATTENTION}
        check_method(method, read_task(options, labels), content_only=options.get("content_only", False))
        name, has_task = f"{IMPORTANCE} {method}", method != "confidence"
        found = series(options, partial(_measure_importance, method), name=name, task=has_task)
        record["method"] = method
    else:
        files = [options.get("frequencies")]
        found = series(options, partial(_measure_columns, measure), name=measure, task=False, files=files)
    of = {"dataset": found.source.name, "notes": found.notes, "record": {**record, **found.record}}
    if spread:
        from attnprobe.findings.spread import tabulate_spread

        return tabulate_spread(found.tables, found.names, **of)
    from attnprobe.findings.differences import tabulate_importance_change

    table = tabulate_importance_change(found.tables, found.names, **of)
    if layers is None:
        return table
    from attnprobe.survey.tables import check_layers, keep_layers

    check_layers(layers, table.data["layer"], found.names[0])  # type: ignore[arg-type]
    return keep_layers(table, layers)


def _name_series(models: Any, revisions: Any, revision: str | None) -> list[tuple[str, str | None]]:
    """Name the checkpoints, each with its revision; patterns stand for the folders that they match."""
    listed = [models] if isinstance(models, str) or not isinstance(models, Sequence) else list(models)
    names = parse_revisions(revisions, revision)
    if names is None:
        return [(name, revision) for name in expand_patterns(list_checkpoints(listed))]
    return [*pair_revisions(list_checkpoints(listed), names)]


def _measure_importance(
    method: Method, name: str, texts: Any, labels: Any, options: dict[str, Any]
) -> HeadTable:
    taken = importance.command.keywords  # type: ignore[attr-defined]
    options = {key: value for key, value in options.items() if key in taken}
    return importance(name, texts, labels, method=method, **options)


def _measure_columns(measure: str, name: str, texts: Any, labels: Any, options: dict[str, Any]) -> HeadTable:
    """Measure columns of the census, with their means over blocks of documents."""

    def ask() -> "tuple[Sequence[Statistic], Tabulation]":
        from attnprobe.findings.differences import ALONE
        from attnprobe.sums.resampling import Jackknife

        return [replace(one, sums=Jackknife) for one in _choose_statistics(measure)], ALONE

    taken = entropy.command.keywords  # type: ignore[attr-defined]
    options = {key: value for key, value in options.items() if key in taken}
    return survey_texts("compare", name, texts, ask, options, targets=labels)


def _choose_statistics(measure: str) -> "list[Statistic]":
    """Choose what is compared: all columns of the census, or some, or their families."""
    from attnprobe.statistics.registry import choose

    if measure == CENSUS:
        return choose(None)
    return choose([part.strip() for part in measure.split(",") if part.strip()])


def _compare_pair(
    named: "Sequence[tuple[Model, str | None]]",
    tokenizers: Sequence[Tokenizer | None],
    texts: Any,
    labels: Any,
    source: OpenSource,
    asked: "tuple[str, bool, Within | None]",
    options: Any,
    call: Call,
    tabulate: "Callable[[Comparison], HeadTable]",
) -> "Comparison":
    """Compare two checkpoints; ``asked`` is the measure, whether to look for the nearest, and outputs."""
    measure, nearest, outputs = asked
    from attnprobe.statistics.norm import apply_weights
    from attnprobe.survey.comparison import compare_checkpoints

    statistics = apply_weights(_choose_statistics(measure), options.get("weights", "attention"))
    call.progress.stage("loading", None)
    loaded = [
        _load(model, revision, tokenizer, source.kind, call)
        for (model, revision), tokenizer in zip(named, tokenizers, strict=True)
    ]
    first, second = _tell_apart(loaded, [model for model, _ in named])
    again = _reopen(texts, labels, options) if source.kind == "text" else source.documents
    return compare_checkpoints(
        (first, second),
        (source.documents, again),
        call.corpus,
        statistics,
        pairs=nearest,
        outputs=outputs,
        dataset=source.name,
        facts={"command": describe_call("compare"), "dataset": source.described},
        labelled=labels is not None or options.get("label_column") is not None,
        order=options["order"],
        tabulate=tabulate,
        **call.run,
    )


def _name_pair(
    models: "Sequence[Model] | str | Path", revisions: str | Sequence[str] | None, options: Any
) -> "list[tuple[Model, str | None]]":
    listed = [models] if isinstance(models, str | Path) or not isinstance(models, Sequence) else list(models)
    names = parse_revisions(revisions, options.get("revision"))
    if names is None:
        if len(listed) != 2:
            raise AttnprobeError(f"compare takes two checkpoints, not {len(listed)}; --spread takes more.")
        return [(model, options.get("revision")) for model in listed]
    if len(listed) == 1 and len(names) != 2:
        raise AttnprobeError(f"compare takes two --revisions, not {len(names)}.")
    return [*pair_revisions(listed, names)]


def _load(
    model: "Model", revision: str | None, tokenizer: Tokenizer | None, kind: str, call: Call
) -> "Checkpoint":
    """Load a checkpoint; one of several revisions has its name behind that of the model."""
    load = replace(call.load, revision=revision) if isinstance(model, str | Path) else call.load
    checkpoint = load_model(model, tokenizer, load, kind)
    own = revision is not None and revision != call.load.revision
    return replace(checkpoint, name=f"{checkpoint.name}@{revision}") if own else checkpoint


def _tell_apart(checkpoints: "list[Checkpoint]", models: "Sequence[Model]") -> "list[Checkpoint]":
    """Name folders that are called alike, such as checkpoints of two runs, by the folders they are in too."""
    folders = [find_local_folder(str(model)) for model in models if isinstance(model, str | Path)]
    parts = [folder.resolve().parts for folder in folders if folder is not None]
    if len({one.name for one in checkpoints}) > 1 or len(parts) < 2 or parts[0] == parts[1]:
        return checkpoints
    number = next(number for number in itertools.count(2) if parts[0][-number:] != parts[1][-number:])
    names = ["/".join(one[-number:]) for one in parts]
    return [replace(one, name=name) for one, name in zip(checkpoints, names, strict=True)]


def _reopen(texts: Any, labels: Any, options: Any) -> Iterator[Any]:
    """Read the same texts once more, opened only where the second checkpoint has other tokens."""
    yield from open_to_replay(texts, labels, options, find_labels=False)[1].documents
