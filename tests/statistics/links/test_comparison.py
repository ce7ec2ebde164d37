"""The p value of a head against a rule."""

import numpy as np
import pytest
from scipy.stats import binomtest

from attnprobe.statistics.links.comparison import chance


@pytest.mark.parametrize(("head", "rule"), [(0, 0), (0, 4), (1, 0), (7, 3), (40, 60), (600, 500)])
def test_mcnemar_where_links_are_independent(head: int, rule: int):
    """No document with two discordant links: the exact binomial test."""
    expected = binomtest(head, head + rule, 0.5, "greater").pvalue if head + rule else 1.0
    assert chance(head, rule, head + rule) == pytest.approx(expected, rel=1e-10)


def test_links_of_a_document_that_agree_count_less():
    assert chance(20, 10, 30) < chance(20, 10, 60) < chance(20, 10, 120) < 0.5


def test_never_more_than_the_links_themselves():
    """Documents in which the head is ahead as often as behind don't make it surer."""
    assert chance(20, 10, 2) == chance(20, 10, 30)


@pytest.mark.parametrize("agree", [0.0, 0.5, 1.0])
@pytest.mark.slow
def test_false_alarms(agree: float):
    """Simulated: head and rule are equally good, and the links of a document agree more or less."""
    random = np.random.default_rng(0)
    alarms, runs, documents = 0, 2000, 60
    for _ in range(runs):
        sizes = random.integers(1, 6, documents)
        side = random.choice([-1, 1], documents)
        signs = [
            np.where(random.random(size) < agree, one, random.choice([-1, 1], size))
            for size, one in zip(sizes, side, strict=True)
        ]
        total = np.concatenate(signs)
        squares = float(sum(one.sum() ** 2 for one in signs))
        alarms += chance(int((total > 0).sum()), int((total < 0).sum()), squares) < 0.05
    assert alarms / runs < 0.065
    assert alarms / runs > 0.02  # it can find something
