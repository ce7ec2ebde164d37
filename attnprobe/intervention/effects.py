"""What ablation says of itself: without how many heads the score differs significantly, and most."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Place
from attnprobe.intervention.metrics.score import Score
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.numbers import format_number, format_with_error, name_head

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Effects:
    """The score without each head, or with it alone, beside that of the whole model.

    Arrays are (layer, head), NaN for a head that is not there; ``deltas`` are scores minus the baseline.
    ``test`` and ``cut`` say in words how they are tested, and how the model is cut at a head.
    """

    metric: Score
    baseline: float
    deltas: Floats
    errors: Floats
    adjusted: Floats
    places: Sequence[Place]
    test: str
    cut: str = "without"

    def describe(self) -> str:
        """Count the cuts under which the score is significantly worse, or better, and name the extremes."""
        there = np.isfinite(self.deltas)
        whole = f"With all heads, {self.metric.name} is {format_number(self.baseline)}"
        if not (self.deltas[there] != 0).any():
            return f"{whole}; no head changes it."
        if not np.isfinite(self.adjusted).any():
            return f"{whole}. p is not defined: there is nothing to test, or too few examples for a test."
        better = self.deltas if self.metric.higher_is_better else -self.deltas
        parts = []
        for word, gain in (("worse", -better), ("better", better)):
            heads = (self.adjusted < SIGNIFICANT) & (gain > 0)
            if heads.any():
                number = f"{int(heads.sum())} of {int(there.sum())} heads"
                most = self._describe_head(int(np.where(heads, gain, -np.inf).argmax()))
                parts.append(f"significantly {word} {self.cut} {number} ({most})")
        tested = f"{self.test}, p < {SIGNIFICANT}"
        if not parts:
            number = f"any of {int(there.sum())} heads"
            return f"{whole}, and not significantly different {self.cut} {number} ({tested})."
        return f"{whole}. It is {' and '.join(parts)}; {tested}."

    def _describe_head(self, cell: int) -> str:
        layer, head = divmod(cell, self.deltas.shape[1])
        size = format_with_error(self.deltas[layer, head], self.errors[layer, head], signed=True)
        return f"most {self.cut} {name_head(*self.places[layer].key, head)}: {size}"
