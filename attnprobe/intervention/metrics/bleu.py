"""BLEU of generated text, by sacrebleu."""

import importlib.util
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.metric import Comparison, Metric, Outcome

#: Bootstrap samples of a standard error, and random exchanges of a test.
SAMPLES = 1_000


class Bleu(Metric):
    """Corpus BLEU, from 0 to 100, as sacrebleu computes it.

    Standard errors come from the bootstrap over examples, p from paired approximate randomisation.

    References:
        Post (2018), A call for clarity in reporting BLEU scores.
    """

    name = "bleu"
    unit = "BLEU"
    higher_is_better = True
    needs = ("text", "reference")

    def __init__(self, seed: int) -> None:
        """Compare each text with its reference.

        Raises:
            AttnprobeError: When sacrebleu is not installed.
        """
        if importlib.util.find_spec("sacrebleu") is None:
            raise AttnprobeError("--metric bleu needs sacrebleu: pip install sacrebleu.")
        self._seed = seed

    def score(self, outcome: Outcome) -> float:
        """Score all texts together."""
        return _score(self._counts(outcome).sum(0))

    def standard_error(self, outcome: Outcome) -> float:
        """Draw examples with replacement."""
        counts = self._counts(outcome)
        return _spread([_score(weights @ counts) for weights in self._draws(len(counts))])

    def compare(self, outcome: Outcome, untouched: Outcome) -> Comparison:
        """Draw pairs with replacement for the error, and exchange them at random for p."""
        ours, theirs = self._counts(outcome), self._counts(untouched)
        delta = _score(ours.sum(0)) - _score(theirs.sum(0))
        drawn = [_score(weights @ ours) - _score(weights @ theirs) for weights in self._draws(len(ours))]
        as_large = 0
        for mixed in np.random.default_rng(self._seed).integers(2, size=(SAMPLES, len(ours), 1)):
            first = np.where(mixed, theirs, ours).sum(0)
            apart = _score(first) - _score(ours.sum(0) + theirs.sum(0) - first)
            as_large += abs(apart) >= abs(delta) - 1e-9
        return Comparison(delta, _spread(drawn), (as_large + 1) / (SAMPLES + 1))

    def _counts(self, outcome: Outcome) -> NDArray[np.int64]:
        """Count what BLEU is made of: lengths, then n-grams right and in all, for each example."""
        from sacrebleu.metrics.bleu import BLEU

        bleu, found = BLEU(force=True, effective_order=True), []
        for text, reference in zip(outcome["text"], outcome["reference"], strict=True):
            one = bleu.sentence_score(text, [reference])
            found.append([one.sys_len, one.ref_len, *one.counts, *one.totals])
        return np.array(found, np.int64)

    def _draws(self, examples: int) -> Iterator[NDArray[np.int64]]:
        """Count how often each example is drawn, for every sample."""
        draw = np.random.default_rng(self._seed)
        return (draw.multinomial(examples, np.full(examples, 1 / examples)) for _ in range(SAMPLES))


def _score(counts: NDArray[np.int64]) -> float:
    from sacrebleu.metrics.bleu import BLEU

    orders = (len(counts) - 2) // 2
    right, total = counts[2 : 2 + orders].tolist(), counts[2 + orders :].tolist()
    return float(BLEU.compute_bleu(right, total, int(counts[0]), int(counts[1]), smooth_method="exp").score)


def _spread(values: list[float]) -> float:
    return float(np.std(values, ddof=1))
