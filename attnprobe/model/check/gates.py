"""Checks of gates, replacements and relevance on two short sequences, before numbers are computed by them."""

from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnprobe.errors import AttnprobeError, first_line
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.check.trace import TOLERANCE, draw_probe_inputs, find_tolerance, relative_difference
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quantisation import refuse_gradients
from attnprobe.model.quirks import ADDED, UnsupportedModelError, force_full_attention
from attnprobe.model.reading.gates import freeze_weights
from attnprobe.model.reading.replay import BatchReplay, find_outermost_block
from attnprobe.model.reading.ways import Way, evaluation_mode
from attnprobe.model.relevance import Relevance
from attnprobe.model.task_heads import SEQ2SEQ, SPEECH


class Gating(NamedTuple):
    """Whether passes with gates may resume at a layer, and a sentence of evidence."""

    replays: bool
    evidence: str


def check_gates(checkpoint: Checkpoint, architecture: Architecture) -> Gating:
    """Verify that open gates change nothing and lowered ones do; find out whether resumed passes are exact.

    Gates are lowered to positive numbers, so that anything else between a head and its projection shows, such
    as the gate of Qwen3-Next; each head's to another one, since a norm undoes a factor common to all.

    Raises:
        UnsupportedModelError: When the gates don't do what they say.
    """
    name, body, inputs = checkpoint.model_type, checkpoint.body, draw_probe_inputs(checkpoint)
    with force_full_attention(body), evaluation_mode(body):
        untouched = checkpoint.forward(inputs)
    low = torch.linspace(0.5, 0.8, architecture.heads)[None]
    with architecture.gate(body) as gates:
        difference = relative_difference(checkpoint.forward(inputs), untouched)
        if not difference <= find_tolerance(checkpoint):
            reason = f"hidden states under a head mask of ones differ from its own by {difference:.1e}"
            raise UnsupportedModelError(name, reason)
        lowered = []  # for each layer, the hidden states under its gates
        for layer in range(architecture.layers):
            gates.rows = {layer: low}
            lowered.append(checkpoint.forward(inputs))
        idle = [layer for layer, hidden in enumerate(lowered) if torch.equal(hidden, untouched)]
        if len(idle) == len(lowered):
            raise UnsupportedModelError(name, "switching its heads off changes nothing")
    replays = architecture.way is Way.REGISTRY and _check_replay(checkpoint, architecture, low, lowered)
    numbers = [architecture.places[layer].layer for layer in idle]
    where = f"except in layers {numbers}, whose heads give nothing" if idle else "in every layer"
    resumed = "gives the same" if replays else "does not, so all passes are whole"
    changes = f"changes nothing (relative difference {difference:.1e}), a lower one does {where}"
    return Gating(replays, f"a head mask of 1 {changes}; resuming at a layer {resumed}")


def _check_replay(
    checkpoint: Checkpoint, architecture: Architecture, low: Tensor, lowered: list[Tensor]
) -> bool:
    inputs, tolerance = draw_probe_inputs(checkpoint), TOLERANCE[lowered[0].dtype.itemsize] / 100
    last = architecture.layers - 1
    try:
        with architecture.gate(checkpoint.body) as gates:
            replay = BatchReplay(checkpoint.body, gates)
            with replay.watch(architecture.sites):
                with replay.record():
                    checkpoint.forward(inputs)
                for layer, expected in enumerate(lowered):
                    gates.rows = {layer: low}
                    with replay.resume_at(layer):
                        hidden = checkpoint.forward(inputs)
                    if relative_difference(hidden, expected) > tolerance:
                        return False
                # A resumed pass that records can itself be resumed.
                for at, gates.rows in ((0, {0: low}), (last, {0: low, last: low})):
                    with replay.resume_at(at, record=True):
                        hidden = checkpoint.forward(inputs)
                return relative_difference(hidden, checkpoint.forward(inputs)) <= tolerance
    except Exception:  # the code of a model may do anything with a block that is skipped
        return False


def check_replacements(checkpoint: Checkpoint, architecture: Architecture) -> None:
    """Verify that replacing a head's output by itself changes nothing, and by something else does.

    Raises:
        UnsupportedModelError: When outputs of heads can't be replaced.
    """
    inputs, name = draw_probe_inputs(checkpoint), checkpoint.model_type
    with torch.no_grad(), architecture.gate(checkpoint.body) as gates:
        untouched = checkpoint.forward(inputs)
        with gates.record_outputs() as outputs:
            recorded = checkpoint.forward(inputs)
        gates.set(torch.zeros(1, architecture.layers, architecture.heads, device=checkpoint.device))
        gates.replacements = dict(outputs)
        again = checkpoint.forward(inputs)
        difference = max(relative_difference(hidden, untouched) for hidden in (recorded, again))
        if not difference <= find_tolerance(checkpoint):
            reason = f"with its own output in their place, they differ by {difference:.1e}"
            raise UnsupportedModelError(name, f"what its heads give can't be replaced: {reason}")
        gates.replacements = {layer: output + 1 for layer, output in gates.replacements.items()}
        if torch.equal(checkpoint.forward(inputs), again):
            raise UnsupportedModelError(name, "what takes the place of its heads' output changes nothing")


def check_relevance(checkpoint: Checkpoint, architecture: Architecture, *, headed: bool) -> str:
    """Verify that no relevance is lost between the output and the first layer.

    The model runs on two short sequences without biases, which have relevance themselves. Its output y is
    explained along itself, as z = y . v with v = y / |y| constant. With x the streams that enter the first
    layer of each stack, and g the gradient of z by x under the rules, sum x g = z.

    Raises:
        AttnprobeError: When this does not hold, or the rules change the output.
    """

    def refuse(reason: str) -> AttnprobeError:
        heads = f"The relevance (lrp) of the heads of {checkpoint.model_type!r}"
        return AttnprobeError(f"{heads} can't be told: {reason}; use gradient instead.")

    tolerance = find_tolerance(checkpoint)
    refuse_gradients(checkpoint)
    try:
        with freeze_weights(checkpoint), ExitStack() as undo, Relevance():
            for name, weight in (*checkpoint.model.named_parameters(), *checkpoint.model.named_buffers()):
                if name.endswith(ADDED) and weight.is_floating_point():
                    undo.callback(setattr, weight, "data", weight.data)
                    weight.data = torch.zeros_like(weight.data)
            difference, share = _explain(checkpoint, architecture, headed=headed)
    except (RuntimeError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise refuse(f"its rules can't be applied ({first_line(error)})") from error
    if not difference <= tolerance:
        raise refuse(f"under its rules the model says something else, by {difference:.1e}")
    if not abs(share - 1) <= tolerance:
        raise refuse(f"without biases, {share:.4f} of what is explained enters its first layer, and not all")
    lost = f"relative difference {abs(share - 1):.1e}"
    return f"without biases, all that is explained enters the first layer as relevance ({lost})"


def _explain(checkpoint: Checkpoint, architecture: Architecture, *, headed: bool) -> tuple[float, float]:
    """Find how far the rules change the output, and the share of relevance that enters the first layers."""
    body, inputs = checkpoint.body, checkpoint.inputs(draw_probe_inputs(checkpoint))
    if headed and checkpoint.head not in (SEQ2SEQ, SPEECH):
        inputs.pop("decoder_input_ids", None)
    model: Any = checkpoint.model if headed else body
    streams: dict[str, Tensor] = {}  # into the first layer of each stack, such as ``encoder.layer``

    def keep_stream(stack: str, _: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        given = (value for value in (*arguments, *options.values()) if isinstance(value, Tensor))
        stream = next((tensor for tensor in given if tensor.is_floating_point()), None)
        if stream is not None and stream.requires_grad and (checkpoint.decodes or not streams):
            streams.setdefault(stack, stream)

    modules, lists = dict(body.named_modules()), (nn.ModuleList, nn.Sequential)
    blocks = (find_outermost_block(site, modules, lists) or "" for site in architecture.sites)
    with ExitStack() as undo, architecture.gate(body) as gates:
        with torch.no_grad():
            untouched = model(**inputs)[0]
        for stack in dict.fromkeys(block.rpartition(".")[0] for block in blocks if block):
            for layer in modules[stack].children():
                hook = layer.register_forward_pre_hook(partial(keep_stream, stack), with_kwargs=True)
                undo.callback(hook.remove)
        gates.set(torch.ones(1, *architecture.kept.shape, device=checkpoint.device).requires_grad_())
        with torch.enable_grad():
            output = model(**inputs)[0]
    explained = (output * output.detach() / output.detach().norm()).sum()
    gradients = torch.autograd.grad(explained, [*streams.values()])
    entering = zip(gradients, streams.values(), strict=True)
    share = sum(float((gradient * stream.detach()).sum()) for gradient, stream in entering)
    return relative_difference(output.detach(), untouched), share / float(explained.detach())
