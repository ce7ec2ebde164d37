"""What ablation says of itself: an effect where a test finds one, and whether the examples can rank heads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Place
from attnprobe.intervention.metrics.metric import Metric
from attnprobe.sums.resampling import SIGNIFICANT, Correction

Floats = NDArray[np.float64]
#: What corrections are called in a sentence.
CORRECTIONS: dict[Correction, str] = {"holm": "Holm", "bh": "Benjamini-Hochberg"}


@dataclass(frozen=True)
class Effects:
    """The score without each head, or with it alone, beside that of the whole model.

    Attributes:
        scores: (layer, head); NaN for a head that is not there, as below.
        deltas: The scores minus the baseline.
        adjusted: p adjusted for the number of heads.
        test: How they are tested, in words.
    """

    metric: Metric
    baseline: float
    scores: Floats
    deltas: Floats
    errors: Floats
    adjusted: Floats
    places: Sequence[Place]
    test: str

    @property
    def harm(self) -> Floats:
        """How much worse than the whole model each score is, (layer, head)."""
        return -self.deltas if self.metric.higher_is_better else self.deltas

    @property
    def significant(self) -> NDArray[np.bool_]:
        return self.adjusted < SIGNIFICANT

    def describe_head(self, place: tuple[int, int]) -> str:
        by = f"by {self.deltas[place]:+.2g}, standard error {self.errors[place]:.1g}"
        return f"head {place[1]} of {self.places[place[0]]}: {self.scores[place]:.4g} ({by})"


def describe_ablation(effects: Effects) -> Iterator[str]:
    """Count the heads without which the score is significantly worse, or better, and name the extremes."""
    name, there = effects.metric.name, np.isfinite(effects.scores)
    whole, number = f"With all heads, {name} is {effects.baseline:.4g}", int(there.sum())
    if not (effects.deltas[there] != 0).any():
        yield f"{whole}; no head changes it."
        return
    if not np.isfinite(effects.adjusted).any():
        yield f"{whole}. p is not defined: there is nothing to test, or too few examples for a test."
        if np.isfinite(effects.errors[there]).all():
            head = effects.describe_head(_find_largest(np.abs(effects.deltas)))
            yield f"The largest change is without {head}."
        return
    worse, better = (effects.significant & (sign * effects.harm > 0) for sign in (1, -1))
    if not worse.any() and not better.any():
        yield f"{whole}. None of {number} heads changes it significantly ({effects.test}, p < {SIGNIFICANT})."
        return
    yield (
        f"{whole}. It is significantly worse without {int(worse.sum()) or 'none'} of {number} heads, and "
        f"significantly better without {int(better.sum()) or 'none'} ({effects.test}, p < {SIGNIFICANT})."
    )
    for which, heads, harm in (("worst", worse, effects.harm), ("best", better, -effects.harm)):
        if heads.any():
            head = effects.describe_head(_find_largest(np.where(heads, harm, np.nan)))
            yield f"Among the significant, it is {which} without {head}."


#: From this reliability on, an order of heads is said to be known; below the other, to be another.
RELIABLE, UNRELIABLE = 0.7, 0.5


def describe_reliability(of_moved: float, of_delta: float, name: str) -> list[str]:
    """Say by which of the two the examples can rank heads; nothing where neither is known.

    >>> print(*describe_reliability(0.912, 0.13, "loss"))
    As many other examples would rank heads much alike by moved (reliability 0.91), and otherwise by delta \
(0.13): rank heads by how much they move single examples, not by the change of loss.
    """
    known = {"moved": of_moved, "delta": of_delta}
    known = {which: value for which, value in known.items() if np.isfinite(value)}
    if not known:
        return []
    each = [
        f"{_grade(value)} by {which} ({'reliability ' * (place == 0)}{value:.2f})"
        for place, (which, value) in enumerate(known.items())
    ]
    holds = known.get("moved", 0.0) >= RELIABLE, known.get("delta", 0.0) >= RELIABLE
    advice = {
        (True, True): "these examples can rank heads",
        (True, False): f"rank heads by how much they move single examples, not by the change of {name}",
        (False, True): f"rank heads by the change of {name}",
        (False, False): "these examples are too few to rank heads",
    }
    said = ", and ".join(each)
    return [f"As many other examples would rank heads {said}: {advice[holds]}."]


def _grade(value: float) -> str:
    if value >= RELIABLE:
        return "much alike"
    return "only roughly alike" if value >= UNRELIABLE else "otherwise"


def describe_survivors(effects: Effects) -> Iterator[str]:
    """Name, for each layer, the head that scores highest alone, and test it against all heads."""
    name = effects.metric.name
    tested = np.isfinite(effects.adjusted).any()
    beside = f", and tested against all heads ({effects.test}), not against the others" if tested else ""
    yield (
        f"With all heads, {name} is {effects.baseline:.4g}. Below is the head of each layer with which alone "
        f"it is best{beside}."
    )
    for layer, harm in enumerate(effects.harm):
        if np.isnan(harm).all():  # it lost all its heads
            continue
        place = layer, int(np.nanargmin(harm))
        p = effects.adjusted[place]
        verdict = ""
        if effects.significant[place]:
            verdict = f", significantly {'worse' if effects.harm[place] > 0 else 'better'} (p = {p:.2g})"
        elif np.isfinite(p):
            verdict = f", not significantly different (p = {p:.2g})"
        yield f"Head {place[1]} in {effects.places[layer]}: {effects.scores[place]:.4g}{verdict}."


def _find_largest(values: Floats) -> tuple[int, int]:
    layer, head = np.unravel_index(int(np.nanargmax(values)), values.shape)
    return int(layer), int(head)
