"""Derivatives by gates: one backward pass gives every example its own, for all heads at once."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batches.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.objective import Answer
from attnprobe.intervention.task import Bench
from attnprobe.model.switching.gates import gated_attention
from attnprobe.run.halving import Halving
from attnprobe.run.passes import Restore
from attnprobe.sums.protocol import digest_of


def summed_derivatives(
    bench: Bench,
    of: Callable[[Answer], Tensor],
    summed: Callable[[NDArray[np.float64], Batch], Any],
    restore: Restore,
    *,
    name: str,
    open_heads: NDArray[np.bool_] | None = None,
    rules: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Any:
    """Differentiate a number of each example by its gates, and sum up what comes of all examples.

    Every example has gates of its own, so that one backward pass of the sum over a batch gives each
    example's derivatives.

    Args:
        bench: Checkpoint, whose weights are frozen, task and examples.
        of: Gives the number of each example (batch,) of an answer.
        summed: Makes a sum of the derivatives (batch, layer, head) of a batch.
        restore: Makes a sum of its arrays.
        name: Which pass it is.
        open_heads: Which gates are open (layer, head); the derivative is taken there.
        rules: Entered by each thread that runs passes, before heads are gated: other rules of gradients.

    Raises:
        AttnprobeError: When a derivative is no number.
    """
    checkpoint, architecture = bench.subject.checkpoint, bench.subject.architecture
    at = torch.ones(bench.subject.shape) if open_heads is None else torch.from_numpy(open_heads).float()
    halving, left = Halving(), int(at.sum())
    way, sites, present = architecture.way, architecture.sites, architecture.present
    kind = torch.promote_types(checkpoint.body.dtype, torch.float32)
    with rules(), gated_attention(checkpoint.body, way, sites, present) as gates:

        def derivative_of(part: Batch) -> Tensor:
            xi = at.to(checkpoint.device, kind).repeat(len(part), 1, 1).requires_grad_()
            with torch.enable_grad():
                gates.set(xi)
                number = of(bench.objective.answer(part))
                return torch.autograd.grad(number.sum(), xi)[0]

        def sum_of(batch: Batch) -> Any:
            derivative = torch.cat(halving.run(batch, derivative_of))
            if not bool(torch.isfinite(derivative).all()):
                raise AttnprobeError(
                    f"{checkpoint.name} gives NaN or infinite gradients; try --dtype float32, or look "
                    "at its weights."
                )
            return summed(derivative.cpu().double().numpy(), batch)

        @contextmanager
        def joined() -> Iterator[None]:
            with rules(), gates.joined():
                yield

        return bench.total(
            name if left == at.numel() else f"{name} with {left} heads on",
            sum_of,
            restore,
            joined=joined,
            question={"heads that are on": digest_of(at.numpy())},
        )


def tied(derivative: NDArray[np.float64], ties: NDArray[np.int64] | None) -> NDArray[np.float64]:
    """Sum derivatives (example, layer, head) over the layers that share a gate.

    The derivative by a gate that stands in several layers is the sum of those by a gate in each. It is given
    to the first of the layers, and 0 to the others.

    >>> tied(np.array([[[1.0], [5.0], [-3.0]]]), np.array([0, 1, 0])).tolist()
    [[[-2.0], [5.0], [0.0]]]
    """
    if ties is None:
        return derivative
    found = np.zeros_like(derivative)
    for layer, first in enumerate(ties):
        found[:, first] += derivative[:, layer]
    return found
