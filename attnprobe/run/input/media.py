"""From images or sound to batches: what ``tokenised`` is for text."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from attnprobe.attention.layout import Grid
from attnprobe.corpus.batches.batch import Side
from attnprobe.corpus.batches.media import Clip, MediaBatches
from attnprobe.corpus.sources.media import (
    IMAGE,
    Item,
    MediaFolder,
    count_samples,
    read_image,
    read_image_size,
)
from attnprobe.corpus.tokens.store import SequenceStore
from attnprobe.corpus.tokens.tokenization import Frame, Reading, TokenSequence
from attnprobe.corpus.tokens.vocabulary import TokenKinds, rank_types
from attnprobe.errors import AttnprobeError, first_line
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.processing import Processor
from attnprobe.model.reading.routing import evaluation_mode
from attnprobe.model.reading.variants import full_attention
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.positions import catch_tokens, find_grid
from attnprobe.run.input.examples import target_ids

#: Sound of fewer seconds is too short for convolutions, where nothing is added to it.
SHORTEST = 0.1


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
        reading.empty += not found
        if len(found) > 1 and (truncate or checkpoint.decodes):
            reading.truncated += 1
            found = found[:1]
        elif len(found) > 1:
            reading.cut += 1
            reading.windows += len(found)
        clips += found
    if not clips:
        raise AttnprobeError(f"None of the files holds {SHORTEST} seconds of sound.")
    grids: dict[tuple[int, ...], Grid | None] = {(): architecture.grid}
    lengths = [architecture.positions] * len(clips)
    if not fixed and folder.kind == IMAGE:
        found = _images(checkpoint, architecture, processor, clips)
        grids = {shape: grid for shape, (_, grid) in found.items()}
        lengths = [found[clip.shape][0] for clip in clips]
    elif not fixed:
        grids = dict.fromkeys((clip.shape for clip in clips), architecture.grid)
        lengths = [round(clip.shape[0] * architecture.positions / processor.rate) for clip in clips]
    batches = MediaBatches(
        folder.kind,
        clips,
        np.maximum(np.array(lengths, np.int32), 1),
        processor,
        digest=folder.described["sha256"],
        rate=processor.rate,
        budget=budget,
        cells=cells,
        most=most,
        grids=grids,
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
        say(f"{left:,} {'files are' if left > 1 else 'file is'} left out for want of a transcript.")
    return checkpoint, known


def _processor(checkpoint: Checkpoint) -> Processor:
    if checkpoint.processor is None:
        raise AttnprobeError(f"{checkpoint.name} was loaded without a processor of images or sound.")
    return checkpoint.processor


def _clips(item: Item, processor: Processor, *, fixed: bool) -> list[Clip]:
    """Cut long sound into windows; say what a clip's batch must agree in."""
    if processor.kind == IMAGE:
        return [Clip(item, shape=() if fixed else read_image_size(item.path))]
    samples = count_samples(item.path, processor.rate)
    if not samples:
        raise AttnprobeError(f"{item.path} holds no sound.")
    if not fixed and samples < SHORTEST * processor.rate:
        return []
    starts = [*range(0, samples, processor.window)]
    if not fixed and len(starts) > 1 and samples - starts[-1] < SHORTEST * processor.rate:
        starts.pop()  # so short a rest is left with what comes before it
    spans = list(pairwise([*starts, samples]))
    return [Clip(item, start, stop, () if fixed else (stop - start,)) for start, stop in spans]


def _images(
    checkpoint: Checkpoint, architecture: Architecture, processor: Processor, clips: list[Clip]
) -> dict[tuple[int, ...], tuple[int, Grid | None]]:
    """Find how many tokens an image of each size gives, and where its patches are among them."""
    found: dict[tuple[int, ...], tuple[int, Grid | None]] = {}
    site = architecture.sites[0]
    with full_attention(checkpoint.body), evaluation_mode(checkpoint.body):
        for clip in clips:
            if clip.shape in found:
                continue
            inputs = processor(read_image(clip.item.path))
            try:
                tokens = catch_tokens(checkpoint, inputs, site)
            except Exception as error:
                raise AttnprobeError(
                    f"{checkpoint.name} can't be run on {clip.item.path}: {first_line(error)}."
                ) from error
            grid = find_grid(checkpoint, inputs, site) if architecture.grid is not None else None
            if grid is None and architecture.grid is not None:
                raise AttnprobeError(f"{clip.item.path} gives no rows and columns of patches; leave it out.")
            found[clip.shape] = (architecture.positions if tokens is None else tokens.shape[1], grid)
    return found


def _transcripts(checkpoint: Checkpoint, clips: list[Clip], stores: ExitStack, content_only: bool) -> Side:
    """Tokenise what is said in each clip, as the decoder reads it."""
    store = stores.enter_context(SequenceStore(len(checkpoint.tokenizer)))
    texts = [str(clip.item.label) for clip in clips]
    store.extend(TokenSequence(checkpoint.shift_right(ids)) for ids in target_ids(checkpoint, texts))
    kinds = TokenKinds(checkpoint.tokenizer, Frame.of(checkpoint.tokenizer), checkpoint.start)
    return Side(store, kinds, rank_types(store.counts, kinds.framing), content_only)
