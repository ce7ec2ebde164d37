"""Probes of attention between words: maps of a byte a cell, most attended words, scores and gradients."""

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.kernels.rows import FAST, run_over_rows

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Floats = NDArray[np.floating[Any]]

#: The largest code of a cell, which stands for attention 1.
LAST_CODE = 255


def encode(attention: Floats) -> Bytes:
    """Code attention, 0 to 1, in a byte: round(255 sqrt(a)), which is finer the smaller it is.

    The square of the code over 255 is off by at most sqrt(a) / 255 + 4e-6, and by a third of that on average.

    >>> encode(np.array([0.0, 0.05, 1.0])).tolist()
    [0, 57, 255]
    """
    return np.rint(np.sqrt(attention.clip(0, 1)) * LAST_CODE).astype(np.uint8)


def decode(codes: Bytes) -> NDArray[np.float64]:
    """Give the attention that codes stand for."""
    return np.square(codes / LAST_CODE)


def read_word_maps(p: Tensor, spans: Tensor, query: int = 0) -> Tensor:
    """Take attention between tokens to attention between words: sums, which queries yet to come add to.

    Args:
        p: Attention (batch, head, query, key), of some queries of each sequence.
        spans: (batch, word, 2) the first token of each word, and the one behind its last.
        query: The position of the first query.

    Returns:
        (batch, head, word, word) from the first word to the second, in float64: the sum over the tokens of
        the second of the sum over the queries of the first that are there, divided by its number of tokens.
    """
    batch, heads, queries, _ = p.shape
    words = spans.shape[1]
    spans = spans.to(p.device)
    sums = torch.nn.functional.pad(p.double().nan_to_num(0).cumsum(-1), (1, 0))
    ends = spans.mT[:, None, None].expand(batch, heads, queries, 2, words)
    to = sums.gather(3, ends[..., 1, :]) - sums.gather(3, ends[..., 0, :])
    place = torch.arange(query, query + queries, device=p.device)
    inside = (place >= spans[..., :1]) & (place < spans[..., 1:])
    size = (spans[..., 1] - spans[..., 0]).clamp_min(1)
    return (inside.double() / size[..., None])[:, None] @ to


@dataclass(frozen=True)
class WordQuestions:
    """Questions to words about other words of their sequence, and the attention between these.

    Attributes:
        maps: (cell, head) coded attention, see ``encode``: of each sequence, from its first word to each of
            its words, then from its second word, and so on.
        cell: (question,) the first cell of the sequence.
        words: (question,) how many words the sequence has.
        asker: (question,) the word that is asked, by its number in the sequence.
        starts: (question + 1,) where the candidates of each begin.
        candidates: (candidate,) words that may be the answer, by their numbers in the sequence.
        right: (candidate,) which of them are right.
    """

    maps: Bytes
    cell: Ints
    words: Ints
    asker: Ints
    starts: Ints
    candidates: NDArray[np.int32]
    right: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.cell)

    @property
    def features(self) -> int:
        """How many numbers each pair of words has: attention of each head, one way and the other."""
        return 2 * self.maps.shape[1]


@dataclass(frozen=True)
class Answers:
    """What a probe says of some questions.

    Attributes:
        hit: Whether the candidate with the highest score is right; the first of a tie.
        objective: The sum over questions of the mean of ln p over right answers, which is concave.
        derivative: Of that by the weights, (feature,); zeros where nobody wants it.
    """

    hit: NDArray[np.bool_]
    objective: float
    derivative: NDArray[np.float64]


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _answer(  # noqa: ANN202 - a compiled loop is one function
    maps,  # noqa: ANN001
    cell,  # noqa: ANN001
    words,  # noqa: ANN001
    asker,  # noqa: ANN001
    starts,  # noqa: ANN001
    candidates,  # noqa: ANN001
    right,  # noqa: ANN001
    which,  # noqa: ANN001
    weights,  # noqa: ANN001
    most,  # noqa: ANN001
    derive,  # noqa: ANN001
    hit,  # noqa: ANN001
    derivative,  # noqa: ANN001
):
    heads = maps.shape[1]
    scores, own, cast = np.empty(most), np.empty(2 * heads, weights.dtype), np.empty(1, weights.dtype)
    objective = 0.0
    for number in range(len(which)):
        q = which[number]
        begin, size, i, low, high = cell[q], words[q], asker[q], starts[q], starts[q + 1]
        top, best = -np.inf, 0
        for c in range(low, high):
            j = candidates[c]
            there, back = maps[begin + i * size + j], maps[begin + j * size + i]
            score = weights[0] - weights[0]  # a zero of their type
            for h in range(heads):
                a, b = np.float32(there[h]), np.float32(back[h])
                score += weights[h] * (a * a) + weights[heads + h] * (b * b)
            scores[c - low] = score
            if score > top:
                top, best = score, c
        total, mean, number_right = 0.0, 0.0, 0
        for c in range(low, high):
            total += np.exp(scores[c - low] - top)
            if right[c]:
                mean += scores[c - low] - top
                number_right += 1
        hit[number] = right[best]
        objective += mean / number_right - np.log(total)
        if not derive:
            continue
        own[:] = 0
        for c in range(low, high):
            j = candidates[c]
            there, back = maps[begin + i * size + j], maps[begin + j * size + i]
            cast[0] = right[c] / number_right - np.exp(scores[c - low] - top) / total
            pull = cast[0]
            for h in range(heads):
                a, b = np.float32(there[h]), np.float32(back[h])
                own[h] += pull * (a * a)
                own[heads + h] += pull * (b * b)
        for k in range(2 * heads):
            derivative[k] += own[k]
    return objective


@numba.njit(nogil=True, cache=True)
def _choose(maps, sequence, asker, starts, candidates, right, start, stop, out):  # noqa: ANN001, ANN202
    """Fill out[q, h, way] with whether the candidate that head h joins most to the asker is right."""
    heads = maps.shape[1]
    for q in range(start, stop):
        s, i = sequence[q], asker[q]
        for h in range(heads):
            for way in range(2):
                best, found = -1.0, False
                for c in range(starts[q], starts[q + 1]):
                    j = candidates[c]
                    given = maps[s, h, i, j] if way == 0 else maps[s, h, j, i]
                    if given > best:
                        best, found = given, right[c]
                out[q, h, way] = found


def answer(
    asked: WordQuestions, weights: Floats, which: Ints | None = None, *, derive: bool = False
) -> Answers:
    """Let a probe answer some questions, or all.

    The score of candidate j for asker i is

        s_ij = sum_h (u_h a_h[i, j] + v_h a_h[j, i]),    p(j | i) = exp s_ij / sum over candidates

    Sums are taken in the type of the weights (u, v).

    Args:
        asked: The questions.
        weights: (feature,) u of every head, then v of every head.
        which: The numbers of those to answer.
        derive: Whether the derivative of the objective is wanted, too.
    """
    which = np.arange(len(asked)) if which is None else which
    scale = LAST_CODE**2  # of squared codes
    derivative, hit = np.zeros(len(weights)), np.zeros(len(which), np.bool_)
    objective: Any = 0.0
    if len(which):
        given = (asked.maps, asked.cell, asked.words, asked.asker, asked.starts, asked.candidates)
        scaled, most = (weights / scale).astype(weights.dtype), int(np.diff(asked.starts).max())
        inputs: Any = (*given, asked.right, which, scaled, most, derive, hit, derivative)
        objective = _answer(*inputs)
    return Answers(hit, objective, derivative / scale)


def choose_words(
    maps: Floats, sequence: Ints, asker: Ints, starts: Ints, candidates: NDArray[np.int32], right: Any
) -> NDArray[np.bool_]:
    """Tell whether each head of a layer joins a right candidate most to who is asked.

    Args:
        maps: Attention between words (batch, head, word, word).
        sequence: (question,) its place in the batch.
        asker: As in ``WordQuestions``, like the arguments that follow.
        starts: Where the candidates of each question begin.
        candidates: Their words.
        right: Which are right.

    Returns:
        (question, head, 2) by attention from the asker, and by attention to it; the first of a tie counts.
    """
    out = np.zeros((len(asker), maps.shape[1], 2), np.bool_)
    run_over_rows(_choose, len(asker), maps, sequence, asker, starts, candidates, right, out=(out,))
    return out


@numba.njit(nogil=True, cache=True)
def _add_variances(maps, cell, words, asker, starts, candidates, total):  # noqa: ANN001, ANN202
    heads = maps.shape[1]
    sums, squares = np.empty(2 * heads), np.empty(2 * heads)
    for q in range(len(cell)):
        begin, size, i = cell[q], words[q], asker[q]
        number = starts[q + 1] - starts[q]
        sums[:], squares[:] = 0, 0
        for c in range(starts[q], starts[q + 1]):
            there, back = maps[begin + i * size + candidates[c]], maps[begin + candidates[c] * size + i]
            for h in range(heads):
                a, b = np.float64(there[h]) ** 2, np.float64(back[h]) ** 2
                sums[h] += a
                sums[heads + h] += b
                squares[h] += a * a
                squares[heads + h] += b * b
        for k in range(2 * heads):
            total[k] += squares[k] / number - (sums[k] / number) ** 2


def add_variances(asked: WordQuestions) -> NDArray[np.float64]:
    """Add up, for each feature, the variance over the candidates of every question."""
    total = np.zeros(asked.features)
    given = (asked.maps, asked.cell, asked.words, asked.asker, asked.starts, asked.candidates)
    _add_variances(*given, total)
    return total.clip(min=0) / LAST_CODE**4
