"""Examples of tasks made of labelled documents: what the model reads, and what the right answer is."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from attnprobe.attention.tokens import TokenAnnotation
from attnprobe.corpus.document import (
    Annotation,
    Asked,
    Document,
    DocumentNumbers,
    Pair,
    Query,
    Span,
    Tagged,
    Triplet,
    Use,
    Uses,
    find_gold,
)
from attnprobe.corpus.media import MediaFolder
from attnprobe.corpus.spans import Alignment, annotate_shifted, annotate_target
from attnprobe.corpus.tokenizer import ask_offsets, tokenize
from attnprobe.corpus.tokens import Reading, TokenSequence
from attnprobe.errors import DataError, NothingToMeasureError, UsageError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.tasks import Gold

Documents = Iterable[Document] | MediaFolder


def join_words(documents: Documents) -> Iterator[Document]:
    """Join the words of documents by blanks, as taggers are trained, and annotate the label of each."""
    assert not isinstance(documents, MediaFolder)  # whose labels are no words
    for document in documents:
        label = document.label
        assert isinstance(label, Tagged)
        tags, place = [], 0
        for word, tag in zip(label.words, label.tags, strict=True):
            if tag is not None:
                tags.append((Span(place, place + len(word)), tag))
            place += len(word) + 1
        tagged = Annotation(tags=tuple(tags))
        yield replace(document, text=" ".join(label.words), pair=None, label=None, annotation=tagged)


def attach_contexts(documents: Documents) -> Iterator[Document]:
    """Pair questions with the texts that answer them, and annotate the answers."""
    assert not isinstance(documents, MediaFolder)
    for document in documents:
        label = document.label
        assert isinstance(label, Asked)
        places = zip(label.answers, label.starts, strict=True)
        spans = tuple(Span(start, start + len(answer), "pair") for answer, start in places)
        yield replace(document, pair=label.context, annotation=Annotation(answers=spans))


class LabelledExamples:
    """The documents that have a label; those without are counted and left out."""

    def __init__(
        self, documents: Documents, what: str = "label", *, kinds: Collection[Gold] | None = None
    ) -> None:
        """Without ``kinds``, any label will do; ``what`` labels are called in sentences."""
        self._documents, self._what, self._kinds = documents, what, kinds
        self._skipped = 0

    @property
    def examples(self) -> Documents:
        if not isinstance(self._documents, MediaFolder):
            return self._select(self._documents)
        labelled = self._documents.labelled
        self._skipped = len(self._documents.items) - len(labelled.items)
        if not labelled.items:
            raise DataError(f"None of the {self._skipped:,} files has a {self._what}.")
        return labelled

    def _select(self, documents: Iterable[Document]) -> Iterator[Document]:
        nothing = True
        for document in documents:
            kind = find_gold(document.label)
            if kind if self._kinds is None else kind in self._kinds:
                nothing = False
                yield document
            else:
                self._skipped += 1
        if nothing:
            raise NothingToMeasureError(f"None of the {self._skipped:,} examples has a {self._what}.")

    def remarks(self) -> list[str]:
        """List one sentence on how many documents were left out, if any, once all were read."""
        noun = "example is" if self._skipped == 1 else "examples are"
        return [f"{self._skipped:,} {noun} left out for want of a {self._what}."] if self._skipped else []


# What a decoder beside an encoder reads


def check_targets(checkpoint: Checkpoint, documents: Iterable[Document]) -> tuple[Iterator[Document], bool]:
    """Check targets, which are labels that a decoder reads; return the documents, and whether there are any.

    A target is refused if the first document has none, or if no decoder could read it. Without targets, a
    decoder reads the texts themselves.
    """
    rest = iter(documents)
    first = list(islice(rest, 1))
    labelled = any(isinstance(document.label, str) for document in first)

    def check(document: Document) -> Document:
        if isinstance(document.label, str) and not checkpoint.decodes:
            raise UsageError(
                f"{checkpoint.name} has no decoder beside an encoder that could read targets; leave out "
                "target, and links into it."
            )
        if isinstance(document.label, str) and not labelled:
            raise DataError(
                f"The text {document.text[:60]!r} has a target, but the first text has none; give every "
                "text a target, or none."
            )
        return document

    return chain([*map(check, first)], map(check, rest)), labelled


def tokenise_targets(checkpoint: Checkpoint, texts: Sequence[str]) -> list[list[int]]:
    """Tokenise target texts as the decoder is to write them, cut to its longest output."""
    return _tokenise_targets(checkpoint, texts)[0]


def build_decoder_sequences(
    checkpoint: Checkpoint, source: Sequence[TokenSequence], reading: Reading, *, labelled: bool
) -> Iterator[TokenSequence]:
    """Build the sequences that the decoder reads, shifted by one token as in training.

    With ``labelled``, it reads the labels, which are target texts; otherwise, what the encoder reads.
    Links that are lost are counted in ``reading``.
    """
    if labelled:
        yield from _build_target_sequences(checkpoint, source, reading)
        return
    for sequence in source:
        ids = checkpoint.shift_right(sequence.ids[: checkpoint.longest_target])
        annotation = sequence.annotation
        if annotation is None or annotation.tags or annotation.answers is not None:  # which are for tasks
            yield TokenSequence(ids)
        else:
            decoder, cross = annotate_shifted(annotation, len(ids))
            yield TokenSequence(ids, annotation=decoder, crossed=cross)
        if sequence.awaited is not None:  # there is no target
            reading.links_lost += len(sequence.awaited.links)


def _build_target_sequences(
    checkpoint: Checkpoint, source: Sequence[TokenSequence], reading: Reading
) -> Iterator[TokenSequence]:
    texts = [str(sequence.label) for sequence in source]
    offsets = any(sequence.awaited is not None for sequence in source)
    targets, encoded = _tokenise_targets(checkpoint, texts, offsets=offsets)
    for place, (sequence, target) in enumerate(zip(source, targets, strict=True)):
        ids = checkpoint.shift_right(target)
        if sequence.awaited is None:
            yield TokenSequence(ids)
            continue
        whole = None  # which characters the tokens cover that were cut off
        if len(encoded["input_ids"][place]) == checkpoint.longest_target:
            uncut = _tokenise_targets(checkpoint, [texts[place]], offsets=True, whole=True)[1]
            whole = Alignment({"target": uncut["offset_mapping"][0]})
        alignment = Alignment({"target": encoded["offset_mapping"][place]}, whole)
        annotation = sequence.annotation or TokenAnnotation()
        awaited = sequence.awaited
        decoder, cross = annotate_target(annotation, awaited, texts[place], alignment, len(ids))
        reading.links_unasked += awaited.unasked
        reading.links_lost += len(awaited.links) - awaited.unasked - len(decoder.links) - len(cross.links)
        yield TokenSequence(ids, annotation=decoder, crossed=cross)


def _tokenise_targets(
    checkpoint: Checkpoint, texts: Sequence[str], *, offsets: bool = False, whole: bool = False
) -> tuple[list[list[int]], Any]:
    """Tokenise target texts, ``whole`` or cut to the longest output; return their ids, and the encoding.

    If the input is not text, a leading start token is dropped from the ids, but not from the encoding. Raises
    DataError if a target gives no token.
    """
    tokenizer: Any = checkpoint.target_tokenizer or checkpoint.tokenizer
    options: dict[str, Any] = {"verbose": False} if whole else {}
    if checkpoint.longest_target is not None and not whole:
        options = {"truncation": True, "max_length": checkpoint.longest_target}
    if offsets:
        options |= ask_offsets(tokenizer)
    encoded = tokenize(tokenizer, text_target=list(texts), **options)
    for text, ids in zip(texts, encoded["input_ids"], strict=True):
        if not ids:
            raise DataError(f"The target {text!r} gives not a single token.")
    if checkpoint.modality == "text":
        return encoded["input_ids"], encoded
    # Whisper's tokenizer begins with what its decoder begins with anyway.
    start, every = checkpoint.start, encoded["input_ids"]
    return [ids[1:] if ids[0] == start and len(ids) > 1 else ids for ids in every], encoded


# Examples of several texts

#: Chooses among the examples, such as the first ones.
Choose = Callable[[Iterable[Document]], Iterable[Document]]


def split_examples(documents: Iterable[Document], choose: Choose) -> Iterator[Document]:
    """Yield each text of pairs, triplets, or queries and passages once, labelled with its ``Uses``.

    The number of a use is the score of a pair, how many passages answer a query, or the grade of such a
    passage. ``choose`` chooses among pairs, triplets or queries; all passages stay.
    """
    rest = iter(documents)
    first = next(rest, None)
    if first is not None:
        split = _split_queries if isinstance(first.label, Query) else _split_rows
        yield from split(chain([first], rest), choose)


def _split_rows(documents: Iterable[Document], choose: Choose) -> Iterator[Document]:
    """Yield each text of the chosen pairs or triplets once, with its uses in all of them."""
    numbers = DocumentNumbers()
    texts: dict[str, tuple[str | None, list[Use]]] = {}
    for example, document in enumerate(choose(documents)):
        number = numbers.number(document.part_of)
        for place, (text, score) in enumerate(_list_parts(document)):
            uses = texts.setdefault(text, (document.part_of, []))[1]
            uses.append(Use(example, number, place, score))
    for text, (part_of, uses) in texts.items():
        yield Document(text, label=Uses(tuple(uses)), part_of=part_of)


def _list_parts(document: Document) -> Sequence[tuple[str, float]]:
    """List the texts of a pair with its score, which must be a number, or those of a triplet with 0."""
    label = document.label
    if isinstance(label, Triplet):
        return [(text, 0.0) for text in (document.text, label.positive, label.negative)]
    assert isinstance(label, Pair)
    try:
        score = float(label.score)
    except (ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise DataError(f"The score {str(label.score)[:60]!r} of a pair is not a number.")
    return [(document.text, score), (label.other, score)]


def _split_queries(documents: Iterable[Document], choose: Choose) -> Iterator[Document]:
    """Yield the chosen queries, then all passages, each with the chosen queries that it answers."""
    rest, numbers = iter(documents), DocumentNumbers()
    queries, passages = list[Document](), list[Document]()
    while not passages and (document := next(rest, None)) is not None:
        assert isinstance(document.label, Query)
        (passages if document.label.judged is None else queries).append(document)
    answers: dict[str, list[Use]] = {}
    for example, document in enumerate(choose(queries)):
        label, number = document.label, numbers.number(document.part_of)
        assert isinstance(label, Query)
        assert label.judged is not None
        judged = [(name, grade) for name, grade in label.judged if grade > 0 and name != label.name]
        for passage, grade in judged:
            answers.setdefault(passage, []).append(Use(example, number, 1, float(grade)))
        uses = Uses((Use(example, number, 0, float(len(judged))),), label.name)
        yield Document(document.text, label=uses, part_of=document.part_of, role="query")
    for document in chain(passages, rest):
        assert isinstance(document.label, Query)
        name = document.label.name
        uses = Uses(tuple(answers.pop(name, [])), name)
        yield Document(document.text, label=uses, part_of=document.part_of, role="document")
