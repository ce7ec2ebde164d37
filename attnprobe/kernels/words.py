"""Attention between words: the word most attended to, and maximum spanning trees."""

from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.kernels.rows import can_run_compiled, run_over_rows

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Questions to a map: for each row, which of its candidates gets most from its queries.

    Attributes:
        sequence: (row,) the sequence it lies in.
        queries: (row, 2) its first query, and the one behind its last.
        candidates: (row, 2) its first candidate in ``spans``, and the one behind its last.
        own: (row, 2) candidates that are the row itself, which are no answers; an empty range for none.
        spans: (candidate, 2) the first key of each candidate, and the one behind its last.
    """

    sequence: Ints
    queries: Ints
    candidates: Ints
    own: Ints
    spans: Ints

    def __len__(self) -> int:
        return len(self.sequence)

    def select(self, some: NDArray[np.bool_]) -> "Rows":
        return Rows(
            self.sequence[some], self.queries[some], self.candidates[some], self.own[some], self.spans
        )

    @cached_property
    def pairs(self) -> tuple[Tensor, Tensor, Tensor]:
        """List all queries of all rows: row, sequence and query of each."""
        lengths = self.queries[:, 1] - self.queries[:, 0]
        row = np.repeat(np.arange(len(self)), lengths)
        behind = np.cumsum(lengths)
        query = np.arange(lengths.sum()) - (behind - lengths)[row] + self.queries[row, 0]
        return torch.from_numpy(row), torch.from_numpy(self.sequence[row]), torch.from_numpy(query)


@numba.njit(nogil=True, cache=True)
def _choose(p, sequence, queries, candidates, own, spans, start, stop, out):  # noqa: ANN001, ANN202
    """Fill out[row, h] with the candidate that gets most of p (b, h, q, k) from a row; the first of a tie."""
    heads, keys = p.shape[1], p.shape[3]
    mass = np.zeros(keys, np.float64)
    for row in range(start, stop):
        s = sequence[row]
        for h in range(heads):
            first = queries[row, 0]
            mass[:] = p[s, h, first]
            for q in range(first + 1, queries[row, 1]):
                mass += p[s, h, q]
            best, where = -1.0, -1
            for c in range(candidates[row, 0], candidates[row, 1]):
                if own[row, 0] <= c < own[row, 1]:
                    continue
                found = 0.0
                for k in range(spans[c, 0], spans[c, 1]):
                    found += mass[k]
                if found > best:
                    best, where = found, c
            out[row, h] = where


def find_most_attended(p: Tensor, rows: Rows) -> Ints:
    """Find the candidate that each row attends to most: the mean over its queries of the sum over its keys.

    Args:
        p: Attention (batch, head, query, key).
        rows: What is asked; queries by their places in ``p``.

    Returns:
        (row, head) the number of the candidate, -1 where there is none; of a tie, the first.
    """
    if not len(rows):
        return np.zeros((0, p.shape[1]), np.int64)
    if not can_run_compiled(p):
        return choose_candidates(add_up_queries(p, rows), rows)
    out = np.empty((len(rows), p.shape[1]), np.int64)
    inputs = (p.contiguous().numpy(), rows.sequence, rows.queries, rows.candidates, rows.own, rows.spans)
    run_over_rows(_choose, len(rows), *inputs, out=(out,))
    return out


def add_up_queries(p: Tensor, rows: Rows) -> Tensor:
    """Add up the queries of each row, (row, head, key) in float64."""
    row, sequence, query = (part.to(p.device) for part in rows.pairs)
    whole = p.new_zeros(len(rows), p.shape[1], p.shape[3], dtype=torch.float64)
    return whole.index_add_(0, row, p[sequence, :, query].double())


def choose_candidates(mass: Tensor, rows: Rows) -> Ints:
    """Choose among the candidates of each row by what its queries give to keys, (row, head, key)."""
    first, stop = torch.from_numpy(rows.candidates).to(mass.device).unbind(1)
    place = torch.arange(int((stop - first).max()), device=mass.device)
    number = first[:, None] + place
    spans = torch.from_numpy(rows.spans).to(mass.device)
    # Sums of float32 in float64 are exact unless they differ by many orders, so that ties stay ties.
    running = torch.nn.functional.pad(mass.cumsum(-1), (1, 0))
    ends = spans[number.clamp_max(len(spans) - 1)]
    shape = (*mass.shape[:2], len(place))
    high, low = (running.gather(2, ends[..., side][:, None].expand(shape)) for side in (1, 0))
    own = torch.from_numpy(rows.own).to(mass.device)
    open_ = (number < stop[:, None]) & ~((number >= own[:, :1]) & (number < own[:, 1:]))
    found = (high - low).masked_fill(~open_[:, None], -1.0)
    best, where = found.max(-1)
    return torch.where(best < 0, -1, where + first[:, None]).cpu().numpy()


#: Cells of maps that are taken to float64 at a time, where the compiled loop can't read them.
_CELLS = 1 << 20


@dataclass(frozen=True)
class Sentences:
    """The words of sentences, and which of them gold edges join.

    Attributes:
        sequence: (sentence,) the sequence of each.
        words: (sentence, 2) its first word in ``spans``, and the one behind its last.
        spans: (word, 2) the first token of each word, and the one behind its last.
        edges: (edge, 2) words by their places in ``spans``, the earlier one first; sorted, each edge once.
    """

    sequence: Ints
    words: Ints
    spans: Ints
    edges: Ints

    def __len__(self) -> int:
        return len(self.sequence)

    @property
    def most(self) -> int:
        """The words of the longest sentence."""
        return int((self.words[:, 1] - self.words[:, 0]).max(initial=0))

    @property
    def starts(self) -> Ints:
        """Where the edges of each word to later words begin, and where the last one's end; (word + 1,)."""
        return np.searchsorted(self.edges[:, 0], np.arange(len(self.spans) + 1))


@numba.njit(nogil=True, cache=True)
def _weigh(p, spans, first, size, weight):  # noqa: ANN001, ANN202
    """Fill weight[u, v] with what words of a map p (q, k) give each other; undefined rows give nothing."""
    for u in range(size):
        opens, closes = spans[first + u]
        for v in range(size):
            found = 0.0
            for q in range(opens, closes):
                for k in range(spans[first + v, 0], spans[first + v, 1]):
                    if p[q, k] > 0:  # which NaN is not
                        found += p[q, k]
            weight[u, v] = found / (closes - opens)
    for u in range(size):
        for v in range(u):
            weight[u, v] += weight[v, u]
            weight[v, u] = weight[u, v]


@numba.njit(nogil=True, cache=True)
def _precedes(weight, a, b, other, c, d):  # noqa: ANN001, ANN202
    """Tell whether the edge of a and b comes before that of c and d: the heavier; of a tie, the first."""
    if weight != other:
        return weight > other
    low, lower = min(a, b), min(c, d)
    return low < lower or (low == lower and max(a, b) < max(c, d))


@numba.njit(nogil=True, cache=True)
def _grow(p, sequence, words, spans, starts, ends, most, start, stop, out):  # noqa: ANN001, ANN202
    """Fill out[sentence, head] with the gold edges in the tree of p (b, h, q, k); rows are (sentence, head).

    Prim's algorithm: the tree begins with the first word, and what is added is the word that the heaviest
    edge joins to it.
    """
    heads = p.shape[1]
    best, joint = np.empty(most, np.float64), np.empty(most, np.int64)
    joined, weight = np.empty(most, np.bool_), np.empty((most, most), np.float64)
    for row in range(start, stop):
        sentence, head = row // heads, row % heads
        first, size = words[sentence, 0], words[sentence, 1] - words[sentence, 0]
        _weigh(p[sequence[sentence], head], spans, first, size, weight)
        best[:size], joint[:size], joined[:size] = -1.0, 0, False
        hits, newest = 0, 0
        for _ in range(size - 1):
            joined[newest] = True
            following = -1
            for word in range(size):
                if joined[word]:
                    continue
                found = weight[newest, word]
                if _precedes(found, newest, word, best[word], joint[word], word):
                    best[word], joint[word] = found, newest
                if following < 0 or _precedes(
                    best[word], joint[word], word, best[following], joint[following], following
                ):
                    following = word
            low = first + min(joint[following], following)
            high = first + max(joint[following], following)
            for edge in range(starts[low], starts[low + 1]):
                hits += ends[edge] == high
            newest = following
        out[sentence, head] = hits


def count_gold_edges_in_trees(p: Tensor, sentences: Sentences) -> Ints:
    """Count the gold edges in the maximum spanning tree of each sentence and head.

    With A the attention between words, the mean over the tokens that attend of the sum over the tokens that
    are attended to, the weight of an edge is A_uv + A_vu. Of edges of equal weight, the one comes first
    whose earlier word does, and of these the one whose later word does; so there is one tree.

    Args:
        p: Attention (batch, head, query, key) of whole sequences to themselves.
        sentences: Their words and gold edges.

    Returns:
        (sentence, head)

    References:
        Prim (1957), Shortest connection networks and some generalizations.
    """
    out = np.zeros((len(sentences), p.shape[1]), np.int64)
    if not len(sentences):
        return out
    sequence, words, spans = sentences.sequence, sentences.words, sentences.spans
    if can_run_compiled(p):
        maps = p.contiguous().numpy()
    else:  # words take the places of tokens
        maps = build_word_maps(p, sentences).cpu().numpy()
        sequence, place = np.arange(len(sentences)), np.arange(len(spans))
        place -= np.repeat(words[:, 0], words[:, 1] - words[:, 0])
        spans = np.stack([place, place + 1], 1)
    inputs = (maps, sequence, words, spans, sentences.starts, np.ascontiguousarray(sentences.edges[:, 1]))
    run_over_rows(_grow, out.size, *inputs, sentences.most, out=(out,))
    return out


def build_word_maps(p: Tensor, sentences: Sentences) -> Tensor:
    """Take attention between tokens to attention between words, in float64.

    Args:
        p: Attention (batch, head, query, key) of whole sequences to themselves.
        sentences: Their words.

    Returns:
        (sentence, head, word, word) from the first word to the second; 0 behind the last word of a sentence.
    """
    lengths = sentences.words[:, 1] - sentences.words[:, 0]
    token = np.arange(p.shape[3])
    inside = (token >= sentences.spans[:, :1]) & (token < sentences.spans[:, 1:])
    within = torch.zeros(len(sentences), sentences.most, p.shape[3], dtype=torch.float64)
    number = np.repeat(np.arange(len(sentences)), lengths)
    place = np.arange(len(sentences.spans)) - np.repeat(sentences.words[:, 0], lengths)
    within[number, place] = torch.from_numpy(inside).double()
    within = within[:, None].to(p.device)
    each = within.sum(-1, keepdim=True).clamp_min(1)
    sequence = torch.from_numpy(sentences.sequence).to(p.device)
    some = max(1, _CELLS // p[0].numel())
    parts = zip(within.split(some), each.split(some), sequence.split(some), strict=True)
    maps = (words @ p[these].double().nan_to_num(0) @ words.mT / count for words, count, these in parts)
    return torch.cat(list(maps))
