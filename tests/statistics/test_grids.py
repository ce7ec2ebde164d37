"""Statistics of images, whose patches lie in rows and columns, against sums made by hand."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
import torch
from by_definition import in_rows_and_columns
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Grid, Layout
from attnprobe.attention.tokens import TokenFeatures
from attnprobe.statistics import Statistic, select_statistics

Number = Callable[[Statistic, AttentionBlock], Tensor]

POSITIONAL = select_statistics("positional")


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


@pytest.mark.parametrize("image", IMAGES, ids=str)
@pytest.mark.parametrize("content_only", [False, True], ids=["plain", "content-only"])
class TestByHand:
    """Loops over patches give the same."""

    def test_positional(self, image: Image, number: Number, content_only: bool):
        block = image.drawn(content_only=content_only)
        values = {statistic.name: number(statistic, block).double().numpy() for statistic in POSITIONAL}
        kept = np.flatnonzero(block.layout.keys.kept[0])
        rows = block.probabilities.double().numpy()[:, :, kept][..., kept]
        rows /= rows.sum(-1, keepdims=True)
        grid = image.grid.first, image.grid.rows, image.grid.columns
        expected = in_rows_and_columns(rows, kept, kept, grid)
        expected["offset_share"] = expected.pop("offsets")
        assert values.keys() == expected.keys()
        for name, of_heads in values.items():
            np.testing.assert_allclose(of_heads, expected[name], rtol=1e-5, atol=1e-6, err_msg=name)
