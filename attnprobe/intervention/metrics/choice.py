"""Which metric an objective is scored by."""

import numpy as np

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.bleu import Bleu
from attnprobe.intervention.metrics.confusion import Confusion, f1, matthews
from attnprobe.intervention.metrics.exchanges import Exchanges
from attnprobe.intervention.metrics.mean import Mean
from attnprobe.intervention.metrics.metric import Metric
from attnprobe.intervention.objectives.classification import Classification
from attnprobe.intervention.task import Bench


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
