"""What a block can hold beside probabilities, checked on two short sequences before it is believed."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attnprobe.attention.lengths import factor_of
from attnprobe.attention.observed import OBSERVABLE
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.support import UnsupportedModelError
from attnprobe.model.reading.adapters import full_attention
from attnprobe.model.reading.capture import captured_attention
from attnprobe.model.reading.pieces import Piece
from attnprobe.model.reading.routing import evaluating
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.logits import NEITHER, Logits
from attnprobe.model.verifying.probing import TOLERANCE, probe_inputs, relative_difference
from attnprobe.model.verifying.projections import Projections, find_projections

_PLURAL = {
    "scores": "scores before the softmax",
    "values": "the values of the heads",
    "outputs": "what the heads give",
    "queries": "the queries of the heads",
    "keys": "the keys of the heads",
    "projection": "the output projections of the heads",
}


class UnobservableError(UnsupportedModelError):
    """The attention of this architecture can be read, but not all that a statistic asks for."""

    def __init__(self, architecture: str, name: str, reason: str) -> None:
        """Say which architecture, what it does not give, and why."""
        super().__init__(architecture, reason)
        self.args = (f"attnprobe can't read {_PLURAL[name]} of {architecture!r}: {reason}.",)
        self.name = name


def check_observations(
    checkpoint: Checkpoint, architecture: Architecture, needs: Collection[str]
) -> list[str]:
    """Run two short sequences, and verify that what is asked for is there, and is what it should be.

    The softmax of the scores must be the probabilities; queries times keys must be the scores, as far as no
    bias or cap comes between; probabilities times values must be the outputs; and the contributions of the
    heads must add up to what the attention layer gives.

    Args:
        checkpoint: Which model is asked.
        architecture: What the dry run found.
        needs: What statistics ask for.

    Returns:
        One sentence for each check that passed.

    Raises:
        UnobservableError: Naming what can't be had, and the reason.
    """
    if not needs:
        return []
    name, body = checkpoint.model_type, checkpoint.body
    tolerance = TOLERANCE[body.dtype.itemsize]
    inputs, watch = probe_inputs(checkpoint), _Watch(Logits(tolerance))
    try:
        projections = find_projections(checkpoint) if "projection" in needs else ()
    except UnsupportedModelError as error:
        raise UnobservableError(name, "projection", error.reason) from error
    asking = sorted({"queries", "keys"} & {*needs})
    beside = ("scores", "queries", "keys") if asking else ()
    observe = {*needs, *beside, *(("outputs",) if projections else ())} - {"projection"}
    with (
        full_attention(body),
        evaluating(body),
        captured_attention(body, watch, architecture.way, observe) as capture,
        _given_by(body, {projection.output for projection in projections}) as given,
    ):
        checkpoint.forward(inputs)
    for wanted in sorted(observe & watch.absent, key=lambda one: (one not in needs, one)):
        reason = f"its attention is reached through the {architecture.way}, which does not show that"
        raise UnobservableError(name, wanted, reason)
    checks: dict[str, tuple[str, float]] = {}
    if "scores" in observe:
        checks["the softmax of the scores is the probabilities"] = "scores", watch.softmax
    if asking:
        watch.logits.close()
        for sentence, apart in watch.logits.found.items():
            checks[sentence or NEITHER] = asking[0], apart
    if {"values", "outputs"} <= observe and not capture.sites.sunk:
        checks["probabilities times values are what the heads give"] = "values", watch.mixed
    if projections:
        summed = "the contributions of the heads add up to what their layer gives"
        checks[summed] = "projection", _unexplained(body, projections, watch.outputs, given)
    for sentence, (wanted, apart) in checks.items():
        if not apart <= tolerance:
            raise UnobservableError(name, wanted, f"it does not hold that {sentence} (off by {apart:.1e})")
    return [f"{sentence} (largest difference {apart:.1e})" for sentence, (_, apart) in checks.items()]


@contextmanager
def _given_by(body: nn.Module, names: Collection[str]) -> Iterator[dict[str, list[Tensor]]]:
    """Note what some projections give, call by call, without their bias."""
    given: dict[str, list[Tensor]] = {name: [] for name in names}
    with ExitStack() as hooks:
        for name in names:
            module = body.get_submodule(name)

            def note(module: nn.Module, _: object, output: Tensor, name: str = name) -> None:
                bias: Any = module.bias
                given[name].append(output if bias is None else output - bias)

            hooks.callback(module.register_forward_hook(note).remove)
        yield given


def _unexplained(
    body: nn.Module,
    projections: Sequence[Projections],
    outputs: Mapping[int, Mapping[int, list[Tensor]]],
    given: Mapping[str, list[Tensor]],
) -> float:
    """Find by how much the contributions of heads miss what their layers give."""
    calls, furthest = {name: iter(found) for name, found in given.items()}, 0.0
    for layer, projection in enumerate(projections):
        # Blocks of the queries of some sequences come one after the other.
        heads = torch.cat([torch.cat(parts, 2) for parts in outputs[layer].values()]).to(torch.float32)
        weights = _by_head(body.get_submodule(projection.output), projection).to(heads.device)
        expected = next(calls[projection.output]).to(torch.float32)
        added = torch.matmul(heads, weights.to(heads.dtype)).sum(1)
        furthest = max(furthest, relative_difference(added, expected.reshape(added.shape)))
    return furthest


def projections_of(checkpoint: Checkpoint) -> tuple[Tensor, ...]:
    """Give W_O,h of every layer, (head, width, model width)."""
    found = find_projections(checkpoint)
    return tuple(_by_head(checkpoint.body.get_submodule(one.output), one) for one in found)


def factors_of(checkpoint: Checkpoint) -> tuple[Tensor, ...]:
    """Give what stands for W_O,h where only lengths matter, of every layer; see ``factor_of``."""
    found = find_projections(checkpoint)
    return tuple(factor_of(_by_head(checkpoint.body.get_submodule(one.output), one)) for one in found)


def _by_head(module: nn.Module, of: Projections) -> Tensor:
    weight: Any = module.weight
    weight = weight.detach()
    rows = weight.T if isinstance(module, nn.Linear) else weight  # GPT-2's are turned over
    return rows.reshape(of.heads, of.width, -1).to(torch.promote_types(weight.dtype, torch.float32))


@dataclass
class _Watch:
    """Holds what comes with a piece against the piece."""

    logits: Logits
    softmax: float = 0.0
    mixed: float = 0.0
    absent: set[str] = field(default_factory=set)
    outputs: dict[int, dict[int, list[Tensor]]] = field(default_factory=dict)

    def __call__(self, piece: Piece) -> None:
        seen, rows = piece.observed, piece.probabilities
        self.absent |= {*OBSERVABLE} - seen.present()
        self.logits.take(piece)
        if seen.scores is not None:
            self.softmax = max(self.softmax, float((seen.scores.softmax(-1) - rows).abs().max()))
        if seen.outputs is not None:
            parts = self.outputs.setdefault(piece.layer, {}).setdefault(piece.sequence, [])
            parts.append(seen.outputs.clone())
            if seen.values is not None:
                mixed = torch.matmul(rows.to(seen.values.dtype), seen.values)
                self.mixed = max(self.mixed, relative_difference(mixed, seen.outputs))
