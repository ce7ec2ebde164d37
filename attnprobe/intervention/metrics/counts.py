"""Scores of counts: shares, and F1 of what is right, predicted and there."""

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.metrics.additive import Additive
from attnprobe.intervention.metrics.exchanges import Exchanges
from attnprobe.intervention.metrics.metric import Outcome

Matrix = NDArray[np.float64]


def share_of_words(exchanges: Exchanges) -> Additive:
    """Score the share of all words whose label is right, as seqeval's accuracy has it."""
    return Additive(
        "accuracy", "share", ("words",), lambda outcome: _counts(outcome, "words"), _share, exchanges
    )


def entity_f1(exchanges: Exchanges) -> Additive:
    """Score F1 of entities over all examples, whatever their type, as seqeval's F1 has it."""
    return Additive("f1", "", ("entities",), lambda outcome: _counts(outcome, "entities"), _f1, exchanges)


def label_f1(name: str, exchanges: Exchanges) -> Additive:
    """Score F1 of labels: of all of them together (``f1_micro``), or the mean over labels (``f1_macro``).

    A label that is neither predicted nor there has F1 of 0, as scikit-learn has it.
    """
    function = _f1_of_all if name == "f1_micro" else _mean_f1
    return Additive(name, "", ("label", "prediction"), _labels, function, exchanges)


def _counts(outcome: Outcome, name: str) -> Matrix:
    return outcome[name].astype(np.float64)


def _labels(outcome: Outcome) -> Matrix:
    """Count for each label whether it is right, predicted, there: (example, 3 * label)."""
    gold, said = (outcome[name].astype(np.float64) for name in ("label", "prediction"))
    return np.stack([gold * said, said, gold], 1).reshape(len(gold), -1)


def _share(counts: Matrix) -> Matrix:
    """Divide (..., right and all)."""
    return _divided(counts[..., 0], counts[..., 1])


def _f1(counts: Matrix) -> Matrix:
    """Give F1 of (..., right, predicted and there)."""
    return _divided(2 * counts[..., 0], counts[..., 1] + counts[..., 2])


def _f1_of_all(counts: Matrix) -> Matrix:
    return _f1(_by_label(counts).sum(-1))


def _mean_f1(counts: Matrix) -> Matrix:
    return _f1(np.moveaxis(_by_label(counts), -2, -1)).mean(-1)


def _by_label(counts: Matrix) -> Matrix:
    """Part counts into (..., 3, label)."""
    return counts.reshape(*counts.shape[:-1], 3, -1)


def _divided(above: Matrix, below: Matrix) -> Matrix:
    return np.divide(above, below, out=np.zeros_like(below), where=below > 0)
