"""The check of relevance on two short sequences: no layer loses any, or the model is refused by name."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnprobe.errors import AttnprobeError, first_line
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.check.trace import draw_probe_inputs, find_tolerance, relative_difference
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quantisation import refuse_gradients
from attnprobe.model.quirks import ADDED
from attnprobe.model.reading.gates import freeze_weights, gate_attention
from attnprobe.model.reading.replay import find_outermost_block
from attnprobe.model.relevance import Relevance
from attnprobe.model.task_heads import SEQ2SEQ, SPEECH


class LostRelevanceError(AttnprobeError):
    """The rules of relevance don't fit an architecture."""

    def __init__(self, architecture: str, reason: str) -> None:
        heads = f"The relevance (lrp) of the heads of {architecture!r}"
        super().__init__(f"{heads} can't be told: {reason}; use gradient instead.")
        self.reason = reason


@dataclass(frozen=True)
class Entry:
    """How much relevance enters a call of a layer of a stack, and should, as shares of all that is explained.

    ``stack`` is the list that the layer is one of, such as ``encoder.layer``.
    """

    stack: str
    layer: int
    share: float
    expected: float

    @property
    def difference(self) -> float:
        """How far it is from what it should be; NaN where something is no number."""
        return abs(self.share - self.expected)


def check_relevance(checkpoint: Checkpoint, architecture: Architecture, *, headed: bool) -> str:
    """Verify that all that is explained enters every layer as relevance, and none is lost between them.

    The model is left as it was.

    Returns:
        One sentence of evidence.

    Raises:
        LostRelevanceError: With the first layer that it does not hold for, and how much enters there.
    """
    name, tolerance = checkpoint.model_type, find_tolerance(checkpoint)
    refuse_gradients(checkpoint)
    try:
        difference, entries = explain_without_biases(checkpoint, architecture, headed=headed)
    except (RuntimeError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise LostRelevanceError(name, f"its rules can't be applied ({first_line(error)})") from error
    if not difference <= tolerance:
        raise LostRelevanceError(name, f"under its rules the model says something else, by {difference:.1e}")
    if not entries:
        raise LostRelevanceError(name, "nothing is seen to enter its layers")
    # From the output to the input: what one layer loses is missing in all before it too.
    for entry in reversed(entries):
        if not entry.difference <= tolerance:
            raise LostRelevanceError(
                name,
                f"without biases, {entry.share:.4f} of what is explained enters layer {entry.layer} of "
                f"{entry.stack}, where {entry.expected:.4f} should",
            )
    return (
        "without biases, all that is explained enters every layer as relevance "
        f"(largest relative difference {max(entry.difference for entry in entries):.1e})"
    )


def explain_without_biases(
    checkpoint: Checkpoint, architecture: Architecture, *, headed: bool
) -> tuple[float, list[Entry]]:
    """Explain what a model without biases, which have a share of their own, says about two short sequences.

    Explained is its output along itself, z = y . v with v = y / |y| constant. For the stream x that enters a
    layer, with g the gradient of z by x under the rules,

        sum x g = z

    For a layer of a decoder beside an encoder, what it and those after it take from the encoder is added; and
    all that they take enters each layer of the encoder.

    Returns:
        How far the output is from that without the rules, relatively; and what enters each layer.
    """
    way, sites, present = architecture.way, architecture.sites, architecture.present
    with freeze_weights(checkpoint), zero_biases(checkpoint.model), Relevance():
        with gate_attention(checkpoint.body, way, sites, present) as gates:
            with torch.no_grad():
                untouched = _run_model(checkpoint, headed=headed)
            gates.set(torch.ones(1, *architecture.standing.shape, device=checkpoint.device).requires_grad_())
            with torch.enable_grad(), _copy_streams(checkpoint.body, sites) as streams:
                output = _run_model(checkpoint, headed=headed)
        along = output.detach() / output.detach().norm()
        entries = list(_compare_entries(streams, (output * along).sum(), decodes=checkpoint.decodes))
        return relative_difference(output.detach(), untouched), entries


@dataclass(frozen=True)
class _Stream:
    """What entered a layer.

    Attributes:
        stack: The list that the layer is one of.
        source: The stream: (batch, token, width), or in another order.
        copy: A copy of it, which only the modules of the layer are given.
        beside: Copies of what else it is given, such as what an encoder gave.
    """

    stack: str
    source: Tensor
    copy: Tensor
    beside: list[Tensor]


@contextmanager
def _copy_streams(model: nn.Module, sites: tuple[str, ...]) -> Iterator[list[_Stream]]:
    """Copy what enters the layers that the attention modules ``sites`` are in, to tell gradients of each."""
    streams: list[_Stream] = []

    def enter(
        stack: str, _: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = (value for value in (*arguments, *options.values()) if isinstance(value, Tensor))
        floating = [tensor for tensor in given if tensor.is_floating_point()]
        copies = {id(tensor): tensor.view_as(tensor) for tensor in floating if tensor.requires_grad}
        if floating and floating[0].requires_grad:
            copy, *beside = copies.values()
            streams.append(_Stream(stack, floating[0], copy, beside))
        copied = {name: copies.get(id(value), value) for name, value in options.items()}
        return tuple(copies.get(id(value), value) for value in arguments), copied

    modules, lists = dict(model.named_modules()), (nn.ModuleList, nn.Sequential)
    with ExitStack() as hooks:
        blocks = (find_outermost_block(site, modules, lists) for site in sites)
        for name in dict.fromkeys(filter(None, blocks)):
            hook = partial(enter, name.rpartition(".")[0])
            hooks.callback(modules[name].register_forward_pre_hook(hook, with_kwargs=True).remove)
        yield streams


def _compare_entries(streams: list[_Stream], explained: Tensor, *, decodes: bool) -> Iterator[Entry]:
    """Compare the relevance that enters, the sum of values times gradients, with all that is explained.

    It enters with the stream, also where it flows around the modules that are called layer, as in XLM; or
    with the stream through these modules; and with what they are given beside.
    """
    places = [tensor for stream in streams for tensor in (stream.source, stream.copy, *stream.beside)]
    gradients = torch.autograd.grad(explained, places, allow_unused=True) if places else ()
    shares = {
        id(tensor): 0.0 if gradient is None else float((gradient * tensor.detach()).sum())
        for tensor, gradient in zip(places, gradients, strict=True)
    }
    whole = float(explained.detach())
    for place, stream in enumerate(streams):
        beside = {True: 0.0, False: 0.0}  # what is taken beside, in the same stack and in another
        for later in streams[place:]:
            beside[later.stack == stream.stack] += sum(shares[id(tensor)] for tensor in later.beside)
        crossed = any(later.stack != stream.stack for later in streams[place:])
        expected = beside[False] if decodes and crossed else whole
        entering = (shares[id(stream.copy)] + beside[True], shares[id(stream.source)])
        nearest = min(entering, key=lambda share: abs(share - expected))
        number = sum(earlier.stack == stream.stack for earlier in streams[:place])
        yield Entry(stream.stack, number, nearest / whole, expected / whole)


@contextmanager
def zero_biases(model: nn.Module) -> Iterator[None]:
    """Set the biases of a model, and parameters like them, to 0 for what is done inside."""
    with ExitStack() as stack:
        for name, weight in (*model.named_parameters(), *model.named_buffers()):
            if name.endswith(ADDED) and weight.is_floating_point():
                stack.callback(setattr, weight, "data", weight.data)
                weight.data = torch.zeros_like(weight.data)
        yield


def _run_model(checkpoint: Checkpoint, *, headed: bool) -> Tensor:
    inputs = checkpoint.inputs(draw_probe_inputs(checkpoint))
    if headed and checkpoint.head not in (SEQ2SEQ, SPEECH):
        inputs.pop("decoder_input_ids", None)
    return (checkpoint.model if headed else checkpoint.body)(**inputs)[0]
