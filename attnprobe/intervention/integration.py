"""Integrated gradients of gates: what the heads of a layer add to the loss, from closed gates to open."""

from contextlib import nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.intervention.gradient import Attributions, sum_attributions
from attnprobe.intervention.task import TaskData
from attnprobe.intervention.trials import HeadMask, close_gates
from attnprobe.model.gates import BatchReplay

Floats = NDArray[np.float64]
#: Nodes on the line by default.
NODES = 4


def find_nodes(number: int) -> tuple[Floats, Floats]:
    """Find the places and the weights of Gauss-Legendre quadrature between 0 and 1.

    They are exact for polynomials of degree 2 ``number`` - 1.
    """
    places, weights = np.polynomial.legendre.leggauss(number)
    return (places + 1) / 2, weights / 2


def integrate_gradients(
    data: TaskData, nodes: int = NODES, open_heads: HeadMask | None = None
) -> Attributions:
    """Integrate the derivative of each example's loss by each gate, along a line for each layer.

        A_h(x) = integral from 0 to 1 of d L(x) / d xi_h at xi_k = t for all heads k of the layer, over t

    with the gates of all other layers open. So the heads of a layer add up to what the layer does to the
    loss, up to the error of the quadrature:

        sum_h A_h(x) = L(x) - L(x) without the layer's heads

    ``ig`` is the mean of A over examples, ``ig_abs`` that of |A|. A head of positive ``ig`` raises the loss:
    it harms. The integral is a Gauss-Legendre sum. Heads that are not open stay closed along the line.

    Unit: that of the loss. Limits: 0 for a head that gives nothing.

    References:
        Sundararajan, Taly and Yan (2017), Axiomatic attribution for deep networks.
    """
    model, objective = data.model, data.objective
    body, device = model.checkpoint.body, model.checkpoint.device
    mask = np.ones(model.shape, bool) if open_heads is None else open_heads
    resumable = model.gating.replays and objective.resumable
    opened = torch.from_numpy(mask).to(device, torch.promote_types(body.dtype, torch.float32))
    with model.gate() as gates:
        replay = BatchReplay(body, gates)

        def integrate(part: Batch) -> Tensor:
            integral = torch.zeros(len(part), *model.shape, dtype=torch.float64)
            gates.rows = closed = close_gates(mask, device)
            with torch.no_grad(), replay.record() if resumable else nullcontext():
                whole = objective.answer(part)
            for layer, ends in enumerate(opened):
                with torch.enable_grad(), replay.resume_at(layer) if resumable else nullcontext():
                    for place, weight in zip(*find_nodes(nodes), strict=True):
                        row = (float(place) * ends).repeat(len(part), 1).requires_grad_()
                        gates.rows = {**closed, layer: row}
                        loss = objective.answer(part, whole).loss.sum()
                        if loss.requires_grad:  # or nothing that these heads give reaches the loss
                            (slopes,) = torch.autograd.grad(loss, row, materialize_grads=True)
                            integral[:, layer] += weight * (slopes * ends).double().cpu()
            return integral

        with replay.watch(model.architecture.sites) if resumable else nullcontext():
            return sum_attributions(
                data,
                integrate,
                "integrated gradients",
                mask,
                thread_context=gates.thread_context,
                nodes=str(nodes),
            )
