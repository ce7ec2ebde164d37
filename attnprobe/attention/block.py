"""AttentionBlock: the one thing every statistic sees. It refuses malformed input."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attnprobe.attention.kinds import NOTHING, Observed
from attnprobe.attention.layout import Layout
from attnprobe.attention.tokens import TokenFeatures
from attnprobe.kernels.pairs import pairwise_divergence
from attnprobe.kernels.rows import LazySummary, RowSummary, summarise_rows


def factor_projection(projection: Tensor) -> Tensor:
    """Factor an output projection W_O,h (head, width, model width) into R^T, for lengths alone.

    With W_O,h^T = Q R and Q orthonormal, ||v W_O,h|| = ||R v||. R is as wide as the head and not as the
    model, if that is wider, and nothing cancels, as in v (W W^T) v^T it would.

    >>> factor_projection(torch.tensor([[[3.0, 4.0]]])).abs()
    tensor([[[5.]]])
    """
    # Once for each layer and run: in double precision, which some devices don't have.
    turned = projection.detach().to("cpu", torch.float64).mT
    return torch.linalg.qr(turned, mode="r").R.mT.contiguous().to(projection)


def measure_lengths(values: Tensor, factor: Tensor) -> Tensor:
    """Compute ||W_O,h v_j|| of every key, (batch, head, key), from a factored projection."""
    return torch.linalg.vector_norm(torch.matmul(values.to(factor.dtype), factor), dim=-1)


class NotObservedError(AttributeError):
    """A statistic reads what it did not say that it needs."""


def _make_property(name: str) -> Any:
    """Make the property that reads a field of ``observed``; it raises NotObservedError where that is None."""

    def read(block: "AttentionBlock") -> Tensor:
        values = getattr(block.observed, name)
        if values is None:
            raise NotObservedError(
                f"a block holds no {name} unless they are asked for: name them in needs, as in "
                f"statistic(needs={{{name!r}}})."
            )
        return values

    return property(read)


@dataclass(frozen=True)
class AttentionBlock:
    """Attention of consecutive queries of a batch to all their keys, without padding.

    The requested parts of ``observed`` are attributes, by their names in ``Observed``.

    Attributes:
        probabilities: (batch, head, query, key); every row sums to 1.
        offset: Position in the sequence of the first query of the block.
        weighted: For attention weighted by vector norms, the sums (batch, head, query) by which rows were
            divided; None if the rows are those of the softmax.
    """

    probabilities: Tensor
    layout: Layout
    offset: int = 0
    observed: Observed = NOTHING
    weighted: Tensor | None = None

    def __post_init__(self) -> None:
        shape, keys, queries = self.probabilities.shape, self.layout.keys, self.layout.queries.length
        fits = len(shape) == 4 and (shape[0], shape[3]) == (keys.batch, keys.length)
        if not fits or not 0 <= self.offset <= queries - shape[2]:
            raise ValueError(
                f"attention (batch, head, query, key) = {tuple(shape)} from query {self.offset} on does not "
                f"fit {keys.batch} sequences of {queries} queries and {keys.length} keys"
            )

    @property
    def span(self) -> slice:
        """The positions of its queries in their sequences."""
        return slice(self.offset, self.offset + self.probabilities.shape[2])

    scores = _make_property("scores")
    values = _make_property("values")
    outputs = _make_property("outputs")
    queries = _make_property("queries")
    keys = _make_property("keys")
    projection = _make_property("projection")

    @cached_property
    def contributions(self) -> Tensor:
        """What each head adds to the residual stream, o_h W_O,h, (batch, head, query, model width)."""
        return torch.matmul(self.outputs, self.projection.to(self.outputs.dtype))

    @property
    def carried(self) -> Tensor:
        """The sum of each row before division, sum_j p_ij ||W_O,h v_j||, if rows are weighted by norm."""
        if self.weighted is None:
            raise NotObservedError("rows carry something only where Statistic(..., weights='norm').")
        return self.weighted

    @cached_property
    def summary(self) -> RowSummary | LazySummary:
        """Entropy, maximum, argmax, distance and masses of every row, in one pass where it is compiled."""
        return summarise_rows(self.probabilities, self.layout.keys.indicators, self.offset)

    @cached_property
    def divergence(self) -> Tensor:
        """Jensen-Shannon divergence (batch, pair, query) of every two heads, in nats."""
        return pairwise_divergence(self.probabilities)

    def mass(self, feature: str) -> Tensor:
        """Probability (batch, head, query) on the keys that have a feature of ``MASSES``."""
        return self.summary.masses[TokenFeatures.MASSES.index(feature)]

    @property
    def distance(self) -> Tensor:
        """Mean distance of each query's attention, in tokens; in an image, in patches, over patches alone."""
        if self.layout.grid is None:
            return self.summary.distance
        if not self.layout.comparable:
            return torch.full_like(self.summary.distance, torch.nan)
        distances = self.layout.distances[self.span].to(self.probabilities.dtype)
        mass = (self.probabilities * (~distances.isnan())).sum(-1)
        return torch.einsum("bhqk,qk->bhq", self.probabilities, distances.nan_to_num()) / mass

    def at_step(self, down: int, right: int) -> Tensor:
        """Probability (batch, head, query) of the patch at an offset of rows (down) and columns (right).

        NaN where that patch does not exist or does not count, and for queries that are no patches.
        """
        layout, grid = self.layout, self.layout.grid
        values = self.probabilities.new_full(self.probabilities.shape[:3], torch.nan)
        if grid is None or not layout.comparable:
            return values
        row, column = layout.places[self.span].T
        inside = (row + down >= 0) & (row + down < grid.rows)
        inside &= (column + right >= 0) & (column + right < grid.columns)
        query = inside.nonzero()[:, 0]
        key = query + self.offset + down * grid.columns + right
        kept = layout.keys.kept[:, None, key]
        values[:, :, query] = self.probabilities[:, :, query, key].where(kept, torch.nan)
        return values

    def at_offset(self, offset: int) -> Tensor:
        """Probability (batch, head, query) of the key ``offset`` places on; in an image, to the right.

        NaN where that key does not exist, is not seen, or does not count.
        """
        if self.layout.grid is not None:
            return self.at_step(0, offset)
        keys, behind = self.layout.keys, self.layout.causal and offset > 0
        if not self.layout.comparable or (behind and keys.mixed is None):
            return self.probabilities.new_full(self.probabilities.shape[:3], torch.nan)
        ahead = self.offset + offset
        diagonal, queries = self.probabilities.diagonal(ahead, 2, 3), self.probabilities.shape[2]
        first = min(max(0, -ahead), queries)
        stop = first + diagonal.shape[2]
        if not keys.all_kept:
            diagonal = diagonal.where(keys.kept[:, None, first + ahead : stop + ahead], torch.nan)
        values = torch.constant_pad_nd(diagonal, (first, queries - stop), torch.nan)
        if behind and keys.mixed is not None:  # but for tokens of an image that see each other
            values = values.where(keys.mixed.ahead[:, None, self.span] >= offset, torch.nan)
        return values

    def restricted(self) -> "AttentionBlock":
        """Return the block with 0 for keys that do not count, rows renormalised; NaN if no key is left."""
        keys, observed = self.layout.keys, self.observed
        if keys.all_kept:
            return self
        kept = keys.kept[:, None, None]
        left = self.probabilities * kept.to(self.probabilities.dtype)
        if observed.scores is not None:
            observed = replace(observed, scores=observed.scores.masked_fill(~kept, -torch.inf))
        return replace(self, probabilities=left / left.sum(-1, keepdim=True), observed=observed)

    def by_norm(self, lengths: Tensor) -> "AttentionBlock":
        """Weight each row by its keys' vector norms, and renormalise it: p_ij ||W_O,h v_j|| over its sum.

        Rows with sum 0, such as those of a zeroed head, become NaN. ``lengths`` are the norms from
        ``measure_lengths``, (batch, head, key). The new block keeps the sums as ``weighted``, and has no
        scores or outputs.

        Source: Kobayashi et al. (2020), Attention is not only a weight, section 3.
        """
        rows = self.probabilities * lengths.to(self.probabilities.dtype)[:, :, None]
        carried = rows.sum(-1)
        # Less than the smallest float32 of full precision is nothing, whatever the type.
        carried = carried.masked_fill(carried < torch.finfo(torch.float32).tiny, 0)
        scale = carried.where(carried != 0, torch.nan).reciprocal()
        rows = rows.mul_(scale[..., None]).clamp_(max=1)  # a row of one key must not come to more than 1
        observed = replace(self.observed, scores=None, outputs=None)  # which are about the rows as they were
        return replace(self, probabilities=rows, observed=observed, weighted=carried)
