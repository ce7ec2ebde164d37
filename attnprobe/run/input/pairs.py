"""From images and texts to batches: what ``tokenise`` is for text alone."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

from torch import Tensor

from attnprobe.corpus.batches.pairs import PairBatches, PairSide, Spool
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.pictures import Picture
from attnprobe.corpus.tokens.reading import Reading
from attnprobe.corpus.tokens.store import SequenceStore
from attnprobe.corpus.tokens.tokenization import Frame, TokenSequence
from attnprobe.corpus.tokens.vocabulary import TokenKinds, find_special_ids, rank_types, read_frequencies
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.processing import SeeingProcessor, find_sight
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.input.options import CorpusOptions


def plan_pair_batches(
    checkpoint: Checkpoint,
    architecture: Architecture,
    documents: Iterable[Document],
    stores: ExitStack,
    options: CorpusOptions,
    window: int,
    progress: Callable[[int], None],
    **limits: Any,
) -> tuple[PairBatches, Reading]:
    """Prepare each image with its text once, and plan batches; the arguments are those of ``tokenise``.

    A text that is too long loses its end; it can't be cut into windows, which would see no image.
    """
    processor, reading = checkpoint.processor, Reading()
    assert isinstance(processor, SeeingProcessor)
    tokenizer, vocabulary = checkpoint.tokenizer, checkpoint.model.config.get_text_config().vocab_size
    store = stores.enter_context(SequenceStore(max(len(tokenizer), vocabulary, processor.placeholder + 1)))
    spool = stores.enter_context(Spool())
    pairs: list[tuple[Picture, str]] = []
    shapes: list[tuple[Any, ...]] = []
    digests: list[str] = []
    numbers: dict[int, int] = {}
    for document in documents:
        progress(1)
        reading.documents += 1
        _check(document)
        assert document.image is not None
        inputs = processor(processor.read(document.image), document.text)
        length, room = inputs["input_ids"].shape[1], processor.count_room(window, inputs)
        reading.truncated += length > room
        _check_cut(processor, inputs["input_ids"][0], room, window, document)
        inputs = processor.cut(inputs, room)
        ids = inputs["input_ids"][0]
        last = int(processor.strip(inputs)["input_ids"].max())
        if checkpoint.embeddings is not None and last >= checkpoint.embeddings:
            raise AttnprobeError(
                f"The tokenizer gave token {last}, but the model knows only {checkpoint.embeddings}; they do "
                "not belong together."
            )
        name = document.digest
        number = len(pairs) if document.group is None else numbers.setdefault(name, len(pairs))
        store.extend([TokenSequence(ids.tolist(), document=number, name=name)])
        pairs.append((spool.put(document.image), document.text))
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
    side = PairSide(
        store, kinds, rarity, options.content_only, is_image=processor.is_image,
        find_sight=find_sight if architecture.joined else None, queries=options.queries,
    )  # fmt: skip

    def prepare(picture: Picture, text: str, length: int) -> dict[str, Tensor]:
        return processor.cut(processor(processor.read(picture), text), length)

    return PairBatches(side, pairs, shapes, digests, prepare, **limits), reading


def _check(document: Document) -> None:
    if document.image is None:
        raise AttnprobeError("A text without an image is among those with one; leave it out.")
    if document.pair is not None:
        raise AttnprobeError("An image is read with one text; leave out --text-pair-column.")


def _check_cut(processor: SeeingProcessor, ids: Tensor, room: int, window: int, document: Document) -> None:
    """Refuse a sequence without an image, and one that would lose a part of it, or all text."""
    if not bool(processor.is_image(ids).any()):
        raise AttnprobeError(f"{document.image} gives no token of an image in its text; leave it out.")
    if len(ids) > room and not processor.keeps_both(ids, room):
        raise AttnprobeError(
            f"{document.image} gives more than the {window} tokens of a sequence, with no room for its text; "
            "give a larger --max-length, or smaller images."
        )
