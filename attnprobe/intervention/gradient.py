"""Gradient importance: how much the loss of an example would change if a head were turned down."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batches.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.importances import Importance
from attnprobe.intervention.objectives.objective import Objective
from attnprobe.intervention.task import Bench
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.switching.gates import gated_attention
from attnprobe.run.halving import Halving
from attnprobe.sums.protocol import digest_of


def gradient_importance(bench: Bench, open_heads: NDArray[np.bool_] | None = None) -> Importance:
    """Average the absolute derivative of each example's loss by each gate.

        I_h = mean over examples x of | d L(x) / d xi_h |

    The absolute value is taken example by example: one backward pass of the summed losses gives each
    example's own derivative, since every example has gates of its own.

    Unit: that of the loss. Limits: 0 for a head whose gate changes nothing.

    Args:
        bench: Checkpoint, whose weights are frozen, task and examples.
        open_heads: Which gates are open (layer, head); the derivative is taken there.

    Raises:
        AttnprobeError: When a loss or a derivative is no number.

    References:
        Michel, Levy and Neubig (2019), Are sixteen heads really better than one?, section 4.1.
    """
    checkpoint, architecture = bench.subject.checkpoint, bench.subject.architecture
    at = torch.ones(bench.subject.shape) if open_heads is None else torch.from_numpy(open_heads).float()
    halving, left = Halving(), int(at.sum())
    way, sites, present = architecture.way, architecture.sites, architecture.present
    with gated_attention(checkpoint.body, way, sites, present) as gates:

        def derivative_of(part: Batch) -> Tensor:
            return _derivative(checkpoint, at, bench.objective, part, gates.set)

        def importance_of(batch: Batch) -> Importance:
            derivative = torch.cat(halving.run(batch, derivative_of))
            if not bool(torch.isfinite(derivative).all()):
                raise AttnprobeError(
                    f"{checkpoint.name} gives NaN or infinite gradients; try --dtype float32, or look "
                    "at its weights."
                )
            return Importance.of(derivative.abs().cpu().double().numpy(), batch)

        return bench.total(
            "gradients" if left == at.numel() else f"gradients with {left} heads on",
            importance_of,
            Importance.from_arrays,
            joined=gates.joined,
            question={"heads that are on": digest_of(at.numpy())},
        )


def _derivative(
    checkpoint: Checkpoint, at: Tensor, objective: Objective, batch: Batch, set_gates: Callable[[Tensor], Any]
) -> Tensor:
    """Differentiate each example's loss by its gates: (batch, layer, head)."""
    weights = checkpoint.body.dtype
    kind = torch.promote_types(weights, torch.float32)
    xi = at.to(checkpoint.device, kind).repeat(len(batch), 1, 1).requires_grad_()
    with torch.enable_grad():
        set_gates(xi)
        loss = objective.answer(batch).loss
        return torch.autograd.grad(loss.sum(), xi)[0]
