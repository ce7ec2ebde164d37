"""What a statistic may read beside the probabilities: of a block what was observed, or weights alone."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Observed:
    """What was asked for, of the queries and sequences of a block; None is what nobody asked for.

    Attributes:
        scores: (batch, head, query, key) what the softmax is taken of: scaled, with biases, capped, and the
            lowest number of its type (or -inf) where a key is masked.
        values: (batch, head, key, width) what each key gives to a head, repeated where heads share it.
        outputs: (batch, head, query, width) what each head gives to the output projection.
        queries: (batch, head, query, width) the queries as they meet the keys: rotated, normalised.
        keys: (batch, head, key, width) the keys they meet, repeated where heads share them.
        projection: (head, width, model width) the part of the output projection that reads a head,
            transposed: contributions are ``outputs @ projection``.
        unembedding: (batch, key, model width) what raises the logit of the token of each key; None where what
            heads add does not reach the logits, as in the encoder beside a decoder.
    """

    scores: "Tensor | None" = None
    values: "Tensor | None" = None
    outputs: "Tensor | None" = None
    queries: "Tensor | None" = None
    keys: "Tensor | None" = None
    projection: "Tensor | None" = None
    unembedding: "Tensor | None" = None

    def present(self) -> frozenset[str]:
        return frozenset(field.name for field in fields(self) if getattr(self, field.name) is not None)


#: What only language models have; nothing in the attention of a model shows it.
UNEMBEDDING = "unembedding"
#: What statistics may ask for of any attention.
OBSERVABLE = tuple(field.name for field in fields(Observed) if field.name != UNEMBEDDING)
#: What is observed where nobody asks.
NOTHING = Observed()


@dataclass(frozen=True)
class HeadParameters:
    """From what a layer reads to the queries and keys of its heads, W_Q,h and W_K,h, without biases.

    Attributes:
        queries: (head, width, model width).
        keys: (head, width, model width), repeated where heads share them. From decoder to encoder, the model
            width is that of the encoder.
    """

    queries: "Tensor"
    keys: "Tensor"

    def __post_init__(self) -> None:
        shapes = tuple(self.queries.shape), tuple(self.keys.shape)
        if any(len(shape) != 3 for shape in shapes) or shapes[0][:2] != shapes[1][:2]:
            raise ValueError(f"weights must be (head, width, model width), alike in both, got {shapes}")
