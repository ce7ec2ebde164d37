"""What must hold before attnprobe believes that it reads attention rightly. Each check gives its evidence."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attnprobe.attention.kinds import Kind
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.pruned import PruningRecord
from attnprobe.model.loading.support import UnsupportedModelError
from attnprobe.model.reading.capture import captured_attention
from attnprobe.model.reading.routing import Piece, Way
from attnprobe.model.switching.gates import gated_attention
from attnprobe.model.verifying.architecture import Following, attending, kinds_of_layers, left_out
from attnprobe.model.verifying.probing import Known, furthest_from_1, largest, same_heads


class RefutedError(UnsupportedModelError):
    """What looks like attention is none."""


def check_maps(
    name: str, maps: list[Tensor], tolerance: float, pruning: PruningRecord | None = None
) -> list[str]:
    """Refuse rows that are no distributions, and layers of different numbers of heads than is on record."""
    off = furthest_from_1(maps)
    if not off <= tolerance:
        raise UnsupportedModelError(name, f"its attention rows do not sum to 1 (off by {off:.1e})")
    found = [rows.shape[1] for rows in maps]
    if pruning is not None and found != [max(1, kept) for kept in pruning.kept_per_layer]:
        raise UnsupportedModelError(name, f"its layers have {found} heads, which is not what its record says")
    if pruning is None and len(set(found)) > 1:
        reason = "its layers have different numbers of heads; of a physically pruned one, give the folder"
        raise UnsupportedModelError(name, reason)
    return [f"every attention row sums to 1 (largest error {off:.1e})"]


def check_layers(checkpoint: Checkpoint, kinds: Sequence[Kind]) -> list[str]:
    """Refuse another number of layers than the configuration says, of each kind."""
    if not checkpoint.decodes:
        config = checkpoint.body.config.get_text_config()
        if attend := attending(config):
            return [_counted(checkpoint, len(kinds), len(attend))]
        repeats = getattr(config, "inner_group_num", 1) or 1
        return [_counted(checkpoint, len(kinds), _stated(config, "num_hidden_layers", "num_layers"), repeats)]
    config, found = checkpoint.model.config, Counter(kinds)
    encoder, decoder = (getattr(config, part, config) for part in (Kind.ENCODER, Kind.DECODER))
    usual = ("num_layers", "num_hidden_layers")
    expected = {
        Kind.ENCODER: _stated(
            encoder, "encoder_layers", "num_encoder_layers", "encoder_num_hidden_layers", *usual
        ),
        Kind.DECODER: _stated(
            decoder, "decoder_layers", "num_decoder_layers", "decoder_num_hidden_layers", *usual
        ),
    }
    expected[Kind.CROSS] = expected[Kind.DECODER]
    return [_counted(checkpoint, found[kind], expected[kind], of=f"{kind} ") for kind in Kind]


def _stated(config: Any, *names: str) -> int | None:
    return next((value for name in names if (value := getattr(config, name, None))), None)


def _counted(checkpoint: Checkpoint, found: int, expected: int | None, repeats: int = 1, of: str = "") -> str:
    expected = expected * repeats if expected else found
    if found != expected:
        raise UnsupportedModelError(
            checkpoint.model_type,
            f"{of}attention of {_layers(found)} was read, its configuration says {expected}",
        )
    return f"{of}attention of {found} of {_layers(expected)} was read"


def _layers(number: int) -> str:
    return f"{number} layer{'s' * (number != 1)}"


def check_against_own(
    name: str, known: Known, maps: list[Tensor], kinds: Sequence[Kind], tolerance: float
) -> str:
    """Compare with the maps that the model itself returns under eager attention."""
    if not known.maps:
        return known.absence
    differences: list[Tensor] = []
    for kind, layers in known.maps.items():
        read = [rows for rows, found in zip(maps, kinds, strict=True) if kind in {None, found}]
        if [rows.shape for rows in layers] != [rows.shape for rows in read]:
            found, own = _shapes(read), _shapes(layers)
            raise UnsupportedModelError(name, f"it gives maps of its own of {own}, and {found} were found")
        for own, rows in zip(layers, read, strict=True):
            found = rows.cpu().double().mean(1, keepdim=True) if known.averaged else rows.cpu().double()
            differences.append((own.cpu().double() - found).abs())
    apart = largest(differences)
    if not apart <= tolerance:
        raise UnsupportedModelError(name, f"the maps read differ from its own eager maps by {apart:.1e}")
    own = "model's own eager maps"
    if known.scored:
        own = "softmax of the scores that the model gives as its own"
    if known.averaged:
        own = "mean over heads that the model gives as its own"
    return f"maps equal the {own} (largest difference {apart:.1e})"


def _shapes(maps: Iterable[Tensor]) -> str:
    """Say how many maps there are of which shape.

    >>> _shapes([torch.ones(2, 4, 8, 8)] * 3)
    '3 x (2, 4, 8, 8)'
    """
    counts = Counter(tuple(rows.shape) for rows in maps)
    return ", ".join(f"{count} x {shape}" for shape, count in counts.items())


def check_numbers(
    checkpoint: Checkpoint, known: Known, layers: int, keys: int, way: Way
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Verify that the layers that were read are those that attend, where a model has others.

    Args:
        checkpoint: Which model.
        known: What it is given.
        layers: How many were read.
        keys: How many tokens it attends to.
        way: How attention is reached.

    Returns:
        The model's own numbers of the layers, and a sentence on those that are left out; nothing of a model
        in which all attend.
    """
    config = checkpoint.body.config.get_text_config()
    attend = () if checkpoint.decodes else attending(config)
    if not attend:
        return (), ()
    following, found = Following(keys), dict[int, int | None]()

    def note(piece: Piece) -> None:
        found.setdefault(piece.layer, following.now)

    with following.through(checkpoint.body, len(kinds_of_layers(config))):
        checkpoint.forward(known.inputs)
        unread = sorted(following.softmaxes - {*attend})
        with captured_attention(checkpoint.body, note, way):
            checkpoint.forward(known.inputs)
    if unread:
        reason = f"layers {unread} take a softmax over tokens, and its configuration says they do not attend"
        raise UnsupportedModelError(checkpoint.model_type, reason)
    numbers = tuple(found.get(layer) for layer in range(layers))
    if numbers != attend:
        reason = f"attention was found in its layers {list(numbers)}, its configuration says {list(attend)}"
        raise UnsupportedModelError(checkpoint.model_type, reason)
    return attend, (left_out(config),)


def check_heads(name: str, maps: list[Tensor]) -> str:
    """Refuse what may be the mean of all heads."""
    several = [rows for rows in maps if rows.shape[1] > 1]
    if several and all(same_heads(rows) for rows in several):
        raise UnsupportedModelError(name, "all heads of every layer are copies of one map")
    return "heads differ"


def check_mixing(checkpoint: Checkpoint, known: Known, way: Way, maps: list[Tensor]) -> str:
    """Refuse a softmax that has no part in the hidden states of its layer, whatever it looks like."""
    with gated_attention(checkpoint.body, way) as gates:
        for layer, rows in enumerate(maps):
            gates.rows = {layer: rows.new_zeros(1, rows.shape[1])}
            if torch.equal(checkpoint.forward(known.inputs), known.untouched):
                reason = f"the hidden states do not depend on the softmax tapped in layer {layer}"
                raise RefutedError(checkpoint.model_type, reason)
    return "hidden states depend on every tapped softmax"


def boxless(checkpoint: Checkpoint, inputs: Mapping[str, Tensor]) -> list[str]:
    """Say that a model of pages is given text without places."""
    given = "bbox" in checkpoint.inputs(inputs)
    return ["it reads pages; without boxes, all words stand in one place"] if given else []


def oddities(maps: list[Tensor], numbers: Sequence[int] = ()) -> list[str]:
    """Say what is odd about maps without being wrong."""
    named = zip(numbers or range(len(maps)), maps, strict=True)
    copies = [layer for layer, rows in named if rows.shape[1] > 1 and same_heads(rows)]
    if not copies:
        return []
    return [f"all heads have the same maps in layer{'s' * (len(copies) > 1)} {', '.join(map(str, copies))}"]


def head_width(checkpoint: Checkpoint, site: str, heads: int) -> int:
    """Find how wide a head's keys are, by what the module of its layer says of itself."""
    module, config = checkpoint.body.get_submodule(site), checkpoint.body.config.get_text_config()
    stated = ((module, "attention_head_size"), (module, "head_dim"), (config, "head_dim"), (config, "d_kv"))
    for place, name in stated:
        if isinstance(width := getattr(place, name, None), int):
            return width
    return config.hidden_size // heads
