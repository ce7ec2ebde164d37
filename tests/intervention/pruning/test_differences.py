"""Steps of an order against random orders and the whole model: chance is the spread of orders."""

import numpy as np
import pytest

from attnprobe.intervention.metrics.score import mean_score
from attnprobe.intervention.pruning.differences import compare_with_random, rank_among

ACCURACY = mean_score("accuracy", "share", higher_is_better=True)
LOSS = mean_score("loss", "nats", higher_is_better=False)
NAN = float("nan")


def test_ranks():
    scores = np.array([[0.9, 0.8, 0.7, 0.6, 0.5], [0.9, 0.7, 0.7, 0.9, 0.5], [0.9, 0.7, 0.9, 0.9, 0.5]])
    np.testing.assert_array_equal(rank_among(ACCURACY, scores), [NAN, 1, 3, 3, NAN])
    undefined = np.where([[0, 1, 0, 0, 0], [0, 0, 1, 0, 0]], NAN, scores[:2])
    np.testing.assert_array_equal(np.isnan(rank_among(ACCURACY, undefined)), [1, 1, 1, 0, 1])
    np.testing.assert_array_equal(rank_among(LOSS, scores), [NAN, 3, 2, 1, NAN])
    assert np.isnan(rank_among(LOSS, scores[:1])).all()


@pytest.mark.parametrize(("orders", "spread", "n"), [(5, 0.3, 40), (19, 0.05, 400), (5, None, 400)])
def test_one_more_random_order_is_rarely_significant(orders, spread, n):
    """A random order in the criterion's place; the spread between orders was left out once (.22 to .37).

    Without a spread, one order in six collapses.
    """
    draw, p = np.random.default_rng(orders), []
    for _ in range(400):
        base = draw.normal(size=n)
        shifts = draw.random(1 + orders) < 1 / 6 if spread is None else draw.normal(0, spread, 1 + orders)
        steps = [base + shift + draw.normal(0, 0.3, n) for shift in shifts]
        ours, *others = ([{"loss": base}, {"loss": step}, {"loss": base}] for step in steps)
        p.append(compare_with_random(LOSS, ours, others)[2, 1])
    # .05 and two of its errors; that the first alone of six collapses, or alone does not, has .067.
    assert np.mean(np.array(p) < 0.05) <= (0.095 if (spread, orders) == (None, 5) else 0.075)
