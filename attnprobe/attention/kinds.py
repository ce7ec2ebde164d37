"""What attends to what in a layer of attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class Kind(StrEnum):
    """The kinds of attention, in the order of tables."""

    #: Every token of a sequence to every one of it.
    ENCODER = "encoder"
    #: Every token to itself and those before it.
    DECODER = "decoder"
    #: Every token that the decoder reads to every token that the encoder has read.
    CROSS = "cross"


#: The kinds of a model with an encoder and a decoder.
PARTS = (Kind.ENCODER, Kind.DECODER, Kind.CROSS)


def infer_kind(rows: "Tensor", *, targets: int | None = None) -> Kind:
    """Infer the kind of attention from a map (batch, head, query, key).

    Args:
        rows: Probabilities over sequences of at least two tokens.
        targets: Tokens that the decoder beside an encoder has read, other than the encoder has.
    """
    queries, keys = rows.shape[2:]
    if queries != keys:
        return Kind.CROSS
    if targets is not None:
        return Kind.DECODER if queries == targets else Kind.ENCODER
    return Kind.DECODER if not rows.triu(1).any() else Kind.ENCODER


@dataclass(frozen=True)
class Place:
    """What names a layer.

    Attributes:
        layer: Its number, from 0, among the layers of its kind.
        kind: Its kind, or None where the model has only one.
    """

    layer: int
    kind: Kind | None = None

    def __str__(self) -> str:
        return f"layer {self.layer}" if self.kind is None else f"{self.kind} layer {self.layer}"

    def head(self, number: int) -> str:
        """Name one of its heads in a list: its layer and its number.

        >>> Place(3).head(1), Place(0, Kind.CROSS).head(2)
        ('3-1', 'cross 0-2')
        """
        return f"{self.kind + ' ' if self.kind else ''}{self.layer}-{number}"

    @property
    def key(self) -> tuple[str | int, ...]:
        """What a table says of it."""
        return (self.layer,) if self.kind is None else (str(self.kind), self.layer)


def list_lacking(counts: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """List the heads, as layer and head, that a layer of so many heads lacks where another has more.

    >>> list_lacking([1, 3])
    ((0, 1), (0, 2))
    """
    heads = max(counts, default=0)
    return tuple((layer, head) for layer, count in enumerate(counts) for head in range(count, heads))


def number_layers(kinds: Sequence[str], numbers: Sequence[int] = ()) -> tuple[Place, ...]:
    """Number the layers, each kind for itself where there is an encoder and a decoder.

    Args:
        kinds: The kind of each layer of attention.
        numbers: The model's own numbers of them, where other layers lie between.

    >>> [str(place) for place in number_layers(["encoder", "decoder", "cross", "decoder"])]
    ['encoder layer 0', 'decoder layer 0', 'cross layer 0', 'decoder layer 1']
    >>> [str(place) for place in number_layers(["decoder", "decoder"])]
    ['layer 0', 'layer 1']
    >>> [str(place) for place in number_layers(["decoder", "decoder"], [3, 7])]
    ['layer 3', 'layer 7']
    """
    if numbers:
        return tuple(Place(layer) for layer in numbers)
    if Kind.CROSS not in kinds:
        return tuple(Place(layer) for layer in range(len(kinds)))
    return tuple(Place(kinds[:layer].count(kind), Kind(kind)) for layer, kind in enumerate(kinds))
