"""AttentionBlock: the one thing every statistic sees. It refuses malformed input."""

from dataclasses import dataclass, fields, replace
from functools import cached_property

import torch
from torch import Tensor

from attnprobe.kernels.divergence import pairwise_divergence
from attnprobe.kernels.rows import RowSummary, summarise_rows


@dataclass(frozen=True)
class TokenFeatures:
    """What is known about the tokens of a batch of equally long sequences.

    Every attribute but the last is a boolean tensor (batch, position).

    Attributes:
        first: The leading special token ([CLS], <s>, or the model's own).
        separator: [SEP], </s>, or the model's own.
        punctuation: Ordinary tokens that are nothing but punctuation.
        other: Every other ordinary token.
        rare: Ordinary tokens of the rare types of the corpus.
        kept: Tokens that count as queries and keys; all of them, unless content only.
        rank: (batch, position) frequency rank in the corpus, 0 for the most frequent type;
            -1 for special tokens, which are not candidates.
    """

    first: Tensor
    separator: Tensor
    punctuation: Tensor
    other: Tensor
    rare: Tensor
    kept: Tensor
    rank: Tensor

    #: The features on which a block measures attention mass, in the order of the kernel.
    MASSES = ("first", "separator", "punctuation", "other", "rare")

    def __post_init__(self) -> None:
        """Refuse features that do not all describe the same (batch, position)."""
        shapes = {field.name: tuple(getattr(self, field.name).shape) for field in fields(self)}
        if len(set(shapes.values())) != 1 or self.kept.ndim != 2:
            raise ValueError(f"token features must all be (batch, position), got {shapes}")

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return self.kept.shape[0]

    @property
    def length(self) -> int:
        """Tokens in each sequence, special tokens included."""
        return self.kept.shape[1]

    @property
    def special(self) -> Tensor:
        """Tokens that frame the text instead of being part of it."""
        return self.first | self.separator

    @cached_property
    def all_kept(self) -> bool:
        """Whether every token counts."""
        return bool(self.kept.all())

    @cached_property
    def indicators(self) -> Tensor:
        """The features of ``MASSES`` as float32 (batch, feature, position)."""
        return torch.stack([getattr(self, name) for name in self.MASSES], 1).float()

    def rows(self, start: int, stop: int) -> "TokenFeatures":
        """Select some sequences of the batch."""
        return TokenFeatures(*(getattr(self, field.name)[start:stop] for field in fields(self)))

    def to(self, device: torch.device | str) -> "TokenFeatures":
        """Move to a device."""
        return TokenFeatures(*(getattr(self, field.name).to(device) for field in fields(self)))


@dataclass(frozen=True)
class Grid:
    """Where the patches of an image are among its tokens: row by row, one after the other.

    Attributes:
        first: Position of the first patch.
        rows: Rows of patches.
        columns: Patches in a row.
    """

    first: int
    rows: int
    columns: int

    def __len__(self) -> int:
        """Give the number of patches."""
        return self.rows * self.columns

    def places(self, length: int) -> Tensor:
        """Give row and column of each token, (position, 2); NaN for those that are no patches."""
        found = torch.full((length, 2), torch.nan)
        patches = torch.arange(len(self))
        coordinates = torch.stack([patches // self.columns, patches % self.columns], 1)
        found[self.first : self.first + len(self)] = coordinates.float()
        return found


@dataclass(frozen=True)
class Layout:
    """Which queries attend to which keys, in a batch of equally long sequences.

    Attributes:
        queries: What is known about the tokens that attend.
        keys: What is known about the tokens they attend to; the same ones in self-attention.
        causal: Whether a query sees itself and what comes before it, as in decoders, instead of every key.
        grid: Where the patches are, if the tokens are those of an image.
        placed: Whether the order of tokens says where they are.
    """

    queries: TokenFeatures
    keys: TokenFeatures
    causal: bool = False
    grid: Grid | None = None
    placed: bool = True

    @classmethod
    def of(
        cls, tokens: TokenFeatures, *, causal: bool = False, grid: Grid | None = None, placed: bool = True
    ) -> "Layout":
        """Lay out self-attention."""
        return cls(tokens, tokens, causal, grid, placed)

    def __post_init__(self) -> None:
        """Refuse sides that don't fit together."""
        if self.queries.batch != self.keys.batch:
            raise ValueError(f"{self.queries.batch} sequences can't attend to {self.keys.batch}")
        if self.causal and self.queries.length != self.keys.length:
            raise ValueError("only tokens of one sequence come before or after each other")

    @property
    def crossed(self) -> bool:
        """Whether tokens of one sequence attend to those of another."""
        return self.queries is not self.keys

    @property
    def comparable(self) -> bool:
        """Whether the places of queries and keys compare."""
        return self.placed and not self.crossed

    @cached_property
    def visible(self) -> Tensor:
        """How many keys that count each query sees, (batch, query) or, if alike for all, (batch, 1)."""
        return self.seen(self.keys.kept)

    def seen(self, feature: Tensor) -> Tensor:
        """Count the keys with a feature (batch, key) that each query sees; (batch, query) or (batch, 1)."""
        counted = feature.cumsum(1)
        return counted if self.causal else counted[:, -1:]

    def furthest(self, values: Tensor) -> Tensor:
        """Find the largest value (batch, key) that each query sees; (batch, query) or (batch, 1)."""
        return values.cummax(1).values if self.causal else values.amax(1, keepdim=True)

    @cached_property
    def uniform_distance(self) -> Tensor:
        """Mean distance (batch, query) to all keys in sight that count; NaN outside of an image's grid."""
        if self.grid is not None:
            patches = (self.keys.kept & ~self.apart[self.grid.first].isnan()).float()
            return (patches @ self.apart.nan_to_num() / patches.sum(1, keepdim=True)).where(
                ~self.places[:, 0].isnan(), torch.nan
            )
        kept = self.keys.kept.cpu().double()
        place = torch.arange(kept.shape[1], dtype=kept.dtype)
        number, reach = kept.cumsum(1), (kept * place).cumsum(1)
        distance, count = place * number - reach, number
        if not self.causal:
            count = number[:, -1:]
            distance = distance + (reach[:, -1:] - reach) - place * (count - number)
        return (distance / count).float().to(self.keys.kept.device)

    def rows(self, start: int, stop: int) -> "Layout":
        """Select some sequences of the batch."""
        keys = self.keys.rows(start, stop)
        return replace(self, queries=self.queries.rows(start, stop) if self.crossed else keys, keys=keys)

    def to(self, device: torch.device | str) -> "Layout":
        """Move to a device."""
        keys = self.keys.to(device)
        return replace(self, queries=self.queries.to(device) if self.crossed else keys, keys=keys)

    @cached_property
    def places(self) -> Tensor:
        """Row and column of each token of an image, (position, 2); NaN for those that are no patches."""
        if self.grid is None:
            raise ValueError("only tokens of an image lie in rows and columns")
        return self.grid.places(self.keys.length).to(self.keys.kept.device)

    @cached_property
    def apart(self) -> Tensor:
        """Distance of every two patches of an image, (position, position), in patches."""
        return (self.places[:, None] - self.places).square().sum(-1).sqrt()


@dataclass(frozen=True)
class AttentionBlock:
    """Attention of some consecutive queries of some sequences to all their keys. No padding.

    Attributes:
        probabilities: (batch, head, query, key); every row sums to 1.
        layout: Which queries attend to which keys in these sequences.
        offset: Position in the sequence of the first query of the block.
    """

    probabilities: Tensor
    layout: Layout
    offset: int = 0

    def __post_init__(self) -> None:
        """Refuse shapes that do not fit together, naming the axes."""
        shape, keys = tuple(self.probabilities.shape), self.layout.keys
        if len(shape) != 4:
            raise ValueError(f"attention must be (batch, head, query, key), got {shape}")
        if (shape[0], shape[3]) != (keys.batch, keys.length):
            raise ValueError(
                f"attention (batch, head, query, key) = {shape} does not fit tokens "
                f"(batch, position) = {(keys.batch, keys.length)}"
            )
        if not 0 <= self.offset <= self.layout.queries.length - shape[2]:
            raise ValueError(f"queries {self.offset} to {self.offset + shape[2]} reach outside the sequence")

    @cached_property
    def summary(self) -> RowSummary:
        """Entropy, maximum, argmax, distance and masses of every row, in one pass."""
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
        """Mean distance (batch, head, query) of what a query looks at, in tokens.

        Of an image, in patches, over what goes to its patches.
        """
        if self.layout.grid is None:
            return self.summary.distance
        rows = slice(self.offset, self.offset + self.probabilities.shape[2])
        apart = self.layout.apart[rows].to(self.probabilities.dtype)
        mass = (self.probabilities * (~apart.isnan())).sum(-1)
        return torch.einsum("bhqk,qk->bhq", self.probabilities, apart.nan_to_num()) / mass

    def at_step(self, down: int, right: int) -> Tensor:
        """Probability (batch, head, query) of the patch some rows below and some columns to the right.

        NaN where that patch does not exist or does not count, and for queries that are no patches.
        """
        layout, grid = self.layout, self.layout.grid
        found = self.probabilities.new_full(self.probabilities.shape[:3], torch.nan)
        if grid is None:
            return found
        row, column = layout.places[self.offset : self.offset + found.shape[2]].T
        inside = (row + down >= 0) & (row + down < grid.rows)
        inside &= (column + right >= 0) & (column + right < grid.columns)
        query = inside.nonzero()[:, 0]
        key = query + self.offset + down * grid.columns + right
        kept = layout.keys.kept[:, None, key]
        found[:, :, query] = self.probabilities[:, :, query, key].where(kept, torch.nan)
        return found

    def at_offset(self, offset: int) -> Tensor:
        """Probability (batch, head, query) of the key ``offset`` places after the query.

        NaN where that key does not exist, is not seen, or does not count. Of an image, the places are
        those of the same row.
        """
        if self.layout.grid is not None:
            return self.at_step(0, offset)
        found = self.probabilities.new_full(self.probabilities.shape[:3], torch.nan)
        if not self.layout.comparable or (self.layout.causal and offset > 0):
            return found
        ahead = self.offset + offset
        diagonal = self.probabilities.diagonal(ahead, 2, 3)
        first = max(0, -ahead)
        inside = slice(first, first + diagonal.shape[2])
        keys = self.layout.keys
        if not keys.all_kept:
            kept = keys.kept[:, None, inside.start + ahead : inside.stop + ahead]
            diagonal = diagonal.where(kept, torch.nan)
        found[:, :, inside] = diagonal
        return found

    def restricted(self) -> "AttentionBlock":
        """Drop the keys that do not count and renormalise each row over what is left.

        Rows with nothing left become NaN. Without such keys the block is returned as it is.
        """
        keys = self.layout.keys
        if keys.all_kept:
            return self
        left = self.probabilities * keys.kept[:, None, None].to(self.probabilities.dtype)
        return AttentionBlock(left / left.sum(-1, keepdim=True), self.layout, self.offset)


def uniform_block(length: int, *, heads: int = 1, tokens: TokenFeatures | None = None) -> AttentionBlock:
    """Build attention that prefers nothing, the yardstick of every ratio and lift."""
    if tokens is None:
        no = torch.zeros(1, length, dtype=torch.bool)
        tokens = TokenFeatures(no, no, no, ~no, no, ~no, torch.zeros(1, length, dtype=torch.long))
    rows = torch.full((tokens.batch, heads, length, length), 1 / length)
    return AttentionBlock(rows, Layout.of(tokens))
