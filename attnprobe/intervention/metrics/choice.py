"""Which metric an objective is scored by."""

import numpy as np

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.bleu import Bleu
from attnprobe.intervention.metrics.confusion import Confusion, f1, matthews
from attnprobe.intervention.metrics.exchanges import Exchanges
from attnprobe.intervention.metrics.mean import Mean
from attnprobe.intervention.metrics.metric import Metric
from attnprobe.intervention.objectives.classification import Classification
from attnprobe.intervention.objectives.objective import Objective
from attnprobe.intervention.task import Bench

#: Every metric that some objective can be scored by.
METRICS = ("accuracy", "mcc", "f1", "loss", "similarity", "bleu")


def check_metric(name: str | None, objective: type[Objective]) -> str:
    """Settle the name of the metric: what was asked for, or the usual one of the objective."""
    if name is None:
        return objective.metrics[0]
    if name not in objective.metrics:
        raise AttnprobeError(
            f"The objective {objective.name} has no metric {name!r}; choose one of "
            f"{', '.join(objective.metrics)}."
        )
    return name


def metric_of(name: str, bench: Bench, seed: int) -> Metric:
    """Build a metric for the examples of a bench, with tests fine enough for all heads of its model.

    Raises:
        AttnprobeError: When the examples leave it undefined.
    """
    if name == "loss":
        return Mean(name, "nats", higher_is_better=False)
    if name == "accuracy":
        return Mean(name, "share", higher_is_better=True)
    if name == "similarity":
        return Mean(name, "cosine", higher_is_better=True, tested=False)
    layers, heads = bench.subject.shape
    exchanges = Exchanges.for_tests(layers * heads, seed)
    if name == "bleu":
        return Bleu(exchanges)
    objective = bench.objective
    assert isinstance(objective, Classification)
    if len(np.unique(objective.classes[bench.corpus.batches.members])) < 2:
        raise AttnprobeError(
            f"All examples that are scored have the same label, which leaves {name} undefined; take "
            "data with "
            "at least two classes, or --metric accuracy."
        )
    return Confusion(name, matthews if name == "mcc" else f1, objective.count, exchanges)
