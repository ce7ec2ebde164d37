"""From documents to the examples of a task: what the model reads, and what it is to say of it."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from attnprobe.attention.tokens import TokenAnnotation
from attnprobe.corpus.sources.document import (
    Annotation,
    Asked,
    Document,
    DocumentNumbers,
    Pair,
    Passage,
    Query,
    Role,
    Span,
    Tag,
    Tagged,
    Triplet,
    Use,
    Uses,
    find_gold,
)
from attnprobe.corpus.sources.media import MediaFolder
from attnprobe.corpus.spans import Alignment, DecoderAnnotation, annotate_shifted, annotate_target
from attnprobe.corpus.tokens import Reading, TokenSequence, ask_offsets, tokenize
from attnprobe.errors import AttnprobeError, NothingToMeasureError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.tasks import Gold

Documents = Iterable[Document] | MediaFolder


def refuse_unknown_ids(ids: Sequence[int], checkpoint: Checkpoint) -> None:
    """Refuse ids for which the model has no embedding: the tokenizer belongs to another model."""
    if checkpoint.embeddings is not None and max(ids) >= checkpoint.embeddings:
        raise AttnprobeError(
            f"The tokenizer gave token {max(ids)}, but the model knows only {checkpoint.embeddings}; they do "
            "not belong together."
        )


def join_words(documents: Documents) -> Documents:
    """Join the words of documents by blanks, and annotate the label of each word.

    Taggers are trained on words one by one, whatever stood between them.
    """
    return documents if isinstance(documents, MediaFolder) else map(_join_words, documents)


def attach_contexts(documents: Documents) -> Documents:
    """Pair questions with the texts that answer them, and annotate the answers."""
    return documents if isinstance(documents, MediaFolder) else map(_attach_context, documents)


def _join_words(document: Document) -> Document:
    label = document.label
    assert isinstance(label, Tagged)
    tags, place = [], 0
    for word, tag in zip(label.words, label.tags, strict=True):
        if tag is not None:
            tags.append(Tag(Span(place, place + len(word)), tag))
        place += len(word) + 1
    text = " ".join(label.words)
    return replace(document, text=text, pair=None, label=None, annotation=Annotation(tags=tuple(tags)))


def _attach_context(document: Document) -> Document:
    label = document.label
    assert isinstance(label, Asked)
    spans = (
        Span(start, start + len(answer), "pair")
        for answer, start in zip(label.answers, label.starts, strict=True)
    )
    return replace(document, pair=label.context, annotation=Annotation(answers=tuple(spans)))


class LabelledExamples:
    """The examples that have a label, or a target text, which is kept where a label is."""

    def __init__(
        self, documents: Documents, what: str = "label", *, kinds: Collection[Gold] | None = None
    ) -> None:
        """``what`` documents must have is for sentences; ``kinds`` of it are any, or some."""
        self._documents, self._what, self._kinds = documents, what, kinds
        self._skipped = 0

    @property
    def examples(self) -> Documents:
        """Those that have one."""
        if not isinstance(self._documents, MediaFolder):
            return self._select(self._documents)
        found = self._documents.labelled
        self._skipped = len(self._documents.items) - len(found.items)
        if not found.items:
            raise AttnprobeError(f"None of the {self._skipped:,} files has a {self._what}.")
        return found

    def _select(self, documents: Iterable[Document]) -> Iterator[Document]:
        found = False
        for document in documents:
            kind = find_gold(document.label)
            if not (kind if self._kinds is None else kind in self._kinds):
                self._skipped += 1
                continue
            found = True
            yield document
        if not found:
            raise NothingToMeasureError(f"None of the {self._skipped:,} examples has a {self._what}.")

    def remarks(self) -> list[str]:
        """Say how many were left out, once all were read."""
        noun = "example is" if self._skipped == 1 else "examples are"
        return [f"{self._skipped:,} {noun} left out for want of a {self._what}."] if self._skipped else []


def check_targets(checkpoint: Checkpoint, documents: Iterable[Document]) -> tuple[Iterator[Document], bool]:
    """Decide whether a decoder reads the targets of documents (their labels), or the texts themselves.

    It reads targets if the first document has one; documents without one are left out then, as everywhere.

    Returns:
        The documents, and whether their labels are targets.
    """
    rest = iter(documents)
    first = list(islice(rest, 1))
    labelled = bool(first) and isinstance(first[0].label, str)
    if labelled and not checkpoint.decodes:
        raise _no_decoder_error(checkpoint)

    def check() -> Iterator[Document]:
        for document in chain(first, rest):
            if isinstance(document.label, str) and not labelled:
                if not checkpoint.decodes:
                    raise _no_decoder_error(checkpoint)
                raise AttnprobeError(
                    f"The text {document.text[:60]!r} has a target, but the first text has none; give every "
                    "text a target, or none."
                )
            yield document

    return check(), labelled


def _no_decoder_error(checkpoint: Checkpoint) -> AttnprobeError:
    return AttnprobeError(
        f"{checkpoint.name} has no decoder beside an encoder that could read targets; leave out target, and "
        "links into it."
    )


def tokenise_targets(checkpoint: Checkpoint, texts: Sequence[str]) -> list[list[int]]:
    """Tokenise target texts as the decoder is to answer them, cut to what it takes."""
    return _check_ids(checkpoint, texts, _encode(checkpoint, texts))


def build_decoder_sequences(
    checkpoint: Checkpoint, source: Sequence[TokenSequence], reading: Reading, *, labelled: bool
) -> Iterator[TokenSequence]:
    """Build what the decoder reads beside each sequence, as it reads while it is trained: all but the end.

    Where the labels are target texts, it reads these, and else what the encoder does. ``reading`` counts the
    links whose ends are not both there.
    """
    return (_read_labels if labelled else _copy_source)(checkpoint, source, reading)


def _copy_source(
    checkpoint: Checkpoint, source: Sequence[TokenSequence], reading: Reading
) -> Iterator[TokenSequence]:
    for sequence in source:
        ids = checkpoint.shift_right(sequence.ids[: checkpoint.longest_target])
        annotation, beside = sequence.annotation, None
        if (
            annotation is not None and not annotation.tags and annotation.answers is None
        ):  # which are for tasks
            beside = annotate_shifted(annotation, len(ids))
        if sequence.awaited is not None:  # there is no target
            reading.links_lost += len(sequence.awaited.links)
        yield _annotate(ids, beside)


def _read_labels(
    checkpoint: Checkpoint, source: Sequence[TokenSequence], reading: Reading
) -> Iterator[TokenSequence]:
    texts = [str(sequence.label) for sequence in source]
    offsets = any(sequence.awaited is not None for sequence in source)
    encoded = _encode(checkpoint, texts, offsets=offsets)
    for place, target in enumerate(_check_ids(checkpoint, texts, encoded)):
        ids, beside = checkpoint.shift_right(target), None
        awaited, annotation = source[place].awaited, source[place].annotation or TokenAnnotation()
        if awaited is not None:
            alignment = _align(checkpoint, texts[place], encoded, place)
            beside = annotate_target(annotation, awaited, texts[place], alignment, len(ids))
            reading.links_lost += beside.lost
            reading.links_unasked += beside.unasked
        yield _annotate(ids, beside)


def _annotate(ids: list[int], beside: DecoderAnnotation | None) -> TokenSequence:
    if beside is None:
        return TokenSequence(ids)
    return TokenSequence(ids, annotation=beside.decoder, crossed=beside.cross)


def _encode(
    checkpoint: Checkpoint, texts: Sequence[str], *, offsets: bool = False, whole: bool = False
) -> Any:
    """Tokenise target texts, whole or cut to what the decoder takes."""
    tokenizer: Any = checkpoint.target_tokenizer or checkpoint.tokenizer
    options: dict[str, Any] = {"verbose": False} if whole else {}
    if checkpoint.longest_target is not None and not whole:
        options = {"truncation": True, "max_length": checkpoint.longest_target}
    if offsets:
        options |= ask_offsets(tokenizer)
    return tokenize(tokenizer, text_target=list(texts), **options)


def _check_ids(checkpoint: Checkpoint, texts: Sequence[str], encoded: Any) -> list[list[int]]:
    found: list[list[int]] = encoded["input_ids"]
    for text, ids in zip(texts, found, strict=True):
        if not ids:
            raise AttnprobeError(f"The target {text!r} gives not a single token.")
    if checkpoint.modality == "text":
        return found
    # Whisper's tokenizer begins with what its decoder begins with anyway.
    return [ids[1:] if ids[0] == checkpoint.start and len(ids) > 1 else ids for ids in found]


def _align(checkpoint: Checkpoint, text: str, encoded: Any, place: int) -> Alignment:
    """Find which tokens of a target cover which characters, and what was cut off."""
    whole = None
    if len(encoded["input_ids"][place]) == checkpoint.longest_target:
        uncut = _encode(checkpoint, [text], offsets=True, whole=True)
        whole = Alignment({"target": uncut["offset_mapping"][0]})
    return Alignment({"target": encoded["offset_mapping"][place]}, whole)


#: Chooses some of the examples, such as the first ones.
Choose = Callable[[Iterable[Document]], Iterable[Document]]


def split_examples(documents: Iterable[Document], choose: Choose) -> Iterator[Document]:
    """Give each text of some examples once, with the examples that it is a part of.

    Where queries look for passages, ``choose`` chooses among the queries, and all passages stay.

    ``documents``: pairs, triplets, or queries with the passages behind them: see ``relate_rows``.

    Yields:
        The texts, labelled with ``Uses``. Of pairs and triplets they come in the order in which they stand
        in the examples, equal ones once, and a pair's score is said of both. Queries come before the
        passages: of a query is said how many passages answer it, of such a passage how well it does.
    """
    rest = iter(documents)
    first = next(rest, None)
    if first is None:
        return
    every = chain([first], rest)
    if isinstance(first.label, Query | Passage):
        yield from _split_queries(every, choose)
    else:
        yield from _split_rows(choose(every))


def _split_rows(documents: Iterable[Document]) -> Iterator[Document]:
    numbers = DocumentNumbers()
    texts: dict[str, tuple[str | None, list[Use]]] = {}
    for example, document in enumerate(documents):
        number = numbers.number(document.group)
        for place, (text, said) in enumerate(_list_parts(document)):
            uses = texts.setdefault(text, (document.group, []))[1]
            uses.append(Use(example, number, place, said))
    for text, (group, uses) in texts.items():
        yield Document(text, label=Uses(tuple(uses)), group=group)


def _list_parts(document: Document) -> Sequence[tuple[str, float]]:
    """List the texts of an example, each with the number that goes with it."""
    label = document.label
    if isinstance(label, Triplet):
        return [(text, 0.0) for text in (document.text, label.positive, label.negative)]
    assert isinstance(label, Pair)
    try:
        score = float(label.score)
    except (ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise AttnprobeError(f"The score {str(label.score)[:60]!r} of a pair is not a number.")
    return [(document.text, score), (label.other, score)]


class _Search:
    """The queries of some documents that are chosen, and then the passages behind them."""

    def __init__(self, documents: Iterable[Document], choose: Choose) -> None:
        self._rest = iter(documents)
        self._passages: list[Document] = []
        self._choose = choose

    def queries(self) -> Iterator[Document]:
        every = self._take()
        yield from self._choose(every)
        for _ in every:  # those that were not chosen
            pass

    def _take(self) -> Iterator[Document]:
        for document in self._rest:
            if isinstance(document.label, Passage):
                self._passages.append(document)
                return
            yield document

    def passages(self) -> Iterator[tuple[str, Document]]:
        for document in chain(self._passages, self._rest):
            assert isinstance(document.label, Passage)
            yield document.label.name, document


def _split_queries(documents: Iterable[Document], choose: Choose) -> Iterator[Document]:
    """Number the queries, and note at each passage which of them it answers."""
    search, numbers = _Search(documents, choose), DocumentNumbers()
    answers: dict[str, list[Use]] = {}
    for example, document in enumerate(search.queries()):
        label, number = document.label, numbers.number(document.group)
        assert isinstance(label, Query)
        found = [(name, grade) for name, grade in label.judged if grade > 0 and name != label.name]
        for passage, grade in found:
            answers.setdefault(passage, []).append(Use(example, number, 1, float(grade)))
        use = Use(example, number, 0, float(len(found)))
        yield _read_alone(document, label.name, [use], "query")
    for name, document in search.passages():
        yield _read_alone(document, name, answers.pop(name, []), "document")


def _read_alone(document: Document, name: str, uses: Sequence[Use], role: Role) -> Document:
    return Document(document.text, label=Uses(tuple(uses), name), group=document.group, role=role)
