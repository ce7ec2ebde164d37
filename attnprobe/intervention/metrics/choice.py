"""Which metric an objective is scored by."""

import numpy as np

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.bleu import Bleu
from attnprobe.intervention.metrics.confusion import Confusion, f1, matthews
from attnprobe.intervention.metrics.correlation import Spearman, pearson
from attnprobe.intervention.metrics.counts import entity_f1, label_f1, share_of_words
from attnprobe.intervention.metrics.entities import require_seqeval
from attnprobe.intervention.metrics.mean import Mean
from attnprobe.intervention.metrics.metric import Metric
from attnprobe.intervention.objectives.classification import Classification
from attnprobe.intervention.objectives.multi_label import MultiLabel
from attnprobe.intervention.objectives.objective import Objective
from attnprobe.intervention.objectives.regression import Regression
from attnprobe.intervention.objectives.token_classification import TokenClassification
from attnprobe.intervention.task import Bench
from attnprobe.model.loading.checkpoint import Checkpoint

#: Every metric that some objective can be scored by.
METRICS = (
    "accuracy", "mcc", "f1", "f1_micro", "f1_macro", "exact_match", "pearson", "spearman", "mse", "loss",
    "similarity", "bleu",
)  # fmt: skip
#: Those that are means over examples but no shares: the unit, and whether more is better.
_MEANS = {"loss": ("nats", False), "mse": ("", False), "similarity": ("cosine", True)}


def check_metric(name: str | None, objective: type[Objective], checkpoint: Checkpoint | None = None) -> str:
    """Settle the name of the metric: what was asked for, or the usual one of the objective.

    Args:
        name: What was asked for.
        objective: What is to be scored.
        checkpoint: Whose answers; an objective may score some checkpoints otherwise than others.

    Raises:
        AttnprobeError: When the objective is not scored by it.
    """
    known = objective.metrics if checkpoint is None else objective.scored_by(checkpoint)
    if name is None:
        return known[0]
    if name not in known:
        here = " for this checkpoint" if name in objective.metrics else ""
        raise AttnprobeError(
            f"The objective {objective.name} has no metric {name!r}{here}; choose one of {', '.join(known)}."
        )
    return name


def metric_of(name: str, bench: Bench, seed: int) -> Metric:
    """Build a metric for the examples of a bench.

    Raises:
        AttnprobeError: When the examples leave it undefined.
    """
    match getattr(bench, "objective", None):
        case TokenClassification() as objective if name != "loss":
            return _of_words(name, objective, bench, seed)
        case Regression() as objective if name != "mse":
            return _of_numbers(name, objective, bench, seed)
        case MultiLabel() if name.startswith("f1"):
            return label_f1(name, seed)
        case Classification() as objective if name in {"mcc", "f1"}:
            return _of_classes(name, objective, bench, seed)
    if name == "bleu":
        return Bleu(seed)
    unit, higher_is_better = _MEANS.get(name, ("share", True))
    return Mean(name, unit, higher_is_better=higher_is_better, tested=name != "similarity")


def _of_words(name: str, objective: TokenClassification, bench: Bench, seed: int) -> Metric:
    if name == "accuracy":
        return share_of_words(seed)
    require_seqeval()
    if not objective.has_entities(bench.corpus.batches.members):
        raise AttnprobeError(
            "Not one entity is in the examples that are scored, which leaves f1 undefined; take data with "
            "entities, or --metric accuracy."
        )
    return entity_f1(seed)


def _of_numbers(name: str, objective: Regression, bench: Bench, seed: int) -> Metric:
    if len(np.unique(objective.values[bench.corpus.batches.members])) < 2:
        raise AttnprobeError(
            f"All examples that are scored have the same number, which leaves {name} undefined; take data "
            "with others, or --metric mse."
        )
    return pearson(seed) if name == "pearson" else Spearman(seed)


def _of_classes(name: str, objective: Classification, bench: Bench, seed: int) -> Metric:
    if len(np.unique(objective.classes[bench.corpus.batches.members])) < 2:
        raise AttnprobeError(
            f"All examples that are scored have the same label, which leaves {name} undefined; take "
            "data with "
            "at least two classes, or --metric accuracy."
        )
    return Confusion(name, matthews if name == "mcc" else f1, objective.count, seed)
