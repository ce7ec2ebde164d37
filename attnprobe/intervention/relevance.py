"""The relevance of heads: how much of what a model predicts came through each of them."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.intervention.gradient import Attributions, sum_derivatives
from attnprobe.intervention.objectives.objective import Answer
from attnprobe.intervention.task import TaskData
from attnprobe.model.relevance import Relevance


def head_relevance(bench: TaskData, open_heads: NDArray[np.bool_] | None = None) -> Attributions:
    """Propagate what is predicted of each example back to the heads, by the rules of LRP.

        R_h(x) = d~ z(x) / d xi_h,    relevance = mean over x of R_h,    relevance_abs = mean over x of |R_h|,
    relevance_share = relevance_abs / sum of relevance_abs over the heads of the layer,

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
    return sum_derivatives(bench, _compute_margin, "relevance", open_heads, rules=Relevance)


def _compute_margin(answer: Answer) -> Tensor:
    assert answer.margin is not None  # every objective gives one where nothing is generated
    return answer.margin()
