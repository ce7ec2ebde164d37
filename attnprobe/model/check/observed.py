"""Checks of the observations beside probabilities: scores, values, outputs, queries and keys."""

from collections.abc import Collection
from math import inf

import torch
from torch import Tensor

from attnprobe.model.check.architecture import Architecture
from attnprobe.model.check.projections import find_projections, split_by_head, trace_projections
from attnprobe.model.check.trace import find_tolerance, relative_difference
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quirks import UnsupportedModelError

#: How queries and keys may give the scores of a layer, the strictest first.
PLAIN = "queries times keys, scaled, are the scores"
BIASED = "queries times keys, scaled, are the scores up to a bias that all sequences share"
CAPPED = "the scores rise with queries times keys, as under a soft cap"
#: The sentence that fails where none of these holds.
NEITHER = "the scores are made of queries times keys, with nothing added that depends on the text"


class UnobservableError(UnsupportedModelError):
    """The attention of this architecture can be read, but not all that a statistic asks for."""

    def __init__(self, architecture: str, name: str, reason: str) -> None:
        super().__init__(architecture, reason, f"read the {name} of the heads of")
        self.name = name


def check_observations(
    checkpoint: Checkpoint, architecture: Architecture, needs: Collection[str]
) -> list[str]:
    """Run two short sequences, and verify the observations that statistics need; a sentence for each check.

    Raises:
        UnobservableError: Naming the first that can't be had, and the reason.
    """
    if not needs:
        return []
    model_type, tolerance = checkpoint.model_type, find_tolerance(checkpoint)
    try:
        projections = find_projections(checkpoint) if "projection" in needs else ()
    except UnsupportedModelError as error:
        raise UnobservableError(model_type, "projection", error.reason) from error
    logits = {"scores", "queries", "keys"} if {"queries", "keys"} & {*needs} else set()
    observe = {*needs, *logits, *(("outputs",) if projections else ())} - {"projection"}
    trace = trace_projections(checkpoint, architecture.way, "maps", *observe)
    if missing := observe - set.intersection(*(set(seen) for seen in trace.layers)):
        reason = f"its attention is reached through the {architecture.way}, which does not show that"
        raise UnobservableError(model_type, min({*needs} & missing or missing), reason)
    largest: dict[str, float] = {}  # for each sentence, how far any layer is from it

    def check(name: str, sentence: str, difference: float) -> None:
        if not difference <= tolerance:
            reason = f"it does not hold that {sentence} (off by {difference:.1e})"
            raise UnobservableError(model_type, name if name in needs else min(needs), reason)
        largest[sentence] = max(largest.get(sentence, 0.0), difference)

    for layer, seen in enumerate(trace.layers):
        if "scores" in seen:
            difference = float((seen["scores"].softmax(-1) - seen["maps"]).abs().max())
            check("scores", "the softmax of the scores is the probabilities", difference)
        if logits:
            product = seen["queries"].double() @ seen["keys"].double().mT
            lowest = torch.finfo(seen["queries"].dtype).min / 2
            scores = seen["scores"].double()
            check("keys", *compare_logits(scores.where(scores > lowest, torch.nan), product, tolerance))
        if {"values", "outputs"} <= seen.keys() and not trace.counter.sunk:
            product = seen["maps"].to(seen["values"].dtype) @ seen["values"]
            difference = relative_difference(product, seen["outputs"])
            check("values", "probabilities times values are what the heads give", difference)
        if projections:
            name = projections[layer].output
            call = next(call for call in trace.calls if (call.name, call.layer) == (name, layer + 1))
            expected = call.gave if call.module.bias is None else call.gave - call.module.bias
            heads, weights = seen["outputs"].float(), split_by_head(checkpoint.body, projections[layer])
            added = (heads @ weights.to(heads)).sum(1)
            difference = relative_difference(added, expected.reshape(added.shape))
            sentence = "the contributions of the heads add up to what their layer gives"
            check("projection", sentence, difference)
    return [f"{sentence} (largest difference {value:.1e})" for sentence, value in largest.items()]


def compare_logits(scores: Tensor, product: Tensor, tolerance: float) -> tuple[str, float]:
    """Find the strictest sentence, and its error, for scores (sequence, head, query, key), NaN if masked."""
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
    """Find how far scores are from a positive multiple of the product, relative to the largest score."""
    seen = ~scores.isnan()
    scores, product = scores[seen], product[seen]
    scale = float((scores @ product) / (product @ product))
    return float((scores - scale * product).abs().max() / scores.abs().max()) if scale > 0 else inf


def _error_of_order(scores: Tensor, product: Tensor) -> float:
    """Find how far scores fall where the product rises, relative to the largest score."""
    seen = ~scores.isnan()
    rising = scores[seen][product[seen].argsort()]
    fall = rising.cummax(0).values - rising
    return float(fall.max() / rising.abs().max()) if len(rising) else inf
