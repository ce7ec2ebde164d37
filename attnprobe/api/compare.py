"""The function that compares the heads of two checkpoints."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from attnprobe.api.calls import Call, begun, called, check_model, checkpoint_of
from attnprobe.api.checkpoints import readable
from attnprobe.api.commands import command
from attnprobe.api.keywords import ComparedKeywords, spelled_out
from attnprobe.api.side_by_side import (
    CENSUS,
    IMPORTANCE,
    check_together,
    chosen,
    compared_importance,
    spread_of,
)
from attnprobe.api.texts import Texts, check_standard_input
from attnprobe.api.turns import dropped
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


@spelled_out
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
    **options: Unpack[ComparedKeywords],
) -> HeadTable:
    """Compare the heads of two checkpoints over the same texts, in one pass of each.

    ``jsd`` is the Jensen-Shannon divergence of heads of one number, in nats, query by query.
    ``nearest_layer`` and ``nearest_head`` name the head of the second model that attends most alike, of all
    its heads, and ``jsd_nearest`` how far it is. For every column NAME of the census, ``NAME_a`` and
    ``NAME_b`` are the means in both models, ``NAME_delta`` is b less a with its standard error
    ``NAME_delta_se``, paired by document, and ``NAME_p_adjusted`` is p that they do not differ, adjusted over
    heads (Holm). Models that make different tokens of the texts are compared word by word.

    With ``measure="importance"``: ``importance_a``, ``importance_b``, ``importance_delta`` with its error and
    ``importance_p_adjusted``, of heads of one number. With ``spread``: where each column varies over two
    checkpoints or more, such as those of several seeds: one row a column, with the standard deviation ``sd``
    of one value (a head, in a checkpoint, over a text) and the shares that ``layers``, ``heads``, ``seeds``
    and ``texts``, their interactions and the ``rest`` have in its variance. Estimates below 0 count as 0.
    ``findings.comparison.variance`` has the model and the formulas. Checkpoints are then loaded one after the
    other.

    Args:
        model: Two checkpoints, each a folder, a hub id or a loaded model; or one hub id with ``revisions``.
            With ``measure="importance"`` or ``spread``, names only, and patterns of folders too.
        texts: As for ``census``.
        labels: With ``measure="importance"``, as for ``importance``; otherwise the target texts that the
            decoders of encoder-decoder models read, by default the texts themselves.
        revisions: Two branches, tags or commits of the one model, as a list or as ``"step1000,step2000"``.
        measure: ``"census"`` for all of its columns, or some of them or their families
            (``"entropy,previous"``); or ``"importance"``.
        by: One row for each head, or for each layer: means over its heads.
        match: Assign heads to heads one to one, with the least total divergence: ``"layer"`` within layers of
            one number, ``"model"`` over the model. Columns ``matched_layer``, ``matched_head``,
            ``jsd_matched``; columns ``_b`` are then about the matched head.
        nearest: Look for the nearest head, among all. Without that, heads of one number are compared only,
            which takes less time.
        spread: Say where columns vary instead: between layers, heads, checkpoints, texts.
        method: With ``measure="importance"``, as for ``importance``.
        keep: Keep in the hub's cache what was downloaded for this comparison.
        tokenizers: Those of loaded models, one for each.
        options: See ``ComparedKeywords`` in ``attnprobe.api.keywords``.

    Returns:
        One row for each head, or layer, of the first model. Columns ``_b`` are about the head of the same
        number; where the models have other numbers of layers or heads, about the nearest.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.

    References:
        Lin (1991), Divergence measures based on the Shannon entropy; Tukey (1958), Bias and confidence in not
        quite large samples; Kuhn (1955), The Hungarian method for the assignment problem; Searle, Casella and
        McCulloch (1992), Variance components.

    Examples:
        >>> table = compare(["demo", "demo"], ["The parcel came late.", "It rained."], measure="entropy")
        >>> list(table.data)[:7]
        ['model', 'dataset', 'model_b', 'layer', 'head', 'n', 'jsd']
        >>> float(table["jsd"].max()), float(table["entropy_delta"].max())
        (0.0, 0.0)
    """
    every = {**options, "labels": labels, "method": method}
    check_together(measure=measure, spread=spread, by=by, match=match, nearest=nearest, given=every)
    if spread or measure == IMPORTANCE:
        if tokenizers is not None:
            raise AttnprobeError(
                "tokenizers go with loaded models; checkpoints that are named have their own."
            )
        own = {"revisions": revisions, "keep": keep}
        if spread:
            return spread_of(model, texts, labels, measure, method, options, **own)
        return compared_importance(model, texts, labels, method, options, **own)
    named = _two(model, revisions, options)
    if tokenizers is not None and len(tokenizers) != len(named):
        raise AttnprobeError(f"There are {len(named)} models, but {len(tokenizers)} tokenizers.")
    spoken = list(tokenizers) if tokenizers is not None else [None] * len(named)
    if match is not None and not nearest:
        raise AttnprobeError("Matching needs the divergence of all pairs of heads; leave out --no-nearest.")
    if match is not None and by == "layer":
        raise AttnprobeError("Heads are matched one by one; leave out --by layer, or --match.")
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
    options: ComparedKeywords,
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
        facts={"command": command("compare"), "dataset": source.described},
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
