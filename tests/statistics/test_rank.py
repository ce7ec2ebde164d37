"""Ranks of matrices made by hand: limits, what counts, and blocks of queries."""

from dataclasses import replace

import pytest
import torch

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.observed import Observed
from attnprobe.statistics import all_statistics
from attnprobe.statistics.rank import LOGIT_RANK, LONGER, MAP_RANK, QK_RANK
from attnprobe.sums.base import Constant

WIDTH = 5


def rank_of(s):
    return (s**2).sum() ** 2 / (s**4).sum()


@pytest.fixture
def observed(drawn):
    """Draw a block with queries and keys."""

    def draw(batch=2, heads=3, length=11, **options):
        whole = drawn(batch, heads, length, **options)
        generator = torch.Generator().manual_seed(3)
        sizes = whole.layout.queries.length, whole.layout.keys.length
        sides = [torch.randn(batch, heads, n, WIDTH, generator=generator) + 3 for n in sizes]
        return replace(whole, observed=Observed(queries=sides[0], keys=sides[1]))

    return draw


def by_singular_values(block):
    """Give the rank and its share of every sequence and head, from whole logits in float64."""
    layout, found = block.layout, []
    for place in range(len(block.queries)):
        asking, read = layout.queries.kept[place], layout.keys.kept[place]
        largest = min(WIDTH, int(asking.sum()), int(read.sum()) - 1)
        for query, key in zip(block.queries[place].double(), block.keys[place].double(), strict=True):
            logits = query[asking] @ key[read].T
            rank = rank_of(torch.linalg.svdvals(logits - logits.mean(1, keepdim=True)))
            found.append((float(rank), float(rank) / largest))
    return torch.tensor(found, dtype=torch.float64).view(*block.queries.shape[:2], 2)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("content_only", [False, True])
class TestLogits:
    def test_by_singular_values(self, observed, number, kind, content_only):
        block = observed(content_only=content_only, kind=kind)
        precise = replace(
            block,
            probabilities=block.probabilities.double(),
            observed=Observed(queries=block.queries.double(), keys=block.keys.double()),
        )
        expected = by_singular_values(block)
        torch.testing.assert_close(number(LOGIT_RANK, precise), expected, rtol=1e-12, atol=0)
        torch.testing.assert_close(number(LOGIT_RANK, block).double(), expected, rtol=1e-5, atol=0)
        kept = block.layout.keys.kept.sum(1)
        found = number(LONGER, block)
        assert torch.equal(found[..., 0], torch.full((2, 3), float(WIDTH)))
        assert torch.equal(found[..., 1], (kept > WIDTH).float()[:, None].expand(2, 3))


def alone(queries, keys, features):
    """Make a block of one sequence from queries and keys (head, token, width)."""
    from attnprobe.attention.layout import Layout

    heads, length = keys.shape[:2]
    rows = torch.full((1, heads, queries.shape[1], length), 1 / length, dtype=queries.dtype)
    layout = Layout(features(queries.shape[1]), features(length))
    return AttentionBlock(rows, layout, 0, Observed(queries=queries[None], keys=keys[None]))


def orthonormal(rows, columns, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(rows, columns, generator=generator, dtype=torch.float64))[0]


class TestLimits:
    @pytest.mark.parametrize("keys", [torch.ones(1, 1, 4), torch.full((1, 9, 4), 0.1), torch.zeros(1, 9, 4)])
    def test_nothing_to_prefer(self, number, features, keys):
        block = alone(torch.ones(1, 9, 4), keys, features)
        assert number(LOGIT_RANK, block).isnan().all()

    @pytest.mark.parametrize("size", [1e-9, 1e9])
    def test_size_changes_nothing(self, number, features, size):
        """Also where sums of fourth powers would leave single precision."""
        sides = [orthonormal(30, 4, seed).float()[None] for seed in (0, 1)]
        expected = number(LOGIT_RANK, alone(*sides, features))
        found = number(LOGIT_RANK, alone(*(side * size for side in sides), features))
        torch.testing.assert_close(found, expected)


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
        found, layout = number(MAP_RANK, whole), whole.layout
        for place in range(3):
            for head in range(4):
                rows = whole.probabilities[place, head][layout.queries.kept[place]][
                    :, layout.keys.kept[place]
                ]
                rows = rows.double() / rows.sum(1, keepdim=True)
                expected = rank_of(torch.linalg.svdvals(rows[~rows.isnan().any(1)]))
                assert found[place, head].item() == pytest.approx(expected.item(), rel=1e-5)


class TestWeights:
    def test_kept_as_constants(self):
        assert {one.name for one in all_statistics().values() if one.sums is Constant} == {
            "qk_rank",
            "qk_top_half",
        }
        assert QK_RANK.scope == "parameters"
