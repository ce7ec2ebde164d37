"""Scores of rankings: nDCG, reciprocal rank and recall of the first passages that a query finds."""

import numpy as np
from numpy.typing import NDArray

#: So many passages are looked at.
CUTOFF = 10
#: Scores that are held at once.
_CELLS = 1 << 24

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def find_ranks(scores: NDArray[np.float32], row: Ints, column: Ints) -> Ints:
    """Find at which rank passages stand, from 1 on: one more than the number of those before each.

    ``scores`` are (query, passage), in float32 as trec_eval keeps them; ``row`` and ``column`` name the query
    and the passage of each pair that is looked for, (pair,). Of equal scores, the earlier column comes first.
    """
    ranks = np.zeros(len(row), np.int64)
    step, columns = max(1, _CELLS // max(1, scores.shape[1])), np.arange(scores.shape[1])
    for start in range(0, len(row), step):
        query, passage = row[start : start + step], column[start : start + step]
        lines, score = scores[query], scores[query, passage][:, None]
        before = (lines > score) | ((lines == score) & (columns < passage[:, None]))
        ranks[start : start + step] = 1 + before.sum(-1)
    return ranks


def ndcg(ranks: Ints, row: Ints, grades: Floats, queries: int) -> Floats:
    """Compute nDCG of the first 10 passages of each query, (query,).

        DCG = sum over relevant passages of rank r <= 10 of  grade / log2(r + 1),    nDCG = DCG / best DCG

    where the best has the relevant passages in the order of their grades. It is ``ndcg_cut_10`` of trec_eval.
    Of passages with equal scores, the one whose id comes last in the order of characters goes first.
    ``row``, the query, ``ranks`` and ``grades`` are of each relevant passage, (pair,).

    Limits: 0 to 1. 1 if the passages are in the order of their grades, 0 if none of the first 10 is relevant.

    References:
        Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques.
    """
    best = np.lexsort((-grades, row))
    _, start = np.unique(row[best], return_index=True)
    counts = np.diff(start, append=len(row))
    ideal = np.empty(len(row), np.int64)
    ideal[best] = 1 + np.arange(len(row)) - np.repeat(start, counts)
    gained, most = (
        np.bincount(row, np.where(at <= CUTOFF, grades / np.log2(at + 1.0), 0.0), queries)
        for at in (ranks, ideal)
    )
    return gained / most


def mrr(ranks: Ints, row: Ints, grades: Floats, queries: int) -> Floats:
    """Compute one over the rank of the first relevant passage of each query, 0 beyond 10, (query,).

    It is ``recip_rank`` of trec_eval over the first 10 passages.

    Limits: 0 to 1. 1 if the first passage is relevant.

    References:
        Voorhees (1999), The TREC-8 question answering track report.
    """
    first = np.full(queries, np.iinfo(np.int64).max)
    np.minimum.at(first, row, ranks)
    return np.where(first <= CUTOFF, 1 / first, 0.0)


def recall(ranks: Ints, row: Ints, grades: Floats, queries: int) -> Floats:
    """Compute which share of the relevant passages of each query is among the first 10, (query,).

    It is ``recall_10`` of trec_eval. Limits: 0 to 1; below 1 for a query with more than 10 relevant passages.
    """
    return np.bincount(row, ranks <= CUTOFF, queries) / np.bincount(row, minlength=queries)
