"""Checks of what a block holds beside probabilities (scores, values, outputs), and of the unembedding."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import inf, isnan
from typing import Any

import torch
from torch import Tensor, nn

from attnprobe.attention.block import factor_projection
from attnprobe.attention.kinds import OBSERVABLE
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quantisation import is_projection, read_weight
from attnprobe.model.quirks import UnsupportedModelError
from attnprobe.model.reading.capture import Piece, capture_attention
from attnprobe.model.reading.ways import evaluation_mode
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.parameters import Projections, find_projections
from attnprobe.model.verifying.probing import draw_probe_inputs, find_tolerance, relative_difference

#: What may hold of a layer, the strictest first.
PLAIN = "queries times keys, scaled, are the scores"
BIASED = "queries times keys, scaled, are the scores up to a bias that all sequences share"
CAPPED = "the scores rise with queries times keys, as under a soft cap"
#: What does not hold where none of these does.
NEITHER = "the scores are made of queries times keys, with nothing added that depends on the text"


@dataclass
class Logits:
    """Gathers scores and what they are made of, layer by layer, and keeps what the comparison gives.

    Attributes:
        tolerance: The largest difference that rounding explains.
        found: For each sentence that holds of a layer, the largest difference; under "" that of layers of
            which none holds.
    """

    tolerance: float
    found: dict[str, float] = field(default_factory=dict)
    _layer: int = 0
    _parts: dict[int, list[tuple[Tensor, Tensor]]] = field(default_factory=dict)

    def add(self, piece: Piece) -> None:
        """Add a block; those of a layer come together."""
        seen = piece.observed
        if seen.scores is None or seen.queries is None or seen.keys is None:
            return
        if piece.layer != self._layer:
            self.close()
            self._layer = piece.layer
        product = torch.matmul(seen.queries.double(), seen.keys.double().transpose(2, 3))
        lowest = torch.finfo(seen.queries.dtype).min / 2
        scores = seen.scores.double()
        for place, (one, raw) in enumerate(zip(scores, product, strict=True)):
            some = one.where(one > lowest, torch.nan), raw
            self._parts.setdefault(piece.sequence + place, []).append(some)

    def close(self) -> None:
        """Compare what was gathered of a layer, and drop it."""
        if not self._parts:
            return
        scores, product = (
            torch.stack([torch.cat(parts, 1) for parts in sequences])
            for sequences in zip(
                *(zip(*self._parts[place], strict=True) for place in sorted(self._parts)), strict=True
            )
        )
        self._parts = {}
        nothing = not (product.any() or scores.nan_to_num().any())
        plain = 0.0 if nothing else _error_of_multiple(scores, product)
        differences = {PLAIN: plain, CAPPED: _error_of_order(scores, product)}
        if len(scores) > 1:
            differences[BIASED] = _error_of_multiple(scores[1:] - scores[:1], product[1:] - product[:1])
        for sentence in (PLAIN, BIASED, CAPPED):
            if (apart := differences.get(sentence, inf)) <= self.tolerance:
                self.found[sentence] = max(self.found.get(sentence, 0.0), apart)
                return
        self.found[""] = max(self.found.get("", 0.0), min(differences.values()))


def _error_of_multiple(scores: Tensor, product: Tensor) -> float:
    seen = ~scores.isnan()
    scores, product = scores[seen], product[seen]
    scale = float((scores @ product) / (product @ product))
    return _scale_error(scores - scale * product, scores) if scale > 0 else inf


def _error_of_order(scores: Tensor, product: Tensor) -> float:
    seen = ~scores.isnan()
    scores, product = scores[seen], product[seen]
    rising = scores[product.argsort()]
    return _scale_error(rising.cummax(0).values - rising, scores) if len(scores) else inf


def _scale_error(apart: Tensor, scores: Tensor) -> float:
    found = float(apart.abs().max() / scores.abs().max())
    return inf if isnan(found) else found


_PLURAL = {
    "scores": "scores before the softmax",
    "values": "the values of the heads",
    "outputs": "the outputs of the heads",
    "queries": "the queries of the heads",
    "keys": "the keys of the heads",
    "projection": "the output projections of the heads",
}


class UnobservableError(UnsupportedModelError):
    """The attention of this architecture can be read, but not all that a statistic asks for."""

    def __init__(self, architecture: str, name: str, reason: str) -> None:
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

    Returns:
        One sentence for each check that passed.

    Raises:
        UnobservableError: Naming what can't be had, and the reason.
    """
    if not needs:
        return []
    name, body = checkpoint.model_type, checkpoint.body
    tolerance = find_tolerance(checkpoint)
    inputs, watch = draw_probe_inputs(checkpoint), _Watch(Logits(tolerance))
    try:
        projections = find_projections(checkpoint) if "projection" in needs else ()
    except UnsupportedModelError as error:
        raise UnobservableError(name, "projection", error.reason) from error
    asking = sorted({"queries", "keys"} & {*needs})
    beside = ("scores", "queries", "keys") if asking else ()
    observe = {*needs, *beside, *(("outputs",) if projections else ())} - {"projection"}
    with (
        capture_attention(body, watch, architecture.way, observe) as capture,
        _record_outputs(body, {projection.output for projection in projections}) as given,
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
        checks |= {sentence or NEITHER: (asking[0], apart) for sentence, apart in watch.logits.found.items()}
    if {"values", "outputs"} <= observe and not capture.sites.sunk:
        checks["probabilities times values are what the heads give"] = "values", watch.mixed
    if projections:
        apart = _error_of_sum(body, projections, watch.outputs, given)
        checks["the contributions of the heads add up to what their layer gives"] = "projection", apart
    for sentence, (wanted, apart) in checks.items():
        if not apart <= tolerance:
            raise UnobservableError(name, wanted, f"it does not hold that {sentence} (off by {apart:.1e})")
    return [f"{sentence} (largest difference {apart:.1e})" for sentence, (_, apart) in checks.items()]


@contextmanager
def _record_outputs(body: nn.Module, names: Collection[str]) -> Iterator[dict[str, list[Tensor]]]:
    given: dict[str, list[Tensor]] = {name: [] for name in names}
    with ExitStack() as hooks:
        for name in names:
            module = body.get_submodule(name)

            def note(module: nn.Module, _: object, output: Tensor, name: str = name) -> None:
                bias: Any = module.bias
                given[name].append(output if bias is None else output - bias)

            hooks.callback(module.register_forward_hook(note).remove)
        yield given


def _error_of_sum(
    body: nn.Module,
    projections: Sequence[Projections],
    outputs: Mapping[int, Mapping[int, list[Tensor]]],
    given: Mapping[str, list[Tensor]],
) -> float:
    calls, furthest = {name: iter(found) for name, found in given.items()}, 0.0
    for layer, projection in enumerate(projections):
        # Blocks of the queries of some sequences come one after the other.
        heads = torch.cat([torch.cat(parts, 2) for parts in outputs[layer].values()]).to(torch.float32)
        weights = _split_by_head(body, projection).to(heads.device)
        expected = next(calls[projection.output]).to(torch.float32)
        added = torch.matmul(heads, weights.to(heads.dtype)).sum(1)
        furthest = max(furthest, relative_difference(added, expected.reshape(added.shape)))
    return furthest


def find_output_weights(checkpoint: Checkpoint) -> tuple[Tensor, ...]:
    """Find W_O,h of every layer, (head, width, model width)."""
    return tuple(_split_by_head(checkpoint.body, one) for one in find_projections(checkpoint))


def find_output_factors(checkpoint: Checkpoint) -> tuple[Tensor, ...]:
    """Find what stands for W_O,h where only lengths matter, of every layer; see ``factor_projection``."""
    found = find_projections(checkpoint)
    return tuple(factor_projection(_split_by_head(checkpoint.body, one)) for one in found)


def _split_by_head(body: nn.Module, found: Projections) -> Tensor:
    """Get W_O,h of a layer, (head, width, model width), in at least float32."""
    weight = read_weight(body.get_submodule(found.output))
    assert weight is not None  # or the projections would have been refused
    rows = weight.T.reshape(found.heads, found.width, -1)
    return rows.to(torch.promote_types(weight.dtype, torch.float32))


@dataclass
class _Watch:
    logits: Logits
    softmax: float = 0.0
    mixed: float = 0.0
    absent: set[str] = field(default_factory=set)
    outputs: dict[int, dict[int, list[Tensor]]] = field(default_factory=dict)

    def __call__(self, piece: Piece) -> None:
        seen, rows = piece.observed, piece.probabilities
        self.absent |= {*OBSERVABLE} - seen.present()
        self.logits.add(piece)
        if seen.scores is not None:
            self.softmax = max(self.softmax, float((seen.scores.softmax(-1) - rows).abs().max()))
        if seen.outputs is not None:
            parts = self.outputs.setdefault(piece.layer, {}).setdefault(piece.sequence, [])
            parts.append(seen.outputs.clone())
            if seen.values is not None:
                mixed = torch.matmul(rows.to(seen.values.dtype), seen.values)
                self.mixed = max(self.mixed, relative_difference(mixed, seen.outputs))


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


@dataclass(frozen=True)
class _Call:
    module: Any
    given: Tensor
    gave: Tensor


def find_unembedding(checkpoint: Checkpoint) -> Unembedding | str:
    """Find the unembedding of a language model by running two short sequences.

    Returns:
        The unembedding, or why there is none.

    References:
        Elhage et al. (2021), A mathematical framework for transformer circuits, on the direct path;
        Kobayashi et al. (2021) on why norms are taken at a fixed scale.
    """
    last = _find_output_layer(checkpoint.model)
    if last is None:
        return f"{checkpoint.name} has no language model head"
    calls: list[_Call] = []

    def note(module: nn.Module, given: tuple[Any, ...], gave: Any) -> None:
        if given and isinstance(given[0], Tensor) and isinstance(gave, Tensor):
            calls.append(_Call(module, given[0], gave))

    model, body = checkpoint.model, {*checkpoint.body.modules()}
    with evaluation_mode(model), ExitStack() as hooks, torch.inference_mode():
        for module in model.modules():
            if is_projection(module) or _is_norm(module):
                hooks.callback(module.register_forward_hook(note).remove)
        model(**checkpoint.inputs(draw_probe_inputs(checkpoint)))
    at = max((place for place, call in enumerate(calls) if call.module is last), default=None)
    weight = read_weight(last)
    if at is None or weight is None:
        return f"the language model head of {checkpoint.name} is no plain matrix"
    before, reached = torch.eye(weight.shape[1], device=weight.device), calls[at].given
    for call in reversed(calls[:at]):
        if call.module not in body or (_is_norm(call.module) and _are_parallel(call.gave, reached)):
            factor = _find_factor(call)
            if factor is None or factor.shape[0] != before.shape[1]:
                return f"the way from the residual stream of {checkpoint.name} to its logits is not known"
            before, reached = before @ factor.to(before.device), call.given
        if call.module in body:
            break
    return Unembedding(weight, before)


def _find_output_layer(model: Any) -> Any:
    try:
        found = model.get_output_embeddings()
    except (NotImplementedError, AttributeError):  # of code that comes with a checkpoint
        return None
    return found if isinstance(found, nn.Module) and is_projection(found) else None


def _is_norm(module: nn.Module) -> bool:
    weight: Any = getattr(module, "weight", None)
    return isinstance(weight, Tensor) and weight.ndim == 1 and not list(module.children())


def _are_parallel(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    return float(torch.cosine_similarity(one.flatten().float(), other.flatten().float(), 0)) > _SAME


def _find_factor(call: _Call) -> Tensor | None:
    """Find the matrix that a projection, or a norm at a fixed scale, multiplies by; None if nobody knows."""
    module = call.module
    if not _is_norm(module):
        weight = read_weight(module)
        return None if weight is None else weight.float()
    if isinstance(module, nn.LayerNorm):
        gain = torch.diag(module.weight.detach().float())
        return gain - gain.mean(1, keepdim=True)
    # RMS norms multiply by their weight, or by 1 and their weight; what they gave tells.
    given, gave = (tensor.flatten(0, -2).float() for tensor in (call.given, call.gave))
    plain = given / given.square().mean(-1, keepdim=True).sqrt()
    return torch.diag((plain * gave).sum(0) / plain.square().sum(0).clamp_min(1e-12))
