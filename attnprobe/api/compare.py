"""The function that compares the heads of two checkpoints."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attnprobe.api.checkpoints import readable
from attnprobe.api.side_by_side import (
    CENSUS,
    IMPORTANCE,
    chosen,
    compared_importance,
    spread_of,
)
from attnprobe.api.turns import dropped
from attnprobe.commands.call.call import Call, begun, called, check_model, checkpoint_of
from attnprobe.commands.call.record import describe_call
from attnprobe.commands.call.texts import Texts, check_standard_input
from attnprobe.corpus.sources.document import Label
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.request import Method
from attnprobe.model.loading.folders import local_folder
from attnprobe.run.again import again
from attnprobe.run.training import at_revisions, parsed_revisions
from attnprobe.survey.layers import layers_of
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.model.loading.checkpoint import Checkpoint

    Model = str | Path | PreTrainedModel


def compare(
    model: "Sequence[Model] | str | Path",
    texts: Texts = None,
    labels: Iterable[Label] | None = None,
    *,
    revisions: str | Sequence[str] | None = None,
    measure: str = CENSUS,
    by: Literal["head", "layer"] = "head",
    match: Literal["layer", "model"] | None = None,
    nearest: bool = True,
    spread: bool = False,
    method: Method = "gradient",
    keep: bool = True,
    tokenizers: Sequence[Tokenizer] | None = None,
    **options: Any,
) -> HeadTable:
    """Compare the heads of two checkpoints; the arguments are those of the command."""
    if spread or measure == IMPORTANCE:
        own = {"revisions": revisions, "keep": keep}
        if spread:
            return spread_of(model, texts, labels, measure, method, options, **own)
        return compared_importance(model, texts, labels, method, options, **own)
    named = _two(model, revisions, options)
    if tokenizers is not None and len(tokenizers) != len(named):
        raise AttnprobeError(f"There are {len(named)} models, but {len(tokenizers)} tokenizers.")
    spoken = list(tokenizers) if tokenizers is not None else [None] * len(named)
    if isinstance(texts, str):
        check_standard_input(texts)
    layers = layers_of(options.get("layers"))
    with called(options, *(one for one, _ in named)) as call:
        for (one, _), tokenizer in zip(named, spoken, strict=True):
            check_model(one, tokenizer, options)
        labels = again(labels)
        texts, source = readable(again(texts), labels, options, find_labels=False)
        source = begun(source)
        with _downloaded(named, call, keep=keep):
            found = _compared(named, spoken, texts, labels, source, measure, nearest, options, call)
        from attnprobe.findings.comparison.tables import by_head, by_layer
        from attnprobe.survey.layers import check_layers, of_layers

        if layers is not None:
            check_layers(layers, (place.layer for place in found.labels.places), found.labels.model)
        table = by_layer(found) if by == "layer" else by_head(found, match)
        return table if layers is None else of_layers(table, layers)


@contextmanager
def _downloaded(named: "Sequence[tuple[Model, str | None]]", call: Call, *, keep: bool) -> Iterator[None]:
    """Take away what was downloaded for checkpoints when they were compared, unless it is to be kept."""
    if keep:
        yield
        return
    from attnprobe.model.loading.revisions import Downloads, glances_of

    names = [(model, revision) for model, revision in named if isinstance(model, str)]
    downloads = Downloads({name for name, _ in names}, call.load.cache_dir)
    with dropped(downloads, glances_of(names, call.load)):
        yield


def _compared(
    named: "Sequence[tuple[Model, str | None]]",
    tokenizers: Sequence[Tokenizer | None],
    texts: Any,
    labels: Any,
    source: OpenSource,
    measure: str,
    nearest: bool,
    options: Any,
    call: Call,
) -> Any:
    from attnprobe.statistics.weighting import under
    from attnprobe.survey.comparison.running import compared

    statistics = under(chosen(measure), options.get("weights", "attention"))
    call.progress.stage("loading", None)
    loaded = [
        _loaded(model, revision, tokenizer, source.kind, call)
        for (model, revision), tokenizer in zip(named, tokenizers, strict=True)
    ]
    first, second = _told_apart(loaded, [model for model, _ in named])
    return compared(
        (first, second),
        (source.documents, source.documents if source.kind != "text" else _Later(texts, labels, options)),
        call.corpus,
        statistics,
        pairs=nearest,
        dataset=source.name,
        facts={"command": describe_call("compare"), "dataset": source.described},
        labelled=labels is not None or options.get("label_column") is not None,
        resume=call.resume,
        workers=call.workers,
        progress=call.progress,
    )


def _two(
    models: "Sequence[Model] | str | Path", revisions: str | Sequence[str] | None, options: Any
) -> "list[tuple[Model, str | None]]":
    """Name the two checkpoints, each with its revision."""
    listed = [models] if isinstance(models, str | Path) or not isinstance(models, Sequence) else list(models)
    names = parsed_revisions(revisions, options.get("revision"))
    if names is None:
        if len(listed) != 2:
            raise AttnprobeError(f"compare takes two checkpoints, not {len(listed)}; --spread takes more.")
        return [(model, options.get("revision")) for model in listed]
    if len(listed) == 1 and len(names) != 2:
        raise AttnprobeError(f"compare takes two --revisions, not {len(names)}.")
    return [*at_revisions(listed, names)]


def _loaded(
    model: "Model", revision: str | None, tokenizer: Tokenizer | None, kind: str, call: Call
) -> "Checkpoint":
    """Load a checkpoint; one of several revisions has its name behind that of the model."""
    load = replace(call.load, revision=revision) if isinstance(model, str | Path) else call.load
    checkpoint = checkpoint_of(model, tokenizer, load, kind)
    own = revision is not None and revision != call.load.revision
    return replace(checkpoint, name=f"{checkpoint.name}@{revision}") if own else checkpoint


def _told_apart(checkpoints: "list[Checkpoint]", models: "Sequence[Model]") -> "list[Checkpoint]":
    """Name folders that are called alike, such as checkpoints of two runs, by the folders they are in too."""
    folders = [local_folder(str(model)) for model in models if isinstance(model, str | Path)]
    parts = [folder.resolve().parts for folder in folders if folder is not None]
    if len({one.name for one in checkpoints}) > 1 or len(parts) < 2 or parts[0] == parts[1]:
        return checkpoints
    number = next(number for number in itertools.count(2) if parts[0][-number:] != parts[1][-number:])
    names = ["/".join(one[-number:]) for one in parts]
    return [replace(one, name=name) for one, name in zip(checkpoints, names, strict=True)]


class _Later:
    """The same texts once more, opened only if they are asked for."""

    def __init__(self, texts: Any, labels: Any, options: Any) -> None:
        self._texts, self._labels, self._options = texts, labels, options

    def __iter__(self) -> Iterator[Any]:
        """Open them."""
        return iter(readable(self._texts, self._labels, self._options, find_labels=False)[1].documents)
