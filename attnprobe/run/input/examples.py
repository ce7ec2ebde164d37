"""From documents to the examples of a task: what the model reads, and what it is to say of it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from attnprobe.attention.annotation import TokenAnnotation
from attnprobe.corpus.sources.document import Annotation, Asked, Document, Gold, Span, Tag, Tagged
from attnprobe.corpus.sources.media import MediaFolder
from attnprobe.corpus.tokens.annotation import Alignment, DecoderAnnotation, annotate_shifted, annotate_target
from attnprobe.corpus.tokens.tokenization import Reading, TokenSequence, refuse_without_offsets, tokenize
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint

Documents = Iterable[Document] | MediaFolder


def words_to_label(documents: Documents) -> Documents:
    """Give texts as their words joined by blanks, with the label of each word.

    Taggers are trained on words one by one, whatever stood between them.
    """
    return _each(documents, _of_words)


def questions(documents: Documents) -> Documents:
    """Give questions with the texts that answer them, and where."""
    return _each(documents, _of_question)


def _each(documents: Documents, made: Callable[[Document], Document]) -> Documents:
    if isinstance(documents, MediaFolder):
        return documents

    def every() -> Iterator[Document]:
        yield from map(made, documents)

    return every()


def _of_words(document: Document) -> Document:
    label = document.label
    assert isinstance(label, Tagged)
    tags, place = [], 0
    for word, tag in zip(label.words, label.tags, strict=True):
        if tag is not None:
            tags.append(Tag(Span(place, place + len(word)), tag))
        place += len(word) + 1
    text = " ".join(label.words)
    return replace(document, text=text, pair=None, label=None, annotation=Annotation(tags=tuple(tags)))


def _of_question(document: Document) -> Document:
    label = document.label
    assert isinstance(label, Asked)
    spans = (
        Span(start, start + len(answer), "pair")
        for answer, start in zip(label.answers, label.starts, strict=True)
    )
    return replace(document, pair=label.context, annotation=Annotation(answers=tuple(spans)))


class Labelled:
    """The examples that have a label, or a target text, which is kept where a label is."""

    def __init__(
        self,
        documents: Iterable[Document] | MediaFolder,
        what: str = "label",
        *,
        kinds: Collection[Gold] | None = None,
    ) -> None:
        """Look at documents or files; ``what`` they must have is for the user to read, any kind or some."""
        self._documents, self._what = documents, what
        self._kinds = kinds
        self._skipped = 0

    @property
    def examples(self) -> Iterable[Document] | MediaFolder:
        """Those that have one.

        Raises:
            AttnprobeError: When there is none; of documents, at their end.
        """
        if not isinstance(self._documents, MediaFolder):
            return self._some(self._documents)
        found = self._documents.labelled
        self._skipped = len(self._documents.items) - len(found.items)
        if not found.items:
            raise AttnprobeError(f"None of the {self._skipped:,} files has a {self._what}.")
        return found

    def _some(self, documents: Iterable[Document]) -> Iterator[Document]:
        found = False
        for document in documents:
            kind = Gold.of(document.label)
            if not (kind if self._kinds is None else kind in self._kinds):
                self._skipped += 1
                continue
            found = True
            yield document
        if not found:
            raise AttnprobeError(f"None of the {self._skipped:,} examples has a {self._what}.")

    def remarks(self) -> list[str]:
        """Say how many were left out, once all were read."""
        noun = "example is" if self._skipped == 1 else "examples are"
        return [f"{self._skipped:,} {noun} left out for want of a {self._what}."] if self._skipped else []


def with_targets(checkpoint: Checkpoint, documents: Iterable[Document]) -> tuple[Iterator[Document], bool]:
    """Settle whether a decoder reads the targets of documents, or the texts themselves.

    It reads targets if the first document has one; documents without one are left out then, as everywhere.

    Args:
        checkpoint: Which model reads them.
        documents: With their targets as labels.

    Returns:
        The documents, and whether their labels are targets.

    Raises:
        AttnprobeError: When a document has a target and the model has no decoder beside an encoder; and on
            the way, when one has a target that the first one lacks.
    """
    rest = iter(documents)
    first = list(islice(rest, 1))
    labelled = bool(first) and _has_target(first[0])
    if labelled and not checkpoint.decodes:
        raise _no_decoder(checkpoint)

    def checked() -> Iterator[Document]:
        for document in chain(first, rest):
            if _has_target(document) and not labelled:
                if not checkpoint.decodes:
                    raise _no_decoder(checkpoint)
                raise AttnprobeError(
                    f"The text {document.text[:60]!r} has a target, but the first text has none; give every "
                    "text a target, or none."
                )
            yield document

    return checked(), labelled


def _has_target(document: Document) -> bool:
    return isinstance(document.label, str)


def _no_decoder(checkpoint: Checkpoint) -> AttnprobeError:
    return AttnprobeError(
        f"{checkpoint.name} has no decoder beside an encoder that could read targets; leave out target, and "
        "links into it."
    )


def target_ids(checkpoint: Checkpoint, texts: Sequence[str]) -> list[list[int]]:
    """Tokenise target texts as the decoder is to answer them, cut to what it takes.

    Raises:
        AttnprobeError: When a target gives not a single token.
    """
    return _ids(checkpoint, texts, _encoded(checkpoint, texts))


def decoder_sequences(
    checkpoint: Checkpoint, source: Sequence[TokenSequence], reading: Reading, *, labelled: bool
) -> Iterator[TokenSequence]:
    """Give what the decoder reads beside each sequence, as it reads while it is trained: all but the end.

    Args:
        checkpoint: Whose decoder it is.
        source: What the encoder reads; its targets are handed to the tokenizer together.
        reading: Counts the links whose ends are not both there.
        labelled: Whether the labels are target texts; otherwise the decoder reads what the encoder does.

    Raises:
        AttnprobeError: When a target gives not a single token, or the tokenizer does not say which characters
            a token covers where links need it.
    """
    return (_labels if labelled else _copies)(checkpoint, source, reading)


def _copies(
    checkpoint: Checkpoint, source: Sequence[TokenSequence], reading: Reading
) -> Iterator[TokenSequence]:
    for sequence in source:
        ids = checkpoint.shift_right(sequence.ids[: checkpoint.longest_target])
        said, beside = sequence.annotation, None
        if said is not None and not said.tags and said.answers is None:  # which are for tasks
            beside = annotate_shifted(said, len(ids))
        if sequence.awaited is not None:  # there is no target
            reading.links_lost += len(sequence.awaited.links)
        yield _annotated(ids, beside)


def _labels(
    checkpoint: Checkpoint, source: Sequence[TokenSequence], reading: Reading
) -> Iterator[TokenSequence]:
    texts = [str(sequence.label) for sequence in source]
    offsets = any(sequence.awaited is not None for sequence in source)
    encoded = _encoded(checkpoint, texts, offsets=offsets)
    for place, target in enumerate(_ids(checkpoint, texts, encoded)):
        ids, beside = checkpoint.shift_right(target), None
        awaited, said = source[place].awaited, source[place].annotation
        if awaited is not None:
            alignment = _alignment(checkpoint, texts[place], encoded, place)
            beside = annotate_target(said or TokenAnnotation(), awaited, texts[place], alignment, len(ids))
            reading.links_lost += beside.lost
            reading.links_unasked += beside.unasked
        yield _annotated(ids, beside)


def _annotated(ids: list[int], beside: DecoderAnnotation | None) -> TokenSequence:
    if beside is None:
        return TokenSequence(ids)
    return TokenSequence(ids, annotation=beside.decoder, crossed=beside.cross)


def _encoded(
    checkpoint: Checkpoint, texts: Sequence[str], *, offsets: bool = False, whole: bool = False
) -> Any:
    """Tokenise target texts, whole or cut to what the decoder takes."""
    tokenizer: Any = checkpoint.target_tokenizer or checkpoint.tokenizer
    options: dict[str, Any] = {"verbose": False} if whole else {}
    if checkpoint.longest_target is not None and not whole:
        options = {"truncation": True, "max_length": checkpoint.longest_target}
    if offsets:
        if not getattr(tokenizer, "is_fast", False):
            raise refuse_without_offsets(tokenizer)
        options["return_offsets_mapping"] = True
    return tokenize(tokenizer, text_target=list(texts), **options)


def _ids(checkpoint: Checkpoint, texts: Sequence[str], encoded: Any) -> list[list[int]]:
    found: list[list[int]] = encoded["input_ids"]
    for text, ids in zip(texts, found, strict=True):
        if not ids:
            raise AttnprobeError(f"The target {text!r} gives not a single token.")
    if checkpoint.modality == "text":
        return found
    # Whisper's tokenizer begins with what its decoder begins with anyway.
    return [ids[1:] if ids[0] == checkpoint.start and len(ids) > 1 else ids for ids in found]


def _alignment(checkpoint: Checkpoint, text: str, encoded: Any, place: int) -> Alignment:
    """Tell which tokens of a target cover which characters, and what was cut off."""
    whole = None
    if len(encoded["input_ids"][place]) == checkpoint.longest_target:
        again = _encoded(checkpoint, [text], offsets=True, whole=True)
        whole = Alignment({"target": again["offset_mapping"][0]})
    return Alignment({"target": encoded["offset_mapping"][place]}, whole)
