"""Ranks of matrices made by hand: limits, what counts, and blocks of queries."""

import pytest
import torch

from attnprobe.statistics.rank import MAP_RANK


def rank_of(s):
    return (s**2).sum() ** 2 / (s**4).sum()


class TestMaps:
    @pytest.mark.parametrize("n", [2, 8, 40])
    def test_permutation_and_uniform(self, number, block, n):
        assert number(MAP_RANK, block(torch.eye(n).roll(1, 0), torch.ones(n, n)))[
            0
        ].tolist() == pytest.approx([n, 1])

    @pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
    @pytest.mark.parametrize("content_only", [False, True])
    def test_by_singular_values(self, drawn, number, kind, content_only):
        whole = drawn(content_only=content_only, kind=kind)
        ranks, layout = number(MAP_RANK, whole), whole.layout
        for place in range(3):
            for head in range(4):
                rows = whole.probabilities[place, head][layout.queries.kept[place]][
                    :, layout.keys.kept[place]
                ]
                rows = rows.double() / rows.sum(1, keepdim=True)
                expected = rank_of(torch.linalg.svdvals(rows[~rows.isnan().any(1)]))
                assert ranks[place, head].item() == pytest.approx(expected.item(), rel=1e-5)
