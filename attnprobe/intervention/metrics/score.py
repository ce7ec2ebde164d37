"""What a metric is: the score of examples, its error, and how it differs from another score."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.clustered import Clustered, sum_by_key
from attnprobe.sums.inference import PermutationTest, sign_flip

Floats = NDArray[np.float64]
#: A number or several numbers of every example.
Values = NDArray[Any]
#: What a model predicts for the examples: arrays over examples by name.
Predictions = Mapping[str, Values]
#: The name under which predictions hold the document of each example: see ``Batch.clusters``.
CLUSTER = "cluster"
#: Cells of rows that are held at once.
_CELLS = 4_000_000
#: Differences of scores that are closer than this are equal: sums in another order round otherwise.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Comparison:
    """A score compared with that of the untouched model, over the same examples.

    Attributes:
        delta: The score minus that of the untouched model.
        error: The standard error of the difference, over documents, paired.
        p: How likely a difference as large is, either way, if the heads did not matter; NaN where
            there is no sensible null hypothesis.
    """

    delta: float
    error: float
    p: float


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
        needs: The names of the predictions that it reads.
        rows: Gives the rows (example, part) of predictions.
        function: Gives the scores (...) of sums (..., part).
        is_mean: Whether it is the mean of its first part; the second one is 1.
        continuous: Whether any change of what the model gives changes the score, as it does a loss.
        tested: Whether no difference is a sensible hypothesis.
        permutations: Draws the exchanges.

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
        """How much an example's own value can change at most, of a mean of shares; None of other scores."""
        return 1.0 if self.is_mean and self.unit == "share" else None

    def with_permutations(self, permutations: PermutationTest) -> "Score":
        return replace(self, permutations=permutations)

    def score(self, predictions: Predictions) -> float:
        """Score the examples together; NaN where that is undefined."""
        return float(self.function(self.rows(predictions).sum(0, dtype=np.float64)))

    def standard_error(self, predictions: Predictions) -> float:
        added = Clustered.of(self.pseudovalues(predictions), predictions.get(CLUSTER))
        return float(added.standard_error)

    def pseudovalues(self, predictions: Predictions) -> Floats:
        """Compute what each example adds to the score, (example,)."""
        rows = self.rows(predictions)
        if self.is_mean:
            return rows[:, 0]
        total, step = rows.sum(0, dtype=np.float64), max(1, _CELLS // rows.shape[1])
        parts = (rows[start : start + step] for start in range(0, len(rows), step))
        without = np.concatenate([self.function(total - part) for part in parts])
        return len(rows) * self.function(total) - (len(rows) - 1) * without

    def compare(self, predictions: Predictions, untouched: Predictions) -> Comparison:
        """Compare predictions for the same examples."""
        added = self.pseudovalues(predictions) - self.pseudovalues(untouched)
        error = float(Clustered.of(added, predictions.get(CLUSTER)).standard_error)
        delta = self.score(predictions) - self.score(untouched)
        return Comparison(delta, error, self.find_p(predictions, untouched))

    def find_p(self, predictions: Predictions, untouched: Predictions) -> float:
        """Test that there is no difference between predictions for the same examples."""
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
            """Exchange the answers to documents between both models at random, and compare the scores."""
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
