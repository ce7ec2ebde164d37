"""Checks of what a block holds beside probabilities: scores, values, outputs, queries and keys."""

from collections.abc import Collection
from math import inf, isnan

import torch
from torch import Tensor, nn

from attnprobe.attention.block import factor_projection
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.check.projections import Projections, find_projections
from attnprobe.model.check.trace import (
    Seen,
    draw_probe_inputs,
    find_tolerance,
    relative_difference,
    trace_pass,
)
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quantisation import read_weight
from attnprobe.model.quirks import UnsupportedModelError

#: What may hold of a layer, the strictest first.
PLAIN = "queries times keys, scaled, are the scores"
BIASED = "queries times keys, scaled, are the scores up to a bias that all sequences share"
CAPPED = "the scores rise with queries times keys, as under a soft cap"
#: What does not hold where none of these does.
NEITHER = "the scores are made of queries times keys, with nothing added that depends on the text"
SOFTMAX = "the softmax of the scores is the probabilities"
MIXED = "probabilities times values are what the heads give"
ADDED = "the contributions of the heads add up to what their layer gives"
#: What can't be had where such a sentence does not hold.
_CHECKED = {SOFTMAX: "scores", MIXED: "values", ADDED: "projection"}

_NAMES = {"scores": "scores before the softmax", "projection": "the output projections of the heads"}


class UnobservableError(UnsupportedModelError):
    """The attention of this architecture can be read, but not all that a statistic asks for."""

    def __init__(self, architecture: str, name: str, reason: str) -> None:
        super().__init__(architecture, reason)
        what = _NAMES.get(name, f"the {name} of the heads")
        self.args = (f"attnprobe can't read {what} of {architecture!r}: {reason}.",)
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
    model_type, tolerance = checkpoint.model_type, find_tolerance(checkpoint)
    try:
        projections = find_projections(checkpoint) if "projection" in needs else ()
    except UnsupportedModelError as error:
        raise UnobservableError(model_type, "projection", error.reason) from error
    asking = sorted({"queries", "keys"} & {*needs})
    beside = ("scores", "queries", "keys") if asking else ()
    observe = {*needs, *beside, *(("outputs",) if projections else ())} - {"projection"}
    present, outputs = set(observe), dict[int, Tensor]()
    checks: dict[str, list[float]] = {}  # for each sentence, how far each layer is from it

    def check(sentence: str, difference: float) -> None:
        checks.setdefault(sentence, []).append(difference)

    def visit(layer: int, seen: Seen) -> None:
        present.intersection_update(seen)
        if "scores" in seen:
            check(SOFTMAX, float((seen["scores"].softmax(-1) - seen["maps"]).abs().max()))
        if asking and {*beside} <= seen.keys():
            product = seen["queries"].double() @ seen["keys"].double().mT
            lowest = torch.finfo(seen["queries"].dtype).min / 2
            scores = seen["scores"].double()
            check(*compare_logits(scores.where(scores > lowest, torch.nan), product, tolerance))
        if "outputs" in seen:
            outputs[layer] = seen["outputs"]
            if "values" in seen:
                product = seen["maps"].to(seen["values"].dtype) @ seen["values"]
                check(MIXED, relative_difference(product, seen["outputs"]))

    inputs, read = draw_probe_inputs(checkpoint), {projection.output for projection in projections}
    trace = trace_pass(
        checkpoint, inputs, architecture.way, observe, watched=lambda name, _: name in read, visit=visit
    )
    for name in sorted(observe - present, key=lambda one: (one not in needs, one)):
        reason = f"its attention is reached through the {architecture.way}, which does not show that"
        raise UnobservableError(model_type, name, reason)
    if trace.sites.sunk:
        checks.pop(MIXED, None)
    gave = {name: iter([call for call in trace.calls if call.name == name]) for name in read}
    for layer, projection in enumerate(projections):
        call = next(gave[projection.output])
        expected = call.gave if call.module.bias is None else call.gave - call.module.bias
        heads, weights = outputs[layer].float(), _split_by_head(checkpoint.body, projection)
        added = (heads @ weights.to(heads)).sum(1)
        check(ADDED, relative_difference(added, expected.reshape(added.shape)))
    evidence = []
    for sentence in (SOFTMAX, PLAIN, BIASED, CAPPED, NEITHER, MIXED, ADDED):
        if sentence not in checks:
            continue
        largest = float(torch.tensor(checks[sentence]).max())
        if not largest <= tolerance:
            name = _CHECKED.get(sentence) or asking[0]
            reason = f"it does not hold that {sentence} (off by {largest:.1e})"
            raise UnobservableError(model_type, name, reason)
        evidence.append(f"{sentence} (largest difference {largest:.1e})")
    return evidence


def compare_logits(scores: Tensor, product: Tensor, tolerance: float) -> tuple[str, float]:
    """Tell what scores of a layer, (sequence, head, query, key), NaN if masked, are of queries times keys.

    Returns:
        The strictest sentence that holds, and the largest difference; ``NEITHER`` where none does.
    """
    nothing = not (product.any() or scores.nan_to_num().any())
    differences = {PLAIN: 0.0 if nothing else _error_of_multiple(scores, product)}
    if len(scores) > 1:
        differences[BIASED] = _error_of_multiple(scores[1:] - scores[:1], product[1:] - product[:1])
    differences[CAPPED] = _error_of_order(scores, product)
    for sentence, difference in differences.items():
        if difference <= tolerance:
            return sentence, difference
    return NEITHER, min(differences.values())


def _error_of_multiple(scores: Tensor, product: Tensor) -> float:
    seen = ~scores.isnan()
    scores, product = scores[seen], product[seen]
    scale = float((scores @ product) / (product @ product))
    return _scale_error(scores - scale * product, scores) if scale > 0 else inf


def _error_of_order(scores: Tensor, product: Tensor) -> float:
    seen = ~scores.isnan()
    rising = scores[seen][product[seen].argsort()]
    return _scale_error(rising.cummax(0).values - rising, rising) if len(rising) else inf


def _scale_error(difference: Tensor, scores: Tensor) -> float:
    error = float(difference.abs().max() / scores.abs().max())
    return inf if isnan(error) else error


def find_output_weights(checkpoint: Checkpoint) -> tuple[Tensor, ...]:
    """Find W_O,h of every layer, (head, width, model width)."""
    return tuple(_split_by_head(checkpoint.body, one) for one in find_projections(checkpoint))


def find_output_factors(checkpoint: Checkpoint) -> tuple[Tensor, ...]:
    """Find what stands for W_O,h where only lengths matter, of every layer; see ``factor_projection``."""
    return tuple(map(factor_projection, find_output_weights(checkpoint)))


def _split_by_head(body: nn.Module, projection: Projections) -> Tensor:
    """Get W_O,h of a layer, (head, width, model width), in at least float32."""
    weight = read_weight(body.get_submodule(projection.output))
    assert weight is not None  # or the projections would have been refused
    rows = weight.T.reshape(projection.heads, projection.width, -1)
    return rows.to(torch.promote_types(weight.dtype, torch.float32))
