"""Attention made by hand, whose numbers follow from the definitions by thought alone."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.statistics import all_statistics, census_statistics
from attnprobe.statistics.positional import FURTHEST

Block = Callable[..., AttentionBlock]
Ask = Callable[..., "float | list[float]"]
N = 8
#: One number a head; shares at offsets are many.
OF_A_HEAD = [s.name for s in census_statistics() if s.name != "offset_share"]


@pytest.fixture
def ask(number: Callable[..., Tensor]) -> Ask:
    """Ask for a statistic by name: one number a head, or the number itself of a single head."""

    def name(statistic: str, block: AttentionBlock) -> float | list[float]:
        values = number(all_statistics()[statistic], block)[0].tolist()
        return values[0] if len(values) == 1 else values

    return name


@pytest.fixture
def shares(number: Callable[..., Tensor]) -> Callable[[AttentionBlock], dict[int, float]]:
    """Ask a single head for its defined shares at offsets."""

    def ask(block: AttentionBlock) -> dict[int, float]:
        values = number(all_statistics()["offset_share"], block)[0, 0].tolist()
        return {place - FURTHEST: value for place, value in enumerate(values) if not math.isnan(value)}

    return ask


def uniform(n: int) -> Tensor:
    return torch.ones(n, n)


def looks_at(key: int, n: int = N) -> Tensor:
    rows = torch.zeros(n, n)
    rows[:, key] = 1
    return rows


def near(value: float) -> object:
    return pytest.approx(value, abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("n", [2, 3, 8, 33])
def test_uniform_one_hot_and_diagonal_attention(ask: Ask, block: Block, n: int):
    """Of the distance, the mean of |i - j| over all pairs is (n^2 - 1) / 3n."""
    heads = block(uniform(n), looks_at(n - 1, n), torch.eye(n), rare=(0,))
    expected = {
        "entropy": [math.log(n), 0, 0],
        "entropy_normalized": [1, 0, 0],
        "entropy_first": [math.log(n), 0, 0],
        "confidence": [1 / n, 1, 1],
        "previous": [1 / n, 0, 0],
        "self": [1 / n, 1 / n, 1],
        "next": [1 / n, 1 / (n - 1), 0],
        "attention_distance": [(n * n - 1) / (3 * n), (n - 1) / 2, 0],
        "rare_mass": [1 / n, 0, 1 / n],
        "rare_lift": [1, 0, 1],
    }
    assert {name: ask(name, heads) for name in expected} == {name: near(of) for name, of in expected.items()}


def test_of_a_token_that_comes_three_times_each_copy_looks_back_to_the_last(ask: Ask, block: Block):
    order, rows = [-1, 7, 7, 3, 7, -1], torch.arange(1, 37).reshape(6, 6)
    shares = (rows / rows.sum(-1, keepdim=True)).tolist()
    again = block(rows, first=(0,), separator=(5,), rank=[0, 7, 7, 3, 7, 0], order=order)
    assert ask("duplicate", again) == near((shares[2][1] + shares[4][2]) / 2)
    assert ask("induction", again) == near((shares[2][2] + shares[4][3]) / 2)


def test_offsets_count_where_they_exist_for_half_of_the_queries(
    shares: Callable[..., dict[int, float]], block: Block
):
    assert sorted(shares(block(uniform(N)))) == list(range(-N // 2, N // 2 + 1))
    assert sorted(shares(block(uniform(N + 1)))) == list(range(-N // 2, N // 2 + 1))
    assert sorted(shares(block(uniform(200)))) == list(range(-FURTHEST, FURTHEST + 1))


def test_offsets_are_counted_over_queries_that_have_such_a_key(
    shares: Callable[..., dict[int, float]], block: Block
):
    """Looking at the first token: one query of n - d has it d places before."""
    values = shares(block(looks_at(0)))
    assert values == {offset: near(1 / (N - abs(offset)) if offset <= 0 else 0) for offset in range(-4, 5)}


def test_ties_go_to_the_first_key(ask: Ask, shares: Callable[..., dict[int, float]], block: Block):
    tied = torch.zeros(N, N)
    tied[:, [2, 5]] = 1
    assert ask("confidence", block(tied)) == near(0.5)
    assert ask("rarest_share", block(tied, rank=[9, 8, 7, 6, 5, 10, 3, 2])) == 0  # the rarest is 5
    assert ask("rarest_share", block(tied, rank=[9, 8, 10, 6, 5, 7, 3, 2])) == 1  # now it is 2
    assert ask("sink_share", block(tied, separator=(2,))) == 1
    assert ask("sink_share", block(tied, separator=(5,))) == 0
    assert shares(block(tied)) == shares(block(looks_at(2)))


class TestRare:
    """Which tokens are the rarest."""

    def test_of_equally_rare_tokens_any_will_do(self, ask: Ask, block: Block):
        """Ranks say how many types are more frequent; the order says which are different types."""
        rank, order = [0, 600, 7, 600, 2, 3, 550, 7], [0, 600, 7, 601, 2, 3, 550, 7]
        for key in range(8):
            planted = block(looks_at(key), rank=rank, order=order)
            assert ask("rarest_share", planted) == (key in {1, 3})
            assert ask("rarest_two_share", planted) == (key in {1, 3})  # two of them are the two rarest
            # Of two types, one is the most frequent of all.
            assert ask("rarest_two_share", block(looks_at(key), rank=[0, 600] * 4)) == 1


class TestSmall:
    """The smallest texts and layers."""

    @pytest.mark.parametrize(("statistic", "expected"), [
        ("entropy", 0), ("entropy_normalized", math.nan), ("entropy_first", 0), ("confidence", 1),
        ("previous", math.nan), ("self", 1), ("next", math.nan), ("attention_distance", 0),
        ("attention_distance_ratio", math.nan), ("first", math.nan), ("punctuation", 0), ("other", 1),
        ("sink_share", 1), ("rare_mass", 1), ("rare_lift", 1), ("rarest_share", 1), ("rarest_two_share", 1),
    ])  # fmt: skip
    def test_single_token(self, ask: Ask, block: Block, statistic: str, expected: float):
        assert ask(statistic, block(torch.ones(1, 1), rare=(0,), rank=[500])) == near(expected)

    def test_single_head_has_no_other(self, ask: Ask, block: Block):
        assert ask("jsd", block(uniform(N))) == []
        assert math.isnan(ask("jsd_mean", block(uniform(N))))
        assert math.isnan(ask("jsd_layer", block(uniform(N))))


@pytest.mark.parametrize("n", [3, 32, 33])
@pytest.mark.parametrize("statistic", OF_A_HEAD)
def test_a_head_with_nothing_left_says_nothing(ask: Ask, block: Block, n: int, statistic: str):
    """All probability on [SEP]: 0 / 0 is no attention; the other head is not touched by that."""
    marks = {"first": (0,), "separator": (n - 1,), "content_only": True, "rare": (1,)}
    rank = [600] * n
    sunk = block(looks_at(n - 1, n), uniform(n), **marks, rank=rank)
    assert math.isnan(ask(statistic, sunk)[0])
    if not statistic.startswith("jsd"):
        alone = ask(statistic, block(uniform(n), **marks, rank=rank))
        assert ask(statistic, sunk)[1] == near(alone)
