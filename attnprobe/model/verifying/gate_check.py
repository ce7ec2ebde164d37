"""Gates that check themselves on two short sequences before they are believed."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.support import UnsupportedModelError
from attnprobe.model.reading.adapters import full_attention
from attnprobe.model.reading.routing import evaluating
from attnprobe.model.reading.ways import Way
from attnprobe.model.switching.gates import Gates, gated_attention
from attnprobe.model.switching.replay import Replay
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.probing import TOLERANCE, probe_inputs, relative_difference

#: What gates are set to where they are tried. At 0 it would not show what becomes of a head's output on its
#: way to the projection, such as the gate of its own that Qwen3-Next draws from the queries' projection.
_HALF = torch.tensor(0.5)


@dataclass(frozen=True)
class Gating:
    """What the check found.

    Attributes:
        replays: Whether passes may resume at a layer.
        skips_projections: Whether they may also skip the projections of that layer's attention.
        evidence: One sentence.
    """

    replays: bool
    skips_projections: bool
    evidence: str


def check_gates(checkpoint: Checkpoint, architecture: Architecture) -> Gating:
    """Verify that open gates change nothing, that half-closed ones do, and that resuming is exact.

    Where resuming at a layer does not give what the whole pass gives, it is not used.

    Raises:
        UnsupportedModelError: When the gates don't do what they say.
    """
    inputs, encoder = probe_inputs(checkpoint), checkpoint.body
    with full_attention(encoder), evaluating(encoder):
        untouched = checkpoint.forward(inputs)
    with gated_attention(encoder, architecture.way, present=architecture.present) as gates:
        apart = relative_difference(checkpoint.forward(inputs), untouched)
        if not apart <= TOLERANCE[encoder.dtype.itemsize]:
            reason = f"hidden states under a head mask of ones differ from its own by {apart:.1e}"
            raise UnsupportedModelError(checkpoint.model_type, reason)
        closed = []
        for layer in range(architecture.layers):
            gates.rows = {layer: _HALF.expand(1, architecture.heads)}
            closed.append(checkpoint.forward(inputs))
        idle = [layer for layer, hidden in enumerate(closed) if torch.equal(hidden, untouched)]
        if len(idle) == len(closed):
            raise UnsupportedModelError(checkpoint.model_type, "switching its heads off changes nothing")
        ways = [
            skips
            for skips in (True, False)
            if architecture.way is Way.REGISTRY
            and _resumes(checkpoint, architecture, gates, inputs, closed, skips=skips)
        ]
    named = [architecture.places[layer].layer for layer in idle]
    where = f"except in layers {named}, whose heads give nothing" if idle else "in every layer"
    found = f"a head mask of 1 changes nothing (relative difference {apart:.1e}), one of 0.5 does {where}"
    exact = (
        "resuming at a layer gives the same"
        if ways
        else "passes can't be resumed at a layer, so all are whole"
    )
    return Gating(bool(ways), True in ways, f"{found}; {exact}")


def _resumes(
    checkpoint: Checkpoint,
    architecture: Architecture,
    gates: Gates,
    inputs: Mapping[str, Tensor],
    closed: list[Tensor],
    *,
    skips: bool,
) -> bool:
    replay = Replay(checkpoint.body, gates, skip_projections=skips)
    try:
        with replay.watching(architecture.sites):
            gates.open()
            with replay.recorded():
                checkpoint.forward(inputs)
            for layer, expected in enumerate(closed):
                gates.rows = {layer: _HALF.expand(1, architecture.heads)}
                with replay.resumed_at(layer):
                    found = checkpoint.forward(inputs)
                if relative_difference(found, expected) > TOLERANCE[found.dtype.itemsize] / 100:
                    return False
    except Exception:  # whatever a model does with a block that is skipped, it is its own affair
        return False
    finally:
        gates.open()
    return True
