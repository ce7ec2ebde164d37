"""The linear way from the residual stream of a language model to its logits."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnprobe.model.check.trace import Call, draw_probe_inputs, record_calls
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quantisation import is_projection, read_weight
from attnprobe.model.reading.ways import evaluation_mode

#: Cosine from which on a norm is taken for the last: what follows it only scales.
_SAME = 1 - 1e-4


@dataclass(frozen=True)
class Unembedding:
    """The linear way from the residual stream to logits.

    The final norm and the norm of a masked language model's head count with their gains, and at a fixed
    scale, which does not change the order of logits; a nonlinearity between them is left out.

    Attributes:
        weight: (token, width) of the layer that gives the logits.
        before: (width, model width) what is done to the residual stream before.
    """

    weight: Tensor
    before: Tensor

    def rows(self, ids: Tensor) -> Tensor:
        """Get the directions that raise the logits of tokens (batch, position): (..., model width)."""
        return self.weight[ids.to(self.weight.device)].to(self.before.dtype) @ self.before


def find_unembedding(checkpoint: Checkpoint) -> Unembedding | str:
    """Find the unembedding of a language model by running two short sequences.

    Returns:
        The unembedding, or why there is none.

    References:
        Elhage et al. (2021), A mathematical framework for transformer circuits, on the direct path;
        Kobayashi et al. (2021) on why norms are taken at a fixed scale.
    """
    model, body, name = checkpoint.model, {*checkpoint.body.modules()}, checkpoint.name
    try:
        last: Any = model.get_output_embeddings()
    except (NotImplementedError, AttributeError):  # of code that comes with a checkpoint
        last = None
    if not (isinstance(last, nn.Module) and is_projection(last)):
        return f"{name} has no language model head"
    inputs = checkpoint.inputs(draw_probe_inputs(checkpoint))
    with (
        evaluation_mode(model),
        torch.inference_mode(),
        record_calls(model, lambda _, module: is_projection(module) or _is_norm(module)) as calls,
    ):
        model(**inputs)
    calls = [call for call in calls if call.given and isinstance(call.gave, Tensor)]
    at = max((place for place, call in enumerate(calls) if call.module is last), default=None)
    weight = read_weight(last)
    if at is None or weight is None:
        return f"the language model head of {name} is no plain matrix"
    before, reached = torch.eye(weight.shape[1], device=weight.device), calls[at].given[0]
    for call in reversed(calls[:at]):
        last_norm = _is_norm(call.module) and call.gave.shape == reached.shape
        if last_norm:
            gave, behind = call.gave.flatten().float(), reached.flatten().float()
            last_norm = float(torch.cosine_similarity(gave, behind, 0)) > _SAME
        if call.module not in body or last_norm:
            factor = _find_factor(call)
            if factor is None or factor.shape[0] != before.shape[1]:
                return f"the way from the residual stream of {name} to its logits is not known"
            before, reached = before @ factor.to(before.device), call.given[0]
        if call.module in body:
            break
    return Unembedding(weight, before)


def _is_norm(module: nn.Module) -> bool:
    weight: Any = getattr(module, "weight", None)
    return isinstance(weight, Tensor) and weight.ndim == 1 and not list(module.children())


def _find_factor(call: Call) -> Tensor | None:
    """Find the matrix that a projection, or a norm at a fixed scale, multiplies by; None if nobody knows."""
    module = call.module
    if not _is_norm(module):
        weight = read_weight(module)
        return None if weight is None else weight.float()
    if isinstance(module, nn.LayerNorm):
        gain = torch.diag(module.weight.detach().float())
        return gain - gain.mean(1, keepdim=True)
    # RMS norms multiply by their weight, or by 1 and their weight; what they gave tells.
    given, gave = (tensor.flatten(0, -2).float() for tensor in (call.given[0], call.gave))
    plain = given / given.square().mean(-1, keepdim=True).sqrt()
    return torch.diag((plain * gave).sum(0) / plain.square().sum(0).clamp_min(1e-12))
