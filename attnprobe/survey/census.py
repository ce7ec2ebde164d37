"""The census as a Python function."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.opening import open_anything
from attnprobe.corpus.sources.text import EMBEDDED, OpenSource, Source
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.load import LoadOptions, load_checkpoint
from attnprobe.run.input.corpus import CorpusOptions
from attnprobe.statistics import Statistic, all_statistics, statistics_of
from attnprobe.statistics.registry import FAMILIES
from attnprobe.survey.survey import survey
from attnprobe.survey.tabulate import census_statistics, head_table
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Text = str | tuple[str, str] | Document


def census(
    model: "str | Path | PreTrainedModel",
    texts: Iterable[Text] | Path | Source | None = None,
    *,
    tokenizer: Tokenizer | None = None,
    targets: Sequence[str] | None = None,
    statistics: Sequence[str] | None = None,
    name: str | None = None,
    load: LoadOptions | None = None,
    **options: Any,
) -> HeadTable:
    """Measure every head of a model over texts, images or sound, in one forward pass over them.

    Every number is a mean over the queries of a sequence first, then over sequences; ``NAME_se`` is
    its standard error over sequences and ``n`` their number.

    Args:
        model: ``"demo"``, a folder, a hub id, or a loaded model with its ``tokenizer``. A loaded
            model is left as it was found.
        texts: Strings, pairs of strings, the path of a file or of a folder of images or sound, or a
            ``Source``; by default the sentences that ship with attnprobe.
        tokenizer: The tokenizer of a loaded model.
        targets: For each text, what the decoder of an encoder-decoder model reads; by default the text
            itself.
        statistics: Names of columns (``"entropy"``) or of families (``"positional"``); by default all.
        name: What the ``dataset`` column says.
        load: How to load a model that is named.
        options: Fields of ``CorpusOptions``: ``max_length``, ``truncate``, ``limit``,
            ``content_only``, ``frequencies``, ``batch_tokens``, ``memory`` ("256MiB").

    Returns:
        One row a head, layers and heads counted from 0.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.

    Examples:
        >>> table = census("demo", ["The parcel came late."], statistics=["entropy"])
        >>> list(table.data)
        ['model', 'dataset', 'layer', 'head', 'n', 'entropy', 'entropy_se']
    """
    chosen = choose_statistics(statistics)
    try:
        corpus_options = CorpusOptions(**options)
    except TypeError as error:
        raise AttnprobeError(f"census() has no such option: {error}.") from error
    source = as_source(texts) if targets is None else _with_targets(texts, targets)
    checkpoint = as_checkpoint(model, tokenizer, load, source.kind)
    found = survey(
        checkpoint,
        source.documents,
        corpus_options,
        chosen,
        dataset=name or source.name,
        facts={"command": "attnprobe.census", "dataset": source.described},
        labelled=targets is not None,
    )
    assert found is not None  # torchrun starts commands
    return head_table("census of heads", found.measurement, chosen, found.labels)


def choose_statistics(names: Sequence[str] | None) -> list[Statistic]:
    """Resolve names of columns and families, in the order of the census."""
    every = census_statistics()
    if names is None:
        return every
    if isinstance(names, str):
        raise AttnprobeError(f"statistics must be a list of names, such as [{names!r}].")
    wanted: set[str] = set()
    for name in names:
        family = {statistic.name for statistic in statistics_of(name)}
        # "entropy" is both a column and a family; the column wins.
        wanted |= {name} if name in all_statistics() else family
    chosen = [statistic for statistic in every if statistic.name in wanted]
    unknown = [name for name in names if name not in FAMILIES and name not in {s.name for s in every}]
    if unknown or not chosen:
        raise AttnprobeError(
            f"There is no statistic {(unknown or ['(empty list)'])[0]!r}; choose from families "
            f"{', '.join(FAMILIES)} or columns {', '.join(s.name for s in every)}."
        )
    return chosen


def as_checkpoint(
    model: "str | Path | PreTrainedModel",
    tokenizer: Tokenizer | None,
    load: LoadOptions | None,
    modality: str = "text",
) -> Checkpoint:
    """Load a model that is named, or take one that is loaded, with its tokenizer."""
    if isinstance(model, (str, Path)):
        return load_checkpoint(str(model), load, modality=modality)
    if tokenizer is None:
        raise AttnprobeError("A loaded model needs its tokenizer: census(model, texts, tokenizer=tokenizer).")
    label = getattr(model.config, "_name_or_path", "") or type(model).__name__
    return Checkpoint(label, model, tokenizer, {"loaded": type(model).__name__})


def as_source(texts: Iterable[Text] | Path | Source | None) -> OpenSource:
    """Open texts, however they are given; by default the sentences that ship with attnprobe."""
    if isinstance(texts, str):
        raise AttnprobeError(
            "texts must be a list of strings, a Path to a file, or a Source; not one string."
        )
    if texts is None or isinstance(texts, (Path, Source)):
        return open_anything(
            texts if isinstance(texts, Source) else Source(str(texts) if texts else EMBEDDED)
        )
    return OpenSource(map(as_document, texts), "texts", {"name": "texts"})


def _with_targets(texts: Any, targets: Sequence[str]) -> OpenSource:
    source = as_source(texts)
    if texts is None or source.kind != "text" or isinstance(texts, (Path, Source)):
        raise AttnprobeError("targets go with a list of texts; of a file, name Source(label_column=...).")
    documents = list(source.documents)
    if len(documents) != len(targets):
        raise AttnprobeError(f"There are {len(documents)} texts, but {len(targets)} targets.")
    pairs = zip(documents, targets, strict=True)
    return replace(source, documents=[replace(document, label=target) for document, target in pairs])


def as_document(text: Text) -> Document:
    """Turn a string or a pair of strings into a document."""
    match text:
        case Document():
            return text
        case str():
            return Document(text)
        case (str() as first, str() as second):
            return Document(first, second)
    raise AttnprobeError(f"texts must be strings or pairs of strings, not {type(text).__name__}.")
