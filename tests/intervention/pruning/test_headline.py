"""What a pruning curve says of itself: bounds, what can't be told, and chance as the spread of orders."""

import re

import numpy as np
import pytest

from attnprobe.intervention.metrics.mean import Mean
from attnprobe.intervention.metrics.metric import Comparison
from attnprobe.intervention.pruning.differences import (
    Differences,
    bound_losses,
    compare_with_random,
    compare_with_whole,
    find_last_step,
    rank_among,
)
from attnprobe.intervention.pruning.headline import Curve, describe_curve
from attnprobe.sums.resampling import adjust

REMOVED = [0, 10, 20, 30, 40]
ACCURACY = Mean("accuracy", "share", higher_is_better=True)
LOSS = Mean("loss", "nats", higher_is_better=False)
NAN = float("nan")


def differences(deltas, errors, p):
    return Differences.of([Comparison(*step) for step in zip(deltas, errors, p, strict=True)])


NO_CHANCE = differences([NAN] * 5, [NAN] * 5, [NAN] * 5)


def said(scores, deltas, errors, p, bounds, chance=NO_CHANCE, metric=ACCURACY, random=(), n=400, **more):
    curve = Curve(metric, np.array([scores, *random]), np.array([NAN, *bounds]), REMOVED, n, **more)
    return describe_curve(curve, differences([NAN, *deltas], [NAN, *errors], [NAN, *p]), chance)


FALLING = ([0.9, 0.899, 0.885, 0.8, 0.5], [-0.001, -0.015, -0.1, -0.4], [0.002, 0.004, 0.01, 0.02],
           [0.6, 0.0006, 1e-9, 1e-9], [0.0043, 0.0217, 0.117, 0.4331])  # fmt: skip


def test_bounds_at_a_quarter_a_half_and_three_quarters():
    first, loss = said(*FALLING)
    assert first == (
        "With 10 of 40 heads removed, accuracy is at most 0.0043 lower than the whole model's 0.9; with 20, "
        "at most 0.022 lower; with 30, at most 0.12 lower (each one-sided 95 %, paired over 400 examples)."
    )
    assert loss == (
        "The first step at which accuracy is significantly worse is that with 20 heads removed: by 0.015 "
        f"(standard error 0.004, paired, Holm, p = {adjust([0.6, 0.0006, 1e-9, 1e-9])[1]:.2g})."
    )


def test_a_margin():
    notes = said(*FALLING, margin=0.025)
    assert notes[1] == (
        "Within a margin of 0.025, 20 of 40 heads can go: accuracy is at most 0.022 lower (one-sided 95 %, "
        "steps tried in their order until the first that fails, so that no correction is owed)."
    )
    assert said(*FALLING, margin=0.004)[1] == (
        "Not even the first step, 10 of 40 heads, lies within a margin of 0.004: the bound of how much "
        "worse accuracy may be is 0.0043 (one-sided 95 %)."
    )


def test_of_a_loss_more_is_worse():
    deltas, errors, p, bounds = [-0.1, 0.5, 1, 2], [0.01] * 4, [1e-9] * 4, [-0.0837, 0.52, 1.02, 2.02]
    first, loss = said([1, 0.9, 1.5, 2, 3], deltas, errors, p, bounds, metric=LOSS)
    assert first.startswith(
        "With 10 of 40 heads removed, loss is at least 0.083 lower than the whole model's 1; with 20, at "
        "most 0.52 higher; with 30"
    )
    assert "significantly worse is that with 20 heads removed: by 0.5 " in loss


def test_examples_that_do_not_need_the_heads():
    """Of one class: any model that always says so is right, without any head too."""
    first, *others = said(
        [1.0] * 5, [0.0] * 4, [0.0] * 4, [1.0] * 4, [0.03] * 4, n=100, majority=1.0, margin=0.1
    )
    assert first == (
        "All 100 examples have the same label, and so can't say how many heads can go: a model that always "
        "names it has accuracy 1."
    )
    assert not any("worse" in note for note in others)


def test_one_label_is_said_first_where_the_score_falls_too():
    falling = (
        [1, 0.9, 0.8, 0.7, 0.2],
        [-0.1, -0.2, -0.3, -0.8],
        [0.01] * 4,
        [1e-9] * 4,
        [0.12, 0.22, 0.32, 0.82],
    )
    assert said(*falling, n=100, majority=1.0)[0].startswith("All 100 examples have the same label")


def test_two_examples():
    bounds = [1 - 0.05**0.5] * 3 + [0.975]
    first, second = said([1, 1, 1, 1, 0.5], [0, 0, 0, -0.5], [0, 0, 0, 0.5], [1, 1, 1, 1.0], bounds, n=2)
    assert first.startswith(
        "These 2 examples can't say how many heads can go: they don't tell the model with"
    )
    assert "accuracy is at most 0.78 lower than the whole model's 1; with 20, at most 0.78 lower" in second


def test_noise_as_large_as_the_score():
    deltas, p, bounds = [0, -0.1, -0.2, -0.3], [1, 0.3, 0.1, 0.01], [0.34, 0.3, 0.4, 0.5]
    first, *_ = said([0.9, 0.9, 0.8, 0.7, 0.6], deltas, [0.2, 0.1, 0.1, 0.1], p, bounds, n=12)
    assert first == (
        "12 examples can hardly say how many heads can go: with 10 of 40 heads removed accuracy is 0.9 and "
        "may lose 0.34 (one-sided 95 %), which is no less doubt than the whole loss without any head, 0.3."
    )


def test_a_score_without_a_test():
    """Similarity has no p; its loss without any head is told from noise by its error."""
    metric = Mean("similarity", "cosine", higher_is_better=True, tested=False)
    deltas, errors = [-0.01, -0.02, -0.05, -0.5], [0.001] * 4
    (first,) = said(
        [1, 0.99, 0.98, 0.95, 0.5], deltas, errors, [NAN] * 4, [0.012, 0.022, 0.052, 0.502], metric=metric
    )
    assert first.startswith("With 10 of 40 heads removed, similarity is at most 0.012 lower")


def test_what_can_not_be_bounded():
    nothing = [NAN] * 4
    notes = said([1, 2, 3, 4, 5], [1, 2, 3, 4], nothing, nothing, nothing, metric=LOSS, n=1, margin=0.1)
    assert notes == [
        "One example can't say how many heads can go.",
        "How much worse loss may be can't be bounded with 1 example; the whole model's is 1.",
        "Not even the first step, 10 of 40 heads, lies within a margin of 0.1: the bound of how much worse "
        "loss may be is not known (one-sided 95 %).",
    ]
    assert said([1, NAN, 0.8, 0.7, 0.6], [0] * 4, [0] * 4, [1] * 4, [0] * 4) == [
        "accuracy is undefined at some step."
    ]


# Every sentence beside the numbers


def drawn(draw):
    """Draw outcomes of an order and some random ones: few or many examples, easy or hard."""
    n, steps = int(draw.choice([2, 5, 20, 200])), int(draw.integers(2, 9))
    higher = bool(draw.integers(2))
    harm = np.sort(draw.choice([0, 0.02, 0.3], p=[0.4, 0.3, 0.3]) * draw.random(steps - 1))
    base, orders = draw.random(n) < 0.8, []
    for _ in range(1 + int(draw.choice([0, 1, 4]))):
        lost = [draw.random(n) < one for one in harm]
        orders.append([base, *(base & ~one if higher else base.astype(float) + one for one in lost)])
    metric = ACCURACY if higher else LOSS
    return metric, [[{metric.name: np.asarray(step, float)} for step in order] for order in orders], n


@pytest.mark.parametrize("seed", range(60))
def test_every_claim_is_one_of_the_table(seed):
    draw = np.random.default_rng(seed)
    metric, orders, n = drawn(draw)
    whole, chance = (
        compare_with_whole(metric, orders[0], orders[0][0]),
        compare_with_random(metric, orders[0], orders[1:]),
    )
    bounds, removed = bound_losses(metric, orders[0], orders[0][0]), list(range(0, 10 * len(orders[0]), 10))
    scores = np.array([[metric.score(step) for step in order] for order in orders])
    margin = float(draw.choice([0.01, 0.1, 0.9]))
    text = " ".join(describe_curve(Curve(metric, scores, bounds, removed, n, None, margin), whole, chance))
    better = 1 if metric.higher_is_better else -1
    worse = np.flatnonzero((whole.adjusted < 0.05) & (better * whole.delta < 0))
    named = re.search(r"significantly worse is that with (\d+)", text)
    assert (named is None) == (not len(worse))
    assert named is None or int(named[1]) == removed[worse[0]]
    told = better * whole.delta[-1] < 0 and whole.p[-1] < 0.05
    assert ("can't say" in text) == (not told)
    quoted = re.findall(
        r"[Ww]ith (\d+)(?: of \d+ heads removed, \w+ is|,) at (most|least) ([\d.e-]+) (\w+)", text
    )
    assert quoted or np.isnan(bounds[1:]).any()
    for heads, kind, amount, way in quoted:
        bound = bounds[removed.index(int(heads))]
        assert (kind == "most") == (bound >= 0)
        assert (way == "lower") == ((bound >= 0) == metric.higher_is_better)
        signed = float(amount) if kind == "most" else -float(amount)
        assert bound - 1e-9 <= signed <= bound + 0.1 * abs(bound) + 1e-9  # rounded, and never to less
    within = re.search(r"Within a margin of [\d.]+, (\d+) of", text)
    last = find_last_step(bounds, margin)
    assert (int(within[1]) if within else 0) == removed[last]
    assert not (bounds[1 : last + 1] > margin).any()
    against = re.search(r"better at (\d+) of (?:the )?\d+ steps? .* worse at (\d+) .* of them at (\d+)", text)
    assert (against is None) == (len(orders) < 3 or len(removed) < 3)
    if against:
        found = chance.adjusted < 0.05
        ahead = better * chance.delta > 0
        assert int(against[1]) == (found & ahead).sum()
        assert int(against[2]) == (found & ~ahead).sum()
        assert int(against[3]) == (rank_among(metric, scores) == 1).sum()


# Chance


def test_chance():
    chance = differences([NAN, 0.1, 0.2, -0.3, NAN], [NAN, 0.01, 0.5, 0.01, NAN], [NAN, 1e-6, 0.7, 1e-6, NAN])
    random = [[0.9, 0.7, 0.5, 0.9, 0.5], [0.9, 0.7, 0.9, 0.9, 0.5]]
    *_, note = said(*FALLING, chance, random=random)
    assert note == (
        "Against 2 random orders, whose spread is part of the error, the order by criterion is significantly "
        "better at 1 of the 3 steps between no head and all heads removed, and significantly worse at 1 (t, "
        "Holm, p < 0.05). It is better than every one of them at 1 of these; one more random order "
        "would be at about one step in 3."
    )
    assert said(*FALLING, random=random[:1])[-1] == (
        "The order by criterion is better than the one random order at 2 of the 3 steps between no head and "
        "all heads removed; one order has no spread to test against."
    )


def test_ranks():
    scores = np.array([[0.9, 0.8, 0.7, 0.6, 0.5], [0.9, 0.7, 0.7, 0.9, 0.5], [0.9, 0.7, 0.9, 0.9, 0.5]])
    np.testing.assert_array_equal(rank_among(ACCURACY, scores), [NAN, 1, 3, 3, NAN])
    undefined = np.where([[0, 1, 0, 0, 0], [0, 0, 1, 0, 0]], NAN, scores[:2])
    np.testing.assert_array_equal(np.isnan(rank_among(ACCURACY, undefined)), [1, 1, 1, 0, 1])
    np.testing.assert_array_equal(rank_among(LOSS, scores), [NAN, 3, 2, 1, NAN])
    assert np.isnan(rank_among(LOSS, scores[:1])).all()


@pytest.mark.parametrize("orders", [5, 19])
@pytest.mark.parametrize(("spread", "n"), [(0.05, 400), (0.3, 400), (0.3, 40), (0.0, 40), (None, 400)])
def test_one_more_random_order_is_rarely_significant(orders, spread, n):
    """A random order in the criterion's place; the spread between orders was left out once (.22 to .37).

    Without a spread, one order in six collapses.
    """
    draw, found = np.random.default_rng(orders), []
    for _ in range(400):
        base = draw.normal(size=n)
        apart = draw.random(1 + orders) < 1 / 6 if spread is None else draw.normal(0, spread, 1 + orders)
        steps = [base + one + draw.normal(0, 0.3, n) for one in apart]
        ours, *others = ([{"loss": base}, {"loss": step}, {"loss": base}] for step in steps)
        found.append(compare_with_random(LOSS, ours, others).p[1])
    # .05 and two of its errors; that the first alone of six collapses, or alone does not, has .067.
    assert np.mean(np.array(found) < 0.05) <= (0.095 if (spread, orders) == (None, 5) else 0.075)


def test_a_better_order_is_found():
    draw = np.random.default_rng(0)
    base = draw.normal(size=400)
    steps = [base + lost + draw.normal(0, 0.3, 400) for lost in (0.0, 0.9, 1.0, 1.2, 0.8, 1.1)]
    ours, *others = ([{"loss": base}, {"loss": step}, {"loss": base}] for step in steps)
    found = compare_with_random(LOSS, ours, others)
    scores = np.array([step.mean() for step in steps])
    apart = steps[0] - np.mean(steps[1:], 0)
    wanted = np.sqrt(scores[1:].var(ddof=1) * 1.2 + apart.var(ddof=1) / 400)
    assert found.error[1] == pytest.approx(wanted)
    assert found.p[1] < 0.01
    assert np.isnan(compare_with_random(LOSS, ours, others[:1]).p[1])


def test_under_the_null_p_is_uniform():
    """Orders that change nothing but by chance: 5 % of the tests are below .05, 5 % of curves after Holm."""
    draw, p, lowest = np.random.default_rng(0), [], []
    for _ in range(1500):
        base = draw.normal(size=60)
        outcomes = [{"loss": base + draw.normal(size=60)} for _ in range(5)]
        found = compare_with_whole(LOSS, outcomes, {"loss": base + draw.normal(size=60)})
        p.append(found.p[1])
        lowest.append(np.nanmin(found.adjusted))
    assert np.mean(np.array(p) < 0.05) == pytest.approx(0.05, abs=0.015)
    assert np.mean(np.array(lowest) < 0.05) < 0.065
