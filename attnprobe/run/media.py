"""From images and sound to batches, and from images that are read with texts."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from torch import Tensor

from attnprobe.attention.layout import Grid
from attnprobe.corpus.batch import ImageTexts, TokenisedTexts
from attnprobe.corpus.batches import Clip, MediaBatches, PairBatches
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.media import (
    IMAGE,
    Item,
    MediaFolder,
    count_samples,
    read_image,
    read_image_size,
)
from attnprobe.corpus.sources.pictures import Picture
from attnprobe.corpus.store import SequenceStore, Spool
from attnprobe.corpus.tokens import Frame, Reading, TokenSequence
from attnprobe.corpus.vocabulary import TokenKinds, find_special_ids, rank_types, read_frequencies
from attnprobe.errors import AttnprobeError, first_line
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.processing import Processor, SeeingProcessor, find_sight
from attnprobe.model.quirks import force_full_attention
from attnprobe.model.reading.ways import evaluation_mode
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.positions import catch_tokens, find_grid
from attnprobe.run.examples import refuse_unknown_ids, tokenise_targets
from attnprobe.run.options import CorpusOptions

#: Sound of fewer seconds is too short for convolutions, where nothing is added to it.
SHORTEST = 0.1


def plan_media_batches(
    checkpoint: Checkpoint,
    architecture: Architecture,
    folder: MediaFolder,
    stores: ExitStack,
    options: CorpusOptions,
    progress: Callable[[int], None],
    **limits: Any,
) -> tuple[MediaBatches, Reading]:
    """List what is read of a folder, and plan its batches; the arguments are those of ``tokenise``.

    Only the first window of long sound is kept where a decoder reads along. ``stores`` close what that reads.

    Returns:
        The batches, and what happened to the files on the way.
    """
    processor, reading = checkpoint.processor, Reading()
    if not isinstance(processor, Processor):
        raise AttnprobeError(f"{checkpoint.name} was loaded without a processor of images or sound.")
    fixed, clips = processor.fixed, list[Clip]()
    if architecture.layer_heads and not fixed:
        raise AttnprobeError(
            f"The processor of {checkpoint.name} makes {folder.kind} of several sizes, and its windows are "
            "verified for one; give it one (size, with do_resize, in preprocessor_config.json)."
        )
    for item in folder.items:
        progress(1)
        reading.documents += 1
        found = _cut_clips(item, processor, fixed=fixed)
        reading.empty += not found
        if len(found) > 1 and (options.truncate or checkpoint.decodes):
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
        found = _measure_images(checkpoint, architecture, processor, clips)
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
        grids=grids,
        content_only=options.content_only,
        targets=_tokenise_transcripts(checkpoint, clips, stores, options) if checkpoint.decodes else None,
        **limits,
    )
    return batches, reading


def choose_decoder_targets(
    checkpoint: Checkpoint, documents: Any, say: Callable[[str], None]
) -> tuple[Checkpoint, Any]:
    """Choose what a decoder beside an encoder of sound reads: the transcripts of the files, or nothing.

    Returns:
        The checkpoint, or its encoder alone where there are no transcripts; and the files to read.
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


def _cut_clips(item: Item, processor: Processor, *, fixed: bool) -> list[Clip]:
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
    return [
        Clip(item, start, stop, () if fixed else (stop - start,))
        for start, stop in pairwise([*starts, samples])
    ]


def _measure_images(
    checkpoint: Checkpoint, architecture: Architecture, processor: Processor, clips: list[Clip]
) -> dict[tuple[int, ...], tuple[int, Grid | None]]:
    """Find how many tokens an image of each size gives, and where its patches are among them."""
    found: dict[tuple[int, ...], tuple[int, Grid | None]] = {}
    site = architecture.sites[0]
    with force_full_attention(checkpoint.body), evaluation_mode(checkpoint.body):
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


def _tokenise_transcripts(
    checkpoint: Checkpoint, clips: list[Clip], stores: ExitStack, options: CorpusOptions
) -> TokenisedTexts:
    store = stores.enter_context(SequenceStore(len(checkpoint.tokenizer)))
    texts = [str(clip.item.label) for clip in clips]
    store.extend(TokenSequence(checkpoint.shift_right(ids)) for ids in tokenise_targets(checkpoint, texts))
    kinds = TokenKinds(checkpoint.tokenizer, Frame.of(checkpoint.tokenizer), checkpoint.start)
    return TokenisedTexts(store, kinds, rank_types(store.counts, kinds.framing), options.content_only)


def plan_pair_batches(
    checkpoint: Checkpoint,
    architecture: Architecture,
    documents: Iterable[Document],
    stores: ExitStack,
    options: CorpusOptions,
    progress: Callable[[int], None],
    window: int,
    **limits: Any,
) -> tuple[PairBatches, Reading]:
    """Prepare each image with its text once, and plan batches; the arguments are those of ``tokenise``.

    A text that is too long loses its end; it can't be cut into windows, which would see no image.
    """
    processor, reading = checkpoint.processor, Reading()
    assert isinstance(processor, SeeingProcessor)
    tokenizer, vocabulary = checkpoint.tokenizer, checkpoint.model.config.get_text_config().vocab_size
    store = stores.enter_context(SequenceStore(max(len(tokenizer), vocabulary, processor.placeholder + 1)))
    spool = stores.enter_context(Spool("What the images take"))
    pairs: list[tuple[Picture, str]] = []
    shapes: list[tuple[Any, ...]] = []
    digests: list[str] = []
    numbers: dict[int, int] = {}
    for document in documents:
        progress(1)
        reading.documents += 1
        _check(document)
        assert document.image is not None
        inputs = processor(document.image.read(), document.text)
        reading.truncated += inputs["input_ids"].shape[1] > window
        _check_cut(processor, inputs["input_ids"][0], window, document)
        inputs = processor.cut(inputs, window)
        ids = inputs["input_ids"][0]
        refuse_unknown_ids(ids.tolist(), checkpoint)
        name = document.digest
        number = len(pairs) if document.group is None else numbers.setdefault(name, len(pairs))
        known = {"document": number, "name": name, "stratum": document.stratum}
        store.extend([TokenSequence(ids.tolist(), **known)])
        picture = document.image
        if picture.path is None:  # its bytes go to disk
            held = spool.append(picture.held), len(picture.held)
            picture = replace(picture, held=b"", spool=(spool, *held))
        pairs.append((picture, document.text))
        digests.append(document.image.digest)
        shapes.append(tuple((key, *value.shape) for key, value in inputs.items()))
    if not pairs:
        raise AttnprobeError("There is not a single image with a text; there is nothing to measure.")
    kinds = TokenKinds(tokenizer, Frame.of(tokenizer))
    unranked = kinds.framing | find_special_ids(tokenizer) | {processor.placeholder}
    frequencies = None
    if options.frequencies is not None:
        frequencies = read_frequencies(options.frequencies, tokenizer, len(store.counts))
    rarity = rank_types(store.counts, frozenset(unranked), frequencies)
    side = ImageTexts(
        store, kinds, rarity, options.content_only, is_image=processor.is_image,
        find_sight=find_sight if architecture.joined else None, queries=options.queries,
    )  # fmt: skip

    def prepare(picture: Picture, text: str, length: int) -> dict[str, Tensor]:
        return processor.cut(processor(picture.read(), text), length)

    return PairBatches(side, pairs, shapes, digests, prepare, **limits), reading


def _check(document: Document) -> None:
    if document.image is None:
        raise AttnprobeError("A text without an image is among those with one; leave it out.")
    if document.pair is not None:
        raise AttnprobeError("An image is read with one text; leave out --text-pair-column.")


def _check_cut(processor: SeeingProcessor, ids: Tensor, window: int, document: Document) -> None:
    """Refuse a sequence without an image, and one that would lose a part of it, or all text."""
    if not bool(processor.is_image(ids).any()):
        raise AttnprobeError(f"{document.image} gives no token of an image in its text; leave it out.")
    if len(ids) > window and not processor.keeps_both(ids, window):
        raise AttnprobeError(
            f"{document.image} gives more than the {window} tokens of a sequence, with no room for its text; "
            "give a larger --max-length, or smaller images."
        )
