"""What a block can hold beside probabilities, if a statistic asks for it."""

from dataclasses import dataclass, fields

from torch import Tensor


class NotObservedError(AttributeError):
    """A statistic reads what it did not say that it needs."""

    def __init__(self, name: str) -> None:
        """Say what is missing, and how to ask for it."""
        super().__init__(
            f"a block holds no {name} unless they are asked for: name them in needs, as in "
            f"statistic(needs={{{name!r}}})."
        )


class NotWeightedError(AttributeError):
    """A statistic reads what rows carry, of rows that are not weighted by it."""

    def __init__(self) -> None:
        """Say how to ask for it."""
        super().__init__(
            "a block says what its rows carry only where they are weighted by norm: "
            "Statistic(..., weights='norm')."
        )


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

    scores: Tensor | None = None
    values: Tensor | None = None
    outputs: Tensor | None = None
    queries: Tensor | None = None
    keys: Tensor | None = None
    projection: Tensor | None = None
    unembedding: Tensor | None = None

    def present(self) -> frozenset[str]:
        """Name what is there."""
        return frozenset(field.name for field in fields(self) if getattr(self, field.name) is not None)


#: What only language models have; nothing in the attention of a model shows it.
UNEMBEDDING = "unembedding"
#: What statistics may ask for of any attention.
OBSERVABLE = tuple(field.name for field in fields(Observed) if field.name != UNEMBEDDING)
#: What is observed where nobody asks.
NOTHING = Observed()
