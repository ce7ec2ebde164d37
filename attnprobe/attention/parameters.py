"""The weights of a layer that belong to its heads."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class HeadParameters:
    """From what a layer reads to the queries and keys of its heads, W_Q,h and W_K,h, without biases.

    Attributes:
        queries: (head, width, model width).
        keys: (head, width, model width), repeated where heads share them. From decoder to encoder, the model
            width is that of the encoder.
    """

    queries: Tensor
    keys: Tensor

    def __post_init__(self) -> None:
        """Refuse shapes that do not fit together, naming the axes."""
        shapes = tuple(self.queries.shape), tuple(self.keys.shape)
        if any(len(shape) != 3 for shape in shapes) or shapes[0][:2] != shapes[1][:2]:
            raise ValueError(f"weights must be (head, width, model width), alike in both, got {shapes}")
