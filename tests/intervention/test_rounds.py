"""When a head leaves: widths against scipy, and what the rule promises, simulated."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.changes import Changes, Moves
from attnprobe.intervention.metrics.mean import Mean
from attnprobe.intervention.rounds import Ablated, check_targets, measure_widths

LOSS = Mean("loss", "nats", higher_is_better=False)
ACCURACY = Mean("accuracy", "share", higher_is_better=True)


def ablated(name: str, whole: Any, *without: Any, clusters: Any = None) -> Ablated:
    """Put what examples gave with all heads, and without each head, of the first examples, into one."""
    names = np.full(len(whole), -1) if clusters is None else clusters
    cuts = [[{name: values, "cluster": names[: len(values)]}] for values in without]
    return Ablated({name: whole, "cluster": names}, cuts, np.arange(len(whole)))


def test_widths_are_those_of_a_paired_t_interval():
    draw = np.random.default_rng(1)
    whole = draw.gamma(1.0, size=60)
    first, second = whole + draw.normal(size=60), whole[:40] + draw.normal(size=40)
    found = measure_widths(ablated("loss", whole, first, second), LOSS, [0, 1], {"delta": 1, "moved": 1})
    for place, cut in enumerate((first, second)):
        apart = cut - whole[: len(cut)]
        for name, values in (("delta", apart), ("moved", np.abs(apart))):
            low, high = stats.t.interval(0.95, len(cut) - 1, values.mean(), stats.sem(values))
            assert found[name][place] == pytest.approx((high - low) / 2)


def test_widths_of_several_draws_are_of_their_mean():
    draw = np.random.default_rng(2)
    whole, cuts = draw.normal(size=50), draw.normal(size=(4, 50))
    one = ablated("loss", whole, *cuts)
    together = Ablated(one.untouched, [[cut[0] for cut in one.cuts]], one.documents)
    width = measure_widths(together, LOSS, [0], {"delta": 1})["delta"][0]
    assert width == pytest.approx(stats.t.ppf(0.975, 49) * stats.sem(cuts.mean(0) - whole))


def test_answers_of_which_none_has_changed_may_still():
    """Two examples more, one right and one wrong: with 128, a change of some 2 % is not excluded."""
    whole = np.random.default_rng(3).random(128) < 0.7
    width = measure_widths(ablated("accuracy", whole, whole), ACCURACY, [0], {"delta": 1, "moved": 1})
    added = np.append(np.zeros(128), (1, -1))
    assert width["delta"][0] == pytest.approx(stats.t.ppf(0.975, 127) * stats.sem(added))
    assert 0.02 < width["delta"][0] < 0.023
    assert width["moved"][0] > 0.01
    assert measure_widths(ablated("loss", whole, whole), LOSS, [0], {"delta": 1})["delta"][0] == 0


def test_windows_of_a_document_are_one_observation():
    draw = np.random.default_rng(4)
    names = np.repeat(np.arange(200, 220), 6)
    whole = draw.normal(size=120)
    cut = whole + np.repeat(draw.normal(size=20), 6)
    wide = measure_widths(ablated("loss", whole, cut, clusters=names), LOSS, [0], {"delta": 1})["delta"][0]
    assert wide == pytest.approx(stats.t.ppf(0.975, 19) * stats.sem((cut - whole)[::6]))


RUNS, HEADS, MOST = 400, 5, 1024


def skewed(draw: Any) -> Any:
    """Effects of both signs that examples share, with tails as those of losses."""
    scale = draw.exponential(size=(MOST, 1))
    return scale * draw.normal(size=(MOST, HEADS)) * np.linspace(0.1, 0.4, HEADS)


def rare(draw: Any) -> Any:
    """A right answer more or less in one of 50 examples."""
    return draw.choice([-1.0, 0.0, 1.0], p=[0.01, 0.98, 0.01], size=(MOST, HEADS))


@pytest.mark.parametrize(
    ("effects", "metric", "target"), [(skewed, LOSS, 0.04), (rare, ACCURACY, 0.02)], ids=["loss", "accuracy"]
)
def test_intervals_cover_where_each_head_leaves_at_its_own_look(effects: Any, metric: Mean, target: float):
    """The rule itself, on effects whose mean is 0."""
    covered, within, read = [], [], []
    for run in range(RUNS):
        drawn = effects(np.random.default_rng([run, 5]))
        whole = np.zeros(MOST)
        for head in range(HEADS):
            for number in (128, 256, 512, 1024):
                some = drawn[:number, head]
                found = ablated(metric.name, whole[:number], some)
                width = measure_widths(found, metric, [0], {"delta": target})["delta"][0]
                if width <= target:
                    break
            covered.append(abs(some.mean()) <= width)
            within.append(abs(some.mean()) <= target)
            read.append(number)
    assert 128 < np.mean(read) < 800
    assert 0.92 <= np.mean(covered) <= 0.985
    assert np.mean(within) >= 0.95


def test_rounds_add_up_and_heads_keep_their_own_examples():
    draw = np.random.default_rng(6)
    first = ablated("loss", draw.normal(size=30), draw.normal(size=30), draw.normal(size=30))
    second = ablated("loss", draw.normal(size=20), draw.normal(size=20))
    left = Ablated(second.untouched, [[], second.cuts[0]], second.documents)
    both = first + left
    assert [len(cut[0]["loss"]) for cut in both.cuts] == [30, 50]
    assert both.documents.tolist() == list(range(50))
    whole = np.concatenate([first.untouched["loss"], second.untouched["loss"]])
    np.testing.assert_array_equal(both.untouched["loss"], whole)
    changes = Changes.of(LOSS, both.cuts, both.untouched, both.documents)
    moves = Moves.of(LOSS, both.cuts, both.untouched, both.documents)
    for place, number in enumerate((30, 50)):
        own = both.cuts[place][0]["loss"]
        apart = own - whole[:number]
        assert changes.scores[place] == pytest.approx(own.mean())
        assert changes.errors[place] == pytest.approx(stats.sem(own))
        assert changes.compared[place].delta == pytest.approx(apart.mean())
        assert changes.compared[place].p == pytest.approx(stats.ttest_1samp(apart, 0)[1])
        assert moves.means[place] == pytest.approx(np.abs(apart).mean())
        assert moves.errors[place] == pytest.approx(stats.sem(np.abs(apart)))
        assert np.isnan(changes.added[:, place]).sum() == 50 - number


def test_targets():
    assert check_targets({"": 0.1}) == {"delta": 0.1}
    assert check_targets({"moved": 0.1, "delta": 0.2}) == {"moved": 0.1, "delta": 0.2}
    with pytest.raises(AttnprobeError, match="about delta or moved, not about 'score'"):
        check_targets({"score": 0.1})
