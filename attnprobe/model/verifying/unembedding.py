"""What a head's output does to logits directly: the unembedding, and what lies before it."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.reading.routing import evaluating
from attnprobe.model.verifying.probing import probe_inputs

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
        """Give what raises the logit of tokens (batch, position), as (batch, position, model width)."""
        return self.weight[ids.to(self.weight.device)].to(self.before.dtype) @ self.before


@dataclass(frozen=True)
class _Call:
    module: Any
    given: Tensor
    gave: Tensor


def find_unembedding(checkpoint: Checkpoint) -> Unembedding | str:
    """Find the unembedding of a language model by running two short sequences.

    Args:
        checkpoint: Which model is asked, with its head.

    Returns:
        The unembedding, or why there is none.

    References:
        Elhage et al. (2021), A mathematical framework for transformer circuits, on the direct path;
        Kobayashi et al. (2021) on why norms are taken at a fixed scale.
    """
    last = _output_embeddings(checkpoint.model)
    if last is None:
        return f"{checkpoint.name} has no language model head"
    calls: list[_Call] = []

    def note(module: nn.Module, given: tuple[Any, ...], gave: Any) -> None:
        if given and isinstance(given[0], Tensor) and isinstance(gave, Tensor):
            calls.append(_Call(module, given[0], gave))

    model, body = checkpoint.model, {*checkpoint.body.modules()}
    with evaluating(model), ExitStack() as hooks, torch.inference_mode():
        for module in model.modules():
            if isinstance(module, nn.Linear | Conv1D) or _is_norm(module):
                hooks.callback(module.register_forward_hook(note).remove)
        model(**checkpoint.inputs(probe_inputs(checkpoint)))
    at = max((place for place, call in enumerate(calls) if call.module is last), default=None)
    weight: Any = last.weight
    if at is None or not weight.is_floating_point():
        return f"the language model head of {checkpoint.name} is no plain matrix"
    before, reached = torch.eye(weight.shape[1], device=weight.device), calls[at].given
    for call in reversed(calls[:at]):
        if call.module not in body or (_is_norm(call.module) and _alike(call.gave, reached)):
            made = _matrix(call).to(before.device)
            if made.shape[0] != before.shape[1]:
                return f"the way from the residual stream of {checkpoint.name} to its logits is not known"
            before, reached = before @ made, call.given
        if call.module in body:
            break
    return Unembedding(weight.detach(), before)


def _output_embeddings(model: Any) -> Any:
    """Give the layer whose output is the logits of tokens, or None."""
    try:
        found = model.get_output_embeddings()
    except (NotImplementedError, AttributeError):  # of code that comes with a checkpoint
        return None
    return found if isinstance(found, nn.Linear) else None


def _is_norm(module: nn.Module) -> bool:
    weight: Any = getattr(module, "weight", None)
    return isinstance(weight, Tensor) and weight.ndim == 1 and not list(module.children())


def _alike(one: Tensor, other: Tensor) -> bool:
    """Tell whether two tensors are the same up to one factor."""
    if one.shape != other.shape:
        return False
    return float(torch.cosine_similarity(one.flatten().float(), other.flatten().float(), 0)) > _SAME


def _matrix(call: _Call) -> Tensor:
    """Give what a projection, or a norm at a fixed scale, multiplies by."""
    module = call.module
    if not _is_norm(module):
        return (module.weight if isinstance(module, nn.Linear) else module.weight.T).detach().float()
    if isinstance(module, nn.LayerNorm):
        gain = torch.diag(module.weight.detach().float())
        return gain - gain.mean(1, keepdim=True)
    # RMS norms multiply by their weight, or by 1 and their weight; what they gave tells.
    given, gave = (tensor.flatten(0, -2).float() for tensor in (call.given, call.gave))
    plain = given / given.square().mean(-1, keepdim=True).sqrt()
    return torch.diag((plain * gave).sum(0) / plain.square().sum(0).clamp_min(1e-12))
