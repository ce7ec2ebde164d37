"""Which queries attend to which keys, and where they are."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

from attnprobe.attention.tokens import TokenAnnotation, TokenFeatures

Known = TypeVar("Known")


@dataclass(frozen=True)
class Grid:
    """The patches of an image among its tokens: row by row, from position ``first`` on."""

    first: int
    rows: int
    columns: int

    def __len__(self) -> int:
        return self.rows * self.columns

    def places(self, length: int) -> Tensor:
        """Compute row and column of each token, (position, 2); NaN for those that are no patches."""
        places = torch.full((length, 2), torch.nan)
        patches = torch.cartesian_prod(torch.arange(self.rows), torch.arange(self.columns))
        places[self.first : self.first + len(self)] = patches.float()
        return places


@dataclass(frozen=True)
class Layout:
    """Which queries attend to which keys, in a batch of equally long sequences."""

    queries: TokenFeatures
    keys: TokenFeatures  # the same object as ``queries`` in self-attention
    causal: bool = False  # a query sees itself and what comes before it, as in decoders, not every key
    grid: Grid | None = None
    placed: bool = True  # the order of tokens says where they are
    annotations: tuple[TokenAnnotation | None, ...] = ()  # of each sequence; empty where none is needed
    shifted: bool = False  # as in a decoder beside an encoder, each token is predicted one place before

    @classmethod
    def of(cls, tokens: TokenFeatures, **options: Any) -> "Layout":
        """Lay out self-attention."""
        return cls(tokens, tokens, **options)

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
        return self._in_sight(counted) if self.causal else counted[:, -1:]

    def furthest(self, values: Tensor) -> Tensor:
        """Find the largest value (batch, key) that each query sees; (batch, query) or (batch, 1)."""
        return self._in_sight(values.cummax(1).values) if self.causal else values.amax(1, keepdim=True)

    def hide(self, pairs: Tensor) -> Tensor:
        """Return boolean pairs (batch, query, key) with False where the query does not see the key."""
        if not self.causal:
            return pairs
        if self.keys.mixed is None:
            return pairs.tril()
        place = torch.arange(pairs.shape[2], device=pairs.device)
        return pairs & (place <= self.keys.mixed.sees[..., None])

    def _in_sight(self, running: Tensor) -> Tensor:
        """Read what is known up to each key (batch, key) where the sight of each query ends."""
        return running if self.keys.mixed is None else running.gather(1, self.keys.mixed.sees)

    @cached_property
    def uniform_distance(self) -> Tensor:
        """Mean distance (batch, query) to all keys in sight that count; of an image, NaN off patches."""
        if self.grid is not None:
            patches = (self.keys.kept & ~self.distances[self.grid.first].isnan()).float()
            return (patches @ self.distances.nan_to_num() / patches.sum(1, keepdim=True)).where(
                ~self.places[:, 0].isnan(), torch.nan
            )
        kept = self.keys.kept.cpu().double()
        place = torch.arange(kept.shape[1], dtype=kept.dtype)
        number, reach = kept.cumsum(1), (kept * place).cumsum(1)
        distance, count = place * number - reach, number
        mixed = self.keys.mixed
        if not self.causal or mixed is not None:
            last = torch.tensor([[len(place) - 1]]) if mixed is None or not self.causal else mixed.sees.cpu()
            last = last.expand(len(kept), -1)
            count = number.gather(1, last)
            distance = distance + (reach.gather(1, last) - reach) - place * (count - number)
        return (distance / count).float().to(self.keys.kept.device)

    def rows(self, start: int, stop: int) -> "Layout":
        """Select some sequences of the batch."""
        keys = self.keys.rows(start, stop)
        queries = self.queries.rows(start, stop) if self.crossed else keys
        return replace(self, queries=queries, keys=keys, annotations=self.annotations[start:stop])

    def to(self, device: torch.device | str) -> "Layout":
        keys = self.keys.to(device)
        return replace(self, queries=self.queries.to(device) if self.crossed else keys, keys=keys)

    def once(self, find: Callable[["Layout"], Known]) -> Known:
        """Call a function with this layout, once for all blocks that have it."""
        if find not in self._known:
            self._known[find] = find(self)
        return self._known[find]

    @cached_property
    def _known(self) -> dict[Callable[["Layout"], Any], Any]:
        return {}

    @cached_property
    def places(self) -> Tensor:
        """Row and column of each token of an image, (position, 2); NaN for those that are no patches."""
        if self.grid is None or not self.comparable:
            raise ValueError("only tokens of an image lie in rows and columns")
        return self.grid.places(self.keys.length).to(self.keys.kept.device)

    @cached_property
    def distances(self) -> Tensor:
        """Distance of every two patches of an image, (position, position), in patches."""
        return (self.places[:, None] - self.places).square().sum(-1).sqrt()
