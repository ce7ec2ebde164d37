"""BLEU of generated text, by sacrebleu."""

import importlib.util

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.metric import Comparison, Metric, Outcome
from attnprobe.sums.inference import PermutationTest, pseudovalues

#: Bootstrap samples of a standard error.
SAMPLES = 1_000
#: Draws of examples that are held at once: so many numbers.
_HELD = 8_000_000

Counts = NDArray[np.float64]


class Bleu(Metric):
    """Corpus BLEU, from 0 to 100, as sacrebleu computes it.

    Standard errors come from the bootstrap over examples, p from paired approximate randomisation.

    References:
        Post (2018), A call for clarity in reporting BLEU scores.
    """

    title = "BLEU of generated text, by sacrebleu"

    name = "bleu"
    unit = "BLEU"
    higher_is_better = True
    needs = ("text", "reference")

    def __init__(self, exchanges: PermutationTest) -> None:
        if importlib.util.find_spec("sacrebleu") is None:
            raise AttnprobeError("--metric bleu needs sacrebleu: pip install sacrebleu.")
        self._exchanges = exchanges

    def score(self, outcome: Outcome) -> float:
        return float(corpus_bleu(self._counts(outcome).sum(0)))

    def standard_error(self, outcome: Outcome) -> float:
        return _spread(corpus_bleu(self._draw(self._counts(outcome))))

    def pseudovalues(self, outcome: Outcome) -> NDArray[np.float64]:
        counts = self._counts(outcome)
        whole = counts.sum(0)
        return pseudovalues(corpus_bleu(whole), corpus_bleu(whole - counts), len(counts))

    def compare(self, outcome: Outcome, untouched: Outcome) -> Comparison:
        """Draw pairs with replacement for the error, and exchange them at random for p."""
        ours, theirs = self._counts(outcome), self._counts(untouched)
        first, both = theirs.sum(0), ours.sum(0) + theirs.sum(0)
        delta = float(corpus_bleu(ours.sum(0)) - corpus_bleu(first))

        def differences(draw: np.random.Generator, some: int) -> Counts:
            bits = draw.integers(256, size=(some, -(-len(ours) // 8)), dtype=np.uint8)
            exchanged = np.unpackbits(bits, axis=1, count=len(ours))
            one = first + exchanged.astype(np.float64) @ (ours - theirs)
            return corpus_bleu(one) - corpus_bleu(both - one)

        p = self._exchanges.p_of(differences, delta, _HELD // len(ours), 1e-9)
        apart = corpus_bleu(self._draw(ours)) - corpus_bleu(self._draw(theirs))
        return Comparison(delta, _spread(apart), p)

    def _counts(self, outcome: Outcome) -> Counts:
        """Count what BLEU is made of: lengths, then n-grams right and in all, for each example."""
        from sacrebleu.metrics.bleu import BLEU

        bleu, found = BLEU(force=True, effective_order=True), []
        for text, reference in zip(outcome["text"], outcome["reference"], strict=True):
            one = bleu.sentence_score(text, [reference])
            found.append([one.sys_len, one.ref_len, *one.counts, *one.totals])
        return np.array(found, np.float64)

    def _draw(self, counts: Counts) -> Counts:
        """Sum examples drawn with replacement, (sample, count); the same draws for every outcome."""
        draw, number = np.random.default_rng(self._exchanges.seed), len(counts)
        even = np.full(number, 1 / number)
        return np.stack([draw.multinomial(number, even) @ counts for _ in range(SAMPLES)])


def corpus_bleu(counts: Counts) -> NDArray[np.float64]:
    """Compute BLEU of many corpora at once, from sums of what sacrebleu counts.

        100 min(1, e^(1 - r / c)) (p_1 p_2 p_3 p_4)^(1/4)

    c and r are the lengths of text and reference, p_k is the share of n-grams of k words that are right. An
    order without a right one counts as 1 / 2, the next as 1 / 4, and so on, of one. This is
    ``BLEU.compute_bleu`` of sacrebleu with its ``exp`` smoothing.

    Args:
        counts: (..., 2 + 4 + 4): both lengths, n-grams that are right, all n-grams.

    Returns:
        (...), from 0 to 100.

    References:
        Papineni et al. (2002); Chen and Cherry (2014), method 3, for the smoothing.
    """
    length, reference = counts[..., 0], counts[..., 1]
    orders = (counts.shape[-1] - 2) // 2
    right, total = counts[..., 2 : 2 + orders], counts[..., 2 + orders :]
    missed = (right == 0) & (total > 0)
    smoothed = np.where(missed, 0.5 ** missed.cumsum(-1), right)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.log(smoothed / total).mean(-1)
        brevity = np.minimum(0, 1 - reference / length)
    scored = (right > 0).any(-1) & (total > 0).all(-1)
    return np.where(scored, 100 * np.exp(np.where(scored, mean + brevity, 0.0)), 0.0)


def _spread(values: NDArray[np.float64]) -> float:
    return float(np.std(values, ddof=1))
