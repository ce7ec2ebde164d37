"""What models are given, by the names that transformers has for it."""

import inspect
from functools import cache

#: For text, images and sound, how their input is called.
INPUTS = {"text": {"input_ids"}, "image": {"pixel_values"}, "sound": {"input_values", "input_features"}}


@cache
def parameters_of(kind: type) -> frozenset[str]:
    """Name what the forward pass of a class of models can be given."""
    return frozenset(inspect.signature(kind.forward).parameters)  # type: ignore[attr-defined]


def reads(kind: type) -> list[str]:
    """List which of text, images and sound a class of models can be given."""
    return [modality for modality, names in INPUTS.items() if names & parameters_of(kind)]
