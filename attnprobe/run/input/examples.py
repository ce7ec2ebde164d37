"""From documents to the examples of a task: what the model reads, and what it is to say of it."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from attnprobe.attention.annotation import TokenAnnotation
from attnprobe.corpus.sources.document import Annotation, Asked, Document, Span, Tag, Tagged, find_gold
from attnprobe.corpus.sources.media import MediaFolder
from attnprobe.corpus.tokens.annotation import Alignment, DecoderAnnotation, annotate_shifted, annotate_target
from attnprobe.corpus.tokens.reading import Reading
from attnprobe.corpus.tokens.tokenization import TokenSequence, refuse_without_offsets, tokenize
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.tasks import Gold

Documents = Iterable[Document] | MediaFolder


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
            raise AttnprobeError(f"None of the {self._skipped:,} examples has a {self._what}.")

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
        if not getattr(tokenizer, "is_fast", False):
            raise refuse_without_offsets(tokenizer)
        options["return_offsets_mapping"] = True
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
