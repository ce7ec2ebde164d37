"""What a model does by itself: its hidden states, its eager maps, and what it keeps from pass to pass."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from attnprobe.attention.kinds import PARTS, Kind
from attnprobe.corpus.media import BOTH
from attnprobe.errors import first_line
from attnprobe.model.check.architecture import find_attending_layers, list_layer_kinds
from attnprobe.model.check.trace import TOLERANCE, find_tolerance, relative_difference
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.private import count_writes, get_attn_implementation
from attnprobe.model.processing import SeeingProcessor
from attnprobe.model.quirks import UnsupportedModelError, is_stretched, reads_both, take_outputs
from attnprobe.model.reading.blocks import spread_maps
from attnprobe.model.reading.ways import Form, switch_attention

#: What is said of a model whose eager attention is another than that which it runs by itself.
OTHER_STATES = (
    "its own eager maps come with other hidden states: what is measured is the attention that it runs by "
    "itself, and not its eager attention"
)
#: How the other of an image and a text is named.
_NAMING = {
    "text": "name the column of images with --image-column",
    "image": "name a table of both with --dataset, such as the metadata.csv of a folder",
}
#: For each kind (None, where no decoder is beside an encoder), the maps of its layers.
_Maps = dict[Kind | None, tuple[Tensor, ...]]


@dataclass(frozen=True)
class Reference:
    """What each way is held against.

    Attributes:
        untouched: The hidden states of the untouched model.
        steady: Whether it came out of its passes as it went in, so that threads may share it.
        maps: The maps the model itself returns under eager attention, if it does.
        scored: Whether it gives scores, and the maps are their softmax.
        averaged: Whether it gives the mean of all heads in place of each, as WavLM does.
        absence: Why there are none.
    """

    untouched: Tensor
    steady: bool = False
    maps: _Maps = field(default_factory=dict)
    scored: bool = False
    averaged: bool = False
    absence: str = ""


def run_untouched(checkpoint: Checkpoint, inputs: Mapping[str, Tensor]) -> Reference:
    """Run the model as it is, and let it give its own maps."""
    untouched, steady = run_twice(checkpoint, inputs)
    runner, tolerance = checkpoint.runner, find_tolerance(checkpoint)
    before = get_attn_implementation(runner)
    try:
        switch_attention(runner, "eager")
        with torch.inference_mode():
            given = runner(**checkpoint.inputs(inputs), output_attentions=True)
        maps = _take_maps(given, checkpoint)
        alike = relative_difference(given[0], untouched) <= tolerance
    except Exception as error:
        return Reference(untouched, steady, absence=f"its own maps can't be had ({first_line(error)})")
    finally:
        switch_attention(runner, before)
    if not maps:
        return Reference(untouched, steady, absence="it gives no maps of its own for comparison")
    if not alike:  # Falcon loses its mask when it is switched
        return Reference(untouched, steady, absence=OTHER_STATES)

    def convert(change: Callable[[Tensor], Tensor]) -> _Maps:
        return {kind: tuple(map(change, layers)) for kind, layers in maps.items()}

    batch = len(untouched)
    maps = convert(lambda rows: spread_maps(checkpoint.body, rows))
    maps = convert(lambda rows: Form(batch, windows=len(rows) // batch).by_head(rows))
    every = list(chain(*maps.values()))
    if all(bool((rows >= 0).all()) and bool((rows.sum(-1) <= 1 + TOLERANCE[4]).all()) for rows in every):
        # No scores, but probabilities that leave something for a learned sink.
        maps = convert(lambda rows: rows / rows.sum(-1, keepdim=True))
    if measure_row_sum_error(chain(*maps.values())) <= tolerance:
        averaged = all(rows.shape[1] > 1 and bool((rows == rows[:, :1]).all()) for rows in every)
        return Reference(untouched, steady, maps, averaged=averaged)
    # SqueezeBERT and ProphetNet give what goes into their softmax.
    return Reference(untouched, steady, convert(lambda rows: rows.softmax(-1)), scored=True)


def _take_maps(given: Any, checkpoint: Checkpoint) -> _Maps:
    """Take maps out of what a model gives, but for what layers that do not attend give in their place."""
    if checkpoint.decodes:
        maps: dict[Kind | None, Any] = {kind: getattr(given, f"{kind}_attentions", None) for kind in PARTS}
    else:
        layers, config = take_outputs(given).attentions, checkpoint.body.config.get_text_config()
        attending = find_attending_layers(config)
        if attending and layers and len(layers) == len(list_layer_kinds(config)):
            layers = [layers[layer] for layer in attending]
        elif attending and layers:
            layers = [rows for rows in layers if rows is not None]
        maps = {None: layers}
    whole = all(layers and all(isinstance(rows, Tensor) for rows in layers) for layers in maps.values())
    return {kind: tuple(layers) for kind, layers in maps.items()} if whole else {}


def measure_row_sum_error(maps: Iterable[Tensor]) -> float:
    """Measure the largest difference of a row's sum from 1."""
    return find_largest((rows.cpu().double().sum(-1) - 1).abs() for rows in maps)


def find_largest(differences: Iterable[Tensor]) -> float:
    """Find the largest number of several tensors; NaN if there is one, which Python's max may pass over."""
    return float(torch.stack([values.max() for values in differences]).max())


def run_twice(checkpoint: Checkpoint, inputs: Mapping[str, Tensor]) -> tuple[Tensor, bool]:
    """Run a model on two lengths; give its states, and whether it came out as it went in.

    Raises:
        UnsupportedModelError: When it can't be run on what it is given.
    """
    try:
        if checkpoint.modality == BOTH:  # a part that sees may prepare itself, once and for all
            checkpoint.forward(inputs)
        before = snapshot(checkpoint.runner)
        untouched = checkpoint.forward(inputs)
    except Exception as error:
        named = {"text": "token ids", BOTH: "an image and a text"}
        alone = named.get(checkpoint.modality, checkpoint.modality)
        advice = "if it needs other inputs too, save the part that reads these as a checkpoint of its own"
        if checkpoint.modality in _NAMING and reads_both(checkpoint.model.config):
            advice = "give each image with a text: " + _NAMING[checkpoint.modality]
        reason = f"it can't be run on {alone} alone ({first_line(error)}); {advice}"
        raise UnsupportedModelError(checkpoint.model_type, reason) from error
    try:
        if isinstance(checkpoint.processor, SeeingProcessor):  # of an image, all tokens have to stay
            checkpoint.forward(checkpoint.processor.cut(inputs, inputs["input_ids"].shape[1] - 2))
        elif "input_ids" in inputs:
            short = max(1, inputs["input_ids"].shape[1] // 2)
            checkpoint.forward({name: value[:, :short] for name, value in inputs.items()})
    except Exception:  # what it does with short sequences is its own affair
        return untouched, False
    stretched = any(map(is_stretched, checkpoint.runner.modules()))
    return untouched, not stretched and snapshot(checkpoint.runner) == before


#: What torch keeps on every module, and where we stand between a module and its callers.
_OURS = {*vars(nn.Module()), "forward"}


def snapshot(model: nn.Module) -> dict[str, Any]:
    """Record everything that the modules of a model keep beside their weights.

    Two records are equal where nothing changed between them: no attribute was put in place of another, no
    buffer was written to, no list or dictionary grew. Rotary embeddings often keep their tables, and those of
    a longer sequence are wrong for a shorter one.
    """
    return {
        f"{name}.{key}": _identify(value)
        for name, module in model.named_modules()
        for key, value in (*vars(module).items(), *module.named_buffers(recurse=False))
        if key not in _OURS
    }


def _identify(value: Any) -> Any:
    if isinstance(value, Tensor):
        return id(value), tuple(value.shape), count_writes(value)
    if isinstance(value, bool | int | float | str | None):
        return value
    if isinstance(value, tuple):
        return tuple(map(_identify, value))
    return id(value), len(value) if isinstance(value, list | dict | set) else 0
