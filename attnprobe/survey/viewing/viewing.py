"""One sequence through the model, and all its attention kept."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.features import TokenFeatures
from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Grid
from attnprobe.corpus.batches.batch import Batch
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.media import MediaFolder, read_image
from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.reading.capture import captured_attention
from attnprobe.model.reading.routing import Piece
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.input.corpus import Corpus, CorpusOptions
from attnprobe.run.memory import Price
from attnprobe.run.preparation import examined, prepared
from attnprobe.run.progress import Progress
from attnprobe.survey.recorder import layout_of
from attnprobe.survey.viewing.groups import grouped, numbered, rollout, squares, stretches
from attnprobe.survey.viewing.tokens import Covered, Maps, Seen, Side, characters_of


class Sides:
    """The tokens of each side of each kind of attention."""

    def __init__(
        self, checkpoint: Checkpoint, batch: Batch, texts: tuple[str, ...], target: str | None
    ) -> None:
        """Label the tokens of a batch.

        Args:
            checkpoint: Which has read it.
            batch: One sequence.
            texts: What the encoder, or a decoder alone, was given.
            target: What a decoder beside an encoder was given, if not the same.
        """
        self._checkpoint, self._batch, self._texts, self._target = checkpoint, batch, texts, target

    def of(self, kind: Kind, queries: int, keys: int) -> tuple[Side, Side]:
        """Give the queries and the keys of a kind of attention, of which there are so many.

        Raises:
            AttnprobeError: When the model attends over other places than it has read tokens.
        """
        layout = layout_of(kind, self._batch, queries, keys)
        for features, number in ((layout.queries, queries), (layout.keys, keys)):
            if features.length != number:
                raise AttnprobeError(
                    f"{self._checkpoint.name} attends over {number:,} places where it has read "
                    f"{features.length:,} tokens, which a picture can't label."
                )
        decodes = self._batch.targets is not None
        if "input_ids" in self._batch.inputs:
            encoder = self._read if kind is not Kind.DECODER or not decodes else None
        else:
            encoder = Side.of_patches(keys, layout.grid, _special(layout.keys))
        if not decodes or kind is Kind.ENCODER:
            assert encoder is not None
            return encoder, encoder
        if kind is Kind.DECODER:
            return self._written, self._written
        assert encoder is not None
        return self._written, encoder

    @cached_property
    def _read(self) -> Side:
        ids = self._batch.ids[0].tolist()
        assert self._batch.tokens is not None
        special = _special(self._batch.tokens)
        return Side.of_text(self._checkpoint.tokenizer, ids, special, self._texts, self._covered)

    @cached_property
    def _covered(self) -> list[Covered] | None:
        ids, tokenizer = self._batch.ids[0].tolist(), self._checkpoint.tokenizer
        found = characters_of(tokenizer, ids, self._texts)
        if found is None and len(self._texts) == 2:
            found = characters_of(
                tokenizer, ids, self._texts, truncation="longest_first", max_length=len(ids)
            )
        return found

    @cached_property
    def _written(self) -> Side:
        ids = self._batch.inputs["decoder_input_ids"][0].tolist()
        tokenizer: Any = self._checkpoint.target_tokenizer or self._checkpoint.tokenizer
        assert self._batch.targets is not None
        special = _special(self._batch.targets)
        if self._target is None:
            before = None if self._covered is None else [None, *self._covered[: len(ids) - 1]]
            return Side.of_text(tokenizer, ids, special, self._texts, before)
        return Side.of_text(tokenizer, ids, special, (self._target,), _answered(tokenizer, ids, self._target))


def _answered(tokenizer: Any, ids: Sequence[int], target: str) -> list[Covered] | None:
    """Tell which characters of a target each token covers that a decoder reads, one place later."""
    if not getattr(tokenizer, "is_fast", False):
        return None
    encoded = tokenizer(text_target=[target], return_offsets_mapping=True, verbose=False)
    found, offsets = encoded["input_ids"][0], encoded["offset_mapping"][0]
    every: list[Covered] = [None if start == stop else (0, start, stop) for start, stop in offsets]
    for left_out in (0, 1):  # a token that the decoder begins with anyway
        stop = left_out + len(ids) - 1
        if found[left_out:stop] == list(ids[1:]):
            return [None, *every[left_out:stop]]
    return None


def _special(features: TokenFeatures) -> NDArray[np.bool_]:
    return (features.first | features.separator)[0].cpu().numpy()


#: Most tokens on a side of a map.
TOKENS = 256
#: Most probabilities of all maps together: those of 384 heads over 256 tokens are 25 million.
CELLS = 64_000_000


class _Keeper:
    """Keeps every map of a batch of one sequence."""

    def __init__(self, architecture: Architecture) -> None:
        self._architecture, self._standing = architecture, architecture.standing
        self._removed = bool(architecture.removed)
        self.maps: list[NDArray[np.float32] | None] = [None] * architecture.layers
        self._cells = 0

    def __call__(self, piece: Piece) -> None:
        if piece.layer >= len(self.maps):
            raise AttnprobeError("This model changes its layers with its input, which attnprobe can't show.")
        _, heads, queries, keys = piece.probabilities.shape
        whole, every = self.maps[piece.layer], self._architecture.heads
        if whole is None:
            self._cells += every * piece.queries * keys
            if self._cells > CELLS:
                raise AttnprobeError(
                    f"The attention of all heads over {max(piece.queries, keys):,} tokens is too much for "
                    "one page; give a shorter text, or a smaller --max-length."
                )
            self.maps[piece.layer] = whole = np.zeros((every, piece.queries, keys), np.float32)
        place = np.flatnonzero(self._standing[piece.layer]) if self._removed else np.arange(heads)
        rows = piece.probabilities[0].float().cpu().numpy()
        whole[place, piece.query : piece.query + queries] = rows[: len(place)]


def seen(
    checkpoint: Checkpoint,
    documents: Sequence[Document] | MediaFolder,
    *,
    max_length: int | None = None,
    target: str | None = None,
    rolled: bool = False,
    progress: Progress,
) -> Seen:
    """Run one sequence, and keep all its attention.

    Args:
        checkpoint: The model.
        documents: One document, or one file.
        max_length: Keep so many tokens of a text, the first ones.
        target: What a decoder beside an encoder reads; the text itself where there is none.
        rolled: Roll attention out over layers, too.
        progress: Is told how far it is, and what was cut or pooled.

    Raises:
        AttnprobeError: When the sequence is longer than a page takes, or the model can't be read.
    """
    checkpoint, documents, architecture = examined(checkpoint, documents, progress)
    if target is not None and not checkpoint.decodes:
        raise AttnprobeError(f"{checkpoint.name} has no decoder that reads a target; leave out --target.")
    return _read(
        checkpoint,
        architecture,
        documents,
        max_length=max_length,
        target=target,
        rolled=rolled,
        progress=progress,
    )


def seen_each(
    checkpoint: Checkpoint, documents: Sequence[Document], *, max_length: int, progress: Progress
) -> list[Seen]:
    """Run some texts one by one, and keep all their attention; see ``seen``."""
    checkpoint, documents, architecture = examined(checkpoint, documents, progress)
    return [
        _read(
            checkpoint,
            architecture,
            [one],
            max_length=max_length,
            target=None,
            rolled=False,
            progress=progress,
        )
        for one in documents
    ]


def _read(
    checkpoint: Checkpoint,
    architecture: Architecture,
    documents: Sequence[Document] | MediaFolder,
    *,
    max_length: int | None,
    target: str | None,
    rolled: bool,
    progress: Progress,
) -> Seen:
    media = isinstance(documents, MediaFolder)
    options = CorpusOptions(max_length=max_length, truncate=media or max_length is not None)
    keeper, held = _Keeper(architecture), _Held(progress)
    with prepared(
        checkpoint,
        architecture,
        documents,
        options,
        price=Price,
        labelled=target is not None and not media,
        workers=1,
        progress=held,
    ) as ready:
        if not media:
            _check_length(ready.corpus)
        held.pass_on()
        batch = next(iter(ready.corpus.batches))
        if batch.targets is not None and batch.targets.length > TOKENS:
            raise AttnprobeError(
                f"The target has {batch.targets.length:,} tokens, and a picture takes {TOKENS}; give a "
                "shorter one."
            )
        progress.stage("reading", None)
        with captured_attention(checkpoint.body, keeper, architecture.way):
            checkpoint.forward(batch.inputs)
    kept = [one for one in keeper.maps if one is not None]
    if len(kept) < architecture.layers:
        raise AttnprobeError("This model changes its layers with its input, which attnprobe can't show.")
    texts = _texts(documents)
    sides = Sides(checkpoint, batch, texts, target)
    found = tuple(_pooled(one, progress.say) for one in _maps(architecture, kept, sides, rolled=rolled))
    picture = (
        _picture(checkpoint, batch, documents.items[0].path) if isinstance(documents, MediaFolder) else None
    )
    return Seen(checkpoint.name, (*texts, *(() if target is None else (target,))), found, picture)


def _picture(checkpoint: Checkpoint, batch: Batch, path: Path) -> NDArray[np.uint8] | None:
    """Give the image as the model saw it, cropped and scaled; None where it heard sound."""
    if checkpoint.modality != "image":
        return None
    pixels = batch.inputs.get("pixel_values")
    if pixels is None or pixels.ndim != 4 or pixels.shape[1] != 3:  # cut into patches already
        return read_image(path)
    shown, own = (
        pixels[0].double().cpu().numpy().transpose(1, 2, 0),
        getattr(checkpoint.processor, "own", None),
    )
    mean, spread = (getattr(own, name, None) for name in ("image_mean", "image_std"))
    if getattr(own, "do_normalize", False) and mean is not None and spread is not None:
        shown = shown * np.array(spread) + np.array(mean)
    else:
        shown = (shown - shown.min()) / max(float(np.ptp(shown)), 1e-9)
    return np.rint(np.clip(shown, 0, 1) * 255).astype(np.uint8)


class _Held:
    """Holds back what is said of a text until it is clear that it is shown."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._said = progress, list[str]()
        self.stage, self.advance = progress.stage, progress.advance

    def say(self, sentence: str) -> None:
        self._said.append(sentence)

    def pass_on(self) -> None:
        for sentence in self._said:
            self._progress.say(sentence)


def _check_length(corpus: Corpus) -> None:
    most = min(TOKENS, corpus.window)
    if corpus.sequences > 1 or corpus.tokens > most:
        whose = "a picture" if most == TOKENS else "the model"
        raise AttnprobeError(
            f"The text has more tokens than the {most} that {whose} takes; give a shorter one, or "
            f"--max-length {most} for its beginning."
        )


def _texts(documents: Sequence[Document] | MediaFolder) -> tuple[str, ...]:
    if isinstance(documents, MediaFolder):
        return (documents.path.name,)
    first = documents[0]
    return (first.text,) if first.pair is None else (first.text, first.pair)


def _maps(
    architecture: Architecture, kept: Sequence[NDArray[np.float32]], sides: Sides, *, rolled: bool
) -> Iterator[Maps]:
    for kind in Kind:
        layers = [layer for layer, one in enumerate(architecture.kinds) if one is kind]
        if not layers:
            continue
        shapes = {kept[layer].shape for layer in layers}
        if len(shapes) > 1:
            raise AttnprobeError(
                "The layers of this model attend over different numbers of places, which one picture can't "
                "show."
            )
        rows, standing = np.stack([kept[layer] for layer in layers]), architecture.standing[layers]
        numbers = tuple(architecture.places[layer].layer for layer in layers)
        queries, keys = sides.of(kind, rows.shape[2], rows.shape[3])
        flow = rollout(rows, standing) if rolled and kind is not Kind.CROSS else None
        yield Maps(kind, numbers, rows, queries, keys, standing, flow)


def _pooled(maps: Maps, say: Callable[[str], None]) -> Maps:
    """Put patches of a large image into squares, and frames of long sound into stretches."""
    queries, keys = (_groups(side) for side in (maps.queries, maps.keys))
    if queries is None and keys is None:
        return maps
    for side, groups in {
        id(maps.queries): (maps.queries, queries),
        id(maps.keys): (maps.keys, keys),
    }.values():
        if groups is not None:
            what = "patches" if side.grid is not None else "frames"
            say(
                f"{len(side):,} places of the {maps.kind} are more than a picture takes: neighbouring {what} "
                f"are shown together as {len(groups[1])}, with attention to them summed and attention from "
                "them averaged."
            )
    to, from_ = (None if found is None else found[0] for found in (keys, queries))
    return replace(
        maps,
        rows=grouped(maps.rows, from_, to),
        rolled=None if maps.rolled is None else grouped(maps.rolled, from_, to),
        queries=maps.queries if queries is None else queries[1],
        keys=maps.keys if keys is None else keys[1],
    )


def _groups(side: Side) -> tuple[NDArray[np.int64], Side] | None:
    if len(side) <= TOKENS:
        return None
    grid = side.grid
    if grid is None:
        groups = stretches(len(side), TOKENS)
        grid, special = None, np.zeros(groups[-1] + 1, bool)
        ends = [np.flatnonzero(groups == group)[[0, -1]] for group in range(len(special))]
        labels = tuple(f"{first}\u2013{last}" for first, last in ends)
        return groups, Side(labels, labels, special)
    extra = len(side) - len(grid)
    place, down, right = squares(grid.rows, grid.columns, TOKENS - extra)
    names = np.concatenate([-1 - np.arange(grid.first), place, down * right + np.arange(extra - grid.first)])
    groups = numbered(names.tolist())
    # Squares are numbered row by row, and occur in that order.
    special = np.array([bool(side.special[groups == group].all()) for group in range(groups.max() + 1)])
    return groups, Side.of_patches(len(special), Grid(grid.first, down, right), special)


#: So many sentences, of so many tokens at most, among so many of the first documents.
SENTENCES, SENTENCE_TOKENS, AMONG = 3, 24, 1000
#: A shorter one shows nothing, and a text of more characters is longer than wanted.
_FEWEST, _CHARACTERS = 5, 400
#: What a sentence ends with (Unicode's Sentence_Terminal, or an ellipsis), and quotes or brackets behind it.
_END = r"[\p{Sentence_Terminal}\u2026][\p{Pe}\p{Pf}\p{Pi}\"'`\s]*\Z"


@dataclass(frozen=True)
class Chosen:
    """The sentences.

    Attributes:
        documents: The texts.
        said: How they were chosen.
    """

    documents: Sequence[Document]
    said: str


def chosen(documents: Iterable[Document], tokenizer: Any) -> Chosen:
    """Choose sentences of usual length, the same ones every time.

    Among the first documents, those of at most 24 tokens count; where three of them or more end as a sentence
    does, only those, so that headings and lists don't stand in for sentences. Nearest to the median of their
    lengths, the earliest come first; no text comes twice. Where there are too few short ones, the beginnings
    of the first documents stand in.

    Args:
        documents: The texts.
        tokenizer: Of the checkpoint.
    """
    first = [replace(one, label=None) for one in islice(documents, AMONG) if one.text.strip()]
    distinct = list({(one.text, one.pair): one for one in first}.values())
    short = [(one, length) for one in distinct if (length := _length(one, tokenizer)) is not None]
    if len(short) < SENTENCES:
        number = min(SENTENCES, len(distinct))
        which, each = f"The first {number} texts", " of each"
        if number == 1:
            which, each = "The only text", ""
        return Chosen(distinct[:SENTENCES], f"{which} of the data, up to {SENTENCE_TOKENS} tokens{each}.")
    ended = [(one, length) for one, length in short if _ends(one)]
    such = f"have {_FEWEST} to {SENTENCE_TOKENS} tokens"
    if len(ended) >= SENTENCES:
        short, such = ended, f"{such} and end with a full stop, a question mark or the like"
    middle = median_low(length for _, length in short)
    order = sorted(range(len(short)), key=lambda place: (abs(short[place][1] - middle), place))
    found = [short[place][0] for place in sorted(order[:SENTENCES])]
    return Chosen(
        found,
        f"These are {SENTENCES} of the first {len(first):,} texts of the data. Of those that {such}, they "
        f"are the first ones whose length is nearest to the median, {middle} tokens.",
    )


def _ends(document: Document) -> bool:
    """Tell whether a text ends as a sentence does, in any script; of two, whether both do."""
    import regex  # which knows the property; re does not

    texts = [document.text] if document.pair is None else [document.text, document.pair]
    return all(regex.search(_END, text) for text in texts)


def _length(document: Document, tokenizer: Any) -> int | None:
    """Count the tokens of a short text; None for one that is too long or too short."""
    texts = [document.text] if document.pair is None else [document.text, document.pair]
    if sum(map(len, texts)) > _CHARACTERS:
        return None
    length = len(tokenizer(*texts, verbose=False)["input_ids"])
    return length if _FEWEST <= length <= SENTENCE_TOKENS else None
