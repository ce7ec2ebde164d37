"""The function that compares the heads of two checkpoints."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attnprobe.corpus.document import Label
from attnprobe.corpus.tokens import Tokenizer
from attnprobe.errors import UsageError
from attnprobe.model.folders import find_local_folder
from attnprobe.session.checkpoints import pair_revisions, parse_revisions
from attnprobe.session.session import (
    Call,
    check_model,
    describe_call,
    load_model,
    open_call,
    parse_layers,
    read_first,
)
from attnprobe.session.texts import Texts, check_standard_input, open_to_replay, replay
from attnprobe.table.table import HeadTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.findings.partners import Within
    from attnprobe.model.checkpoint import Checkpoint
    from attnprobe.statistics.statistic import Statistic

    Model = str | Path | PreTrainedModel

#: The measure that is every column of the census.
CENSUS = "census"
#: Where partners are looked for by what heads give.
_BY_OUTPUTS: "dict[str, Within]" = {"outputs": "model", "outputs-layer": "layer"}


def compare(
    model: "Sequence[Model] | str | Path",
    texts: Texts = None,
    labels: Iterable[Label] | None = None,
    *,
    revisions: str | Sequence[str] | None = None,
    measure: str = CENSUS,
    match: Literal["layer", "model", "outputs", "outputs-layer"] | None = None,
    nearest: bool = True,
    tokenizers: Sequence[Tokenizer] | None = None,
    **options: Any,
) -> HeadTable:
    """Compare the heads of two checkpoints; the arguments are those of the command."""
    named = _name_pair(model, revisions, options)
    if tokenizers is not None and len(tokenizers) != len(named):
        raise UsageError(f"There are {len(named)} models, but {len(tokenizers)} tokenizers.")
    if isinstance(texts, str):
        check_standard_input(texts)
    layers = parse_layers(options.get("layers"))
    within: Within | None = _BY_OUTPUTS.get(match or "", match)  # type: ignore[assignment]
    with open_call(options, *(one for one, _ in named)) as call:
        models = [
            (one, revision, None if tokenizers is None else tokenizers[place])
            for place, (one, revision) in enumerate(named)
        ]
        for one, _, tokenizer in models:
            check_model(one, tokenizer, options)
        labels = replay(labels)
        texts, source = open_to_replay(replay(texts), labels, options, find_labels=False)
        source = read_first(source)

        from attnprobe.findings.comparison import tabulate_heads
        from attnprobe.statistics.statistic import apply_weights
        from attnprobe.survey.checks import check_layers, keep_layers
        from attnprobe.survey.comparison import compare_checkpoints

        statistics = apply_weights(_choose_statistics(measure), options.get("weights", "attention"))
        call.progress.stage("loading", None)
        loaded = [_load(*one, source.kind, call) for one in models]
        first, second = _tell_apart(loaded, [one for one, _ in named])
        again = _reopen(texts, labels, options) if source.kind == "text" else source.documents
        comparison = compare_checkpoints(
            (first, second),
            (source.documents, again),
            call.corpus,
            statistics,
            pairs=nearest,
            outputs=match in _BY_OUTPUTS,
            match=within,
            dataset=source.name,
            facts={"command": describe_call("compare"), "dataset": source.described},
            labelled=labels is not None or options.get("label_column") is not None,
            **call.run,
        )
        if layers is None:
            return tabulate_heads(comparison, within)
        check_layers(layers, (place.layer for place in comparison.labels.places), comparison.labels.model)
        return keep_layers(tabulate_heads(comparison, within), layers)


def _choose_statistics(measure: str) -> "list[Statistic]":
    """Choose what is compared: all columns of the census, or some, or their families."""
    from attnprobe.statistics.registry import choose

    if measure == CENSUS:
        return choose(None)
    return choose([part.strip() for part in measure.split(",") if part.strip()])


def _name_pair(
    models: "Sequence[Model] | str | Path", revisions: str | Sequence[str] | None, options: Any
) -> "list[tuple[Model, str | None]]":
    listed = [models] if isinstance(models, str | Path) or not isinstance(models, Sequence) else list(models)
    names = parse_revisions(revisions, options.get("revision"))
    if names is None:
        if len(listed) != 2:
            raise UsageError(f"compare takes two checkpoints, not {len(listed)}.")
        return [(model, options.get("revision")) for model in listed]
    if len(listed) == 1 and len(names) != 2:
        raise UsageError(f"compare takes two --revisions, not {len(names)}.")
    return [*pair_revisions(listed, names)]


def _load(
    model: "Model", revision: str | None, tokenizer: Tokenizer | None, kind: str, call: Call
) -> "Checkpoint":
    load = replace(call.load, revision=revision) if isinstance(model, str | Path) else call.load
    checkpoint = load_model(model, tokenizer, load, kind)
    other = revision is not None and revision != call.load.revision
    return replace(checkpoint, name=f"{checkpoint.name}@{revision}") if other else checkpoint


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
