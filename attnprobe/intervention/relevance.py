"""The relevance of heads: how much of what a model predicts came through each of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.findings.noise import block_record
from attnprobe.intervention.gradient import Importance, sum_derivatives
from attnprobe.intervention.objectives.objective import Answer
from attnprobe.intervention.task import Bench
from attnprobe.model.relevance import Relevance as Rules
from attnprobe.sums.base import Sum
from attnprobe.table.builder import TableBuilder
from attnprobe.table.head_table import HeadTable

Floats = NDArray[np.float64]
UNITS = {"relevance": "dz/dmask", "relevance_abs": "|dz/dmask|"}
TITLES = {"relevance": "relevance", "relevance_abs": "size of relevance"}


@dataclass(frozen=True)
class Relevance(Sum):
    """The sum of relevance over examples: of R, and of |R| taken example by example. Two of them add up."""

    signed: Importance
    size: Importance

    @classmethod
    def of(cls, values: Floats, batch: Batch) -> "Relevance":
        return cls(Importance.of(values, batch), Importance.of(np.abs(values), batch))


def head_relevance(bench: Bench, open_heads: NDArray[np.bool_] | None = None) -> Relevance:
    """Propagate what is predicted of each example back to the heads, by the rules of LRP.

        R_h(x) = d~ z(x) / d xi_h,    relevance = mean over x of R_h,    relevance_abs = mean over x of |R_h|

    for a gate xi_h = 1 on what the head gives to its layer, where d~ is the gradient under the rules of
    ``attnprobe.model.relevance``. What is explained, z, is as a rule how far what is predicted is ahead of
    the runner-up, in logits, and a head of positive R speaks for it; of a regression z is the number.
    Relevance is conserved but for the share of biases, so that R of all layers are in one unit. The heads of
    a layer don't sum to z, which also passes around them.

    Unit: that of z, as a rule logits. Limits: 0 for a head that gives nothing.

    Args:
        bench: Checkpoint, whose weights are frozen, task and examples.
        open_heads: Which gates are open (layer, head); the others let nothing through.

    Raises:
        AttnprobeError: When a relevance is no number.

    References:
        Voita, Talbot, Moiseev, Sennrich and Titov (2019), Analyzing multi-head self-attention, section 4.
        Ali et al. (2022), XAI for transformers; Achtibat et al. (2024), AttnLRP: the rules.
    """
    return sum_derivatives(
        bench,
        _margin,
        Relevance.of,
        Relevance.from_arrays,
        name="relevance",
        open_heads=open_heads,
        rules=Rules,
    )


def _margin(answer: Answer) -> Tensor:
    assert answer.margin is not None  # every objective gives one where nothing is generated
    return answer.margin()


def tabulate_relevance(bench: Bench, dataset: str, *, facts: Mapping[str, Any]) -> HeadTable:
    """Tabulate relevance over the examples of a bench, one row a head.

    ``relevance`` is the mean of R over examples, ``relevance_abs`` that of its size, and ``relevance_share``
    is ``relevance_abs`` divided by its sum over the heads of the layer.
    """
    found = head_relevance(bench)
    layers, heads = bench.subject.shape
    labels, size = bench.labels(dataset, facts), found.size
    labels = labels.with_record(block_record("relevance_abs", labels.places, size.blocks, size.heads.average))
    build = TableBuilder(labels, layers * heads)
    build.key("objective", [bench.objective.name] * layers * heads)
    build.key("method", ["lrp"] * layers * heads)
    build.heads(heads)
    build.count("n", size.heads.count.ravel())
    columns = {"relevance": found.signed, "relevance_abs": size}
    for name, part in columns.items():
        average, error = part.heads.average, part.heads.standard_error
        build.measure(name, UNITS[name], average, error, headline=name == "relevance", title=TITLES[name])
    title = "share of the layer's relevance"
    share = size.share
    build.measure("relevance_share", "share of layer", share.value, share.error, headline=True, title=title)
    explained = f"What is explained is z, {bench.objective.explains}. {bench.objective.positive}".rstrip()
    return build.table("relevance of heads", [explained], "heads")
