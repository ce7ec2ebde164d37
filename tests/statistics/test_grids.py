"""Statistics of images, whose patches lie in rows and columns, against sums made by hand."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import pytest
import torch
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Grid, Layout
from attnprobe.attention.tokens import TokenFeatures
from attnprobe.statistics import Statistic, select_statistics
from attnprobe.statistics.positional import FURTHEST_STEP

Number = Callable[[Statistic, AttentionBlock], Tensor]

STEPS = range(-FURTHEST_STEP, FURTHEST_STEP + 1)
POSITIONAL = select_statistics("positional")
#: Where a neighbour lies, in rows below and columns to the right.
NEIGHBOURS = {"previous": (0, -1), "self": (0, 0), "next": (0, 1), "above": (-1, 0), "below": (1, 0)}


@dataclass(frozen=True)
class Image:
    """Tokens of an image: some in front of the patches ([CLS], ...), some behind them."""

    grid: Grid
    behind: int = 0

    def __str__(self) -> str:
        return f"{self.grid.first}+{self.grid.rows}x{self.grid.columns}+{self.behind}"

    @cached_property
    def patches(self) -> list[tuple[int, int]]:
        return list(itertools.product(range(self.grid.rows), range(self.grid.columns)))

    @property
    def length(self) -> int:
        return self.grid.first + len(self.patches) + self.behind

    def at(self, row: int, column: int) -> int | None:
        """Give the position of a patch, None for one beyond the border."""
        inside = 0 <= row < self.grid.rows and 0 <= column < self.grid.columns
        return self.grid.first + row * self.grid.columns + column if inside else None

    def layout(self, batch: int = 1, *, content_only: bool = False) -> Layout:
        patch = torch.zeros(batch, self.length, dtype=torch.bool)
        for place in self.patches:
            patch[:, self.at(*place)] = True
        no, first = torch.zeros_like(patch), torch.zeros_like(patch)
        first[:, 0] = ~patch[:, 0]
        rank = torch.where(patch, torch.arange(self.length), -1)
        kept = patch if content_only else torch.ones_like(patch)
        tokens = TokenFeatures(first, ~patch & ~first, no, patch, no.float(), kept, rank, rank)
        return Layout.of(tokens, grid=self.grid)

    def drawn(
        self, batch: int = 2, heads: int = 3, *, content_only: bool = False, seed: int = 0
    ) -> AttentionBlock:
        """Draw whole images; the heads look more and more at the neighbourhood of a patch."""
        generator = torch.Generator().manual_seed(seed)
        scores = torch.randn(batch, heads, self.length, self.length, generator=generator)
        sharpness = torch.arange(heads)[:, None, None] / heads
        patches = slice(self.grid.first, self.grid.first + len(self.patches))
        places = torch.tensor(self.patches, dtype=torch.float32)
        scores[:, :, patches, patches] += 2.5 - sharpness * torch.cdist(places, places)
        layout = self.layout(batch, content_only=content_only)
        return AttentionBlock((1.5 * scores).softmax(-1), layout)


IMAGES = [
    Image(Grid(1, 3, 4)),
    Image(Grid(1, 3, 3), behind=2),
    Image(Grid(2, 5, 2), behind=1),
    Image(Grid(1, 1, 6)),
    Image(Grid(1, 1, 1)),
    Image(Grid(1, 2, 20)),  # patches further apart than steps are told
]


def mean(values: list[float]) -> float:
    """Average what is defined; NaN where nothing is."""
    values = [value for value in values if not math.isnan(value)]
    return sum(values) / len(values) if values else math.nan


def by_hand(image: Image, rows: list[list[float]], kept: list[bool]) -> dict[str, list[float]]:
    """Compute every positional statistic of a head in an image, patch by patch."""
    weights = []
    for row in rows:
        left = [p if keep else 0.0 for p, keep in zip(row, kept, strict=True)]
        weights.append([p / sum(left) if sum(left) else math.nan for p in left])
    found = {}
    for name, (down, right) in NEIGHBOURS.items():
        there = [(image.at(*patch), image.at(patch[0] + down, patch[1] + right)) for patch in image.patches]
        found[name] = [mean([weights[query][key] for query, key in there if key is not None])]

    distances, uniform = [], []
    for patch in image.patches:
        row = weights[image.at(*patch)]
        on_patches = sum(row[image.at(*other)] for other in image.patches)
        spans = [(row[image.at(*other)], math.dist(patch, other)) for other in image.patches]
        distances.append(sum(p * span for p, span in spans) / on_patches if on_patches else math.nan)
        uniform.append(mean([span for _, span in spans]))
    found["attention_distance"] = [mean(distances)]
    yardstick = mean(uniform)
    found["attention_distance_ratio"] = [mean(distances) / yardstick if yardstick else math.nan]

    asking = [patch for patch in image.patches if not math.isnan(weights[image.at(*patch)][0])]
    found["offset_share"] = []
    for down, right in itertools.product(STEPS, STEPS):
        there = [(image.at(*patch), image.at(patch[0] + down, patch[1] + right)) for patch in asking]
        there = [(query, key) for query, key in there if key is not None]
        hits = sum(weights[query].index(max(weights[query])) == key for query, key in there)
        usable = there and 2 * len(there) >= len(asking)
        found["offset_share"].append(hits / len(there) if usable else math.nan)
    return found


@pytest.mark.parametrize("image", IMAGES, ids=str)
@pytest.mark.parametrize("content_only", [False, True], ids=["plain", "content-only"])
class TestByHand:
    """Loops over patches give the same."""

    def test_positional(self, image: Image, number: Number, content_only: bool):
        block = image.drawn(content_only=content_only)
        kept = block.layout.keys.kept[0].tolist()
        found = {statistic.name: number(statistic, block) for statistic in POSITIONAL}
        for sequence, head in itertools.product(range(2), range(3)):
            expected = by_hand(image, block.probabilities[sequence, head].double().tolist(), kept)
            assert found.keys() == expected.keys()
            for name, values in found.items():
                ours = values[sequence, head].reshape(-1).double()
                theirs = torch.tensor(expected[name], dtype=torch.float64)
                torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True, msg=name)
