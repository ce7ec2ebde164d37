"""What a table of ablation says of itself: which heads have an effect, as far as a test tells."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Place
from attnprobe.intervention.metrics.metric import Metric
from attnprobe.sums.significance import SIGNIFICANT, Correction

#: What corrections are called in a sentence.
CORRECTIONS: dict[Correction, str] = {"holm": "Holm", "bh": "Benjamini-Hochberg"}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Effects:
    """The score without each head, or with it alone, beside that of the whole model.

    Attributes:
        metric: What is scored.
        baseline: The score of the whole model.
        scores: (layer, head); NaN for a head that is not there, as below.
        deltas: The scores minus the baseline.
        errors: The standard errors of the differences.
        adjusted: p adjusted for the number of heads.
        places: What names each layer.
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
        """Which differences are significant, either way."""
        return self.adjusted < SIGNIFICANT

    def named(self, place: tuple[int, int]) -> str:
        """Name a head with its score and its difference."""
        by = f"by {self.deltas[place]:+.2g}, standard error {self.errors[place]:.1g}"
        return f"head {place[1]} of {self.places[place[0]]}: {self.scores[place]:.4g} ({by})"


def without_one(effects: Effects) -> Iterator[str]:
    """Say without how many heads the score is significantly worse, or better, and without which the most."""
    name, there = effects.metric.name, np.isfinite(effects.scores)
    whole, number = f"With all heads, {name} is {effects.baseline:.4g}", int(there.sum())
    if not (effects.deltas[there] != 0).any():
        yield f"{whole}; no head changes it."
        return
    if not np.isfinite(effects.adjusted).any():
        yield f"{whole}. p is not defined: there is nothing to test, or too few examples for a test."
        if np.isfinite(effects.errors[there]).all():
            yield f"The largest change is without {effects.named(_largest(np.abs(effects.deltas)))}."
        return
    worse, better = (effects.significant & (sign * effects.harm > 0) for sign in (1, -1))
    if not worse.any() and not better.any():
        yield f"{whole}. None of {number} heads changes it significantly ({effects.test}, p < {SIGNIFICANT})."
        return
    yield (
        f"{whole}. It is significantly worse without {_some(int(worse.sum()))} of {number} heads, and "
        f"significantly better without {_some(int(better.sum()))} ({effects.test}, p < {SIGNIFICANT})."
    )
    if worse.any():
        worst = _largest(np.where(worse, effects.harm, np.nan))
        yield f"Among the significant, it is worst without {effects.named(worst)}."
    if better.any():
        best = _largest(np.where(better, -effects.harm, np.nan))
        yield f"Among the significant, it is best without {effects.named(best)}."


def with_one(effects: Effects) -> Iterator[str]:
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
        if not np.isfinite(p):
            verdict = ""
        elif not effects.significant[place]:
            verdict = f", not significantly different (p = {p:.2g})"
        else:
            verdict = f", significantly {'worse' if effects.harm[place] > 0 else 'better'} (p = {p:.2g})"
        yield f"Head {place[1]} in {effects.places[layer]}: {effects.scores[place]:.4g}{verdict}."


def _largest(values: Floats) -> tuple[int, int]:
    layer, head = np.unravel_index(int(np.nanargmax(values)), values.shape)
    return int(layer), int(head)


def _some(number: int) -> str:
    return str(number) if number else "none"
