"""Attention between words: the word most attended to, and maximum spanning trees against gold trees."""

from dataclasses import dataclass

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

    Ranges are (..., 2), the first and the one behind the last.
    """

    sequence: Ints  # that each row lies in
    queries: Ints
    candidates: Ints  # the range of its candidates in ``spans``
    itself: Ints  # of those that are the row itself, which are no answers; it may be empty
    spans: Ints  # the keys of each candidate

    def __len__(self) -> int:
        return len(self.sequence)

    def select(self, kept: NDArray[np.bool_]) -> "Rows":
        each = self.candidates[kept], self.itself[kept]
        return Rows(self.sequence[kept], self.queries[kept], *each, self.spans)


@numba.njit(nogil=True, cache=True)
def _choose(p, sequence, queries, candidates, itself, spans, start, stop, out):  # noqa: ANN001, ANN202
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
                if itself[row, 0] <= c < itself[row, 1]:
                    continue
                total = 0.0
                for k in range(spans[c, 0], spans[c, 1]):
                    total += mass[k]
                if total > best:
                    best, where = total, c
            out[row, h] = where


def find_most_attended(p: Tensor, rows: Rows) -> Ints:
    """Find the candidate that each row attends to most: the mean over its queries of the sum over its keys.

    Queries are known by their places in ``p`` (batch, head, query, key). Numbers of candidates come as (row,
    head), -1 where there is none; of a tie, the first.
    """
    if not len(rows):
        return np.zeros((0, p.shape[1]), np.int64)
    if not can_run_compiled(p):
        return choose_candidates(add_up_queries(p, rows), rows)
    out = np.empty((len(rows), p.shape[1]), np.int64)
    inputs = (p.contiguous().numpy(), rows.sequence, rows.queries, rows.candidates, rows.itself, rows.spans)
    run_over_rows(_choose, len(rows), *inputs, out=(out,))
    return out


def add_up_queries(p: Tensor, rows: Rows) -> Tensor:
    """Add up the attention of the queries of each row, (row, head, key) in float64."""
    lengths = rows.queries[:, 1] - rows.queries[:, 0]
    row = np.repeat(np.arange(len(rows)), lengths)
    behind = np.cumsum(lengths)
    query = np.arange(lengths.sum()) - (behind - lengths)[row] + rows.queries[row, 0]
    every = (torch.from_numpy(part).to(p.device) for part in (row, rows.sequence[row], query))
    row, sequence, query = every
    whole = p.new_zeros(len(rows), p.shape[1], p.shape[3], dtype=torch.float64)
    return whole.index_add_(0, row, p[sequence, :, query].double())


def choose_candidates(mass: Tensor, rows: Rows) -> Ints:
    """Choose per row the candidate that gets most of ``mass`` (row, head, key): (row, head), -1 for none."""
    first, stop = torch.from_numpy(rows.candidates).to(mass.device).unbind(1)
    place = torch.arange(int((stop - first).max()), device=mass.device)
    number = first[:, None] + place
    spans = torch.from_numpy(rows.spans).to(mass.device)
    # Sums of float32 in float64 are exact unless they differ by many orders, so that ties stay ties.
    running = torch.nn.functional.pad(mass.cumsum(-1), (1, 0))
    ends = spans[number.clamp_max(len(spans) - 1)]
    shape = (*mass.shape[:2], len(place))
    high, low = (running.gather(2, ends[..., side][:, None].expand(shape)) for side in (1, 0))
    itself = torch.from_numpy(rows.itself).to(mass.device)
    open_ = (number < stop[:, None]) & ~((number >= itself[:, :1]) & (number < itself[:, 1:]))
    best, where = (high - low).masked_fill(~open_[:, None], -1.0).max(-1)
    return torch.where(best < 0, -1, where + first[:, None]).cpu().numpy()


#: What is counted of a sentence: gold edges in the undirected tree, and words whose head is right in the
#: directed one.
EDGES, HEADS = range(2)
#: Whether a word, or a circle of words, has a head yet; is on the path that looks for one; or is in a circle.
_NEW, _ON_PATH, _DONE, _JOINED = range(4)


@dataclass(frozen=True)
class Sentences:
    """The words of sentences, and their gold trees, with words known by their places in ``spans``."""

    sequence: Ints  # of each sentence
    words: Ints  # (sentence, 2) the range of its words
    spans: Ints  # (word, 2) the range of its tokens
    edges: Ints  # (edge, 2) words that are joined, the earlier one first; sorted, each edge once
    roots: Ints  # (sentence,) the word that all others descend from
    arcs: Ints  # (arc, 2) a word that is no root and a head of it; sorted, each arc once

    def __len__(self) -> int:
        return len(self.sequence)


@numba.njit(nogil=True, cache=True)
def _weigh(p, spans, first, size, weight):  # noqa: ANN001, ANN202
    """Fill weight[u, v] with what word u of a map p (q, k) gives to v; undefined rows give nothing."""
    for u in range(size):
        opens, closes = spans[first + u]
        for v in range(size):
            total = 0.0
            for q in range(opens, closes):
                for k in range(spans[first + v, 0], spans[first + v, 1]):
                    if p[q, k] > 0:  # which NaN is not
                        total += p[q, k]
            weight[u, v] = total / (closes - opens)


@numba.njit(nogil=True, cache=True)
def _precedes(weight, a, b, other, c, d):  # noqa: ANN001, ANN202
    """Tell whether edge (a, b) of some weight comes before edge (c, d) of another."""
    if weight != other:
        return weight > other
    low, lower = min(a, b), min(c, d)
    return low < lower or (low == lower and max(a, b) < max(c, d))


@numba.njit(nogil=True, cache=True)
def _grow(weight, first, size, starts, ends, best, joint, joined):  # noqa: ANN001, ANN202
    """Count the gold edges in the heaviest tree of edges weight[u, v] + weight[v, u]."""
    best[:size], joint[:size], joined[:size] = -1.0, 0, False
    hits, newest = 0, 0
    for _ in range(size - 1):
        joined[newest] = True
        following = -1
        for word in range(size):
            if joined[word]:
                continue
            edge = weight[newest, word] + weight[word, newest]
            if _precedes(edge, newest, word, best[word], joint[word], word):
                best[word], joint[word] = edge, newest
            if following < 0 or _precedes(
                best[word], joint[word], word, best[following], joint[following], following
            ):
                following = word
        low = first + min(joint[following], following)
        high = first + max(joint[following], following)
        for edge in range(starts[low], starts[low + 1]):
            hits += ends[edge] == high
        newest = following
    return hits


@numba.njit(nogil=True, cache=True)
def _find_head(enter, current, alive, slots):  # noqa: ANN001, ANN202
    """Find the node whose arc into node ``current`` is the heaviest; the earlier of a tie."""
    best, source = -np.inf, -1
    for other in alive[:slots]:
        if other != current and enter[current, other] > best:
            best, source = enter[current, other], other
    return source


@numba.njit(nogil=True, cache=True)
def _open_circles(chosen, within, size, nodes):  # noqa: ANN001, ANN202
    """Set in each circle the head of the member that is entered from outside; the outermost circle first."""
    for circle in range(nodes - 1, size - 1, -1):
        inside = chosen[circle] // size
        while within[inside] != circle:
            inside = within[inside]
        chosen[inside] = chosen[circle]


@numba.njit(nogil=True, cache=True)
def _join(enter, arcs, cost, circle, first, state, alive, slots):  # noqa: ANN001, ANN202
    """Replace a circle by its first node, with the heaviest arcs to and from it; return how many are left."""
    kept = 0
    for place in range(slots):
        other = alive[place]
        if state[other] == _JOINED and other != first:
            continue
        alive[kept] = other
        kept += 1
        into, out, entered, left = -np.inf, -np.inf, 0, 0
        for member in circle:
            if enter[member, other] - cost[member] > into:
                into, entered = enter[member, other] - cost[member], arcs[member, other]
            if enter[other, member] > out:
                out, left = enter[other, member], arcs[other, member]
        enter[first, other], arcs[first, other] = into, entered
        enter[other, first], arcs[other, first] = out, left
    return kept


@numba.njit(nogil=True, cache=True)
def _descend(enter, size, root, arcs, room, cost, head):  # noqa: ANN001, ANN202
    """Fill head[v] with the heads of the heaviest tree in which all words descend from the root."""
    slot, node, state, alive = room[0], room[1], room[2], room[3]
    path, within, chosen = room[4], room[5], room[6]
    for v in range(size):
        slot[v] = node[v] = alive[v] = v
        state[v] = _NEW
        for u in range(size):
            arcs[v, u] = v * size + u
    state[root] = _DONE
    nodes, slots = size, size
    for word in range(size):
        current, length = slot[word], 0
        while state[current] != _DONE:
            state[current], path[length] = _ON_PATH, current
            length += 1
            source = _find_head(enter, current, alive, slots)
            chosen[node[current]], cost[current] = arcs[current, source], enter[current, source]
            current = source
            if state[source] != _ON_PATH:
                continue
            opens = length - 1
            while path[opens] != source:
                opens -= 1
            circle = path[opens:length]
            for member in circle:
                state[member], within[node[member]] = _JOINED, nodes
                current = min(current, member)
            slots = _join(enter, arcs, cost, circle, current, state, alive, slots)
            for v in range(size):
                if state[slot[v]] == _JOINED:
                    slot[v] = current
            node[current] = nodes
            nodes += 1
            length = opens
        for place in range(length):
            state[path[place]] = _DONE
    _open_circles(chosen, within, size, nodes)
    for v in range(size):
        head[v] = chosen[v] % size
    head[root] = -1


@numba.njit(nogil=True, cache=True)
def _compare(p, sequence, words, spans, starts, ends, roots, rises, heads, most, start, stop, out):  # noqa: ANN001, ANN202
    """Fill out[sentence, head] with what trees of p (b, h, q, k) have of the gold; a row is one such pair."""
    number = p.shape[1]
    weight, enter = np.empty((most, most), np.float64), np.empty((most, most), np.float64)
    best, joined, head = np.empty(most, np.float64), np.empty(most, np.bool_), np.empty(most, np.int64)
    arcs, room = np.empty((most, most), np.int64), np.empty((7, 2 * most), np.int64)
    for row in range(start, stop):
        sentence, which = row // number, row % number
        first, size = words[sentence, 0], words[sentence, 1] - words[sentence, 0]
        _weigh(p[sequence[sentence], which], spans, first, size, weight)
        out[sentence, which, EDGES] = _grow(weight, first, size, starts, ends, best, head, joined)
        enter[:size, :size] = weight[:size, :size]
        _descend(enter, size, roots[sentence] - first, arcs, room, best, head)
        hits = 0
        for v in range(size):
            for arc in range(rises[first + v], rises[first + v + 1]):
                hits += heads[arc] == first + head[v]
        out[sentence, which, HEADS] = hits


def compare_trees(p: Tensor, sentences: Sentences) -> Ints:
    """Count what the maximum spanning trees of each sentence and head have of its gold tree.

    With A the attention between words, the mean over the tokens that attend of the sum over the tokens that
    are attended to, in the maps ``p`` of whole sequences:

    - ``EDGES``: gold edges in the undirected tree, whose edges weigh A_uv + A_vu. Of edges of equal weight,
      the one comes first whose earlier word does, and of these the one whose later word does.
    - ``HEADS``: words with their gold head in the tree in which all words descend from the gold root, and the
      arc to dependent v from its head u weighs A_vu. Of equal trees, always the same is taken: a word, or a
      circle of words, takes the earlier of two heads.

    Returns:
        (sentence, head, 2)

    References:
        Prim (1957), Shortest connection networks and some generalizations; Edmonds (1967), Optimum
        branchings; Gabow et al. (1986), Efficient algorithms for finding minimum spanning trees in undirected
        and directed graphs, for the order of its steps.
    """
    out = np.zeros((len(sentences), p.shape[1], 2), np.int64)
    if not len(sentences):
        return out
    gold: list[Ints] = []
    for pairs in (sentences.edges, sentences.arcs):  # where those of each word begin, and what they lead to
        gold.append(np.searchsorted(pairs[:, 0], np.arange(len(sentences.spans) + 1)))
        gold.append(np.ascontiguousarray(pairs[:, 1]))
    maps = p.detach().float().cpu().contiguous().numpy()
    words = sentences.sequence, sentences.words, sentences.spans
    inputs = (maps, *words, *gold[:2], sentences.roots, *gold[2:], int(np.diff(sentences.words).max()))
    run_over_rows(_compare, out[..., 0].size, *inputs, out=(out,))
    return out
