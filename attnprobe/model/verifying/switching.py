"""Checks of gates and of relevance on two short sequences, before their numbers are believed."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnprobe.errors import AttnprobeError, first_line
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quirks import UnsupportedModelError, force_full_attention
from attnprobe.model.reading.gates import Gates, freeze_weights, gate_attention
from attnprobe.model.reading.replay import BatchReplay, find_outermost_block
from attnprobe.model.reading.ways import Way, evaluation_mode
from attnprobe.model.relevance import Relevance
from attnprobe.model.task_heads import SEQ2SEQ, SPEECH
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.probing import (
    TOLERANCE,
    draw_probe_inputs,
    find_tolerance,
    relative_difference,
)

#: What gates are set to where they are tried. At 0 it would not show what becomes of a head's output on its
#: way to the projection, such as the gate of its own that Qwen3-Next draws from the queries' projection.
_HALF = torch.tensor(0.5)


class _Closed(NamedTuple):
    row: Tensor
    hidden: Tensor


@dataclass(frozen=True)
class Gating:
    """How passes with gates may run.

    Attributes:
        replays: Whether passes may resume at a layer.
        evidence: One sentence.
    """

    replays: bool
    evidence: str


def check_gates(checkpoint: Checkpoint, architecture: Architecture) -> Gating:
    """Verify that open gates change nothing, that half-closed ones do, and that resuming is exact.

    Where resuming at a layer does not give what the whole pass gives, it is not used.

    Raises:
        UnsupportedModelError: When the gates don't do what they say.
    """
    inputs, encoder = draw_probe_inputs(checkpoint), checkpoint.body
    with force_full_attention(encoder), evaluation_mode(encoder):
        untouched = checkpoint.forward(inputs)
    with gate_attention(encoder, architecture.way, present=architecture.present) as gates:
        apart = relative_difference(checkpoint.forward(inputs), untouched)
        if not apart <= find_tolerance(checkpoint):
            reason = f"hidden states under a head mask of ones differ from its own by {apart:.1e}"
            raise UnsupportedModelError(checkpoint.model_type, reason)
        closed = []
        for layer in range(architecture.layers):
            row = _HALF.expand(1, architecture.heads)
            gates.rows = {layer: row}
            hidden = checkpoint.forward(inputs)
            if torch.equal(hidden, untouched):
                # A norm behind the heads undoes what all of them have in common.
                row = row.where(torch.arange(architecture.heads) % 2 == 0, 1.0)
                gates.rows = {layer: row}
                hidden = checkpoint.forward(inputs)
            closed.append(_Closed(row, hidden))
        idle = [layer for layer, one in enumerate(closed) if torch.equal(one.hidden, untouched)]
        if len(idle) == len(closed):
            raise UnsupportedModelError(checkpoint.model_type, "switching its heads off changes nothing")
        replays = architecture.way is Way.REGISTRY and _check_replay(
            checkpoint, architecture, gates, inputs, closed
        )
    named = [architecture.places[layer].layer for layer in idle]
    where = f"except in layers {named}, whose heads give nothing" if idle else "in every layer"
    found = f"a head mask of 1 changes nothing (relative difference {apart:.1e}), one of 0.5 does {where}"
    exact = (
        "resuming at a layer gives the same"
        if replays
        else "passes can't be resumed at a layer, so all are whole"
    )
    return Gating(replays, f"{found}; {exact}")


def _check_replay(
    checkpoint: Checkpoint,
    architecture: Architecture,
    gates: Gates,
    inputs: Mapping[str, Tensor],
    closed: list[_Closed],
) -> bool:
    replay = BatchReplay(checkpoint.body, gates)
    try:
        with replay.watch(architecture.sites):
            gates.open()
            with replay.record():
                checkpoint.forward(inputs)
            for layer, (row, expected) in enumerate(closed):
                gates.rows = {layer: row}
                with replay.resume_at(layer):
                    found = checkpoint.forward(inputs)
                if relative_difference(found, expected) > TOLERANCE[found.dtype.itemsize] / 100:
                    return False
            # What a resumed pass keeps, another goes on from.
            first, last = 0, architecture.layers - 1
            for at, rows in ((first, {first}), (last, {first, last})):
                gates.rows = dict.fromkeys(sorted(rows), _HALF.expand(1, architecture.heads))
                with replay.resume_at(at, record=True):
                    found = checkpoint.forward(inputs)
            expected = checkpoint.forward(inputs)
            if relative_difference(found, expected) > TOLERANCE[found.dtype.itemsize] / 100:
                return False
    except Exception:  # whatever a model does with a block that is skipped, it is its own affair
        return False
    finally:
        gates.open()
    return True


def check_replacements(checkpoint: Checkpoint, architecture: Architecture) -> None:
    """Verify that a head's own output in its place changes nothing, and that another does.

    Raises:
        UnsupportedModelError: When what the heads give can't be replaced.
    """
    inputs, name = draw_probe_inputs(checkpoint), checkpoint.model_type
    way, sites, present = architecture.way, architecture.sites, architecture.present
    with torch.no_grad(), gate_attention(checkpoint.body, way, sites, present) as gates:
        untouched = checkpoint.forward(inputs)
        with gates.record_outputs() as outputs:
            recorded = checkpoint.forward(inputs)
        own = dict(outputs)
        closed = torch.zeros(1, architecture.layers, architecture.heads, device=checkpoint.device)
        gates.set(closed)
        gates.replacements = own
        again = checkpoint.forward(inputs)
        apart = max(relative_difference(found, untouched) for found in (recorded, again))
        if not apart <= find_tolerance(checkpoint):
            reason = f"with its own output in their place, they differ by {apart:.1e}"
            raise UnsupportedModelError(name, f"what its heads give can't be replaced: {reason}")
        gates.replacements = {layer: output + 1 for layer, output in own.items()}
        if torch.equal(checkpoint.forward(inputs), again):
            raise UnsupportedModelError(name, "what takes the place of its heads' output changes nothing")


#: How parameters end that are added to what is computed; the second, of YOLOS, between layers.
ADDED = ("bias", "mid_position_embeddings")


class LostRelevanceError(AttnprobeError):
    """The rules of relevance don't fit an architecture."""

    def __init__(self, architecture: str, reason: str) -> None:
        super().__init__(
            f"The relevance (lrp) of the heads of {architecture!r} can't be told: {reason}; use gradient "
            "instead."
        )
        self.reason = reason


@dataclass(frozen=True)
class Entry:
    """How much relevance enters a call of a layer of a stack, and should, as shares of all that is explained.

    ``stack`` is the list that the layer is one of, such as ``encoder.layer``.
    """

    stack: str
    layer: int
    found: float
    expected: float

    @property
    def apart(self) -> float:
        """How far it is from what it should be; NaN where something is no number."""
        return abs(self.found - self.expected)


def check_relevance(checkpoint: Checkpoint, architecture: Architecture, *, headed: bool) -> str:
    """Verify that all that is explained enters every layer as relevance, and none is lost between them.

    The model is left as it was found.

    Returns:
        One sentence of evidence.

    Raises:
        LostRelevanceError: With the first layer that it does not hold for, and how much enters there.
    """
    name, tolerance = checkpoint.model_type, find_tolerance(checkpoint)
    if checkpoint.quantisation is not None:
        checkpoint.quantisation.check_gradients(name)
    try:
        apart, entries = explain_without_biases(checkpoint, architecture, headed=headed)
    except (RuntimeError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise LostRelevanceError(name, f"its rules can't be applied ({first_line(error)})") from error
    if not apart <= tolerance:
        raise LostRelevanceError(name, f"under its rules the model says something else, by {apart:.1e}")
    if not entries:
        raise LostRelevanceError(name, "nothing is seen to enter its layers")
    # From the output to the input: what one layer loses is missing in all before it too.
    for entry in reversed(entries):
        if not entry.apart <= tolerance:
            raise LostRelevanceError(
                name,
                f"without biases, {entry.found:.4f} of what is explained enters layer {entry.layer} of "
                f"{entry.stack}, where {entry.expected:.4f} should",
            )
    return (
        "without biases, all that is explained enters every layer as relevance "
        f"(largest relative difference {max(entry.apart for entry in entries):.1e})"
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
    calls = Calls()
    way, sites, present = architecture.way, architecture.sites, architecture.present
    with freeze_weights(checkpoint), zero_biases(checkpoint.model), Relevance():
        with gate_attention(checkpoint.body, way, sites, present) as gates:
            with torch.no_grad():
                untouched = _run_model(checkpoint, headed=headed)
            gates.set(torch.ones(1, *architecture.standing.shape, device=checkpoint.device).requires_grad_())
            with torch.enable_grad(), calls.watch(checkpoint.body, sites):
                output = _run_model(checkpoint, headed=headed)
        along = output.detach() / output.detach().norm()
        entries = list(_compare_entries(calls, (output * along).sum(), checkpoint))
        return relative_difference(output.detach(), untouched), entries


def _compare_entries(calls: "Calls", explained: Tensor, checkpoint: Checkpoint) -> Iterator[Entry]:
    whole = float(explained.detach())
    found = calls.relevance(explained)
    stacks = [call.stack for call in calls.found]
    for place, (stack, (source, stream, _)) in enumerate(zip(stacks, found, strict=True)):
        rest = list(zip(stacks[place:], found[place:], strict=True))
        own = sum(beside for other, (_, _, beside) in rest if other == stack)
        others = [beside for other, (_, _, beside) in rest if other != stack]
        expected = sum(others) if checkpoint.decodes and others else whole
        nearest = min(stream + own, source, key=lambda one: abs(one - expected))
        yield Entry(stack, stacks[:place].count(stack), nearest / whole, expected / whole)


@dataclass(frozen=True)
class Call:
    """What entered a layer.

    Attributes:
        stack: The list that the layer is one of.
        source: The stream: (batch, token, width), or in another order.
        stream: A copy of it, which only the modules of the layer are given.
        beside: Copies of what else it is given, such as what an encoder gave.
    """

    stack: str
    source: Tensor
    stream: Tensor
    beside: list[Tensor]


@dataclass
class Calls:
    """Records what enters the layers of a model, copied for each call, so that gradients are told apart.

    Attributes:
        found: The calls, in their order.
    """

    found: list[Call] = field(default_factory=list)

    @contextmanager
    def watch(self, model: nn.Module, sites: tuple[str, ...]) -> Iterator[None]:
        """Watch the layers that the attention modules ``sites`` are in."""
        modules, lists = dict(model.named_modules()), (nn.ModuleList, nn.Sequential)
        with ExitStack() as hooks:
            blocks = (find_outermost_block(site, modules, lists) for site in sites)
            for name in dict.fromkeys(filter(None, blocks)):
                enter = partial(self._enter, name.rpartition(".")[0])
                hooks.callback(modules[name].register_forward_pre_hook(enter, with_kwargs=True).remove)
            yield

    def relevance(self, explained: Tensor) -> list[tuple[float, float, float]]:
        """Compute what enters at each call: the sum of values times gradients.

        That is with the stream, also where it flows around the modules that are called layer, as in XLM; with
        the stream through these modules; and with what they are given beside.
        """
        places = [tensor for call in self.found for tensor in (call.source, call.stream, *call.beside)]
        gradients = torch.autograd.grad(explained, places, allow_unused=True) if places else ()
        shares = iter(
            0.0 if gradient is None else float((gradient * tensor.detach()).sum())
            for tensor, gradient in zip(places, gradients, strict=True)
        )
        return [(next(shares), next(shares), sum(next(shares) for _ in call.beside)) for call in self.found]

    def _enter(
        self, stack: str, _: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        floating = [one for one in (*arguments, *options.values()) if _is_floating(one)]
        copies = {id(one): one.view_as(one) for one in floating if one.requires_grad}
        if floating and floating[0].requires_grad:
            stream, *beside = copies.values()
            self.found.append(Call(stack, floating[0], stream, beside))
        own = {name: copies.get(id(one), one) for name, one in options.items()}
        return tuple(copies.get(id(one), one) for one in arguments), own


def _is_floating(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


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
