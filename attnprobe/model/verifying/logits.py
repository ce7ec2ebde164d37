"""Whether queries times keys are the scores, layer by layer, on two short sequences."""

from dataclasses import dataclass, field
from math import inf, isnan

import torch
from torch import Tensor

from attnprobe.model.reading.pieces import Piece

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

    def take(self, piece: Piece) -> None:
        """Take a block; those of a layer come together."""
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
        """Compare what was gathered of a layer, and forget it."""
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
        plain = 0.0 if nothing else _apart(scores, product)
        differences = {PLAIN: plain, CAPPED: _falling(scores, product)}
        if len(scores) > 1:
            differences[BIASED] = _apart(scores[1:] - scores[:1], product[1:] - product[:1])
        for sentence in (PLAIN, BIASED, CAPPED):
            if (apart := differences.get(sentence, inf)) <= self.tolerance:
                self.found[sentence] = max(self.found.get(sentence, 0.0), apart)
                return
        self.found[""] = max(self.found.get("", 0.0), min(differences.values()))


def _apart(scores: Tensor, product: Tensor) -> float:
    """Give the largest difference of scores and a multiple of products, over the largest score."""
    seen = ~scores.isnan()
    scores, product = scores[seen], product[seen]
    scale = float((scores @ product) / (product @ product))
    return _relative(scores - scale * product, scores) if scale > 0 else inf


def _falling(scores: Tensor, product: Tensor) -> float:
    """Give by how much scores fall at most where products rise, over the largest score."""
    seen = ~scores.isnan()
    scores, product = scores[seen], product[seen]
    rising = scores[product.argsort()]
    return _relative(rising.cummax(0).values - rising, scores) if len(scores) else inf


def _relative(apart: Tensor, scores: Tensor) -> float:
    found = float(apart.abs().max() / scores.abs().max())
    return inf if isnan(found) else found
