"""Gradient importance: how much the loss of an example would change if a head were turned down."""

import numpy as np
from numpy.typing import NDArray

from attnprobe.intervention.derivatives import summed_derivatives, tied
from attnprobe.intervention.importances import Importance
from attnprobe.intervention.task import Bench


def gradient_importance(
    bench: Bench, open_heads: NDArray[np.bool_] | None = None, ties: NDArray[np.int64] | None = None
) -> Importance:
    """Average the absolute derivative of each example's loss by each gate.

        I_h = mean over examples x of | d L(x) / d xi_h |

    The absolute value is taken example by example: one backward pass of the summed losses gives each
    example's own derivative, since every example has gates of its own.

    Unit: that of the loss. Limits: 0 for a head whose gate changes nothing.

    Args:
        bench: Checkpoint, whose weights are frozen, task and examples.
        open_heads: Which gates are open (layer, head); the derivative is taken there.
        ties: For each layer the one whose gates it shares; see ``tied``. None where each has its own.

    Raises:
        AttnprobeError: When a loss or a derivative is no number.

    References:
        Michel, Levy and Neubig (2019), Are sixteen heads really better than one?, section 4.1.
    """
    return summed_derivatives(
        bench,
        lambda answer: answer.loss,
        lambda derivative, batch: Importance.of(np.abs(tied(derivative, ties)), batch),
        Importance.from_arrays,
        name="gradients",
        open_heads=open_heads,
    )
