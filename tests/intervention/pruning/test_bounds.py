"""Bounds of what a score loses hold as often as they say, also where changes are rare and examples few."""

from functools import cache

import numpy as np
import pytest
from scipy.stats import multinomial, t

from attnprobe.intervention.metrics.score import matthews, mean_score
from attnprobe.intervention.pruning.differences import bound_losses

ACCURACY = mean_score("accuracy", "share", higher_is_better=True)
LOSS = mean_score("loss", "nats", higher_is_better=False)


def bound_of(metric, step, whole, documents=None):
    examples = len(next(iter(whole.values())))
    return bound_losses(
        metric, [whole, step], whole, np.arange(examples) if documents is None else documents
    )[1]


@cache
def of_counts(n, worse, better):
    """Bound the loss of accuracy when so many answers of n become wrong, and so many right."""
    before, after = np.ones(n), np.ones(n)
    after[:worse] = 0
    before[worse : worse + better] = 0
    return bound_of(ACCURACY, {"accuracy": after}, {"accuracy": before})


# Right or wrong answers


@pytest.mark.parametrize("n", [1, 10, 400])
def test_nothing_changed(n):
    """The rule of three, a tenth wider: all the same, so large a share of the answers may change."""
    assert 1 - 0.05 ** (1 / n) <= of_counts(n, 0, 0) <= 1
    assert of_counts(400, 0, 0) == pytest.approx(3.27 / 400, rel=0.01)
    assert of_counts(n, n, 0) == 1


def test_against_weights_written_out():
    """1.353 more examples that lose as much as any, in the formulas of a weighted mean."""
    draw = np.random.default_rng(1)
    lost = draw.normal(0.2, 1, 30)
    bound = bound_of(LOSS, {"loss": lost}, {"loss": np.zeros(30)})
    values, weights = np.append(lost, np.abs(lost).max()), np.append(np.ones(30), 1.353)
    mean, number = np.average(values, weights=weights), weights.sum()
    variance = weights @ (values - mean) ** 2 / (number - 1)
    assert bound == pytest.approx(mean + t.ppf(0.95, 29) * np.sqrt(variance / number))
    windows = bound_of(
        LOSS, {"loss": np.repeat(lost, 4)}, {"loss": np.zeros(120)}, np.repeat(np.arange(30), 4)
    )
    assert windows == pytest.approx(bound)


@pytest.mark.parametrize("n", [2, 30, 100])
def test_the_truth_is_beyond_it_in_a_twentieth_at_most(n):
    """Summed over every outcome, for losses and gains of every frequency, rare ones above all."""
    kinds = [(b, c, n - b - c) for b in range(n + 1) for c in range(n + 1 - b)]
    bounds = np.array([of_counts(n, b, c) for b, c, _ in kinds])
    plain = np.array([plain_bound(n, b, c) for b, c, _ in kinds])
    missed, naive = [], []
    for lost in [*np.arange(0.25, 6, 0.25) / n, *np.arange(0.05, 1, 0.1)]:
        for gained in (0, 0.1 * lost, 0.5 * lost, lost, 2 * lost):
            if lost + gained <= 1:
                chance = multinomial.pmf(kinds, n, [lost, gained, 1 - lost - gained])
                missed.append(chance[bounds < lost - gained - 1e-12].sum())
                naive.append(chance[plain < lost - gained - 1e-12].sum())
    assert max(missed) <= 0.051
    assert max(naive) > 0.5  # Student's t of the differences alone


def plain_bound(n, worse, better):
    lost = np.repeat([1.0, -1.0, 0.0], [worse, better, n - worse - better])
    return lost.mean() + t.ppf(0.95, n - 1) * lost.std(ddof=1) / n**0.5


# Means


@pytest.mark.parametrize(("n", "kind"), [(40, "rare"), (400, "normal")])
def test_the_truth_of_a_loss_is_within_it(n, kind):
    """Differences that are normal, and those that one example in five has, of any size up to 1 nat."""
    draw, missed = np.random.default_rng(n), 0
    for _ in range(800):
        lost = draw.normal(0.5, 1, n)
        if kind == "rare":
            lost = draw.random(n) * (draw.random(n) < 0.2)
        base = draw.random(n)
        truth = 0.5 if kind == "normal" else 0.1
        missed += bound_of(LOSS, {"loss": base + lost}, {"loss": base}) < truth
    assert missed / 800 <= 0.065


def test_a_score_that_every_change_moves():
    """A head of zeros changes no loss to the last bit; one example says nothing."""
    same = {"loss": np.array([0.3, 0.2])}
    assert bound_of(LOSS, same, same) == 0
    single = {"loss": np.array([0.3])}
    assert np.isnan(bound_of(LOSS, single, single))
    assert np.isnan(bound_of(LOSS, {"loss": np.array([0.4])}, single))


# Scores that are no means


def test_matthews_correlation():
    """Against the score of a large sample; answers change rarely."""
    draw, metric = np.random.default_rng(5), matthews(2)

    def sample(n):
        label = draw.integers(2, size=n)
        whole = np.where(draw.random(n) < 0.9, label, 1 - label)
        step = np.where(draw.random(n) < 0.05, 1 - whole, whole)
        return [
            {"label": label.astype(float), "prediction": answers.astype(float)} for answers in (whole, step)
        ]

    whole, step = sample(400_000)
    truth = metric.score(whole) - metric.score(step)
    missed = [bound_of(metric, step, whole) < truth for whole, step in (sample(80) for _ in range(500))]
    assert np.mean(missed) <= 0.065


def test_matthews_correlation_unchanged_takes_the_largest_change_of_the_curve():
    label = np.array([0.0, 1.0] * 10)
    whole = {"label": label, "prediction": label}
    last = {"label": label, "prediction": np.zeros(20)}
    metric = matthews(2)
    bound = bound_losses(metric, [whole, whole, last], whole, np.arange(20))
    assert np.isnan(bound[0])
    assert 0 < bound[1] < bound[2]
    assert np.isnan(bound_losses(metric, [whole, whole], whole, np.arange(20))[1])


# Margins


def test_a_margin_holds():
    """The step that is chosen loses more than the margin in a twentieth of the curves at most."""
    draw, n, beyond = np.random.default_rng(11), 150, 0
    truth = np.array([0, 0.002, 0.01, 0.021, 0.04, 0.1])
    for _ in range(700):
        luck = draw.random(n)
        base = (draw.random(n) < 0.9).astype(float)
        # A lost answer stays lost; gains come and go at one answer in fifty.
        steps = [{"accuracy": np.where(luck < lost / 0.9, 0, base) if lost else base} for lost in truth]
        failing = ~(bound_losses(ACCURACY, steps, steps[0], np.arange(n))[1:] <= 0.02)
        chosen = int(failing.argmax()) if failing.any() else len(failing)
        beyond += truth[chosen] > 0.02
    assert beyond / 700 <= 0.06
