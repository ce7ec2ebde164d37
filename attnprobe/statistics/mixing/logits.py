"""How far the logits of a head follow from those of the other heads of its layer."""

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout
from attnprobe.kernels.products import logit_products
from attnprobe.statistics.mixing import FAMILY
from attnprobe.statistics.peak import sinks
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import heads_of
from attnprobe.sums.jackknife import Jackknife, NamedJackknife
from attnprobe.table.builder import TableBuilder

Floats = NDArray[np.float64]

#: Smaller eigenvalues of a matrix of correlations are rounding, and taken for this.
LEAST_EIGENVALUE = 1e-7


def products(block: AttentionBlock) -> Tensor:
    """Multiply the logits of every two heads, key by key; each row is centred over the keys that it sees.

    The logits are what the softmax is taken of, with biases and soft caps. A softmax does not change where a
    number is added to a row, and neither does a centred row.

    Returns:
        (batch, 2, head, head): the products, and what they are on average where the keys of each head and
        query are shuffled, all but the sinks; see ``logit_products`` in ``kernels/products.py``.
    """
    layout, rows = block.layout, slice(block.offset, block.offset + block.probabilities.shape[2])
    return logit_products(block.scores, layout.queries.kept[:, rows], layout.once(sinks))


def correlation(found: Tensor, _: Layout, *, shuffled: bool = False) -> Tensor:
    """Correlate the logits of every two heads over all queries and keys of a sequence.

        r_gh = C_gh / sqrt(C_gg C_hh)

    with C the products. Shuffled, C_gh is what it is on average where the keys of each head and query come in
    a random order, except for special tokens and the first token: what these alone make of it.

    Limits: 1 for heads whose logits are alike up to a factor and to a number for each row, 0 for unrelated
    ones, -1 for opposite ones. It is undefined for a head that prefers nothing, and for a single token.

    Source: after Shazeer et al. (2020), Talking-heads attention, which mixes the logits of heads.

    Returns:
        (batch, pair), the pairs of heads in the order of ``itertools.combinations``.
    """
    heads = found.shape[-1]
    size = found[:, 0].diagonal(dim1=1, dim2=2).sqrt()
    size = size.where(size > 0, torch.nan)
    a, b = torch.triu_indices(heads, heads, 1, device=found.device)
    return (found[:, int(shuffled), a, b] / (size[:, a] * size[:, b])).clamp(-1, 1)


def matrix(pairs: Floats) -> Floats:
    """Arrange correlations of pairs (..., pair) as matrices (..., head, head), with 1 on the diagonal.

    >>> matrix(np.array([0.5])).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    heads = heads_of(pairs.shape[-1])
    found = np.zeros((*pairs.shape[:-1], heads, heads))
    a, b = np.triu_indices(heads, 1)
    found[..., a, b] = found[..., b, a] = pairs
    found[..., np.arange(heads), np.arange(heads)] = 1
    return found


def _standing(found: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Part heads that correlate with nothing, such as removed ones, from the others."""
    heads = found.shape[-1]
    there = (~np.isnan(found)).sum(-1) > 1  # every head correlates with itself
    return np.where(np.isnan(found), np.eye(heads), found), there


def explained_by_others(pairs: Floats) -> Floats:
    """Share of the variance of a head's logits that a linear mix of the layer's other heads gives.

    R^2_h = 1 - 1 / (R^-1)_hh, with R the correlations of the logits, averaged over sequences. It is the R^2
    of the least squares of head h on the others, where the logits of each sequence and head are scaled to
    length 1.

    Limits: 0 where no other head helps, 1 for copies. It can't fall where a layer has more heads. It is
    undefined for the only head of a layer.

    Args:
        pairs: Correlations (..., pair).

    Returns:
        (..., head)
    """
    found, there = _standing(matrix(pairs))
    values, vectors = np.linalg.eigh(found)
    inverse = (np.square(vectors) / np.maximum(values, LEAST_EIGENVALUE)[..., None, :]).sum(-1)
    return np.where(there, np.clip(1 - 1 / inverse, 0, 1), np.nan)


def effective_heads(pairs: Floats) -> Floats:
    """Number of heads of a layer that differ in their logits: H^2 / sum_gh r_gh^2.

    It is the participation ratio of the eigenvalues of R, (tr R)^2 / |R|_F^2.

    Limits: 1 where all H heads are copies, H where none correlate. It is undefined for a single head.

    Args:
        pairs: Correlations (..., pair), averaged over sequences.

    Returns:
        (...)
    """
    found, there = _standing(matrix(pairs))
    kept = there.sum(-1)
    squares = np.square(found * (there[..., None] & there[..., None, :])).sum((-1, -2))
    return np.divide(
        np.square(kept, dtype=np.float64), squares, out=np.full(kept.shape, np.nan), where=kept > 1
    )


def explained(_: Statistic, found: Jackknife, build: TableBuilder, *, null: bool = False) -> None:
    """Append what the others explain of each head, and its standard error."""
    average, error = found.made(explained_by_others)
    build.measure(
        "explained_by_others_null" if null else "explained_by_others",
        "share",
        average.ravel(),
        error.ravel(),
        headline=not null,
        title=f"logits explained by the other heads{' through sinks alone' if null else ''}",
    )


CORRELATION = Statistic(
    "logit_correlation", "correlation", products, correlation, scope="layer", needs={"scores"},
    rows="pair", sums=NamedJackknife, version=2, columns=explained, family=FAMILY,
    title="correlation of logits", headline=True,
)  # fmt: skip
SHUFFLED = Statistic(
    "logit_correlation_null", "correlation", products, partial(correlation, shuffled=True), scope="layer",
    needs={"scores"}, rows="pair", sums=NamedJackknife, version=2, columns=partial(explained, null=True),
    family=FAMILY, title="correlation of logits through sinks alone", order=1,
)  # fmt: skip
