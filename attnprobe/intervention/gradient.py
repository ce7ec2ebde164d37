"""Gradient importance: how much the loss of an example would change if a head were turned down."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batches.batch import Batch
from attnprobe.corpus.batches.planning import BatchReader, in_second_half
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.objective import Objective
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.reading.ways import Way
from attnprobe.model.switching.gates import gated_attention
from attnprobe.run.halving import Halving
from attnprobe.sums.moments import Moments


@dataclass(frozen=True)
class Importance:
    """Moments of the importance of every head over examples. Two of them add up.

    Attributes:
        heads: Of the importance (layer, head).
        products: Of the products within a layer (layer, head, head); they give the covariances
            that the error of a normalised value needs.
        halves: Of two halves of the examples, each (layer, head).
    """

    heads: Moments
    products: Moments
    halves: tuple[Moments, Moments]

    @classmethod
    def of(cls, values: NDArray[np.float64], members: NDArray[np.int64]) -> "Importance":
        """Take the moments of a batch (example, layer, head), of the examples ``members``."""
        products = values[..., :, None] * values[..., None, :]
        second = in_second_half(members)
        halves = Moments.of(values[~second]), Moments.of(values[second])
        return cls(Moments.of(values), Moments.of(products), halves)

    def __add__(self, other: "Importance") -> "Importance":
        """Merge the importance over two sets of examples."""
        halves = self.halves[0] + other.halves[0], self.halves[1] + other.halves[1]
        return Importance(self.heads + other.heads, self.products + other.products, halves)

    @property
    def normalized(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The importance divided by its l2 norm within the layer, and the standard error.

        With u = I / |I|, the error follows from du = (1 - u u^T) dI / |I| to first order.
        """
        mean, number = self.heads.average, self.heads.count
        norm = np.linalg.norm(mean, axis=-1, keepdims=True)
        unit = np.divide(mean, norm, out=np.full_like(mean, np.nan), where=norm > 0)
        covariance = self.products.average - mean[..., :, None] * mean[..., None, :]
        project = np.eye(mean.shape[-1]) - unit[..., :, None] * unit[..., None, :]
        spread = np.einsum("lij,ljk,lik->li", project, covariance, project).clip(0) / norm**2
        freedom = np.where(number > 1, number - 1, np.nan)
        return unit, np.sqrt(spread / freedom)


def gradient_importance(
    checkpoint: Checkpoint,
    shape: tuple[int, int],
    objective: Objective,
    batches: BatchReader,
    *,
    open_heads: NDArray[np.bool_] | None = None,
    way: Way = Way.REGISTRY,
    progress: Callable[[int], None] = lambda _: None,
) -> Importance:
    """Average the absolute derivative of each example's loss by each gate.

        I_h = mean over examples x of | d L(x) / d xi_h |

    The absolute value is taken example by example: one backward pass of the summed losses gives each
    example's own derivative, since every example has gates of its own.

    Args:
        checkpoint: Whose weights are frozen.
        shape: Number of layers, number of heads.
        objective: Gives the losses.
        batches: The examples.
        open_heads: Which gates are open (layer, head); the derivative is taken there.
        way: How attention is reached.
        progress: Called after each batch with its number of tokens.

    Raises:
        AttnprobeError: When a loss or a derivative is no number.

    References:
        Michel, Levy and Neubig (2019), Are sixteen heads really better than one?, section 4.1.
    """
    at = torch.ones(shape) if open_heads is None else torch.from_numpy(open_heads).float()
    total: Importance | None = None
    halving = Halving()
    with gated_attention(checkpoint.body, way) as gates:

        def derivative_of(part: Batch) -> Tensor:
            return _derivative(checkpoint, at, objective, part, gates.set)

        for batch in batches:
            derivative = torch.cat(halving.run(batch, derivative_of))
            if not bool(torch.isfinite(derivative).all()):
                raise AttnprobeError(
                    f"{checkpoint.name} gives NaN or infinite gradients; try --dtype float32, or look "
                    "at its weights."
                )
            found = Importance.of(derivative.abs().cpu().double().numpy(), batch.members)
            total = found if total is None else total + found
            progress(batch.size)
    assert total is not None  # a corpus has at least one sequence
    return total


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
