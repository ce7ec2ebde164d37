"""Importance, ablation, correlation and pruning as Python functions."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attnprobe.corpus.sources.document import Label
from attnprobe.corpus.sources.text import OpenSource, Source
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError
from attnprobe.findings.correlation import Side, comparison_table, disagreement_table
from attnprobe.findings.significance import Correction
from attnprobe.intervention.ablation import ablation_table
from attnprobe.intervention.domains import Measure, measured_sides
from attnprobe.intervention.importance import Method, check_method, importance_table
from attnprobe.intervention.pruning.curve import PruneOptions, pruned_in_steps
from attnprobe.intervention.pruning.ranking import Criterion
from attnprobe.intervention.pruning.writing import remove_heads
from attnprobe.intervention.task import Loader, TaskOptions
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.load import LoadOptions, load_checkpoint
from attnprobe.model.loading.task_heads import TaskHead, head_of
from attnprobe.model.removing.saving import check_free
from attnprobe.run.input.corpus import CorpusOptions
from attnprobe.survey.census import Text, as_checkpoint, as_document, as_source
from attnprobe.survey.survey import Silent
from attnprobe.table.head_table import HeadTable
from attnprobe.table.reading import read_table

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Texts = Iterable[Text] | Path | Source | None


def importance(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    labels: Iterable[Label] | None = None,
    *,
    method: Method = "gradient",
    objective: str | None = None,
    seed: int = 42,
    force_head: bool = False,
    tokenizer: Tokenizer | None = None,
    name: str | None = None,
    load: LoadOptions | None = None,
    **options: Any,
) -> HeadTable:
    """Measure how much every head matters for a task.

    Args:
        model: ``"demo"``, a folder, a hub id, or a loaded model with its ``tokenizer``.
        texts: Strings, pairs, ``Path``, ``Source`` or None, as for ``census``.
        labels: The class of each text, or its target text, where ``texts`` are strings or pairs; a
            ``Source`` names its own ``label_column``.
        method: ``"gradient"`` or ``"confidence"``.
        objective: ``"classification"``, ``"seq2seq"``, ``"masked-lm"``, ``"representation"``, or None to
            choose from the trained head and the labels.
        seed: Of masks and random directions.
        force_head: Make up a head that the checkpoint was not trained with.
        tokenizer: The tokenizer of a loaded model.
        name: What the ``dataset`` column says.
        load: How to load a model that is named.
        options: Fields of ``CorpusOptions``.

    Returns:
        One row a head.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.

    Examples:
        >>> table = importance("demo", ["The parcel came late.", "Who rang?"])
        >>> len(table), table["objective"][0]
        (24, np.str_('masked-lm'))
    """
    task = TaskOptions(objective, None, seed, force_head, labels is not None)
    corpus = _corpus_options(options)
    check_method(method, task, content_only=corpus.content_only)
    source = _labelled(texts, labels, name)
    return importance_table(
        _loader(model, tokenizer, load),
        source,
        corpus,
        task,
        method=method,
        facts={"command": "attnprobe.importance", "dataset": source.described},
        progress=Silent(),
    )


def ablate(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    labels: Iterable[Label] | None = None,
    *,
    keep_one: bool = False,
    metric: str | None = None,
    correction: Correction = "holm",
    objective: str | None = None,
    seed: int = 42,
    force_head: bool = False,
    tokenizer: Tokenizer | None = None,
    name: str | None = None,
    load: LoadOptions | None = None,
    **options: Any,
) -> HeadTable:
    """Score a model with each head off in turn, or with all others of its layer off.

    Args:
        model: As for ``importance``.
        texts: As for ``importance``.
        labels: As for ``importance``.
        keep_one: Switch all other heads of the layer off instead.
        metric: ``"accuracy"``, ``"mcc"``, ``"f1"``, ``"loss"``, ``"similarity"`` or ``"bleu"``, as far as the
            objective has it; by default its first.
        correction: Of p for the number of heads: ``"holm"`` or ``"bh"``.
        objective: As for ``importance``.
        seed: Of masks, random directions and randomisation tests.
        force_head: As for ``importance``.
        tokenizer: The tokenizer of a loaded model.
        name: What the ``dataset`` column says.
        load: How to load a model that is named.
        options: Fields of ``CorpusOptions``.

    Returns:
        One row a head.
    """
    source = _labelled(texts, labels, name)
    return ablation_table(
        _loader(model, tokenizer, load),
        source,
        _corpus_options(options),
        TaskOptions(objective, metric, seed, force_head, labels is not None),
        keep_one=keep_one,
        correction=correction,
        facts={"command": "attnprobe.ablate", "dataset": source.described},
        progress=Silent(),
    )


def correlate(
    in_domain: "HeadTable | Texts",
    out_domain: "HeadTable | Texts",
    model: "str | Path | PreTrainedModel | None" = None,
    *,
    by: Literal["model", "head"] = "model",
    column: str | None = None,
    measure: Measure = "gradient",
    metric: str | None = None,
    objective: str | None = None,
    seed: int = 42,
    force_head: bool = False,
    tokenizer: Tokenizer | None = None,
    load: LoadOptions | None = None,
    **options: Any,
) -> HeadTable:
    """Correlate over heads what matters on two datasets.

    Args:
        in_domain: A table of ``importance`` or ``ablate``, or the path of one; with a ``model``, texts.
        out_domain: The same for the other side.
        model: Measure both sides with this model first; None compares two tables.
        by: ``"model"`` for the comparison in one row, ``"head"`` for the heads, furthest apart first.
        column: Of two tables, which one is compared.
        measure: With a model, ``"gradient"`` or ``"ablation"``.
        metric: What an ablation is scored by.
        objective: As for ``importance``.
        seed: As for ``importance``.
        force_head: As for ``importance``.
        tokenizer: The tokenizer of a loaded model.
        load: How to load a model that is named.
        options: Fields of ``CorpusOptions``.

    Returns:
        One row, or one a head.
    """
    facts: dict[str, Any] = {"command": "attnprobe.correlate"}
    if model is None:
        sides = _side(in_domain, "the first table", column), _side(out_domain, "the second table", column)
    else:
        sources = _labelled(_texts(in_domain), None, None), _labelled(_texts(out_domain), None, None)
        sides, record = measured_sides(
            _loader(model, tokenizer, load),
            sources,
            _corpus_options(options),
            TaskOptions(objective, metric, seed, force_head),
            measure=measure,
            progress=Silent(),
        )
        facts |= record | {"in_domain": sources[0].described, "out_domain": sources[1].described}
    return (disagreement_table if by == "head" else comparison_table)(*sides, facts)


def prune(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    labels: Iterable[Label] | None = None,
    *,
    by: str = "gradient",
    highest_first: bool = False,
    step: float = 0.1,
    rerank: bool = False,
    random_orders: int = 5,
    rank_texts: Texts = None,
    save: Path | None = None,
    share: float | None = None,
    physical: bool = False,
    overwrite: bool = False,
    metric: str | None = None,
    objective: str | None = None,
    seed: int = 42,
    force_head: bool = False,
    tokenizer: Tokenizer | None = None,
    name: str | None = None,
    load: LoadOptions | None = None,
    **options: Any,
) -> HeadTable:
    """Score a model while its heads are removed step by step, and write it without some.

    Args:
        model: As for ``importance``.
        texts: As for ``importance``.
        labels: As for ``importance``.
        by: ``"gradient"``, ``"ablation"``, ``"entropy"``, ``"confidence"`` or ``"FILE:COLUMN"``.
        highest_first: Of a column, remove the heads with the highest value first.
        step: Share of all heads that goes in one step.
        rerank: Rank the heads that are left anew after each step.
        random_orders: How many random orders stand beside.
        rank_texts: Texts to rank on; by default one half of ``texts``, and scores are of the other.
        save: Folder to write the pruned checkpoint to, without ``share`` of its heads.
        share: Share of all heads that ``save`` removes.
        physical: Write a smaller checkpoint for ``load_pruned``, instead of one with weights at zero.
        overwrite: Replace a pruned checkpoint that lies at ``save``.
        metric: As for ``ablate``.
        objective: As for ``importance``.
        seed: Of masks, random directions and random orders.
        force_head: As for ``importance``.
        tokenizer: The tokenizer of a loaded model.
        name: What the ``dataset`` column says.
        load: How to load a model that is named.
        options: Fields of ``CorpusOptions``.

    Returns:
        One row for each step of each order.
    """
    if (save is None) != (share is None):
        raise AttnprobeError("save and share go together: save=Path('pruned'), share=0.4.")
    criterion = Criterion.parse(by, highest_first=highest_first)
    pruning = PruneOptions(criterion, step, rerank, random_orders, share)
    if save is not None:
        check_free(save, overwrite=overwrite)
    source = _labelled(texts, labels, name)
    record = {"command": "attnprobe.prune", "dataset": source.described}
    with pruned_in_steps(
        _loader(model, tokenizer, load),
        source,
        None if rank_texts is None else _labelled(rank_texts, None, None),
        _corpus_options(options),
        TaskOptions(objective, metric, seed, force_head, labels is not None),
        pruning,
        facts=record,
        progress=Silent(),
    ) as (found, bench):
        if save is None:
            return found.table
        return remove_heads(
            found,
            bench,
            save,
            physical=physical,
            overwrite=overwrite,
            record=record,
            progress=Silent(),
        )


def _loader(
    model: "str | Path | PreTrainedModel", tokenizer: Tokenizer | None, load: LoadOptions | None
) -> Loader:
    if isinstance(model, (str, Path)):
        return lambda heads, force, modality="text": load_checkpoint(
            str(model), load, heads, force_head=force, modality=modality
        )
    checkpoint = as_checkpoint(model, tokenizer, load)
    own = head_of(model)

    def with_own_head(heads: Sequence[TaskHead], _: bool, modality: str = "text") -> Checkpoint:
        if modality != "text":
            raise AttnprobeError("Images and sound need a model that is named, a folder or a hub id.")
        return replace(checkpoint, head=own if own in heads else None)

    return with_own_head


def _labelled(texts: Texts, labels: Iterable[Label] | None, name: str | None) -> OpenSource:
    """Open texts and give each its label; look for labels in a table that names none."""
    if isinstance(texts, Path):
        texts = Source(str(texts))
    if isinstance(texts, Source):
        texts = replace(texts, find_labels=True)
    source = as_source(texts)
    if labels is not None:
        if texts is None or isinstance(texts, Source):
            raise AttnprobeError("labels go with a list of texts; of a file, name Source(label_column=...).")
        documents = [as_document(document) for document in source.documents]
        given = list(labels)
        if len(given) != len(documents):
            raise AttnprobeError(f"There are {len(documents)} texts, but {len(given)} labels.")
        pairs = zip(documents, given, strict=True)
        source = replace(source, documents=[replace(document, label=label) for document, label in pairs])
    return source if name is None else replace(source, name=name)


def _corpus_options(options: dict[str, Any]) -> CorpusOptions:
    try:
        return CorpusOptions(**options)
    except TypeError as error:
        raise AttnprobeError(f"There is no such option: {error}.") from error


def _side(table: Any, name: str, column: str | None) -> Side:
    if isinstance(table, HeadTable):
        return Side.of(table.to_pandas(), name, column)
    if isinstance(table, (str, Path)):
        return Side.of(read_table(Path(table)), str(table), column)
    raise AttnprobeError("Without a model, give two tables of heads, or their paths.")


def _texts(given: Any) -> Texts:
    if isinstance(given, HeadTable):
        raise AttnprobeError("With a model, give texts; two tables are compared without one.")
    return given
