"""Simulations of 2,000 corpora each: p is uniform where nothing differs, intervals of 95 % hold the truth.

``python tests/sums/test_simulations.py`` prints the table of docs/trust.md.
"""

from collections.abc import Callable

import numpy as np
import pytest

from attnprobe.intervention.metrics.score import CLUSTER, matthews
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.documents import BLOCKS, find_block, name_documents
from attnprobe.sums.inference import sign_flip
from attnprobe.sums.links import CrossFit, Difference, Links

Random = np.random.Generator
#: Whether the interval holds the truth, and p of a true hypothesis; NaN where there is none.
Outcome = tuple[float, float]
DOCUMENTS = (5, 12, 30, 300)
DRAWS = 2000


def draw_documents(random: Random, documents: int, most: int) -> np.ndarray:
    """Name the document of each sequence, of 1 to ``most`` sequences each; names are spread over blocks."""
    names = name_documents(random.integers(1 << 63, size=documents, dtype=np.uint64))
    return np.repeat(names, random.integers(1, most + 1, documents))


def holds(value: float, low: np.ndarray, high: np.ndarray) -> float:
    return float(low.item() <= value <= high.item())


def mean(random: Random, documents: int, *, most: int, alike: float) -> Outcome:
    """A mean over sequences whose true value is 0; ``alike`` is the correlation within documents."""
    names = draw_documents(random, documents, most)
    _, document = np.unique(names, return_inverse=True)
    effects, noise = random.normal(size=documents), random.normal(size=len(names))
    estimate = Clustered.of(alike**0.5 * effects[document] + (1 - alike) ** 0.5 * noise, names).estimate
    return holds(0, *estimate.interval()), float(estimate.p())


def answer_links(random: Random, documents: int, share: float = 0.4) -> tuple[np.ndarray, np.ndarray]:
    """Draw links of 1 to 40 a document, and how many a head and a rule find, which are equally good."""
    links = random.integers(1, 41, documents)
    easy = random.beta(4 * share, 4 * (1 - share), documents)  # documents differ
    names = name_documents(random.integers(1 << 63, size=documents, dtype=np.uint64))
    return np.stack([links, *random.binomial(links, easy, (2, documents))], -1).astype(float), names


def ratio(random: Random, documents: int) -> Outcome:
    """The share of links that a head finds, .4, and p of its difference from a rule."""
    numbers, names = answer_links(random, documents)
    blocked = Blocked.of(numbers, documents=names)
    share, gain = blocked.ratio([0, 1, 0]), blocked.ratio([0, 1, -1])
    return holds(0.4, *share.interval()), float(gain.p())


def signs(random: Random, documents: int) -> Outcome:
    """The sign-flip test of the same difference, over documents."""
    numbers, _ = answer_links(random, documents)
    return np.nan, sign_flip(numbers[:, 1] - numbers[:, 2], one_sided=False)


def cross_fit(random: Random, documents: int) -> Outcome:
    """The best of six heads that are as good as a rule, chosen on four folds and scored on the fifth."""
    names = name_documents(random.integers(1 << 63, size=documents, dtype=np.uint64))
    links, block = 1 + random.poisson(2, documents), find_block(names)
    hits = np.zeros((7, BLOCKS), np.int64)
    for candidate in hits:
        np.add.at(candidate, block, random.binomial(links, 0.4))
    links_of_block = np.bincount(block, links, BLOCKS).astype(np.int64)
    heads = CrossFit(Links(links_of_block, hits[:6]), 5)
    if not heads.possible:
        return np.nan, np.nan
    return np.nan, Difference(heads, CrossFit.fixed(links_of_block, hits[6])).p(1)


#: The mcc of predictions that are right with this chance, of two classes that are as frequent.
_RIGHT, _MCC = 0.75, 0.5


def mcc(random: Random, documents: int) -> Outcome:
    """Matthews' correlation of two models that are equally good, over documents of 1 to 8 examples."""
    names = draw_documents(random, documents, 8)
    gold = random.integers(2, size=len(names))
    untouched, ours = (
        {
            "label": gold,
            "prediction": np.where(random.random(len(gold)) < _RIGHT, gold, 1 - gold),
            CLUSTER: names,
        }
        for _ in range(2)
    )
    score = matthews(2)
    estimate = Clustered.of(score.pseudovalues(ours), names).estimate
    return holds(_MCC, *estimate.interval()), score.find_p(ours, untouched)


SIMULATIONS: dict[str, Callable[[Random, int], Outcome]] = {
    "mean, a sequence a document": lambda random, number: mean(random, number, most=1, alike=0.0),
    "mean, 1 to 40 sequences a document": lambda random, number: mean(random, number, most=40, alike=0.2),
    "mean, 1 to 8 that agree (r = .9)": lambda random, number: mean(random, number, most=8, alike=0.9),
    "ratio, 1 to 40 links a document": ratio,
    "sign flips, 1 to 40 links a document": signs,
    "best of six heads, cross-fitted": cross_fit,
    "mcc, 1 to 8 examples a document": mcc,
}


def simulate(name: str, documents: int, draws: int = DRAWS) -> tuple[float, float, float]:
    """Give the share of intervals that hold the truth, and of p below .05 and .5."""
    random = np.random.default_rng(documents)
    outcomes = np.array([SIMULATIONS[name](random, documents) for _ in range(draws)])
    covered, p = outcomes.T
    p = p[~np.isnan(p)]
    held = covered[~np.isnan(covered)]
    return float(held.mean()) if len(held) else np.nan, float((p < 0.05).mean()), float((p < 0.5).mean())


@pytest.mark.exhaustive
@pytest.mark.parametrize("documents", DOCUMENTS)
@pytest.mark.parametrize("name", SIMULATIONS)
def test_intervals_hold_the_truth_and_p_is_uniform(name: str, documents: int):
    """Of few documents, tests of signs have few values of p, so that fewer are below .05."""
    covered, small, half = simulate(name, documents)
    assert np.isnan(covered) or 0.93 <= covered <= 0.97
    assert small <= 0.065
    assert half <= 0.55
    if documents == DOCUMENTS[-1]:
        assert small >= 0.03
        assert half >= 0.45


if __name__ == "__main__":
    print("| | " + " | ".join(map(str, DOCUMENTS)) + " |\n|" + "---|" * (len(DOCUMENTS) + 1))
    for name in SIMULATIONS:
        cells = []
        for documents in DOCUMENTS:
            covered, small, half = simulate(name, documents)
            interval = "" if np.isnan(covered) else f"{covered:.3f}; "
            cells.append(f"{interval}{small:.3f}, {half:.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
