"""What the decoder beside an encoder reads: target texts, or the text itself."""

from collections.abc import Iterator, Sequence
from typing import Any

from attnprobe.corpus.tokens.store import SequenceStore
from attnprobe.corpus.tokens.tokenization import TokenSequence, spelled
from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint

#: Targets are handed to the tokenizer by this many.
CHUNK = 512


def target_ids(checkpoint: Checkpoint, texts: Sequence[str]) -> list[list[int]]:
    """Tokenise target texts as the decoder is to answer them, cut to what it takes.

    Raises:
        AttnprobeError: When a target gives not a single token.
    """
    tokenizer: Any = checkpoint.target_tokenizer or checkpoint.tokenizer
    options: dict[str, Any] = {}
    if checkpoint.longest_target is not None:
        options = {"truncation": True, "max_length": checkpoint.longest_target}
    found: list[list[int]] = spelled(tokenizer, text_target=list(texts), **options)["input_ids"]
    for text, ids in zip(texts, found, strict=True):
        if not ids:
            raise AttnprobeError(f"The target {text!r} gives not a single token.")
    if checkpoint.modality == "text":
        return found
    # Whisper's tokenizer begins with what its decoder begins with anyway.
    return [ids[1:] if ids[0] == checkpoint.start and len(ids) > 1 else ids for ids in found]


def decoder_sequences(
    checkpoint: Checkpoint, source: SequenceStore, *, labelled: bool
) -> Iterator[TokenSequence]:
    """Give what the decoder reads beside each sequence, as it reads while it is trained: all but the end.

    Args:
        checkpoint: Whose decoder it is.
        source: What the encoder reads.
        labelled: Whether the labels are target texts; otherwise the decoder reads what the encoder does.
    """
    longest = checkpoint.longest_target
    for start in range(0, len(source), CHUNK):
        members = range(start, min(start + CHUNK, len(source)))
        if labelled:
            targets = target_ids(checkpoint, [str(source.labels[member]) for member in members])
        else:
            targets = [source.ids(member)[:longest].tolist() for member in members]
        for ids in targets:
            yield TokenSequence(checkpoint.shifted(ids))
