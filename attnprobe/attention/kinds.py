"""The kinds of attention, what names a layer, and what may be observed of one."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class Kind(StrEnum):
    """The kinds of attention, in the order of tables."""

    ENCODER = "encoder"  # every token of a sequence to every one of it
    DECODER = "decoder"  # every token to itself and those before it
    CROSS = "cross"  # every token that the decoder reads to every token that the encoder has read


#: The kinds of a model with an encoder and a decoder.
PARTS = (Kind.ENCODER, Kind.DECODER, Kind.CROSS)


def infer_kind(rows: "Tensor", *, targets: int | None = None) -> Kind:
    """Infer the kind of maps (batch, head, query, key); with an encoder, a decoder has ``targets`` tokens."""
    queries, keys = rows.shape[2:]
    if queries != keys:
        return Kind.CROSS
    if targets is not None:
        return Kind.DECODER if queries == targets else Kind.ENCODER
    return Kind.DECODER if not rows.triu(1).any() else Kind.ENCODER


@dataclass(frozen=True)
class Place:
    """What names a layer: its number, from 0, among those of its kind; no kind where there is only one."""

    layer: int
    kind: Kind | None = None

    def __str__(self) -> str:
        return f"layer {self.layer}" if self.kind is None else f"{self.kind} layer {self.layer}"

    def head(self, number: int) -> str:
        """Name one of its heads in a list, such as 3-1 or cross 0-2."""
        return f"{self.kind + ' ' if self.kind else ''}{self.layer}-{number}"

    @property
    def key(self) -> tuple[str | int, ...]:
        """What a table says of it."""
        return (self.layer,) if self.kind is None else (str(self.kind), self.layer)


def list_absent_heads(counts: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """List the heads, as layer and head, that a layer of so many heads lacks where another has more."""
    heads = max(counts, default=0)
    return tuple((layer, head) for layer, count in enumerate(counts) for head in range(count, heads))


def number_layers(kinds: Sequence[str], numbers: Sequence[int] = ()) -> tuple[Place, ...]:
    """Number the layers, each kind for itself where there is an encoder and a decoder.

    ``numbers`` are the model's own, where other layers lie between those of attention.

    >>> [str(place) for place in number_layers(["encoder", "decoder", "cross", "decoder"])]
    ['encoder layer 0', 'decoder layer 0', 'cross layer 0', 'decoder layer 1']
    """
    if numbers:
        return tuple(Place(layer) for layer in numbers)
    if Kind.CROSS not in kinds:
        return tuple(Place(layer) for layer in range(len(kinds)))
    return tuple(Place(kinds[:layer].count(kind), Kind(kind)) for layer, kind in enumerate(kinds))


@dataclass(frozen=True)
class Observed:
    """What was requested for the queries and sequences of a block; the rest is None.

    Attributes:
        scores: (batch, head, query, key) the input of the softmax: scaled, with biases, capped, and the
            lowest number of its type (or -inf) for a masked key.
        values: (batch, head, key, width) the value vectors, repeated if heads share them.
        outputs: (batch, head, query, width) what each head gives to the output projection.
        queries: (batch, head, query, width) the queries that are multiplied by keys: rotated, normalised.
        keys: (batch, head, key, width) these keys, repeated if heads share them.
        projection: (head, width, model width) the part of the output projection that reads a head,
            transposed: contributions are ``outputs @ projection``.
        unembedding: (batch, key, model width) the unembedding of each key's token; None if heads do not reach
            the logits directly, as in the encoder of an encoder-decoder model.
    """

    scores: "Tensor | None" = None
    values: "Tensor | None" = None
    outputs: "Tensor | None" = None
    queries: "Tensor | None" = None
    keys: "Tensor | None" = None
    projection: "Tensor | None" = None
    unembedding: "Tensor | None" = None


#: What is observed where nobody asks.
NOTHING = Observed()
#: What only language models have, and what statistics may ask for of any attention.
UNEMBEDDING = "unembedding"
OBSERVABLE = tuple(field.name for field in fields(Observed) if field.name != UNEMBEDDING)


@dataclass(frozen=True)
class HeadParameters:
    """The weights W_Q,h and W_K,h of a layer's heads, without biases.

    Both are (head, width, model width). Keys are repeated if heads share them; from decoder to encoder, their
    model width is the encoder's.
    """

    queries: "Tensor"
    keys: "Tensor"
