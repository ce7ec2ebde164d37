"""What a model says of its own attention, against which each way to it is held."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attnprobe.attention.kinds import Kind
from attnprobe.errors import first_line
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.support import UnsupportedModelError
from attnprobe.model.reading.bands import spread_maps
from attnprobe.model.reading.routing import switch_attention
from attnprobe.model.verifying.hybrids import attending, kinds_of_layers
from attnprobe.model.verifying.probing import TOLERANCE, relative_difference


@dataclass(frozen=True)
class Known:
    """What each way is held against.

    Attributes:
        inputs: Two short sequences, with targets of another length where there is a decoder beside.
        untouched: The hidden states of the untouched model.
        maps: For each kind (one, where no decoder is beside an encoder), the maps the model itself
            returns under eager attention, if it does.
        scored: Whether it gives scores, and the maps are their softmax.
        averaged: Whether it gives the mean of all heads in place of each, as WavLM does.
        absence: Why there are none.
    """

    inputs: Mapping[str, Tensor]
    untouched: Tensor
    maps: Mapping[Kind | None, tuple[Tensor, ...]] = field(default_factory=dict)
    scored: bool = False
    averaged: bool = False
    absence: str = ""


def ask_model(checkpoint: Checkpoint, inputs: Mapping[str, Tensor]) -> Known:
    """Run the model as it is, and let it give its own maps."""
    body = checkpoint.body
    try:
        untouched = checkpoint.forward(inputs)
    except Exception as error:
        alone = {"text": "token ids"}.get(checkpoint.modality, f"{checkpoint.modality}")
        raise UnsupportedModelError(
            checkpoint.model_type,
            f"it can't be run on {alone} alone ({first_line(error)}); if it needs other inputs too, save the "
            "part that reads these as a checkpoint of its own",
        ) from error
    before = body.config._attn_implementation
    try:
        switch_attention(body, "eager")
        with torch.inference_mode():
            given = body(**checkpoint.inputs(inputs), output_attentions=True)
        found = _given_maps(given, checkpoint)
        alike = relative_difference(given[0], untouched) <= TOLERANCE[body.dtype.itemsize]
    except Exception as error:
        return Known(inputs, untouched, absence=f"its own maps can't be had ({first_line(error)})")
    finally:
        switch_attention(body, before)
    if not found:
        return Known(inputs, untouched, absence="it gives no maps of its own for comparison")
    if not alike:  # Falcon loses its mask when it is switched
        return Known(inputs, untouched, absence="its own eager maps come with other hidden states")
    maps = {kind: tuple(spread_maps(body, rows) for rows in layers) for kind, layers in found.items()}
    if all(_sunk(rows) for layers in maps.values() for rows in layers):
        maps = {
            kind: tuple(rows / rows.sum(-1, keepdim=True) for rows in layers) for kind, layers in maps.items()
        }
    if all(furthest_from_1(layers) <= TOLERANCE[body.dtype.itemsize] for layers in maps.values()):
        averaged = all(rows.shape[1] > 1 and same_heads(rows) for layers in maps.values() for rows in layers)
        return Known(inputs, untouched, maps, averaged=averaged)
    # SqueezeBERT and ProphetNet give what goes into their softmax.
    softened = {kind: tuple(rows.softmax(-1) for rows in layers) for kind, layers in maps.items()}
    return Known(inputs, untouched, softened, scored=True)


def _given_maps(given: Any, checkpoint: Checkpoint) -> dict[Kind | None, tuple[Tensor, ...]]:
    """Take the maps out of what a model returns; none at all if some are missing."""
    if checkpoint.decodes:
        found: dict[Kind | None, Any] = {kind: getattr(given, f"{kind}_attentions", None) for kind in Kind}
    else:
        found = {None: _attentions(given.attentions, checkpoint.body.config.get_text_config())}
    whole = all(layers and all(isinstance(rows, Tensor) for rows in layers) for layers in found.values())
    return {kind: tuple(layers) for kind, layers in found.items()} if whole else {}


def _attentions(given: Any, config: Any) -> Any:
    """Leave out what layers that do not attend give in the place of a map: nothing, or their states."""
    attend = attending(config)
    if not attend or not given:
        return given
    if len(given) == len(kinds_of_layers(config)):
        return tuple(given[layer] for layer in attend)
    return tuple(rows for rows in given if rows is not None)


def _sunk(rows: Tensor) -> bool:
    """Tell probabilities that leave something for a learned sink from scores."""
    return bool((rows >= 0).all()) and bool((rows.sum(-1) <= 1 + TOLERANCE[4]).all())


def furthest_from_1(maps: Iterable[Tensor]) -> float:
    """Give the largest difference of a row's sum from 1."""
    return largest((rows.cpu().double().sum(-1) - 1).abs() for rows in maps)


def largest(differences: Iterable[Tensor]) -> float:
    """Give the largest number of several tensors; NaN if there is one, which Python's max may pass over."""
    return float(torch.stack([values.max() for values in differences]).max())


def same_heads(rows: Tensor) -> bool:
    """Tell whether all heads of a layer have one map."""
    return bool((rows == rows[:, :1]).all())
