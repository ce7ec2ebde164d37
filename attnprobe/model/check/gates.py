"""Checks of gates on two short sequences, before their numbers are believed."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attnprobe.model.check.architecture import Architecture
from attnprobe.model.check.trace import TOLERANCE, draw_probe_inputs, find_tolerance, relative_difference
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quirks import UnsupportedModelError, force_full_attention
from attnprobe.model.reading.gates import Gates, gate_attention
from attnprobe.model.reading.replay import BatchReplay
from attnprobe.model.reading.ways import Way, evaluation_mode

#: What gates are set to where they are tried. At 0 it would not show what becomes of a head's output on its
#: way to the projection, such as the gate of its own that Qwen3-Next draws from the queries' projection.
_HALF = torch.tensor(0.5)


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
    name, heads = checkpoint.model_type, architecture.heads
    inputs, encoder = draw_probe_inputs(checkpoint), checkpoint.body
    with force_full_attention(encoder), evaluation_mode(encoder):
        untouched = checkpoint.forward(inputs)
    with gate_attention(encoder, architecture.way, present=architecture.present) as gates:
        difference = relative_difference(checkpoint.forward(inputs), untouched)
        if not difference <= find_tolerance(checkpoint):
            reason = f"hidden states under a head mask of ones differ from its own by {difference:.1e}"
            raise UnsupportedModelError(name, reason)
        closed: list[tuple[Tensor, Tensor]] = []  # for each layer its gates, and the hidden states under them
        every, second = _HALF.expand(1, heads), torch.where(torch.arange(heads) % 2 == 0, 0.5, 1.0)[None]
        for layer in range(architecture.layers):
            for row in (every, second):  # a norm behind the heads undoes what all of them have in common
                gates.rows = {layer: row}
                hidden = checkpoint.forward(inputs)
                if not torch.equal(hidden, untouched):
                    break
            closed.append((row, hidden))
        idle = [layer for layer, (_, hidden) in enumerate(closed) if torch.equal(hidden, untouched)]
        if len(idle) == len(closed):
            raise UnsupportedModelError(name, "switching its heads off changes nothing")
        replays = architecture.way is Way.REGISTRY and _check_replay(
            checkpoint, architecture, gates, inputs, closed
        )
    numbers = [architecture.places[layer].layer for layer in idle]
    where = f"except in layers {numbers}, whose heads give nothing" if idle else "in every layer"
    exact = (
        "resuming at a layer gives the same"
        if replays
        else "passes can't be resumed at a layer, so all are whole"
    )
    changes = f"changes nothing (relative difference {difference:.1e}), one of 0.5 does {where}"
    return Gating(replays, f"a head mask of 1 {changes}; {exact}")


def _check_replay(
    checkpoint: Checkpoint,
    architecture: Architecture,
    gates: Gates,
    inputs: Mapping[str, Tensor],
    closed: list[tuple[Tensor, Tensor]],
) -> bool:
    replay, tolerance = BatchReplay(checkpoint.body, gates), TOLERANCE[closed[0][1].dtype.itemsize] / 100
    try:
        with replay.watch(architecture.sites):
            gates.open()
            with replay.record():
                checkpoint.forward(inputs)
            for layer, (row, expected) in enumerate(closed):
                gates.rows = {layer: row}
                with replay.resume_at(layer):
                    hidden = checkpoint.forward(inputs)
                if relative_difference(hidden, expected) > tolerance:
                    return False
            # What a resumed pass keeps, another goes on from.
            first, last, half = 0, architecture.layers - 1, _HALF.expand(1, architecture.heads)
            for at, layers in ((first, {first}), (last, {first, last})):
                gates.rows = dict.fromkeys(sorted(layers), half)
                with replay.resume_at(at, record=True):
                    hidden = checkpoint.forward(inputs)
            return relative_difference(hidden, checkpoint.forward(inputs)) <= tolerance
    except Exception:  # whatever a model does with a block that is skipped, it is its own affair
        return False
    finally:
        gates.open()


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
        given = dict(outputs)
        gates.set(torch.zeros(1, architecture.layers, architecture.heads, device=checkpoint.device))
        gates.replacements = given
        again = checkpoint.forward(inputs)
        difference = max(relative_difference(hidden, untouched) for hidden in (recorded, again))
        if not difference <= find_tolerance(checkpoint):
            reason = f"with its own output in their place, they differ by {difference:.1e}"
            raise UnsupportedModelError(name, f"what its heads give can't be replaced: {reason}")
        gates.replacements = {layer: output + 1 for layer, output in given.items()}
        if torch.equal(checkpoint.forward(inputs), again):
            raise UnsupportedModelError(name, "what takes the place of its heads' output changes nothing")
