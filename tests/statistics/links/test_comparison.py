"""The p value of a head against a rule."""

import numpy as np
import pytest
from scipy.stats import binomtest

from attnprobe.statistics.best_heads import Compared
from attnprobe.sums.resampling import mcnemar
from attnprobe.sums.tally import SCORING, Tally


@pytest.mark.parametrize(("head", "rule"), [(0, 0), (0, 4), (1, 0), (7, 3), (40, 60), (600, 500)])
def test_mcnemar_where_links_are_independent(head: int, rule: int):
    """No document with two discordant links: the exact binomial test."""
    expected = binomtest(head, head + rule, 0.5, "greater").pvalue if head + rule else 1.0
    assert mcnemar(head, rule, head + rule) == pytest.approx(expected, rel=1e-10)


def test_links_of_a_document_that_agree_count_less():
    assert mcnemar(20, 10, 30) < mcnemar(20, 10, 60) < mcnemar(20, 10, 120) < 0.5


def test_never_more_than_the_links_themselves():
    """Documents in which the head is ahead as often as behind don't make it surer."""
    assert mcnemar(20, 10, 2) == mcnemar(20, 10, 30)


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
        alarms += mcnemar(int((total > 0).sum()), int((total < 0).sum()), squares) < 0.05
    assert alarms / runs < 0.065
    assert alarms / runs > 0.02  # it can find something


def played(documents: int, *, spread: float, runs: int = 400) -> tuple[Tally, np.ndarray]:
    """Simulate heads that are as good as the rule, one a key, over documents of uneven size that differ.

    Returns:
        The counts, and the p that links would have if each sentence were a document.
    """
    random = np.random.default_rng(documents)
    tally = Tally.empty(
        [(str(run), "to") for run in range(runs)], [0], 1, 1, 2 * np.arange(500, 500 + documents) + 1
    )
    sizes = np.maximum(1, np.round(random.lognormal(2.5, spread, (runs, documents)))).astype(int)
    head, rule = (random.random((runs, documents)) ** 0.5 for _ in range(2))
    alone = []
    for run in range(runs):
        right = [
            (random.random(n) < a, random.random(n) < b)
            for n, a, b in zip(sizes[run], head[run], rule[run], strict=True)
        ]
        counted = np.array([[one.sum(), other.sum()] for one, other in right])
        tally.groups.count[:, run, 0] = sizes[run]
        tally.groups.total[:, run] = counted
        tally.asked[run, 0, SCORING] = sizes[run].sum()
        tally.hits[run, 0, 0, SCORING], tally.guessed[run, 0, 0, SCORING] = counted.sum(0)
        one, other = (np.concatenate(side) for side in zip(*right, strict=True))
        only, others = int((one & ~other).sum()), int((other & ~one).sum())
        alone.append(mcnemar(only, others, only + others))
    return tally, np.array(alone)


@pytest.mark.parametrize("spread", [0.0, 0.9])
@pytest.mark.parametrize("documents", [10, 30])
def test_false_alarms_over_documents_that_agree_within(documents: int, spread: float):
    tally, alone = played(documents, spread=spread)
    compared = Compared.of(tally)
    p = np.array([compared.chance((run, 0, 0, 0)) for run in range(len(tally.keys))])
    assert 0.02 < (p < 0.05).mean() < 0.08  # .05 within two standard errors and a half, 400 runs
    assert (alone < 0.05).mean() > 0.1  # as it would be over sentences


def test_a_head_that_is_ahead_in_few_documents():
    """Five documents with a hundred links each: a throw of five coins, whatever links say."""
    tally = Tally.empty([("a", "to")], [0], 1, 1, 2 * np.arange(500, 505) + 1)
    tally.groups.count[:], tally.groups.total[:, 0] = 100, [60, 40]
    tally.asked[..., SCORING], tally.hits[..., SCORING], tally.guessed[..., SCORING] = 500, 300, 200
    assert Compared.of(tally).chance((0, 0, 0, 0)) == 0.5**5
