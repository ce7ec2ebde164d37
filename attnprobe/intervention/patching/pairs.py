"""What was measured of every pair, and what follows from it: shares of the gap, tests, flips."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.patching.passes import PatchPlan
from attnprobe.intervention.patching.values import Floats, PairValues
from attnprobe.intervention.task import Bench
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.inference import Correction, adjust


@dataclass(frozen=True)
class PatchedPairs:
    """What was measured of every pair.

    Attributes:
        base: m of the text that is read, (pair,).
        source: m of the text that heads are taken from, (pair,).
        effect: What patching does to m, (pair, layer, head) or (pair, layer, head, position); NaN where
            nothing was patched.
        attribution: Its first order, of the same shape; NaN where it was not computed.
        clusters: What names the document of each pair, -1 where it is the document's only one.
        documents: The document of each, by its number.
    """

    plan: PatchPlan
    base: Floats
    source: Floats
    effect: Floats
    attribution: Floats
    clusters: NDArray[np.int64]
    documents: NDArray[np.int64]

    @classmethod
    def collect(
        cls, bench: Bench, plan: PatchPlan, values: PairValues, first: PairValues | None
    ) -> "PatchedPairs":
        """Collect the numbers of all pairs, in their order; ``first`` has the attributions."""
        batches = bench.corpus.batches
        members = batches.members
        attributed = None if first is None else first.collect("attribution", members)
        measured = "effect" in values.parts[0][1]
        effect = values.collect("effect", members) if measured else None
        known = effect if attributed is None else attributed
        assert known is not None
        nothing = np.full_like(known, np.nan)
        return cls(
            plan,
            values.collect("own", members),
            values.collect("other", members),
            nothing if effect is None else effect,
            nothing if attributed is None else attributed,
            batches.clusters[members],
            batches.documents[members],
        )

    @property
    def gap(self) -> Floats:
        """What all that differs between the texts does to m, (pair,)."""
        return self.source - self.base

    @property
    def fixed(self) -> NDArray[np.bool_]:
        """Which effects are 0 by construction, (layer, head, ...): the head gives the same on both texts.

        So do those of a decoder before the first token that differs; there is nothing to test.
        """
        return ~np.any([(np.nan_to_num(one) != 0).any(0) for one in (self.effect, self.attribution)], 0)

    def summarise(self, values: Floats) -> Clustered:
        """Sum values (pair, ...) up over pairs; pairs of one document are alike."""
        return Clustered.of(values, self.clusters)

    @property
    def recovered(self) -> tuple[Floats, Floats]:
        """The sum of effects over the sum of gaps, of the pairs that have both, with its standard error.

        With r = sum e / sum g, the error is that of the mean of e - r g, divided by the mean gap. It is the
        error of the share, which the test of the effect against 0 does not know: a share several errors from
        0 may have an effect that is not significant, where effects and gaps vary together.

        References:
            Cochran (1977), Sampling techniques, section 6.4.
        """
        gap = self.gap.reshape(-1, *[1] * (self.effect.ndim - 1))
        there = np.where(np.isnan(self.effect), np.nan, gap)
        whole = self.summarise(there).average
        with np.errstate(divide="ignore", invalid="ignore"):
            share = self.summarise(self.effect).average / whole
            error = self.summarise(self.effect - share * there).standard_error / np.abs(whole)
        return np.where(np.isfinite(share), share, np.nan), np.where(np.isfinite(share), error, np.nan)


def adjust_tests(p: Floats, tested: NDArray[np.bool_], correction: Correction) -> Floats:
    """Adjust p for all that could have been tested: what was not chosen for a test counts as one of p = 1.

    >>> adjust_tests(np.array([0.01, np.nan, np.nan]), np.array([True, True, False]), "holm")
    array([0.02,  nan,  nan])
    """
    filled = np.where(tested & np.isnan(p), 1.0, p)
    return np.where(np.isnan(p), np.nan, adjust(filled, correction))


def count_flips(clean: Floats, corrupted: Floats, *, signed: bool) -> int:
    """Count the pairs in which what the model decides for changes: m falls from above 0 to below.

    Where the sign of m says nothing, such as of a log probability, those in which the clean text has more.
    """
    return int(((clean > 0) & (corrupted < 0)).sum() if signed else (clean > corrupted).sum())
