"""From images or sound to batches: what ``tokenised`` is for text."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from attnprobe.errors import AttnprobeError
from attnprobe.media.batches import Clip, MediaBatches
from attnprobe.media.decoding import image_size, sound_length
from attnprobe.media.folder import IMAGE, Item, MediaFolder
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.dry_run import Architecture
from attnprobe.model.processing import Processor
from attnprobe.survey.targets import target_ids
from attnprobe.text.batches import Side
from attnprobe.text.rarity import rank_types
from attnprobe.text.store import SequenceStore
from attnprobe.text.tokenization import Frame, Reading, TokenSequence
from attnprobe.text.vocabulary import TokenKinds


def media_batches(
    checkpoint: Checkpoint,
    architecture: Architecture,
    folder: MediaFolder,
    stores: ExitStack,
    *,
    budget: int,
    cells: int | None,
    most: Callable[[int], int] | None,
    content_only: bool,
    truncate: bool,
    progress: Callable[[int], None],
) -> tuple[MediaBatches, Reading]:
    """List what is read of a folder, and plan its batches.

    Args:
        checkpoint: Whose processor prepares it.
        architecture: What the dry run found of the tokens that the model makes.
        folder: The files.
        stores: Close what the decoder beside an encoder reads.
        budget: Tokens in a batch.
        cells: Query-key cells in a batch, where whole maps are kept.
        most: Gives the most sequences of a length in a batch, where memory is limited.
        content_only: Whether tokens outside of an image's patches are dropped.
        truncate: Whether only the first window of long sound is kept; so it is where a decoder reads along.
        progress: Called with 1 for each file.

    Returns:
        The batches, and what happened to the files on the way.
    """
    processor, reading = _processor(checkpoint), Reading()
    fixed, clips = processor.fixed, list[Clip]()
    for item in folder.items:
        progress(1)
        reading.documents += 1
        found = _clips(item, processor, fixed=fixed)
        if len(found) > 1 and (truncate or checkpoint.decodes):
            reading.truncated += 1
            found = found[:1]
        elif len(found) > 1:
            reading.cut += 1
            reading.windows += len(found)
        clips += found
    share = 1.0 if fixed or folder.kind == IMAGE else architecture.positions / processor.rate
    lengths = [architecture.positions if share == 1 else round(c.shape[0] * share) for c in clips]
    batches = MediaBatches(
        folder.kind,
        clips,
        np.maximum(np.array(lengths, np.int32), 1),
        processor,
        digest=folder.described()["sha256"],
        rate=processor.rate,
        budget=budget,
        cells=cells,
        most=most,
        grid=architecture.grid,
        content_only=content_only,
        targets=_transcripts(checkpoint, clips, stores, content_only) if checkpoint.decodes else None,
    )
    return batches, reading


def heard(checkpoint: Checkpoint, documents: Any, say: Callable[[str], None]) -> tuple[Checkpoint, Any]:
    """Settle what a decoder beside an encoder of sound reads: what is said in the files, or nothing.

    Returns:
        The checkpoint, or its encoder alone where nobody says what is said; and the files to read.
    """
    if not isinstance(documents, MediaFolder) or not checkpoint.decodes:
        return checkpoint, documents
    known = documents.labelled
    if not known.items:
        say(
            "no transcripts (metadata.csv with the columns file_name and text), so that the decoder has "
            "nothing to read: only the encoder is measured."
        )
        return replace(checkpoint, encoder_only=True), documents
    if left := len(documents.items) - len(known.items):
        say(f"{left:,} files without a transcript skipped.")
    return checkpoint, known


def _processor(checkpoint: Checkpoint) -> Processor:
    if checkpoint.processor is None:
        raise AttnprobeError(f"{checkpoint.name} was loaded without a processor of images or sound.")
    return checkpoint.processor


def _clips(item: Item, processor: Processor, *, fixed: bool) -> list[Clip]:
    """Cut long sound into windows; say what a clip's batch must agree in."""
    if processor.kind == IMAGE:
        return [Clip(item, shape=() if fixed else image_size(item.path))]
    samples = sound_length(item.path, processor.rate)
    if not samples:
        raise AttnprobeError(f"{item.path} holds no sound.")
    starts = range(0, samples, processor.window)
    spans = [(start, min(start + processor.window, samples)) for start in starts]
    return [Clip(item, start, stop, () if fixed else (stop - start,)) for start, stop in spans]


def _transcripts(checkpoint: Checkpoint, clips: list[Clip], stores: ExitStack, content_only: bool) -> Side:
    """Tokenise what is said in each clip, as the decoder reads it."""
    store = stores.enter_context(SequenceStore(len(checkpoint.tokenizer)))
    texts = [str(clip.item.label) for clip in clips]
    store.extend(TokenSequence(checkpoint.shifted(ids)) for ids in target_ids(checkpoint, texts))
    kinds = TokenKinds(checkpoint.tokenizer, Frame.of(checkpoint.tokenizer), checkpoint.start)
    return Side(store, kinds, rank_types(store.counts, kinds.framing), content_only)
