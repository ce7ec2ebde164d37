"""Removing heads from a copy of a checkpoint, by zeroing weights or by smaller projections."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attnprobe.errors import first_line
from attnprobe.model.check.projections import Projections, UnprunableModelError, find_projections
from attnprobe.model.check.trace import draw_probe_inputs, relative_difference
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.private import Conv1D
from attnprobe.model.pruning import list_computed_heads
from attnprobe.model.reading.gates import gate_attention
from attnprobe.model.reading.ways import evaluation_mode

#: The largest difference from a mask of heads, by bytes per number, as sums in another order allow.
_TOLERANCE = {8: 1e-8, 4: 1e-5, 2: 0.1}


def remove_heads(checkpoint: Checkpoint, keep: NDArray[np.bool_], *, physical: bool = False) -> Checkpoint:
    """Copy a checkpoint without the heads that are not in ``keep`` (layer, head).

    The outputs of the copy have to equal those under a mask of heads, or it is refused. By default the
    weights that read a removed head are zeroed: the copy has the shapes of the original, loads anywhere, and
    is as slow. With ``physical``, the rows and columns of removed heads are gone: the copy is smaller and
    faster, and only attnprobe loads it. A layer that loses all its heads keeps the first, which nothing
    reads.
    """
    if checkpoint.quantisation:
        reason = f"it is quantised ({checkpoint.quantisation}); save it from before, and quantise the result"
        raise UnprunableModelError(checkpoint.model_type, reason)
    reason, projections = "", find_projections(checkpoint)
    computed: Sequence[Sequence[int]] = [range(layer.heads) for layer in projections]
    if checkpoint.kept is not None:
        computed = list_computed_heads(checkpoint.kept)
    smaller = replace(checkpoint, model=copy.deepcopy(checkpoint.model))
    if physical and checkpoint.kept is None and len({layer.heads for layer in projections}) > 1:
        reason = "its layers have different numbers of heads"
    elif physical and any(layer.fused is None and len(layer.inputs) != 3 for layer in projections):
        reason = "its heads share projections of queries, keys or values"
    else:
        try:
            for layer, numbers, stays in zip(projections, computed, keep, strict=True):
                (_shrink_layer if physical else _zero_heads)(smaller.body, layer, stays[list(numbers)])
            inputs = draw_probe_inputs(checkpoint)
            with gate_attention(checkpoint.body, computed_heads=computed) as gates:
                gates.set(torch.from_numpy(keep).to(checkpoint.body.device, checkpoint.body.dtype)[None])
                expected = checkpoint.forward(inputs)
            with evaluation_mode(smaller.body):
                states = smaller.forward(inputs)
            difference = relative_difference(states, expected) if states.shape == expected.shape else inf
            if not difference <= _TOLERANCE[checkpoint.body.dtype.itemsize]:
                reason = f"it differs from the head mask by {difference:.1e}"
        except Exception as error:  # the code of a model may fail with fewer heads
            reason = first_line(error)
    if reason:
        what, advice = ("made physically smaller", "; leave out --physical") if physical else ("zeroed", "")
        raise UnprunableModelError(checkpoint.model_type, f"it can't be {what} exactly ({reason}){advice}")
    return smaller


@torch.no_grad()
def _zero_heads(body: nn.Module, layer: Projections, stays: NDArray[np.bool_]) -> None:
    projection: Any = body.get_submodule(layer.output)
    rows = projection.weight if isinstance(projection, Conv1D) else projection.weight.T  # (in, out)
    rows[torch.from_numpy(~stays).repeat_interleave(layer.width).to(rows.device)] = 0


def _shrink_layer(body: nn.Module, layer: Projections, stays: NDArray[np.bool_]) -> None:
    """Remove the other heads from projections, in place; if no head ``stays``, the first does, zeroed."""
    if not stays.any():
        _zero_heads(body, layer, stays)
        stays = np.arange(layer.heads) == 0
    rows = torch.from_numpy(stays).repeat_interleave(layer.width)
    _select(body.get_submodule(layer.output), rows, 1)
    for name in layer.inputs:
        _select(body.get_submodule(name), rows, 0)
    if layer.fused is not None:  # queries, keys, values, one after the other
        _select(body.get_submodule(layer.fused), rows.repeat(3), 0)


@torch.no_grad()
def _select(linear: Any, kept: Tensor, dim: int) -> None:
    """Keep only the rows (dim 0) or columns (dim 1) of a projection that ``kept`` marks, in place."""
    if not isinstance(linear, nn.Linear):
        raise TypeError(f"it has a {type(linear).__name__} in place of a Linear")
    places = kept.nonzero().ravel().to(linear.weight.device)
    for name in ("weight", "bias")[: 2 - dim]:  # a bias goes with its row
        if (values := getattr(linear, name)) is not None:
            values = nn.Parameter(values.index_select(dim, places), requires_grad=values.requires_grad)
            setattr(linear, name, values)
    linear.out_features, linear.in_features = linear.weight.shape
