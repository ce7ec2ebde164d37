"""What has to hold of the maps that a dry run captures, each with a sentence of evidence or a refusal."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.kinds import PARTS, Kind, infer_kind
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.processing import SeeingProcessor, find_sight
from attnprobe.model.quirks import UnsupportedModelError
from attnprobe.model.reading.gates import gate_attention
from attnprobe.model.reading.ways import Way
from attnprobe.model.verifying.architecture import (
    describe_skipped_layers,
    find_attending_layers,
)
from attnprobe.model.verifying.probing import (
    Reference,
    are_heads_equal,
    find_largest,
    measure_row_sum_error,
    relative_difference,
)

#: What is said of a way by which nothing comes.
NO_LAYER = "no attention was found"


def check_maps(
    name: str, maps: list[Tensor], tolerance: float, kept: NDArray[np.bool_] | None = None
) -> list[str]:
    """Refuse rows that are no distributions, and layers of different numbers of heads than is on record."""
    evidence = check_row_sums(name, maps, tolerance)
    found = [rows.shape[1] for rows in maps]
    if kept is not None and found != kept.sum(1).clip(1).tolist():
        raise UnsupportedModelError(name, f"its layers have {found} heads, which is not what its record says")
    if kept is None and len(set(found)) > 1:
        reason = "its layers have different numbers of heads; of a physically pruned one, give the folder"
        raise UnsupportedModelError(name, reason)
    return evidence


def check_hidden_states(name: str, captured: Tensor, known: Reference, tolerance: float) -> str:
    """Refuse a way of reading under which the model computes something else."""
    apart = relative_difference(captured, known.untouched)
    if not apart <= tolerance:
        raise UnsupportedModelError(name, f"hidden states under capture differ from its own by {apart:.1e}")
    return f"hidden states agree with the untouched model (relative difference {apart:.1e})"


def check_row_sums(name: str, maps: list[Tensor], tolerance: float) -> list[str]:
    off = measure_row_sum_error(maps)
    if not off <= tolerance:
        raise UnsupportedModelError(name, f"its attention rows do not sum to 1 (off by {off:.1e})")
    return [f"every attention row sums to 1 (largest error {off:.1e})"]


@dataclass(frozen=True)
class Sight:
    """What the tokens of each layer see, and what is to be said of it."""

    kinds: tuple[Kind, ...]
    joined: bool = False
    evidence: tuple[str, ...] = ()

    @classmethod
    def of(cls, checkpoint: Checkpoint, inputs: Mapping[str, Tensor], maps: Sequence[Tensor]) -> "Sight":
        """Infer it from maps; refuse a decoder that sees later tokens, but for those of its own image."""
        name, processor = checkpoint.model_type, checkpoint.processor
        if isinstance(processor, SeeingProcessor):
            image = processor.is_image(inputs["input_ids"])
            kinds, joined = infer_sight(name, maps, image)
            sees = ", which see each other" if joined else ""
            number = f"{int(image[0].sum())} of {image.shape[1]}"
            return cls(kinds, joined, (f"{number} tokens stand for the image{sees}; {processor.described}",))
        targets = inputs["decoder_input_ids"].shape[1] if checkpoint.decodes else None
        kinds = tuple(infer_kind(rows, targets=targets) for rows in maps)
        if any(kind is Kind.DECODER and rows.triu(1).any() for rows, kind in zip(maps, kinds, strict=True)):
            raise UnsupportedModelError(name, "its decoder sees later tokens, which is not expected of one")
        return cls(kinds)


def infer_sight(name: str, maps: Sequence[Tensor], image: Tensor) -> tuple[tuple[Kind, ...], bool]:
    """Infer what tokens see where some are those of an image: all, or what came before, or their own image.

    Args:
        name: The type of the model, for errors.
        maps: Of each layer.
        image: The tokens of the image, (batch, position).

    Returns:
        The kind of each layer; whether the tokens of an image see each other in a decoder.
    """
    place = torch.arange(image.shape[1], device=image.device)
    beyond = (place > find_sight(image)[..., None])[:, None]
    ahead = [rows.to(beyond.device).triu(1) for rows in maps]
    kinds = tuple(Kind.ENCODER if bool((rows * beyond).any()) else Kind.DECODER for rows in ahead)
    decoders = [bool(rows.any()) for rows, kind in zip(ahead, kinds, strict=True) if kind is Kind.DECODER]
    if len(set(decoders)) > 1:
        raise UnsupportedModelError(name, "tokens of an image see each other in some of its layers only")
    return kinds, any(decoders)


def check_layers(checkpoint: Checkpoint, kinds: Sequence[Kind]) -> list[str]:
    """Refuse another number of layers than the configuration says, of each kind."""
    if not checkpoint.decodes:
        config = checkpoint.body.config.get_text_config()
        stated = _count_stages(config) or _find_stated(config, "num_hidden_layers", "num_layers")
        repeats = getattr(config, "inner_group_num", 1) or 1
        return [check_count(checkpoint, len(kinds), len(find_attending_layers(config)) or stated * repeats)]
    config, found = checkpoint.model.config, Counter(kinds)
    expected = {
        part: _find_stated(
            getattr(config, part, config),
            *(f"{part}_layers", f"num_{part}_layers", f"{part}_num_hidden_layers"),
            *("num_layers", "num_hidden_layers"),
        )
        for part in (Kind.ENCODER, Kind.DECODER)
    }
    expected[Kind.CROSS] = expected[Kind.DECODER]
    return [check_count(checkpoint, found[kind], expected[kind], of=f"{kind} ") for kind in PARTS]


def _find_stated(config: Any, *names: str) -> int:
    return next((value for name in names if (value := getattr(config, name, None))), 0)


def _count_stages(config: Any) -> int:
    depths = getattr(config, "depths", None)
    if not isinstance(depths, list | tuple):
        return 0
    return sum(depths[: getattr(config, "num_encoder_blocks", len(depths))])


def check_count(checkpoint: Checkpoint, found: int, expected: int, of: str = "") -> str:
    expected = expected or found
    if found != expected:
        raise UnsupportedModelError(
            checkpoint.model_type,
            f"{of}attention of {_format_count(found)} was read, its configuration says {expected}",
        )
    return f"{of}attention of {found} of {_format_count(expected)} was read"


def _format_count(number: int) -> str:
    return f"{number} layer{'s' * (number != 1)}"


def check_against_own(
    name: str, known: Reference, maps: list[Tensor], kinds: Sequence[Kind], tolerance: float
) -> str:
    """Compare with the maps that the model itself returns under eager attention."""
    if not known.maps:
        return known.absence
    differences: list[Tensor] = []
    for kind, layers in known.maps.items():
        read = [rows for rows, found in zip(maps, kinds, strict=True) if kind in {None, found}]
        if [rows.shape for rows in layers] != [rows.shape for rows in read]:
            found, own = _format_shapes(read), _format_shapes(layers)
            raise UnsupportedModelError(name, f"it gives maps of its own of {own}, and {found} were found")
        for own, rows in zip(layers, read, strict=True):
            found = rows.cpu().double().mean(1, keepdim=True) if known.averaged else rows.cpu().double()
            differences.append((own.cpu().double() - found).abs().max())
    apart = find_largest(differences)
    if not apart <= tolerance:
        raise UnsupportedModelError(name, f"the maps read differ from its own eager maps by {apart:.1e}")
    own = (
        "softmax of the scores that the model gives as its own" if known.scored else "model's own eager maps"
    )
    own = "mean over heads that the model gives as its own" if known.averaged else own
    return f"maps equal the {own} (largest difference {apart:.1e})"


def _format_shapes(maps: Iterable[Tensor]) -> str:
    counts = Counter(tuple(rows.shape) for rows in maps)
    return ", ".join(f"{count} x {shape}" for shape, count in counts.items())


def check_numbers(checkpoint: Checkpoint, sites: Sequence[str]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Verify that the layers that were read are those that attend, where a model has others.

    ``sites`` are the modules that attended, in order; their names hold the numbers of their layers, unless
    layers share a module.

    Returns:
        The model's own numbers of the layers, and a sentence on those that are left out; nothing for a model
        in which all attend.
    """
    config = checkpoint.body.config.get_text_config()
    attend = () if checkpoint.decodes else find_attending_layers(config)
    if not attend:
        return (), ()
    numbers = tuple(int(part) for site in sites for part in re.findall(r"(?:^|\.)(\d+)(?:\.|$)", site)[:1])
    if len(set(sites)) == len(sites) and numbers != attend:
        reason = f"attention was found in its layers {list(numbers)}, its configuration says {list(attend)}"
        raise UnsupportedModelError(checkpoint.model_type, reason)
    return attend, (describe_skipped_layers(config),)


def check_heads(name: str, maps: list[Tensor]) -> str:
    """Refuse what may be the mean of all heads."""
    several = [rows for rows in maps if rows.shape[1] > 1]
    if several and all(are_heads_equal(rows) for rows in several):
        raise UnsupportedModelError(name, "all heads of every layer are copies of one map")
    return "heads differ"


def check_mixing(checkpoint: Checkpoint, known: Reference, way: Way, maps: list[Tensor]) -> str:
    """Refuse a softmax that has no part in the hidden states of its layer, whatever it looks like."""
    with gate_attention(checkpoint.body, way) as gates:
        for layer, rows in enumerate(maps):
            gates.rows = {layer: rows.new_zeros(1, rows.shape[1])}
            if torch.equal(checkpoint.forward(known.inputs), known.untouched):
                reason = f"the hidden states do not depend on the softmax tapped in layer {layer}"
                raise UnsupportedModelError(checkpoint.model_type, reason)
    return "hidden states depend on every tapped softmax"


def find_head_width(checkpoint: Checkpoint, site: str, heads: int) -> int:
    """Find the width of a head's keys, which the module of its layer or the configuration states."""
    module, config = checkpoint.body.get_submodule(site), checkpoint.body.config.get_text_config()
    stated = ((module, "attention_head_size"), (module, "head_dim"), (config, "head_dim"), (config, "d_kv"))
    for place, name in stated:
        if isinstance(width := getattr(place, name, None), int):
            return width
    return config.hidden_size // heads
