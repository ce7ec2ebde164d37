"""What every statistic promises, whichever it is; a new one is tested by being found."""

import itertools
from collections.abc import Callable

import pytest
import torch
from block_parts import in_double, in_every_way, of_heads, of_sequences
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.statistics import Statistic, all_statistics
from attnprobe.statistics.statistic import weight_by_norm

Drawn = Callable[..., AttentionBlock]
Number = Callable[[Statistic, AttentionBlock], Tensor]
Shown = Callable[[Statistic, AttentionBlock], AttentionBlock]
Pieced = Callable[[Statistic, AttentionBlock, tuple[int, ...]], Tensor]

#: Those that look at blocks; links are asked otherwise, see tests/statistics/links, and for weights of the
#: model see tests/survey/test_rank.py.
BLOCKS = [one for one in all_statistics().values() if one.scope not in {"links", "parameters"}]
#: Some of them about attention weighted by what it carries, which is another block to the same functions.
WEIGHTED = [
    weight_by_norm(all_statistics()[name])
    for name in (
        "entropy",
        "previous",
        "offset_share",
        "first",
        "sink_share",
        "rare_lift",
        "jsd_mean",
    )
]
of_blocks = pytest.mark.parametrize("statistic", [*BLOCKS, *WEIGHTED], ids=lambda s: s.name)
WAYS = {"content_only": [False, True], "kind": ["encoder", "decoder", "cross"]}


@of_blocks
class TestEvery:
    """Tests that every statistic takes."""

    @in_every_way(**WAYS)
    def test_a_sequence_is_alone_in_its_batch(
        self, statistic: Statistic, drawn: Drawn, number: Number, content_only: bool, kind: str
    ):
        whole = drawn(4, 3, 10, content_only=content_only, kind=kind)
        together = number(statistic, whole)
        for place in range(4):
            alone = of_sequences(whole, place, place + 1)
            torch.testing.assert_close(number(statistic, alone)[0], together[place], equal_nan=True)

    @in_every_way(**WAYS, cuts=[(1,), (5,), (2, 3, 7)])
    def test_blocks_of_queries_make_the_whole(
        self, statistic: Statistic, drawn: Drawn, shown: Shown, pieced: Pieced, content_only: bool,
        kind: str, cuts: tuple[int, ...],
    ):  # fmt: skip
        whole = drawn(2, 3, 10, content_only=content_only, kind=kind)
        for block in (whole, in_double(whole)):  # in the compiled loops, and in torch
            expected = statistic(shown(statistic, block))
            torch.testing.assert_close(pieced(statistic, block, cuts), expected, equal_nan=True)

    @in_every_way(**WAYS)
    def test_heads_in_another_order(
        self, statistic: Statistic, drawn: Drawn, number: Number, content_only: bool, kind: str
    ):
        whole = drawn(2, 4, 9, content_only=content_only, kind=kind)
        order = [2, 0, 3, 1]
        values, before = number(statistic, of_heads(whole, order)), number(statistic, whole)
        if statistic.rows == "pair":
            pairs = list(itertools.combinations(range(4), 2))
            moved = [pairs.index(tuple(sorted((order[a], order[b])))) for a, b in pairs]
        else:
            moved = [0] if statistic.rows == "layer" else order
        torch.testing.assert_close(values, before[:, moved], equal_nan=True)

    @in_every_way(**WAYS)
    def test_precision_does_not_matter(
        self, statistic: Statistic, drawn: Drawn, number: Number, content_only: bool, kind: str
    ):
        """The compiled float32 loops and the float64 path of torch agree."""
        whole = drawn(2, 3, 24, content_only=content_only, kind=kind)
        values = number(statistic, whole).double()
        expected = number(statistic, in_double(whole)).double()
        torch.testing.assert_close(values, expected, rtol=1e-5, atol=1e-6, equal_nan=True)
