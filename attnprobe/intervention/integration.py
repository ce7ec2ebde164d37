"""Integrated gradients of gates: what the heads of a layer add to the loss, from closed gates to open."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.findings.noise import block_record
from attnprobe.intervention.gradient import Importance
from attnprobe.intervention.objectives.objective import Answer
from attnprobe.intervention.task import Bench
from attnprobe.model.gates import BatchReplay, gate_attention
from attnprobe.run.memory import Halving
from attnprobe.sums.base import Sum, compute_digest
from attnprobe.table.builder import TableBuilder
from attnprobe.table.head_table import HeadTable

Floats = NDArray[np.float64]
#: Nodes on the line by default.
NODES = 4


@dataclass(frozen=True)
class Integrals(Sum):
    """The sum over examples of integrated gradients: of A, and of |A| taken example by example."""

    signed: Importance
    size: Importance

    @classmethod
    def of(cls, values: Floats, batch: Batch) -> "Integrals":
        """Sum up the values (example, layer, head) of a batch."""
        return cls(Importance.of(values, batch), Importance.of(np.abs(values), batch))


def find_nodes(number: int) -> tuple[Floats, Floats]:
    """Find the places and the weights of Gauss-Legendre quadrature between 0 and 1.

    They are exact for polynomials of degree 2 ``number`` - 1.

    >>> [places.round(3).tolist() for places in find_nodes(2)]
    [[0.211, 0.789], [0.5, 0.5]]
    """
    places, weights = np.polynomial.legendre.leggauss(number)
    return (places + 1) / 2, weights / 2


def integrate_gradients(
    bench: Bench,
    nodes: int = NODES,
    open_heads: NDArray[np.bool_] | None = None,
    name: str = "integrated gradients",
) -> Integrals:
    """Integrate the derivative of each example's loss by each gate, along a line for each layer.

        A_h(x) = integral from 0 to 1 of d L(x) / d xi_h at xi_k = t for all heads k of the layer, over t

    with the gates of all other layers open. So the heads of a layer add up to what the layer does to the
    loss, up to the error of the quadrature:

        sum_h A_h(x) = L(x) - L(x) without the layer's heads

    ``ig`` is the mean of A over examples, ``ig_abs``
    that of |A|. A head of positive ``ig`` raises the loss: it harms. The integral is a Gauss-Legendre sum.

    Unit: that of the loss. Limits: 0 for a head that gives nothing.

    Args:
        bench: Checkpoint, whose weights are frozen, task and examples.
        nodes: How many points of the line the derivative is taken at.
        open_heads: Which gates are open (layer, head) at the end of the line; the others stay closed.
        name: Of the pass.

    Raises:
        AttnprobeError: When a loss or a derivative is no number.

    References:
        Sundararajan, Taly and Yan (2017), Axiomatic attribution for deep networks.
    """
    subject = bench.subject
    checkpoint, architecture, objective = subject.checkpoint, subject.architecture, bench.objective
    if checkpoint.quantisation is not None:
        checkpoint.quantisation.check_gradients(checkpoint.model_type)
    at = np.ones(subject.shape) if open_heads is None else open_heads.astype(np.float64)
    places, weights = find_nodes(nodes)
    halving, resumable = Halving(), subject.gating.replays and objective.resumable
    kind = torch.promote_types(checkpoint.body.dtype, torch.float32)
    opened = torch.from_numpy(at).to(checkpoint.device, kind)
    way, sites, present = architecture.way, architecture.sites, architecture.present
    with gate_attention(checkpoint.body, way, sites, present) as gates:
        replay = BatchReplay(checkpoint.body, gates)

        def integrate(part: Batch) -> Tensor:
            found = torch.zeros(len(part), *subject.shape, dtype=torch.float64)
            base = {layer: opened[layer][None] for layer in np.flatnonzero(~at.all(-1)).tolist()}
            gates.rows = base
            with torch.no_grad(), replay.record() if resumable else nullcontext():
                whole = objective.answer(part)
            for layer in range(subject.shape[0]):
                with replay.resume_at(layer) if resumable else nullcontext():
                    for place, weight in zip(places, weights, strict=True):
                        slopes = differentiate(part, whole, layer, base, float(place))
                        found[:, layer] += weight * slopes.double().cpu()
            return found

        def differentiate(
            part: Batch, whole: Answer, layer: int, base: Mapping[int, Tensor], place: float
        ) -> Tensor:
            row = (place * opened[layer]).repeat(len(part), 1).requires_grad_()
            gates.rows = {**base, layer: row}
            with torch.enable_grad():
                loss = objective.answer(part, whole).loss.sum()
            slopes = None
            if loss.requires_grad:  # or nothing that these heads give reaches the loss
                (slopes,) = torch.autograd.grad(loss, row, allow_unused=True)
            return torch.zeros_like(row).detach() if slopes is None else slopes * opened[layer]

        def sum_of(batch: Batch) -> Integrals:
            values = torch.cat(list(halving.run(batch, integrate)))
            if not bool(torch.isfinite(values).all()):
                raise AttnprobeError(
                    f"{checkpoint.name} gives NaN or infinite gradients; try --dtype float32, or look "
                    "at its weights."
                )
            return Integrals.of(values.numpy(), batch)

        with replay.watch(architecture.sites) if resumable else nullcontext():
            return bench.total(
                name,
                sum_of,
                Integrals.from_arrays,
                thread_context=gates.thread_context,
                question={"heads that are on": compute_digest(at), "nodes": str(nodes)},
            )


def tabulate_integrals(
    bench: Bench,
    dataset: str,
    *,
    facts: Mapping[str, Any],
    nodes: int = NODES,
) -> HeadTable:
    """Tabulate integrated gradients over the examples of a bench, one row a head.

    ``ig`` is the mean over examples, ``ig_abs`` that of its size.
    """
    found = integrate_gradients(bench, nodes)
    layers, heads = bench.subject.shape
    labels, size = bench.labels(dataset, facts), found.size
    labels = labels.with_record({
        **block_record("ig_abs", labels.places, size.blocks, size.heads.average),
        "integrated": {"nodes": nodes},
    })  # fmt: skip
    build = TableBuilder(labels, layers * heads)
    build.key("objective", [bench.objective.name] * layers * heads)
    build.key("method", ["ig"] * layers * heads)
    build.heads(heads)
    build.count("n", size.heads.count.ravel())
    columns = {"ig": (found.signed, "what a head adds to the loss"), "ig_abs": (size, "size of that")}
    for name, (part, title) in columns.items():
        build.measure(name, "loss", part.heads.average, part.heads.standard_error, headline=True, title=title)
    return build.table("integrated gradients of heads", kind="heads")
