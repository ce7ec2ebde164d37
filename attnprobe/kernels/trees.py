"""Maximum spanning trees of attention between words, and the gold edges that lie in them."""

from dataclasses import dataclass

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.kernels.parallel import compiled_for, over_rows

Ints = NDArray[np.int64]
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
        """Give the number of sentences."""
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


def gold_edges_in_trees(p: Tensor, sentences: Sentences) -> Ints:
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
    if compiled_for(p):
        maps = p.contiguous().numpy()
    else:  # words take the places of tokens
        maps = word_maps(p, sentences).cpu().numpy()
        sequence, place = np.arange(len(sentences)), np.arange(len(spans))
        place -= np.repeat(words[:, 0], words[:, 1] - words[:, 0])
        spans = np.stack([place, place + 1], 1)
    inputs = (maps, sequence, words, spans, sentences.starts, np.ascontiguousarray(sentences.edges[:, 1]))
    over_rows(_grow, out.size, *inputs, sentences.most, out=(out,))
    return out


def word_maps(p: Tensor, sentences: Sentences) -> Tensor:
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
