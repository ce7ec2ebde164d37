"""Metrics, with their errors and tests: all but those of rankings."""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import UsageError
from attnprobe.sums.clustered import Clustered, sum_by_key
from attnprobe.sums.inference import PermutationTest, sign_flip

Floats = NDArray[np.float64]
#: A number or several numbers of every example.
Values = NDArray[Any]
#: The predictions of a model: arrays over examples by name.
Predictions = Mapping[str, Values]
#: The name under which predictions hold the document of each example: see ``Batch.clusters``.
CLUSTER = "cluster"
#: The most numbers that are held at once.
_CELLS = 4_000_000
#: Differences of scores that are closer than this count as equal, as sums in another order round otherwise.
_ROUNDING = 1e-9
#: The share of a sum of squares that may be rounding.
_FLAT = 1e-12


@dataclass(frozen=True)
class Score:
    """A metric: a function of the sum of the examples' rows, such as counts of right answers.

        score = f( sum_i row_i )

    A mean has the rows (value, 1), and f divides. Standard errors are over documents, of what each of N
    examples adds to the score (Tukey's pseudovalues, the jackknife),

        v_i = N s - (N - 1) s_-i,    s_-i the score without example i

    which for a mean are the values themselves. A difference of scores of the same examples has the
    differences of their pseudovalues. Its p is two-sided. For right and wrong answers it is that of the
    sign-flip test over documents (McNemar's exact test, where each example is a document), for other means
    that of Student's t over documents. For all other scores, the answers to whole documents are exchanged at
    random between both models: how often is the difference as large?

    Attributes:
        needs: The names of the predictions of which ``rows`` makes rows (example, part).
        function: Gives the scores (...) of sums (..., part).
        continuous: Whether any change of what the model gives changes the score, as it does a loss.
        tested: Whether a difference of 0 is a sensible null hypothesis.

    References:
        Tukey (1958), Bias and confidence in not-quite large samples.
        Noreen (1989), Computer-intensive methods for testing hypotheses.
    """

    name: str
    unit: str
    needs: tuple[str, ...]
    rows: Callable[[Predictions], Values]
    function: Callable[[Floats], Floats]
    higher_is_better: bool = True
    is_mean: bool = False
    continuous: bool = False
    tested: bool = True
    permutations: PermutationTest = field(default=PermutationTest(0))

    @property
    def most(self) -> float | None:
        """The largest change of the value of an example: 1 for a mean of shares, None for other scores."""
        return 1.0 if self.is_mean and self.unit == "share" else None

    def score(self, predictions: Predictions) -> float:
        """Score all examples together; NaN where that is undefined."""
        return float(self.function(self.rows(predictions).sum(0, dtype=np.float64)))

    def standard_error(self, predictions: Predictions) -> float:
        added = Clustered.of(self.pseudovalues(predictions), predictions.get(CLUSTER))
        return float(added.standard_error)

    def pseudovalues(self, predictions: Predictions) -> Floats:
        """Compute the pseudovalue of each example, (example,)."""
        rows = self.rows(predictions)
        if self.is_mean:
            return rows[:, 0]
        total, step = rows.sum(0, dtype=np.float64), max(1, _CELLS // rows.shape[1])
        parts = (rows[start : start + step] for start in range(0, len(rows), step))
        without = np.concatenate([self.function(total - part) for part in parts])
        return len(rows) * self.function(total) - (len(rows) - 1) * without

    def find_p(self, predictions: Predictions, untouched: Predictions) -> float:
        """Compute p of the difference of two scores of the same examples; NaN if untested or undefined."""
        ours, theirs, clusters = self.rows(predictions), self.rows(untouched), predictions.get(CLUSTER)
        first, second = (rows.sum(0, dtype=np.float64) for rows in (ours, theirs))
        delta = float(self.function(first) - self.function(second))
        if not self.tested or not np.isfinite(delta):
            return np.nan
        if np.array_equal(ours, theirs):
            return 1.0
        if self.is_mean and not (np.isin(ours, (0, 1)).all() and np.isin(theirs, (0, 1)).all()):
            return float(Clustered.of(ours[:, 0] - theirs[:, 0], clusters).estimate.p())
        if self.is_mean:
            return sign_flip(_sum_documents(ours - theirs, clusters)[:, 0], one_sided=False)
        differ = (ours != theirs).any(-1)
        left = _sum_documents((theirs - ours)[differ], None if clusters is None else clusters[differ])

        def exchange(draw: np.random.Generator, draws: int) -> Floats:
            """Draw differences of the score, (draw,), by exchanging answers between both models."""
            moved = draw.integers(2, size=(draws, len(left)), dtype=np.int8).astype(np.float64) @ left
            return self.function(first + moved) - self.function(second - moved)

        return self.permutations.p_of(exchange, delta, _CELLS // max(left.shape), _ROUNDING)


def mean_score(name: str, unit: str = "", *, higher_is_better: bool = True, tested: bool = True) -> Score:
    """Score the mean of a number of each example: loss, accuracy, similarity."""

    def rows(predictions: Predictions) -> Floats:
        values = predictions[name].astype(np.float64)
        return np.stack([values, np.ones_like(values)], -1)

    return Score(
        name,
        unit,
        (name,),
        rows,
        lambda sums: sums[..., 0] / sums[..., 1],
        higher_is_better=higher_is_better,
        is_mean=True,
        continuous=unit != "share",
        tested=tested,
    )


def _sum_documents(rows: Values, clusters: NDArray[np.int64] | None) -> Floats:
    """Sum rows (example, part) over documents, (document, part); -1 is a document of one example."""
    if clusters is None:
        return rows.astype(np.float64)
    names = np.where(clusters < 0, -2 - np.arange(len(clusters)), clusters)
    return sum_by_key(rows.astype(np.float64), names)[2]


def _require(package: str, metric: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise UsageError(
            f"--metric {metric} needs {package}: pip install {package}, or choose another --metric."
        )


def word_accuracy() -> Score:
    """Score the share of all words whose label is right: the accuracy of seqeval."""

    def divide(counts: Floats) -> Floats:
        return _divide(counts[..., 0], counts[..., 1])

    return Score("accuracy", "share", ("words",), itemgetter("words"), divide)


def entity_f1() -> Score:
    """Score F1 of the entities of all types and examples together: the F1 of seqeval."""
    _require("seqeval", "f1")
    return Score("f1", "", ("entities",), itemgetter("entities"), _f1)


def f1_micro() -> Score:
    """Score F1 of all labels of texts together."""
    return _score_labels("f1_micro", lambda counts: _f1(counts.sum(-2)))


def f1_macro() -> Score:
    """Score the mean of F1 over labels: 0 for one that is neither predicted nor gold, as in scikit-learn."""
    return _score_labels("f1_macro", lambda counts: _f1(counts).mean(-1))


def class_f1(classes: int) -> Score:
    """Score F1 of class 1 where there are two, else the mean F1 of the classes that occur."""

    def average(counts: Floats) -> Floats:
        each, named = _f1(counts), counts[..., 1] + counts[..., 2]
        return each[..., 1] if classes == 2 else each.sum(-1) / np.maximum((named > 0).sum(-1), 1)

    return _score_labels("f1", average, classes)


def matthews(classes: int) -> Score:
    """Score Matthews' correlation, for any number of classes; 0 where it is undefined.

    Limits: -1 to 1; 1 where every answer is right, 0 for answers that do not depend on the labels.

    References:
        Gorodkin (2004), Comparing two K-category assignments by a K-category correlation coefficient.
    """

    def correlate(counts: Floats) -> Floats:
        right, predicted, gold = np.moveaxis(counts, -1, 0)
        total = gold.sum(-1)
        above = right.sum(-1) * total - (predicted * gold).sum(-1)
        spread = (total**2 - (predicted**2).sum(-1)) * (total**2 - (gold**2).sum(-1))
        return _divide(above, np.sqrt(spread))

    return _score_labels("mcc", correlate, classes)


def _f1(counts: Floats) -> Floats:
    """Compute F1 from counts (..., 3) of right, predicted and gold ones."""
    return _divide(2 * counts[..., 0], counts[..., 1] + counts[..., 2])


def _divide(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.zeros_like(below), where=below > 0)


def _score_labels(name: str, function: Callable[[Floats], Floats], classes: int | None = None) -> Score:
    """Make a score of counts (..., label, 3) of right, predicted and gold texts.

    With ``classes``, each text has one of so many; without, any number of labels.
    """

    def rows(predictions: Predictions) -> Values:
        predicted, gold = predictions["prediction"], predictions["label"]
        if classes is None:
            predicted, gold = predicted > 0, gold > 0
        else:
            predicted, gold = (side.astype(int)[:, None] == np.arange(classes) for side in (predicted, gold))
        return np.stack([predicted & gold, predicted, gold], -1).reshape(len(gold), -1).astype(np.int8)

    def score(counts: Floats) -> Floats:
        return function(counts.reshape(*counts.shape[:-1], -1, 3))

    return Score(name, "", ("label", "prediction"), rows, score)


def pearson() -> Score:
    """Score Pearson's correlation of predictions with right numbers; NaN where either are all equal."""
    return Score("pearson", "", ("label", "prediction"), _moments, _correlate, continuous=True)


def spearman(decimals: int | None = None) -> Score:
    """Score Spearman's correlation: Pearson's of the ranks, where equal numbers share their mean rank.

    Ranks are those among all examples, also where an example is left out or exchanged; for that, errors of a
    correlation of .95 come out 6 % too short, those of a difference 1 %. Predictions are rounded to
    ``decimals`` first.
    """

    def rows(predictions: Predictions) -> Floats:
        from scipy.stats import rankdata  # takes a second to import

        predicted = predictions["prediction"].astype(np.float64)
        rounded = predicted if decimals is None else predicted.round(decimals)
        return _moments({"label": rankdata(predictions["label"]), "prediction": rankdata(rounded)})

    return Score("spearman", "", ("label", "prediction"), rows, _correlate)


def _moments(predictions: Predictions) -> Floats:
    """Compute 1, y, p, yy, pp and yp, (example, 6), with the mean of y taken off y and p first."""
    gold, predicted = (predictions[name].astype(np.float64) for name in ("label", "prediction"))
    y, p = gold - gold.mean(), predicted - gold.mean()
    return np.stack([np.ones_like(y), y, p, y * y, p * p, y * p], -1)


def _correlate(sums: Floats) -> Floats:
    """Compute the correlation from sums of moments (..., 6); NaN if either side is constant."""
    count, y, p, yy, pp, yp = np.moveaxis(sums, -1, 0)
    with np.errstate(all="ignore"):
        spreads = yy - y**2 / count, pp - p**2 / count
        flat = (spreads[0] <= _FLAT * yy) | (spreads[1] <= _FLAT * pp)
        correlation = (yp - y * p / count) / np.sqrt(spreads[0] * spreads[1])
    return np.where(flat, np.nan, correlation)


def bleu() -> Score:
    """Score corpus BLEU of generated text, from 0 to 100, as sacrebleu computes it.

        100 min(1, e^(1 - r / c)) (p_1 p_2 p_3 p_4)^(1/4)

    c and r are the lengths of text and reference, p_k is the share of n-grams of k words that are right. An
    order without a right one counts as 1 / 2, the next as 1 / 4, and so on, of one: ``exp`` smoothing.

    References:
        Papineni et al. (2002); Chen and Cherry (2014), method 3, for the smoothing; Post (2018), sacrebleu.
    """
    _require("sacrebleu", "bleu")
    return Score("bleu", "BLEU", ("ngrams",), itemgetter("ngrams"), corpus_bleu)


@lru_cache(maxsize=1 << 16)
def count_ngrams(text: str, reference: str) -> list[int]:
    """Count for BLEU: the lengths of both texts, the right n-grams of each order, and all n-grams."""
    from sacrebleu.metrics.bleu import BLEU

    counted = BLEU(force=True, effective_order=True).sentence_score(text, [reference])
    return [counted.sys_len, counted.ref_len, *counted.counts, *counted.totals]


def corpus_bleu(counts: Floats) -> Floats:
    """Compute BLEU of many corpora at once, from sums of ``count_ngrams``."""
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


#: What builds each metric that is no mean over examples, by what is predicted; of one class, of how many.
CLASS_METRICS = {"mcc": matthews, "f1": class_f1}
LABEL_METRICS = {"f1_micro": f1_micro, "f1_macro": f1_macro}
WORD_METRICS = {"accuracy": word_accuracy, "f1": entity_f1}
NUMBER_METRICS = {"pearson": pearson, "spearman": spearman}
TEXT_METRICS = {"bleu": bleu}
