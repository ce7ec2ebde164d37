"""One sequence through the model, and all its attention kept; a few sentences of a user's own data."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count, islice, pairwise
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Grid
from attnprobe.corpus.batch import Batch
from attnprobe.corpus.batches import MediaBatches
from attnprobe.corpus.document import Document
from attnprobe.corpus.media import MediaFolder, read_image
from attnprobe.errors import ModelError, UsageError
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.corpus import Corpus
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import examine_part, prepare_corpus
from attnprobe.run.progress import Progress
from attnprobe.survey.finder import align_maps
from attnprobe.survey.measure import open_evaluator
from attnprobe.survey.recorder import list_computed
from attnprobe.survey.tokens import label_sides
from attnprobe.table.sequence import (
    Maps,
    Rows,
    SequenceAttention,
    Side,
    find_first_tokens,
    group_tokens,
    number_groups,
)

#: Most tokens on a side of a map; of more, patches are put into squares, frames into stretches.
TOKENS = 256
#: Most probabilities of all maps together: those of 384 heads over 256 tokens are 25 million.
CELLS = 64_000_000
#: So many sentences, of so many tokens, among so many of the first documents.
SENTENCES, FEWEST_TOKENS, SENTENCE_TOKENS, AMONG = 3, 5, 24, 1000
#: A text of more characters is longer than wanted.
_CHARACTERS = 400
#: What a sentence ends with (Unicode's Sentence_Terminal, or an ellipsis), and quotes or brackets behind it.
_END = r"[\p{Sentence_Terminal}\u2026][\p{Pe}\p{Pf}\p{Pi}\"'`\s]*\Z"


def read_sequences(
    checkpoint: Checkpoint, documents: Sequence[Document], *, max_length: int, progress: Progress
) -> list[SequenceAttention]:
    """Run some texts one by one, and keep all their attention; see ``read_maps``."""
    checkpoint, documents, architecture = examine_part(checkpoint, documents, progress)
    how: dict[str, Any] = {"max_length": max_length, "progress": progress}
    return [read_maps(checkpoint, architecture, [one], **how) for one in documents]


def read_maps(
    checkpoint: Checkpoint, architecture: Architecture, documents: Sequence[Document] | MediaFolder, *,
    max_length: int | None = None, target: str | None = None, rolled: bool = False, aligned: bool = False,
    progress: Progress,
) -> SequenceAttention:  # fmt: skip
    """Run one sequence, a document or a file, and keep all its attention.

    Model and architecture are as ``examine_part`` gave them. ``target`` is what a decoder beside an encoder
    reads, the text itself where there is none. With ``rolled``, attention is rolled out over layers, too;
    with ``aligned``, the gold links of the document are an alignment of two texts, and kept.
    """
    if target is not None and not checkpoint.decodes:
        instead = "give the second text behind the first" if aligned else "leave out --target"
        raise UsageError(f"{checkpoint.name} has no decoder that reads a target; {instead}.")
    if architecture.layer_heads:
        raise ModelError(
            f"{checkpoint.name} has maps of other tokens in other layers, which no one picture shows; census "
            "measures them."
        )
    media = documents if isinstance(documents, MediaFolder) else None
    options = CorpusOptions(max_length=max_length, truncate=bool(media) or max_length is not None)
    labelled = target is not None and not media
    prepare = {"labelled": labelled, "describe": False, "workers": 1, "progress": progress}
    with prepare_corpus(checkpoint, architecture, documents, options, **prepare) as corpus:
        batch = next(iter(corpus.batches))
        _check_size(architecture, corpus, batch)
        for sentence in corpus.describe(checkpoint):
            progress.say(sentence)
        progress.stage("reading", None)
        with open_evaluator(checkpoint, architecture, [], keep=True) as evaluator:
            evaluator.evaluate(batch)
    kept = evaluator.recorder.maps()
    texts = (media.path.name,) if media else _list_texts(documents[0], checkpoint.prompts[""])  # type: ignore[index]
    shown = []
    for kind in (kind for kind in Kind if kind in kept):
        rows, layout = kept[kind]
        sides = label_sides(checkpoint, batch, kind, layout, texts, target)
        maps = _place_heads(architecture, kind, rows, sides)
        if rolled and kind is not Kind.CROSS:
            maps = replace(maps, rolled=roll_out(maps.rows, maps.kept))
        maps = _pool_maps(maps, progress.say)
        shown.append(align_maps(maps, layout.to(torch.device("cpu"))) if aligned else maps)
    if aligned and all(one.alignment is None for one in shown):
        raise UsageError(
            f"{checkpoint.name} reads words of one of the two texts alone here, and an alignment is between "
            "both, whole; leave out --max-length."
        )
    picture = _find_picture(checkpoint, batch, media.items[0].path) if media else None
    texts = texts if target is None else (*texts, target)
    return SequenceAttention(checkpoint.name, texts, tuple(shown), picture)


def _check_size(architecture: Architecture, corpus: Corpus, batch: Batch) -> None:
    """Refuse what is longer than the model, or a page, takes; images and sound, pooled later, up to CELLS."""
    most, seen = min(TOKENS, corpus.max_length), isinstance(corpus.batches, MediaBatches)
    seen = seen or (batch.tokens is not None and batch.tokens.mixed is not None)
    if not seen and (corpus.sequences > 1 or corpus.tokens > most):
        whose = "a picture" if most == TOKENS else "the model"
        raise UsageError(
            f"The text has more tokens than the {most} that {whose} takes; give a shorter one, or "
            f"--max-length {most} for its beginning."
        )
    encoder, decoder = batch.length, batch.length if batch.targets is None else batch.targets.length
    if batch.targets is not None and decoder > TOKENS:
        raise UsageError(
            f"The target has {decoder:,} tokens, and a picture takes {TOKENS}; give a shorter one."
        )
    cells = {Kind.ENCODER: encoder**2, Kind.DECODER: decoder**2, Kind.CROSS: decoder * encoder}
    if architecture.heads * sum(cells[kind] for kind in architecture.kinds) > CELLS:
        raise UsageError(
            f"The attention of all heads over {max(decoder, encoder):,} tokens is too much for one page; "
            "give a shorter text, or a smaller --max-length."
        )


def _place_heads(architecture: Architecture, kind: Kind, maps: Tensor, sides: tuple[Side, Side]) -> Maps:
    """Put recorded maps (1, head, query, key) of a kind in the places of all heads; 0 for removed heads."""
    layers = [layer for layer, of in enumerate(architecture.kinds) if of is kind]
    standing = architecture.kept[layers]
    # A layer that lost all its heads computes one that stands in for them.
    real = [head is not None for computed in list_computed(standing) for head in computed]
    rows = np.zeros((*standing.shape, *maps.shape[2:]), np.float32)
    rows[standing] = maps[0].float().cpu().numpy()[real]
    return Maps(kind, tuple(architecture.places[layer].layer for layer in layers), rows, *sides, standing)


def _find_picture(checkpoint: Checkpoint, batch: Batch, path: Path) -> NDArray[np.uint8] | None:
    """Give the image as the model saw it, or the file where that is patches; None unless images are alone."""
    if checkpoint.modality != "image":
        return None
    pixels = batch.inputs.get("pixel_values")
    if pixels is None or pixels.ndim != 4 or pixels.shape[1] != 3:  # cut into patches already
        return read_image(path)
    shown = pixels[0].double().cpu().numpy().transpose(1, 2, 0)
    processor = getattr(checkpoint.processor, "inner", None)
    mean, spread = (getattr(processor, name, None) for name in ("image_mean", "image_std"))
    if getattr(processor, "do_normalize", False) and mean is not None and spread is not None:
        shown = shown * np.array(spread) + np.array(mean)
    else:
        shown = (shown - shown.min()) / max(float(np.ptp(shown)), 1e-9)
    return np.rint(np.clip(shown, 0, 1) * 255).astype(np.uint8)


def _pool_maps(maps: Maps, say: Callable[[str], None]) -> Maps:
    """Pool maps of a large image over squares of patches, those of long sound over stretches; say so."""
    sides = [maps.keys] if maps.queries is maps.keys else [maps.queries, maps.keys]
    grouped = [_group_side(side) for side in sides]
    for side, (groups, pooled) in zip(sides, grouped, strict=True):
        if groups is not None:
            what = "frames" if side.grid is None and side.tiles is None else "patches"
            say(
                f"{len(side):,} places of the {maps.kind} are more than a picture takes: neighbouring {what} "
                f"are shown together as {len(pooled)}, with attention to them summed and attention from "
                "them averaged."
            )
    (from_, queries), (to, keys) = grouped[0], grouped[-1]
    rolled = None if maps.rolled is None else group_tokens(maps.rolled, from_, to)
    return replace(maps, rows=group_tokens(maps.rows, from_, to), rolled=rolled, queries=queries, keys=keys)


def _group_side(side: Side) -> tuple[NDArray[np.int64] | None, Side]:
    """Pool a side of more than ``TOKENS`` tokens: the group of each token, and the side of these groups.

    Patches are pooled in squares, other tokens in stretches. A smaller side stays, with None for groups.
    Raises UsageError if too many tokens stand beside an image.
    """
    if len(side) <= TOKENS:
        return None, side
    patches = side.grid or side.tiles
    if patches is None:
        groups = np.arange(len(side)) // -(-len(side) // TOKENS)
        starts = [*find_first_tokens(groups), len(side)]
        labels = tuple(f"{first}\u2013{stop - 1}" for first, stop in pairwise(starts))
        return groups, Side(labels, labels, np.zeros(len(labels), bool))
    extra = len(side) - len(patches)
    if extra > TOKENS - 4:
        raise UsageError(
            f"The text has {extra:,} tokens beside the image, and a picture takes {TOKENS}; give a shorter "
            "one."
        )
    # The smallest squares of patches that are few enough, numbered row by row.
    sizes = ((-(-patches.rows // width), -(-patches.columns // width), width) for width in count(1))
    down, right, width = next(one for one in sizes if one[0] * one[1] <= TOKENS - extra)
    place = np.arange(patches.rows)[:, None] // width * right + np.arange(patches.columns) // width
    before, after = np.arange(patches.first), np.arange(extra - patches.first)
    groups = number_groups(np.concatenate([-1 - before, place.ravel(), down * right + after]).tolist())
    first, pooled = find_first_tokens(groups), Grid(patches.first, down, right)
    if side.grid is not None:
        return groups, Side.of_patches(len(first), pooled, side.special[first])
    labels, names = (tuple(texts[place] for place in first) for texts in (side.labels, side.names))
    image = np.array([patches.first <= place < patches.first + len(patches) for place in first])
    return groups, Side(labels, names, side.special[first]).with_image(image, pooled)


def roll_out(rows: Rows, standing: NDArray[np.bool_] | None = None) -> Rows:
    """Roll attention (layer, head, token, token) out over layers: (layer, token, token).

    R_l = A_l R_(l-1), R_0 = A_0, where A_l = (M_l + I) / 2 and M_l is the mean over the heads of layer l,
    with its rows divided by their sums. It is no measure of a head.

    Source: Abnar and Zuidema (2020), Quantifying attention flow in transformers, section 3.
    """
    same = before = np.eye(rows.shape[-1])
    rolled = np.empty((len(rows), *same.shape), rows.dtype)
    for layer, heads in enumerate(rows):
        kept = heads if standing is None else heads[standing[layer]]
        total = kept.sum(0, dtype=np.float64)
        mean = total / total.sum(1, keepdims=True) if len(kept) else same
        before = (mean + same) / 2 @ before
        rolled[layer] = before
    return rolled


def measure_sharpness(maps: Maps) -> NDArray[np.float64]:
    """Measure the entropy of each head beyond special tokens; the lower, the sharper.

    H = mean over queries q of -sum_k p_qk ln p_qk, in nats, where p_qk = a_qk + s_q / K_q: what a query gives
    to special tokens, s_q, counts as spread evenly over the K_q other tokens that it sees, so that a head
    which rests on a special token is not sharp. Queries are no special tokens either. In a decoder, the first
    token counts as special, where attention that is not needed gathers (Xiao et al. 2024). Where every token
    is special, all count.

    Returns:
        (layer, head), NaN for heads that were removed.

    Source: Xiao et al. (2024), Efficient streaming language models with attention sinks (first token).
    """
    from scipy.special import entr  # takes a while to import

    causal = maps.kind is Kind.DECODER
    asking, plain = ~maps.queries.special, ~maps.keys.special
    if causal:
        plain = plain & (np.arange(len(plain)) > 0)
    asking, plain = (of if of.any() else ~of for of in (asking, plain))
    sees = np.tri(len(asking), len(plain), dtype=bool) if causal else np.ones((len(asking), len(plain)), bool)
    sees = sees & plain
    number, asking = np.maximum(sees.sum(1), 1)[:, None], asking & sees.any(1)
    sharpness = np.zeros(maps.rows.shape[:2])
    for layer, rows in enumerate(maps.rows):  # of all layers at once, memory would be twice that of the maps
        given = np.where(sees, rows, 0).astype(np.float64)
        rest = np.clip(1 - given.sum(-1, keepdims=True), 0, 1)
        entropies = entr(given + np.where(sees, rest / number, 0)).sum(-1)
        sharpness[layer] = entropies[:, asking].mean(1) if asking.any() else 0.0
    sharpness[~maps.kept] = np.nan
    return sharpness


def find_sharpest(maps: Maps) -> tuple[int, int]:
    """Find the head of the lowest entropy beyond special tokens: the place of its layer, and its number."""
    sharpest = np.nanargmin(measure_sharpness(maps))
    layer, head = np.unravel_index(int(sharpest), maps.kept.shape)
    return int(layer), int(head)


def choose_sentences(documents: Iterable[Document], tokenizer: Any) -> tuple[Sequence[Document], str]:
    """Choose sentences of usual length, the same ones every time, and say how they were chosen.

    Among the first documents, those of at most 24 tokens count, and only those that end as a sentence does,
    if there are three of them. Nearest to the median of their lengths, the earliest come first. Where there
    are too few short ones, the beginnings of the first documents stand in.
    """
    import regex  # which knows the ends of sentences in any script; re does not

    first = [replace(one, label=None) for one in islice(documents, AMONG) if one.text.strip()]
    distinct = list({(one.text, one.pair): one for one in first}.values())
    short = {
        place: length
        for place, texts in enumerate(map(_list_texts, distinct))
        if sum(map(len, texts)) <= _CHARACTERS
        and FEWEST_TOKENS <= (length := len(tokenizer(*texts, verbose=False)["input_ids"])) <= SENTENCE_TOKENS
    }
    if len(short) < SENTENCES:
        return distinct[:SENTENCES], f"The first texts of the data, up to {SENTENCE_TOKENS} tokens of each."
    such = f"have {FEWEST_TOKENS} to {SENTENCE_TOKENS} tokens"
    ended = [
        place for place in short if all(regex.search(_END, text) for text in _list_texts(distinct[place]))
    ]
    if len(ended) >= SENTENCES:
        short = {place: short[place] for place in ended}
        such += " and end with a full stop, a question mark or the like"
    middle = median_low(short.values())
    nearest = sorted(short, key=lambda place: (abs(short[place] - middle), place))[:SENTENCES]
    return [distinct[place] for place in sorted(nearest)], (
        f"These are {SENTENCES} of the first {len(first):,} texts of the data. Of those that {such}, they "
        f"are the first ones whose length is nearest to the median, {middle} tokens."
    )


def _list_texts(document: Document, prompt: str = "") -> tuple[str, ...]:
    text = prompt + document.text
    return (text,) if document.pair is None else (text, document.pair)
