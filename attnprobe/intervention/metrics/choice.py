"""Which metric an objective is scored by."""

import numpy as np

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.bleu import Bleu
from attnprobe.intervention.metrics.correlation import Spearman, pearson
from attnprobe.intervention.metrics.counts import (
    Confusion,
    entity_f1,
    f1,
    label_f1,
    matthews,
    require_seqeval,
    share_of_words,
)
from attnprobe.intervention.metrics.mean import Mean
from attnprobe.intervention.metrics.metric import Metric
from attnprobe.intervention.objectives.classification import Classification, MultiLabel, Regression
from attnprobe.intervention.objectives.token_classification import TokenClassification
from attnprobe.intervention.task import Bench
from attnprobe.sums.resampling import Exchanges

#: Means over examples that are no shares: the unit, and whether more is better.
_MEANS = {"loss": ("nats", False), "mse": ("", False), "similarity": ("cosine", True)}


def build_metric(name: str, bench: Bench, seed: int) -> Metric:
    """Build a metric for the examples of a bench, with tests fine enough for all heads of its model."""
    layers, heads = bench.subject.shape
    exchanges = Exchanges.for_tests(layers * heads, seed)
    match getattr(bench, "objective", None):
        case TokenClassification() as objective if name != "loss":
            return _build_for_words(name, objective, bench, exchanges)
        case Regression() as objective if name != "mse":
            return _build_for_numbers(name, objective, bench, exchanges)
        case MultiLabel() if name.startswith("f1"):
            return label_f1(name, exchanges)
        case Classification() as objective if name in {"mcc", "f1"}:
            return _build_for_classes(name, objective, bench, exchanges)
    if name == "bleu":
        return Bleu(exchanges)
    unit, higher_is_better = _MEANS.get(name, ("share", True))
    return Mean(name, unit, higher_is_better=higher_is_better, tested=name != "similarity")


def _build_for_words(name: str, objective: TokenClassification, bench: Bench, exchanges: Exchanges) -> Metric:
    if name == "accuracy":
        return share_of_words(exchanges)
    require_seqeval()
    if not objective.has_entities(bench.corpus.batches.members):
        raise AttnprobeError(
            "Not one entity is in the examples that are scored, which leaves f1 undefined; take data with "
            "entities, or --metric accuracy."
        )
    return entity_f1(exchanges)


def _build_for_numbers(name: str, objective: Regression, bench: Bench, exchanges: Exchanges) -> Metric:
    if len(np.unique(objective.values[bench.corpus.batches.members])) < 2:
        raise AttnprobeError(
            f"All examples that are scored have the same number, which leaves {name} undefined; take data "
            "with others, or --metric mse."
        )
    return pearson(exchanges) if name == "pearson" else Spearman(exchanges)


def _build_for_classes(name: str, objective: Classification, bench: Bench, exchanges: Exchanges) -> Metric:
    if len(np.unique(objective.classes[bench.corpus.batches.members])) < 2:
        raise AttnprobeError(
            f"All examples that are scored have the same label, which leaves {name} undefined; take "
            "data with at least two classes, or --metric accuracy."
        )
    return Confusion(name, matthews if name == "mcc" else f1, objective.count, exchanges)
