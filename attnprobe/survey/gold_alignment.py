"""The gold alignment of one pair of texts: its links by tokens, and how far the heads of a map find them."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout
from attnprobe.errors import AttnprobeError
from attnprobe.kernels.words import find_most_attended
from attnprobe.statistics.alignment import BACKWARD, FORWARD, RATES, SURE, WORDS, ask_alignment, compute_rates
from attnprobe.statistics.questions import Questions
from attnprobe.statistics.rules import INPUT, OUTPUT
from attnprobe.sums.crossfit import Links
from attnprobe.sums.link_counts import Key
from attnprobe.table.sequence import Alignment, Ends, Maps, Side, Way, number_groups

#: What the ways are called in which a pair of texts is asked: across, the target asks the text.
_NAMES = {
    (BACKWARD, OUTPUT): "where the decoder predicts a word",
    (BACKWARD, INPUT): "where the decoder reads a word",
    (BACKWARD,): "from the second text to the first",
    (FORWARD,): "from the first text to the second",
}


def align_maps(maps: Maps, layout: Layout) -> Maps:
    """Give the maps of one sequence their gold alignment, and its words; as they are where they have none.

    Raises:
        AttnprobeError: When a part of one of the two texts is not in the sequence.
    """
    gold = ask_alignment(layout)
    if gold.left_out.any():
        raise AttnprobeError(
            "Only a part of one of the two texts is in the sequence, and an alignment is of both, whole; "
            "leave out --max-length."
        )
    ways = [key[1:] for key in gold.keys if key[0] == WORDS]
    if not ways:
        return maps
    blocks = [AttentionBlock(torch.from_numpy(rows)[None], layout).restricted() for rows in maps.rows]
    chosen = np.stack([find_most_attended(block.probabilities, gold.rows) for block in blocks])
    right = np.stack([gold.hits(layer) for layer in chosen])  # (layer, question, head)
    every = tuple(_make_way(gold, way, right, maps.standing) for way in ways)
    # In cross-attention both ways ask of the same words; a map shows them where they are read.
    shown = ways[-1:] if layout.crossed else ways
    sure = {cell for way in shown for cell in _list_cells(gold, (SURE, *way))}
    cells = [cell for way in shown for cell in _list_cells(gold, (WORDS, *way))]
    asking, answers = np.array(cells, np.int64).reshape(-1, 2).T
    queries, spans = _list_ends(gold.rows.queries), _list_ends(gold.rows.spans)
    links = tuple((queries[row], spans[answer], (row, answer) in sure) for row, answer in cells)
    hits = (chosen[:, asking] == answers[:, None]).transpose(0, 2, 1) & maps.standing[..., None]
    rows = [row for way in shown for row in gold.row[_find_questions(gold, (WORDS, *way))].tolist()]
    words = {queries[row] for row in rows}, set(spans)
    if layout.crossed:
        sides = [
            _name_words(side, sorted(ends))
            for side, ends in zip((maps.queries, maps.keys), words, strict=True)
        ]
    else:
        sides = [_name_words(maps.queries, sorted(words[0] | words[1]))] * 2
    return replace(maps, queries=sides[0], keys=sides[1], alignment=Alignment(links, every, hits))


def _find_questions(gold: Questions, key: Key) -> NDArray[np.int64]:
    place = gold.keys.index(key) if key in gold.keys else -1
    return gold.entries[gold.entries[:, 1] == place, 0]


def _list_cells(gold: Questions, key: Key) -> list[tuple[int, int]]:
    """List the rows and the right candidates of some questions."""
    return [
        (int(gold.row[question]), first)
        for question in _find_questions(gold, key)
        for first, stop in gold.right[slice(*gold.answers[question])].tolist()
        if first < stop
    ]


def _list_ends(ends: NDArray[np.int64]) -> list[Ends]:
    return [(start, stop) for start, stop in ends.tolist()]


def _make_way(gold: Questions, way: Key, right: NDArray[np.bool_], standing: NDArray[np.bool_]) -> Way:
    """Give the rates of all heads that are asked in one way, as tables give them."""
    words, sure = (_find_questions(gold, (label, *way)) for label in (WORDS, SURE))
    links = [Links(np.array([len(of)]), right[:, of].sum(1)[..., None]) for of in (words, sure)]
    computed = compute_rates(*links)
    rates = np.stack([computed[name] for name in RATES], -1)
    hits, number = links[1].hits[..., 0].astype(np.float64), np.full(standing.shape, float(len(sure)))
    hits[~standing] = number[~standing] = rates[~standing] = np.nan
    return Way(_NAMES[way], hits, number, rates)


def _name_words(side: Side, words: list[Ends]) -> Side:
    """Let words be those that are aligned, and other tokens words of their own."""
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
