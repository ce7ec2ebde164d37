"""From attention between tokens to attention between words, between blocks of patches, and over layers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.floating[Any]]


def group_tokens(
    rows: Rows, queries: NDArray[np.integer] | None = None, keys: NDArray[np.integer] | None = None
) -> Rows:
    """Give attention between groups of tokens, such as words.

    Attention to a group is the sum over its tokens, attention from a group the mean over its tokens, so that
    rows that sum to 1 still do.

    Args:
        rows: Attention (..., query, key).
        queries: The number of the group of each query, counted from 0 without gaps; None for its own.
        keys: The same of the keys.

    Returns:
        Attention (..., group of queries, group of keys).

    Source: Clark et al. (2019), What does BERT look at?, section 4.1.

    >>> words = np.array([0, 0, 1])
    >>> group_tokens(np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.3, 0.2, 0.5]]), words, words)
    array([[0.525, 0.475],
           [0.5  , 0.5  ]])
    """
    if keys is not None:
        rows = rows @ _members(keys).T.astype(rows.dtype)
    if queries is not None:
        members = _members(queries).astype(rows.dtype)
        rows = (members / members.sum(1, keepdims=True)) @ rows
    return rows


def roll_out(rows: Rows, standing: NDArray[np.bool_] | None = None) -> Rows:
    """Roll attention out over layers: what reaches each token of a layer from each token of the text.

    R_l = A_l R_(l-1), R_0 = A_0, where A_l = (M_l + I) / 2 and M_l is the mean over the heads of layer l,
    with its rows divided by their sums. This is a picture of how information could flow. It knows nothing
    of values, of feed-forward layers or of what heads write, and it is no measure of a head.

    Args:
        rows: Self-attention (layer, head, token, token).
        standing: Which heads are there (layer, head), if some are removed.

    Returns:
        (layer, token, token)

    Source: Abnar and Zuidema (2020), Quantifying attention flow in transformers, section 3.
    """
    layers, heads, length, _ = rows.shape
    weight = np.ones((layers, heads)) if standing is None else standing.astype(np.float64)
    found = np.empty((layers, length, length), rows.dtype)
    before = np.eye(length)
    for layer in range(layers):
        number = weight[layer].sum()
        mean = np.einsum("hqk,h->qk", rows[layer].astype(np.float64), weight[layer]) / max(number, 1.0)
        mean = mean / mean.sum(1, keepdims=True) if number else np.eye(length)
        before = (mean + np.eye(length)) / 2 @ before
        found[layer] = before
    return found


def find_squares(rows: int, columns: int, most: int) -> tuple[NDArray[np.int64], int, int]:
    """Put patches into the smallest squares that leave at most so many of them.

    Returns:
        The number of the square of each patch, row by row; how many rows of squares; how many columns.

    >>> find_squares(2, 4, 2)
    (array([0, 0, 1, 1, 0, 0, 1, 1]), 1, 2)
    """
    side = 1
    while -(-rows // side) * -(-columns // side) > most:
        side += 1
    down, right = -(-rows // side), -(-columns // side)
    place = np.arange(rows)[:, None] // side * right + np.arange(columns) // side
    return place.ravel(), down, right


def find_stretches(length: int, most: int) -> NDArray[np.int64]:
    """Put consecutive tokens into the shortest stretches that leave at most so many of them."""
    return np.arange(length) // -(-length // most)


def number_groups(names: Sequence[int]) -> NDArray[np.int64]:
    """Number groups from 0 without gaps, in the order in which they first occur.

    >>> number_groups([7, 7, 3, 7, 9])
    array([0, 0, 1, 0, 2])
    """
    known: dict[int, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], np.int64)


def _members(groups: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Tell which tokens each group has, (group, token)."""
    return np.arange(int(groups.max()) + 1)[:, None] == groups
