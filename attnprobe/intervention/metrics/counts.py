"""Metrics of counts: shares, F1 of what is right, predicted and there, and of the confusion matrix."""

import importlib.util
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.metric import Additive, Comparison, Metric, Outcome
from attnprobe.sums.inference import PermutationTest, jackknife_error, pseudovalues

Matrix = NDArray[np.float64]


def share_of_words(exchanges: PermutationTest) -> Additive:
    """Score the share of all words whose label is right, as seqeval's accuracy has it."""
    return Additive(
        "accuracy",
        "share",
        ("words",),
        lambda outcome: outcome["words"].astype(np.float64),
        _share,
        exchanges,
    )


def entity_f1(exchanges: PermutationTest) -> Additive:
    """Score F1 of entities over all examples, whatever their type, as seqeval's F1 has it."""

    def read(outcome: Outcome) -> Matrix:
        return outcome["entities"].astype(np.float64)

    return Additive("f1", "", ("entities",), read, _f1, exchanges)


def label_f1(name: str, exchanges: PermutationTest) -> Additive:
    """Score F1 of labels: of all of them together (``f1_micro``), or the mean over labels (``f1_macro``).

    A label that is neither predicted nor there has F1 of 0, as scikit-learn has it.
    """
    function = _f1_of_all if name == "f1_micro" else _mean_f1
    return Additive(name, "", ("label", "prediction"), _count_labels, function, exchanges)


def _count_labels(outcome: Outcome) -> Matrix:
    """Count for each label whether it is right, predicted, there: (example, 3 * label)."""
    gold, said = (outcome[name].astype(np.float64) for name in ("label", "prediction"))
    return np.stack([gold * said, said, gold], 1).reshape(len(gold), -1)


def _share(counts: Matrix) -> Matrix:
    """Compute the share of (..., right and all)."""
    return _divide(counts[..., 0], counts[..., 1])


def _f1(counts: Matrix) -> Matrix:
    """Compute F1 of (..., right, predicted and there)."""
    return _divide(2 * counts[..., 0], counts[..., 1] + counts[..., 2])


def _f1_of_all(counts: Matrix) -> Matrix:
    return _f1(_split_labels(counts).sum(-1))


def _mean_f1(counts: Matrix) -> Matrix:
    return _f1(np.moveaxis(_split_labels(counts), -2, -1)).mean(-1)


def _split_labels(counts: Matrix) -> Matrix:
    return counts.reshape(*counts.shape[:-1], 3, -1)


def _divide(above: Matrix, below: Matrix) -> Matrix:
    return np.divide(above, below, out=np.zeros_like(below), where=below > 0)


#: How a label begins that is of an entity, in the schemes that seqeval reads: IOB1, IOB2, IOE, IOBES.
_BEGINNINGS = ("B", "I", "E", "S")
#: The label of a word that is of none.
_NONE = "O"


def has_entities(names: Iterable[str]) -> bool:
    """Tell whether some label is of an entity, such as B-PER; NOUN is of the word itself."""
    return any(_in_scheme(name) != _NONE for name in names)


def require_seqeval() -> None:
    if importlib.util.find_spec("seqeval") is None:
        raise AttnprobeError(
            "F1 of entities needs seqeval: pip install seqeval, or pass --metric accuracy for "
            "the share of words."
        )


def count_entities(said: Sequence[str], gold: Sequence[str]) -> tuple[int, int, int]:
    """Count the entities of a text that are right, predicted, and there.

    An entity is right if its first word, its last word and its type are. Labels of no known scheme, such as
    a padding label, are of no entity.

    References:
        Nakayama (2018), seqeval; Tjong Kim Sang and Buchholz (2000), conlleval.
    """
    from seqeval.metrics.sequence_labeling import get_entities  # takes a second: it imports scikit-learn

    ours, theirs = (set(get_entities([_in_scheme(label) for label in labels])) for labels in (said, gold))
    return len(ours & theirs), len(ours), len(theirs)


def _in_scheme(label: str) -> str:
    return label if label[:1] in _BEGINNINGS and label[1:2] in {"", "-"} else _NONE


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@lru_cache(maxsize=1 << 16)
def normalise_answer(answer: str) -> str:
    """Lower the letters, and drop punctuation, articles and superfluous blanks.

    >>> normalise_answer("The  Denver Broncos!")
    'denver broncos'

    References:
        ``normalize_answer`` of the official evaluation script of SQuAD 2.0, evaluate-v2.0.py.
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(said: str, answers: Sequence[str]) -> bool:
    """Tell whether an answer is one of those that people gave; none at all if they gave none."""
    return any(normalise_answer(said) == normalise_answer(answer) for answer in _drop_empty(answers))


def answer_f1(said: str, answers: Sequence[str]) -> float:
    """Compute F1 of the words of an answer, with the one of people's that it fits best.

    >>> answer_f1("the Denver Broncos", ["Broncos of Denver", "a horse"])
    0.8

    References:
        ``compute_f1`` of evaluate-v2.0.py.
    """
    words = normalise_answer(said).split()
    return max(_f1_of_tokens(words, normalise_answer(answer).split()) for answer in _drop_empty(answers))


def _drop_empty(answers: Sequence[str]) -> Sequence[str]:
    return [answer for answer in answers if normalise_answer(answer)] or [""]


def _f1_of_tokens(said: list[str], answer: list[str]) -> float:
    if not said or not answer:
        return float(said == answer)
    shared = sum((Counter(said) & Counter(answer)).values())
    return 2 * shared / (len(said) + len(answer))


#: Cells of confusion matrices that are held at once.
_CELLS = 4_000_000


class Confusion(Metric):
    """A function of the confusion matrix (right class, predicted class), which is no mean over examples.

    Standard errors come from the jackknife: the score is taken once without each example. Differences
    are tested by randomisation: with the predictions of pairs exchanged at random, how often is the
    difference as large?

    References:
        Noreen (1989), Computer-intensive methods for testing hypotheses.
    """

    title = "Scores of the confusion matrix: Matthews correlation and F1"

    needs = ("label", "prediction")
    higher_is_better = True
    unit = ""

    def __init__(
        self, name: str, function: Callable[[Matrix], Matrix], classes: int, exchanges: PermutationTest
    ) -> None:
        self.name, self._function, self._classes, self._exchanges = name, function, classes, exchanges

    def score(self, outcome: Outcome) -> float:
        """Score the confusion matrix of all examples; NaN if all have the same label."""
        matrix = self._matrix(_pairs(outcome))
        if (matrix.sum(-1) > 0).sum() < 2:  # one class only: there is nothing to confuse
            return float("nan")
        return float(self._function(matrix))

    def standard_error(self, outcome: Outcome) -> float:
        kinds, counts = np.unique(_pairs(outcome), axis=0, return_counts=True)
        return jackknife_error(self._without(kinds, counts), counts)

    def pseudovalues(self, outcome: Outcome) -> NDArray[np.float64]:
        kinds, which, counts = np.unique(_pairs(outcome), axis=0, return_inverse=True, return_counts=True)
        return pseudovalues(self.score(outcome), self._without(kinds, counts)[which], counts.sum())

    def compare(self, outcome: Outcome, untouched: Outcome) -> Comparison:
        triples = np.column_stack([_pairs(outcome), untouched["prediction"].astype(np.int64)])
        kinds, counts = np.unique(triples, axis=0, return_counts=True)
        delta = self.score(outcome) - self.score(untouched)
        apart = self._without(kinds[:, [0, 1]], counts) - self._without(kinds[:, [0, 2]], counts)
        return Comparison(delta, jackknife_error(apart, counts), self._test_exchanges(kinds, counts, delta))

    def _without(self, kinds: NDArray[np.int64], counts: NDArray[np.int64]) -> Matrix:
        """Score everything but one example, for each kind (right class, predicted class)."""
        without = np.repeat(self._matrix(kinds, counts)[None], len(kinds), axis=0)
        without[np.arange(len(kinds)), kinds[:, 0], kinds[:, 1]] -= 1
        return self._function(without)

    def _matrix(self, kinds: NDArray[np.int64], counts: NDArray[np.int64] | int = 1) -> Matrix:
        """Count (right class, predicted class)."""
        matrix = np.zeros((self._classes, self._classes))
        np.add.at(matrix, (kinds[:, 0], kinds[:, 1]), counts)
        return matrix

    def _test_exchanges(self, kinds: NDArray[np.int64], counts: NDArray[np.int64], delta: float) -> float:
        """Compute the share of random exchanges that differ as much; pairs of a kind are alike."""
        differ = kinds[:, 1] != kinds[:, 2]
        if not differ.any():
            return 1.0
        agreed = self._matrix(kinds[~differ], counts[~differ])
        kinds, counts = kinds[differ], counts[differ]

        def differences(draw: np.random.Generator, some: int) -> Matrix:
            exchanged = draw.binomial(counts, 0.5, (some, len(counts)))
            sides = [np.repeat(agreed[None], some, axis=0) for _ in range(2)]
            for kind, (label, ours, theirs) in enumerate(kinds):
                moved = exchanged[:, kind]
                for side, (kept, taken) in zip(sides, ((ours, theirs), (theirs, ours)), strict=True):
                    side[:, label, kept] += counts[kind] - moved
                    side[:, label, taken] += moved
            return self._function(sides[0]) - self._function(sides[1])

        return self._exchanges.p_of(differences, delta, _CELLS // self._classes**2)


def matthews(matrix: Matrix) -> Matrix:
    """Compute Matthews' correlation, for any number of classes; 0 where it is undefined.

    Limits: -1 to 1; 1 where every answer is right, 0 for answers that do not depend on the labels.

    References:
        Gorodkin (2004), Comparing two K-category assignments by a K-category correlation coefficient.
    """
    right, predicted = matrix.sum(-1), matrix.sum(-2)
    total, correct = matrix.sum((-1, -2)), np.trace(matrix, axis1=-2, axis2=-1)
    above = correct * total - (right * predicted).sum(-1)
    below = np.sqrt((total**2 - (predicted**2).sum(-1)) * (total**2 - (right**2).sum(-1)))
    return _divide(above, below)


def f1(matrix: Matrix) -> Matrix:
    """Compute F1 of class 1 where there are two, else the mean F1 of the classes that occur."""
    hits = np.diagonal(matrix, axis1=-2, axis2=-1)
    named = matrix.sum(-1) + matrix.sum(-2)
    each = _divide(2 * hits, named)
    if matrix.shape[-1] == 2:
        return each[..., 1]
    return each.sum(-1) / np.maximum((named > 0).sum(-1), 1)


def _pairs(outcome: Outcome) -> NDArray[np.int64]:
    return np.stack([outcome["label"], outcome["prediction"]], 1).astype(np.int64)
