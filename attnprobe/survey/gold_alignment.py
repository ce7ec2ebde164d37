"""The gold alignment of one pair of texts: its links by tokens, and how far the heads of a map find them."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout
from attnprobe.errors import AttnprobeError
from attnprobe.statistics.alignment import (
    CUT,
    IN_SURE,
    RATES,
    SURE,
    GoldAlignments,
    align_by_head,
    choose_links,
    compute_rates,
    find_gold_alignments,
)
from attnprobe.sums.blocked import Blocked
from attnprobe.table.sequence import Alignment, Ends, Maps, Side, Way, number_groups

#: What the ways are called in which a pair of texts is asked: across, the target asks the text.
_ACROSS = ("where the decoder predicts a word", "where the decoder reads a word")
_WITHIN = ("from the second text to the first", "from the first text to the second")


def align_maps(maps: Maps, layout: Layout) -> Maps:
    """Give the maps of one sequence their gold alignment, and its words; as they are where they have none.

    Raises:
        AttnprobeError: When a part of one of the two texts is not in the sequence.
    """
    gold: GoldAlignments = layout.once(find_gold_alignments)
    ways = [way for way, numbers in enumerate(gold.counts[0]) if not np.isnan(numbers).all()]
    if not ways:
        return maps
    if gold.counts[0, ways, CUT].any():
        raise AttnprobeError(
            "Only a part of one of the two texts is in the sequence, and an alignment is of both, whole; "
            "leave out --max-length."
        )
    blocks = [AttentionBlock(torch.from_numpy(rows)[None], layout).restricted() for rows in maps.rows]
    counts = np.stack([align_by_head(block)[0].double().numpy() for block in blocks])
    counts[~maps.standing] = np.nan
    # In cross-attention both ways ask of the same words; a map shows them where they are read.
    shown = ways[-1:] if layout.crossed else ways
    links, words = _list_links(gold, shown), _list_words(gold, shown)
    chosen = np.stack([choose_links(block.probabilities, gold) for block in blocks])  # (layer, row, head)
    asking, placed = np.array(links, np.int64).reshape(-1, 2).T
    hits = (chosen[:, asking] == placed[:, None]).transpose(0, 2, 1) & maps.standing[..., None]
    ends = tuple(_find_ends(gold, row, link) for row, link in links)
    alignment = Alignment(
        ends, tuple(_make_way(counts[..., way, :], way, layout.crossed) for way in ways), hits
    )
    if layout.crossed:
        queries, keys = (_name_words(*one) for one in zip((maps.queries, maps.keys), words, strict=True))
    else:
        queries = keys = _name_words(maps.queries, sorted({*words[0], *words[1]}))
    return replace(maps, queries=queries, keys=keys, alignment=alignment)


def _make_way(counts: NDArray[np.float64], way: int, crossed: bool) -> Way:
    """Give the rates of all heads (layer, head, number) that are asked in one way, as tables give them."""
    values = compute_rates(Blocked.of(counts[None]))
    rates = np.stack([values[name] for name, *_ in RATES], -1)
    return Way((_ACROSS if crossed else _WITHIN)[way], counts[..., IN_SURE], counts[..., SURE], rates)


def _list_links(gold: GoldAlignments, ways: list[int]) -> list[tuple[int, int]]:
    links = []
    for row in np.flatnonzero(np.isin(gold.way, ways)).tolist():
        first, stop = gold.rows.candidates[row].tolist()
        cells = gold.base[row] + np.arange(stop - first)
        links += [(row, int(cell)) for cell in cells[gold.possible[cells]]]
    return links


def _find_ends(gold: GoldAlignments, row: int, link: int) -> tuple[Ends, Ends, bool]:
    answer = gold.rows.spans[gold.rows.candidates[row, 0] + link - gold.base[row]]
    asker, other = ((int(start), int(end)) for start, end in (gold.rows.queries[row], answer))
    return asker, other, bool(gold.sure[link])


def _list_words(gold: GoldAlignments, ways: list[int]) -> tuple[list[Ends], list[Ends]]:
    rows = np.isin(gold.way, ways)
    return (
        sorted({(int(start), int(end)) for start, end in gold.rows.queries[rows]}),
        sorted({(int(start), int(end)) for start, end in gold.rows.spans}),
    )


def _name_words(side: Side, words: list[Ends]) -> Side:
    if side.words is None:
        return side
    names = (len(words) + np.arange(len(side))).tolist()
    for word, (start, stop) in reversed(list(enumerate(words))):
        names[start:stop] = [word] * (stop - start)
    groups = number_groups(names)
    members = [np.flatnonzero(groups == word) for word in range(int(groups.max()) + 1)]
    labels = tuple(
        "".join(side.word_labels[word] for word in dict.fromkeys(side.words[tokens].tolist()))
        for tokens in members
    )
    return replace(side, words=groups, word_labels=labels)


def find_best_head(maps: Maps) -> tuple[int, int]:
    """Find the head of the least error rate in any way: the place of its layer, and its number."""
    assert maps.alignment is not None
    rates = np.stack([way.rates[..., 0] for way in maps.alignment.ways])
    least = np.where(np.isnan(rates), np.inf, rates).min(0)
    layer, head = np.unravel_index(int(least.argmin()), least.shape)
    return int(layer), int(head)
