"""Attention made by hand, whose numbers follow from the definitions by thought alone."""

import math
from collections.abc import Callable
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.statistics import all_statistics, census_statistics
from attnprobe.statistics.positional import FURTHEST

Block = Callable[..., AttentionBlock]
Ask = Callable[..., "float | list[float]"]
LENGTHS = (2, 3, 8, 33, 100)
N = 8
#: One number a head; shares at offsets are many.
OF_A_HEAD = [s.name for s in census_statistics() if s.name != "offset_share"]


@pytest.fixture
def ask(number: Callable[..., Tensor]) -> Ask:
    """Ask for a statistic by name: one number a head, or the number itself of a single head."""

    def name(statistic: str, block: AttentionBlock) -> float | list[float]:
        found = number(all_statistics()[statistic], block)[0].tolist()
        return found[0] if len(found) == 1 else found

    return name


@pytest.fixture
def shares(number: Callable[..., Tensor]) -> Callable[[AttentionBlock], dict[int, float]]:
    """Ask a single head for its defined shares at offsets."""

    def ask(block: AttentionBlock) -> dict[int, float]:
        found = number(all_statistics()["offset_share"], block)[0, 0].tolist()
        return {place - FURTHEST: value for place, value in enumerate(found) if not math.isnan(value)}

    return ask


def uniform(n: int) -> Tensor:
    return torch.ones(n, n)


def looks_at(key: int, n: int = N) -> Tensor:
    rows = torch.zeros(n, n)
    rows[:, key] = 1
    return rows


def shifted(by: int, n: int = N, edge: int = 0) -> Tensor:
    """Look ``by`` tokens further on; where there is no such token, at ``edge``."""
    rows = torch.zeros(n, n)
    for query in range(n):
        key = query + by
        rows[query, key if 0 <= key < n else edge] = 1
    return rows


def near(value: float) -> object:
    return pytest.approx(value, abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("n", LENGTHS)
class TestUniform:
    """A head that prefers nothing."""

    def test_entropy(self, ask: Ask, block: Block, n: int):
        assert ask("entropy", block(uniform(n))) == near(math.log(n))
        assert ask("entropy_normalized", block(uniform(n))) == near(1)
        assert ask("entropy_first", block(uniform(n))) == near(math.log(n))

    @pytest.mark.parametrize("statistic", ["confidence", "previous", "self", "next"])
    def test_one_key_gets_its_share(self, ask: Ask, block: Block, n: int, statistic: str):
        assert ask(statistic, block(uniform(n))) == near(1 / n)

    def test_distance(self, ask: Ask, block: Block, n: int):
        """The mean of |i - j| over all pairs is (n^2 - 1) / 3n."""
        assert ask("attention_distance", block(uniform(n))) == pytest.approx((n * n - 1) / (3 * n), rel=1e-6)
        assert ask("attention_distance_ratio", block(uniform(n))) == near(1)

    def test_rare(self, ask: Ask, block: Block, n: int):
        assert ask("rare_mass", block(uniform(n), rare=(n - 1,))) == near(1 / n)
        assert ask("rare_lift", block(uniform(n), rare=(n - 1,))) == near(1)
        assert ask("rare_lift", block(uniform(n), rare=(0, n - 1))) == near(1)

    def test_special(self, ask: Ask, block: Block, n: int):
        marked = block(uniform(n), first=(0,), separator=(n - 1,))
        assert ask("first", marked) == near(1 / n)
        assert ask("separator", marked) == near(1 / n)
        assert ask("punctuation", marked) == 0
        assert ask("other", marked) == near((n - 2) / n)


@pytest.mark.parametrize("n", LENGTHS)
class TestOneHot:
    """Heads that look at a single key."""

    def test_no_entropy(self, ask: Ask, block: Block, n: int):
        for statistic in ("entropy", "entropy_normalized", "entropy_first"):
            assert ask(statistic, block(looks_at(n - 1, n))) == 0
        assert ask("confidence", block(looks_at(n - 1, n))) == 1

    def test_different_keys_are_as_different_as_can_be(self, ask: Ask, block: Block, n: int):
        three = block(looks_at(0, n), looks_at(n - 1, n), looks_at(0, n))
        assert ask("jsd", three) == [near(math.log(2)), near(0), near(math.log(2))]
        half = math.log(2) / 2
        assert ask("jsd_mean", three) == [near(half), near(math.log(2)), near(half)]
        assert ask("jsd_layer", three) == near(math.log(2) * 2 / 3)

    def test_diagonal(self, ask: Ask, block: Block, n: int):
        itself = block(shifted(0, n))
        assert ask("self", itself) == 1
        assert ask("previous", itself) == ask("next", itself) == 0
        assert ask("attention_distance", itself) == ask("attention_distance_ratio", itself) == 0

    def test_previous(self, ask: Ask, block: Block, n: int):
        """The first token has no previous one, and does not count, wherever it looks."""
        for edge in (0, n - 1):
            assert ask("previous", block(shifted(-1, n, edge))) == 1
        assert ask("attention_distance", block(shifted(-1, n))) == near((n - 1) / n)

    def test_next(self, ask: Ask, block: Block, n: int):
        for edge in (0, n - 1):
            assert ask("next", block(shifted(1, n, edge))) == 1
        assert ask("attention_distance", block(shifted(1, n, n - 1))) == near((n - 1) / n)


def test_divergence_of_half_overlap(ask: Ask, block: Block):
    """(1, 0) and (1/2, 1/2): H(3/4, 1/4) - ln 2 / 2."""
    halves = looks_at(0, 2), uniform(2)
    expected = -0.75 * math.log(0.75) - 0.25 * math.log(0.25) - math.log(2) / 2
    assert ask("jsd", block(*halves)) == near(expected)


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
    found = shares(block(looks_at(0)))
    assert found == {offset: near(1 / (N - abs(offset)) if offset <= 0 else 0) for offset in range(-4, 5)}


def test_ties_go_to_the_first_key(ask: Ask, shares: Callable[..., dict[int, float]], block: Block):
    tied = torch.zeros(N, N)
    tied[:, [2, 5]] = 1
    assert ask("confidence", block(tied)) == near(0.5)
    assert ask("rarest_share", block(tied, rank=[9, 8, 7, 6, 5, 10, 3, 2])) == 0  # the rarest is 5
    assert ask("rarest_share", block(tied, rank=[9, 8, 10, 6, 5, 7, 3, 2])) == 1  # now it is 2
    assert ask("sink_share", block(tied, separator=(2,))) == 1
    assert ask("sink_share", block(tied, separator=(5,))) == 0
    assert shares(block(tied)) == shares(block(looks_at(2)))


class TestPlanted:
    """Heads that look at one kind of token."""

    MARKS: ClassVar = {"first": (0,), "separator": (4, 7), "punctuation": (3,), "rare": (2, 5)}

    @pytest.mark.parametrize(
        ("key", "statistic"),
        [(0, "first"), (4, "separator"), (7, "separator"), (3, "punctuation"), (1, "other"), (5, "other")],
    )
    def test_mass(self, ask: Ask, block: Block, key: int, statistic: str):
        for name in ("first", "separator", "punctuation", "other"):
            assert ask(name, block(looks_at(key), **self.MARKS)) == (name == statistic)

    @pytest.mark.parametrize("key", range(N))
    def test_sink(self, ask: Ask, block: Block, key: int):
        assert ask("sink_share", block(looks_at(key), **self.MARKS)) == (key in {0, 4, 7})

    @pytest.mark.parametrize("key", range(N))
    def test_rare(self, ask: Ask, block: Block, key: int):
        hit = key in {2, 5}
        assert ask("rare_mass", block(looks_at(key), **self.MARKS)) == hit
        assert ask("rare_lift", block(looks_at(key), **self.MARKS)) == (4 if hit else 0)

    def test_rarest(self, ask: Ask, block: Block):
        rank = [0, 30, 7, 610, 0, 30, 600, 0]
        for key in range(N):
            planted = block(looks_at(key), **self.MARKS, rank=rank)
            assert ask("rarest_share", planted) == (key == 3)
            assert ask("rarest_two_share", planted) == (key in {3, 6})

    def test_of_equally_rare_tokens_any_will_do(self, ask: Ask, block: Block):
        """Ranks say how many types are more frequent; the order says which are different types."""
        rank, order = [0, 600, 7, 600, 2, 3, 550, 7], [0, 600, 7, 601, 2, 3, 550, 7]
        for key in range(8):
            planted = block(looks_at(key), rank=rank, order=order)
            assert ask("rarest_share", planted) == (key in {1, 3})
            assert ask("rarest_two_share", planted) == (key in {1, 3})  # two of them are the two rarest

    @pytest.mark.parametrize(("highest", "asked"), [(499, False), (500, True)])
    def test_two_rarest_are_asked_about_outside_the_500_most_frequent(
        self, ask: Ask, block: Block, highest: int, asked: bool
    ):
        planted = block(looks_at(7), rank=[0, 1, 2, 3, 4, 5, 6, highest])
        assert ask("rarest_two_share", planted) == near(1 if asked else math.nan)

    def test_a_special_token_is_no_candidate(self, ask: Ask, block: Block):
        """However rare the separator's id may be, the rarest token is another one."""
        planted = block(looks_at(7), separator=(7,), rank=[0, 1, 2, 3, 4, 5, 600, 900])
        assert ask("rarest_share", planted) == 0
        assert ask("rarest_share", block(looks_at(6), separator=(7,), rank=[0, 1, 2, 3, 4, 5, 600, 900])) == 1

    @pytest.mark.parametrize("statistic", ["first", "separator", "rare_mass", "rare_lift"])
    def test_without_such_a_token_nothing_is_said(self, ask: Ask, block: Block, statistic: str):
        assert math.isnan(ask(statistic, block(uniform(N))))


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


class TestContentOnly:
    """[CLS] and [SEP] dropped as queries and keys, the rows renormalised."""

    MARKS: ClassVar = {"first": (0,), "separator": (7,), "content_only": True}

    def test_uniform_over_what_is_left(self, ask: Ask, block: Block):
        left = block(uniform(N), **self.MARKS)
        assert ask("entropy", left) == near(math.log(6))
        assert ask("entropy_normalized", left) == near(1)
        assert ask("confidence", left) == near(1 / 6)
        assert ask("previous", left) == ask("self", left) == ask("next", left) == near(1 / 6)
        assert ask("other", left) == near(1)
        assert ask("attention_distance", left) == near(35 / 18)
        assert ask("attention_distance_ratio", left) == near(1)

    def test_rows_are_renormalised(self, ask: Ask, block: Block):
        """Nine tenths on [SEP], the rest on the token itself: what is left is the token itself."""
        sink = 0.9 * looks_at(7) + 0.1 * shifted(0)
        left = block(sink, **self.MARKS)
        assert ask("self", left) == near(1)
        assert ask("entropy", left) == near(0)
        assert ask("confidence", left) == near(1)
        assert ask("self", block(sink, first=(0,), separator=(7,))) < 0.3

    @pytest.mark.parametrize("n", [3, 32, 33])
    @pytest.mark.parametrize("statistic", OF_A_HEAD)
    def test_a_head_with_nothing_left_says_nothing(self, ask: Ask, block: Block, n: int, statistic: str):
        """All probability on [SEP]: 0 / 0 is no attention; the other head is not touched by that."""
        marks = {"first": (0,), "separator": (n - 1,), "content_only": True, "rare": (1,)}
        rank = [600] * n
        sunk = block(looks_at(n - 1, n), uniform(n), **marks, rank=rank)
        assert math.isnan(ask(statistic, sunk)[0])
        if not statistic.startswith("jsd"):
            alone = ask(statistic, block(uniform(n), **marks, rank=rank))
            assert ask(statistic, sunk)[1] == near(alone)
