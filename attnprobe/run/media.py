"""From images and sound to batches, and from images that are read with texts."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from torch import Tensor

from attnprobe.attention.layout import Grid
from attnprobe.corpus.batches import Batches, Clip, MediaBatches, number_values
from attnprobe.corpus.document import Document
from attnprobe.corpus.media import (
    IMAGE,
    Item,
    MediaFolder,
    Picture,
    count_samples,
    read_image,
    read_image_size,
)
from attnprobe.corpus.store import Spool
from attnprobe.corpus.tokenizer import Frame, find_special_ids
from attnprobe.corpus.tokens import Reading, TokenSequence
from attnprobe.errors import DataError, ModelError, UsageError, first_line
from attnprobe.model.check.trace import catch_tokens, find_grid
from attnprobe.model.processing import Processor, SeeingProcessor
from attnprobe.model.quirks import force_full_attention
from attnprobe.model.reading.ways import evaluation_mode
from attnprobe.run.corpus import Corpus, TokenReader
from attnprobe.run.examples import tokenise_targets

#: The fewest seconds of sound that convolutions can read without padding.
SHORTEST = 0.1
#: The number of tokens that an image or sound gives, and where its patches are among them.
Measured = tuple[int, Grid | None]


def read_media(reader: TokenReader, folder: MediaFolder) -> Corpus:
    """Cut the files of a folder into clips and plan their batches, or refuse a folder without sound.

    Only the first window of long sound is kept where a decoder reads along.
    """
    checkpoint, architecture = reader.checkpoint, reader.architecture
    processor, reading = checkpoint.processor, Reading()
    if not isinstance(processor, Processor):
        raise ModelError(f"{checkpoint.name} was loaded without a processor of images or sound.")
    fixed, clips = processor.fixed, list[Clip]()
    if architecture.layer_heads and not fixed:
        raise ModelError(
            f"The processor of {checkpoint.name} makes {folder.kind} of several sizes, and its windows are "
            "verified for one; give it one (size, with do_resize, in preprocessor_config.json)."
        )
    for item in reader.count(folder.items):
        reading.documents += 1
        parts = _cut_clips(item, processor, fixed=fixed)
        reading.empty += not parts
        several, first = len(parts) > 1, reader.options.truncate or checkpoint.decodes
        reading.truncated += several and first
        reading.cut += several and not first
        reading.windows += len(parts) if several and not first else 0
        clips += parts[:1] if first else parts
    if not clips:
        raise DataError(f"None of the files holds {SHORTEST} seconds of sound.")
    measured = _measure_clips(reader, processor, clips, fixed=fixed)
    targets = None
    if checkpoint.decodes:
        transcripts = tokenise_targets(checkpoint, [str(clip.item.label) for clip in clips])
        store = reader.open_store()
        store.extend(TokenSequence(checkpoint.shift_right(ids)) for ids in transcripts)
        targets = reader.describe_targets(store)
    batches = MediaBatches(
        processor,
        clips,
        np.array([max(1, measured[clip.shape][0]) for clip in clips], np.int32),
        digest=folder.described["sha256"],
        grids={shape: grid for shape, (_, grid) in measured.items()},
        content_only=reader.options.content_only,
        targets=targets,
        **reader.limits,
    )
    return Corpus(batches, reading, architecture.positions)


def _cut_clips(item: Item, processor: Processor, *, fixed: bool) -> list[Clip]:
    """Cut sound into windows, none if it is too short to be heard; an image is one clip."""
    if processor.kind == IMAGE:
        return [Clip(item, shape=() if fixed else read_image_size(item.path))]
    samples = count_samples(item.path, processor.rate)
    if not samples:
        raise DataError(f"{item.path} holds no sound.")
    if not fixed and samples < SHORTEST * processor.rate:
        return []
    starts = [*range(0, samples, processor.window)]
    if not fixed and len(starts) > 1 and samples - starts[-1] < SHORTEST * processor.rate:
        starts.pop()  # so short a rest is left with what comes before it
    return [
        Clip(item, start, stop, () if fixed else (stop - start,))
        for start, stop in pairwise([*starts, samples])
    ]


def _measure_clips(
    reader: TokenReader, processor: Processor, clips: list[Clip], *, fixed: bool
) -> dict[tuple[int, ...], Measured]:
    """Find, for each shape of images or sound, the number of tokens and where patches are among them."""
    checkpoint, architecture = reader.checkpoint, reader.architecture
    known = architecture.positions, architecture.grid
    shapes = {clip.shape: clip for clip in clips}
    if fixed:
        return dict.fromkeys(shapes, known)
    if processor.kind != IMAGE:
        return {shape: (round(shape[0] * known[0] / processor.rate), known[1]) for shape in shapes}
    measured = {}
    site = architecture.sites[0]
    with force_full_attention(checkpoint.body), evaluation_mode(checkpoint.body):
        for shape, clip in shapes.items():
            inputs = processor(read_image(clip.item.path))
            try:
                tokens = catch_tokens(checkpoint, inputs, site)
            except Exception as error:
                raise ModelError(
                    f"{checkpoint.name} can't be run on {clip.item.path}: {first_line(error)}."
                ) from error
            grid = find_grid(checkpoint, inputs, site) if architecture.grid is not None else None
            if grid is None and architecture.grid is not None:
                raise DataError(f"{clip.item.path} gives no rows and columns of patches; leave it out.")
            measured[shape] = (known[0] if tokens is None else tokens.shape[1], grid)
    return measured


def read_pictures(reader: TokenReader, documents: Iterable[Document]) -> Corpus:
    """Prepare each image with its text once, and plan batches, or refuse a text without an image.

    A text that is too long loses its end; it can't be cut into windows, which would see no image.
    """
    checkpoint, max_length = reader.checkpoint, reader.max_length
    processor, reading, options = checkpoint.processor, Reading(), reader.options
    assert isinstance(processor, SeeingProcessor)
    store, spool = reader.open_store(), reader.stores.enter_context(Spool("What the images take"))
    pairs: list[tuple[Picture, str]] = []
    shapes: list[tuple[Any, ...]] = []
    digests: list[str] = []
    numbers: dict[int, int] = {}

    def read_sequences() -> Iterator[TokenSequence]:
        for document in reader.count(documents):
            reading.documents += 1
            if (picture := document.image) is None:
                raise DataError("A text without an image is among those with one; leave it out.")
            if document.pair is not None:
                raise UsageError("An image is read with one text; leave out --text-pair-column.")
            inputs = processor(picture.read(), document.text)
            whole = inputs["input_ids"][0]
            if len(whole) > max_length and bool(processor.is_image(whole)[max_length - 1 :].any()):
                raise DataError(
                    f"{picture} gives more than the {max_length} tokens of a sequence, with no room for its "
                    "text; give a larger --max-length, or smaller images."
                )
            reading.truncated += len(whole) > max_length
            inputs = processor.cut(inputs, max_length)
            name = document.digest
            number = len(pairs) if document.part_of is None else numbers.setdefault(name, len(pairs))
            if picture.path is None:  # its bytes go to disk
                content = picture.content
                held = partial(spool.read, spool.append(content), len(content))
                picture = replace(picture, held=held)
            pairs.append((picture, document.text))
            digests.append(picture.digest)
            shapes.append(tuple((key, *value.shape) for key, value in inputs.items()))
            ids = inputs["input_ids"][0].tolist()
            yield TokenSequence(ids, document=number, name=name, group=document.group)

    store.extend(reader.check(read_sequences()))
    if not pairs:
        raise DataError("There is not a single image with a text; there is nothing to measure.")
    tokenizer = checkpoint.tokenizer
    unranked = {*find_special_ids(tokenizer), processor.placeholder}
    side = replace(
        reader.describe(store, Frame.of(tokenizer), unranked),
        placeholder=processor.placeholder,
        joined=reader.architecture.joined,
        queries=options.queries,
    )

    def prepare(member: int, length: int) -> dict[str, Tensor]:
        picture, text = pairs[member]
        return processor.cut(processor(picture.read(), text), length)

    keys = [number_values(shapes)]
    batches = Batches(side, prepare=prepare, keys=keys, content=digests, **reader.limits)
    return Corpus(batches, reading, max_length, side.rarity)
