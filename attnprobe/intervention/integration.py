"""Integrated gradients of gates: what the heads of a layer add to the loss, from closed gates to open."""

from collections.abc import Mapping
from contextlib import nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.intervention.gradient import Attributions, name_pass, open_all_heads, sum_attributions
from attnprobe.intervention.objectives.objective import Answer
from attnprobe.intervention.task import TaskData
from attnprobe.model.gates import BatchReplay
from attnprobe.sums.base import compute_digest

Floats = NDArray[np.float64]
#: Nodes on the line by default.
NODES = 4


def find_nodes(number: int) -> tuple[Floats, Floats]:
    """Find the places and the weights of Gauss-Legendre quadrature between 0 and 1.

    They are exact for polynomials of degree 2 ``number`` - 1.

    >>> [places.round(3).tolist() for places in find_nodes(2)]
    [[0.211, 0.789], [0.5, 0.5]]
    """
    places, weights = np.polynomial.legendre.leggauss(number)
    return (places + 1) / 2, weights / 2


def integrate_gradients(
    data: TaskData, nodes: int = NODES, open_heads: NDArray[np.bool_] | None = None
) -> Attributions:
    """Integrate the derivative of each example's loss by each gate, along a line for each layer.

        A_h(x) = integral from 0 to 1 of d L(x) / d xi_h at xi_k = t for all heads k of the layer, over t

    with the gates of all other layers open. So the heads of a layer add up to what the layer does to the
    loss, up to the error of the quadrature:

        sum_h A_h(x) = L(x) - L(x) without the layer's heads

    ``ig`` is the mean of A over examples, ``ig_abs`` that of |A|. A head of positive ``ig`` raises the loss:
    it harms. The integral is a Gauss-Legendre sum.

    Unit: that of the loss. Limits: 0 for a head that gives nothing.

    Args:
        data: Checkpoint, whose weights are frozen, task and examples.
        nodes: How many points of the line the derivative is taken at.
        open_heads: Which gates are open (layer, head) at the end of the line; the others stay closed.

    Raises:
        AttnprobeError: When a loss or a derivative is no number.

    References:
        Sundararajan, Taly and Yan (2017), Axiomatic attribution for deep networks.
    """
    model = data.model
    checkpoint, objective = model.checkpoint, data.objective
    mask = open_all_heads(data, open_heads)
    places, weights = find_nodes(nodes)
    resumable = model.gating.replays and objective.resumable
    kind = torch.promote_types(checkpoint.body.dtype, torch.float32)
    opened = torch.from_numpy(mask).to(checkpoint.device, kind)
    with model.gate() as gates:
        replay = BatchReplay(checkpoint.body, gates)

        def integrate(part: Batch) -> Tensor:
            integral = torch.zeros(len(part), *model.shape, dtype=torch.float64)
            base = {layer: opened[layer][None] for layer in np.flatnonzero(~mask.all(-1)).tolist()}
            gates.rows = base
            with torch.no_grad(), replay.record() if resumable else nullcontext():
                whole = objective.answer(part)
            for layer in range(model.shape[0]):
                with replay.resume_at(layer) if resumable else nullcontext():
                    for place, weight in zip(places, weights, strict=True):
                        slopes = differentiate(part, whole, layer, base, float(place))
                        integral[:, layer] += weight * slopes.double().cpu()
            return integral

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

        with replay.watch(model.architecture.sites) if resumable else nullcontext():
            return sum_attributions(
                data,
                integrate,
                name_pass("integrated gradients", mask),
                thread_context=gates.thread_context,
                question={"heads that are on": compute_digest(mask), "nodes": str(nodes)},
            )
