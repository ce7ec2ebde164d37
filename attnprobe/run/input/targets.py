"""What the decoder beside an encoder reads: target texts, or the text itself."""

from collections.abc import Iterator, Sequence
from typing import Any

from attnprobe.attention.annotation import TokenAnnotation
from attnprobe.corpus.tokens.annotation import Alignment
from attnprobe.corpus.tokens.beside import Beside, beside_another, beside_itself
from attnprobe.corpus.tokens.tokenization import Reading, TokenSequence, spelled, without_offsets
from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint


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
        ids = checkpoint.shifted(sequence.ids[: checkpoint.longest_target])
        said, beside = sequence.annotation, None
        if said is not None and not said.tags and said.answers is None:  # which are for tasks
            beside = beside_itself(said, len(ids))
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
        ids, beside = checkpoint.shifted(target), None
        awaited, said = source[place].awaited, source[place].annotation
        if awaited is not None:
            alignment = _alignment(checkpoint, texts[place], encoded, place)
            beside = beside_another(said or TokenAnnotation(), awaited, texts[place], alignment, len(ids))
            reading.links_lost += beside.lost
            reading.links_unasked += beside.unasked
        yield _annotated(ids, beside)


def _annotated(ids: list[int], beside: Beside | None) -> TokenSequence:
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
            raise without_offsets(tokenizer)
        options["return_offsets_mapping"] = True
    return spelled(tokenizer, text_target=list(texts), **options)


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
