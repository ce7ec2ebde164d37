"""A dry run that checks itself: most ways to read attention wrongly are silent."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from attnprobe.errors import first_line
from attnprobe.model.capture import Piece, captured_attention
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.routing import evaluating, switch_attention
from attnprobe.model.support import UnsupportedModelError, not_routed, refuse_by_name
from attnprobe.text.tokenization import Frame

#: Two sequences of this many tokens.
PROBE_LENGTH = 16
#: Largest difference that rounding explains, by bytes per number (float64, float32, half).
TOLERANCE = {8: 1e-6, 4: 1e-3, 2: 0.1}


@dataclass(frozen=True)
class Architecture:
    """What the dry run found, and how it was verified.

    Attributes:
        model_type: As ``config.model_type`` names it.
        layers: Attention layers in a forward pass.
        heads: Query heads in each.
        head_width: Width of a head's keys.
        way: How attention is reached.
        evidence: One sentence for each check that passed.
        warnings: One sentence for each thing that is odd without being wrong.
        sites: The module of each layer.
    """

    model_type: str
    layers: int
    heads: int
    head_width: int
    way: str
    evidence: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()


@dataclass
class _Probe:
    """Attention maps of every layer, gathered from pieces."""

    maps: dict[int, Tensor] = field(default_factory=dict)

    def __call__(self, piece: Piece) -> None:
        batch, heads, queries, keys = piece.probabilities.shape
        whole = self.maps.setdefault(
            piece.layer, piece.probabilities.new_full((2, heads, keys, keys), torch.nan)
        )
        some = slice(piece.sequence, piece.sequence + batch)
        whole[some, :, piece.query : piece.query + queries] = piece.probabilities


def inspect(checkpoint: Checkpoint) -> Architecture:
    """Run the encoder on two short sequences and verify that its attention is read rightly.

    The capture is accepted only if every layer came by, the hidden states agree with the untouched
    model, rows sum to 1, attention is bidirectional, and the maps equal those of eager attention
    where the model gives them.

    Raises:
        UnsupportedModelError: With the first check that failed.
    """
    refuse_by_name(checkpoint.model_type)
    with evaluating(checkpoint.encoder):
        return _inspect(checkpoint, probe_ids(checkpoint))


def _inspect(checkpoint: Checkpoint, ids: Tensor) -> Architecture:
    encoder, name = checkpoint.encoder, checkpoint.model_type
    tolerance = TOLERANCE[encoder.dtype.itemsize]
    try:
        untouched = checkpoint.forward(ids)
    except Exception as error:
        raise UnsupportedModelError(
            name, f"its encoder can't be run on token ids alone ({first_line(error)})"
        ) from error
    probe = _Probe()
    with captured_attention(encoder, probe) as sites:
        captured = checkpoint.forward(ids)
    if not probe.maps:
        raise not_routed(name)
    maps = [probe.maps[layer] for layer in sorted(probe.maps)]

    apart = relative_difference(captured, untouched)
    if not apart <= tolerance:
        raise UnsupportedModelError(name, f"hidden states under capture differ from its own by {apart:.1e}")
    evidence = [f"hidden states agree with the untouched model (relative difference {apart:.1e})"]
    evidence += _check_maps(name, maps, tolerance)
    evidence += _check_layers(checkpoint, maps)
    evidence.append(_check_against_eager(checkpoint, ids, maps, tolerance))
    return Architecture(
        model_type=name,
        layers=len(maps),
        heads=maps[0].shape[1],
        head_width=_head_width(checkpoint, maps[0].shape[1]),
        way="attention registry",
        evidence=tuple(evidence),
        warnings=tuple(_oddities(maps)),
        sites=tuple(sites.called),
    )


def probe_ids(checkpoint: Checkpoint) -> Tensor:
    """Draw two short sequences of ordinary tokens, framed as the tokenizer frames them."""
    frame = Frame.of(checkpoint.tokenizer)
    special = set(getattr(checkpoint.tokenizer, "all_special_ids", ()))
    vocabulary = checkpoint.model.config.get_text_config().vocab_size
    ordinary = [token for token in range(min(vocabulary, len(checkpoint.tokenizer))) if token not in special]
    if not ordinary:
        raise UnsupportedModelError(checkpoint.model_type, "its tokenizer knows special tokens only")
    room = min(PROBE_LENGTH, checkpoint.longest or PROBE_LENGTH) - len(frame)
    drawn = torch.randint(len(ordinary), (2, max(room, 1)), generator=torch.Generator().manual_seed(0))
    return torch.tensor([frame.around([ordinary[i] for i in row]) for row in drawn.tolist()])


def _check_maps(name: str, maps: list[Tensor], tolerance: float) -> list[str]:
    off = max(float((rows.cpu().double().sum(-1) - 1).abs().max()) for rows in maps)
    if not off <= tolerance:
        raise UnsupportedModelError(name, f"its attention rows do not sum to 1 (off by {off:.1e})")
    if len({rows.shape[1] for rows in maps}) > 1:
        raise UnsupportedModelError(name, "its layers have different numbers of heads")
    ahead = max(float(rows.triu(1).sum(-1).max()) for rows in maps)
    if ahead == 0:
        raise UnsupportedModelError(
            name, "it attends to earlier tokens only; attnprobe reads encoders so far"
        )
    return [f"every attention row sums to 1 (largest error {off:.1e})"]


def _check_layers(checkpoint: Checkpoint, maps: list[Tensor]) -> list[str]:
    config = checkpoint.encoder.config.get_text_config()
    expected = getattr(config, "num_hidden_layers", None) or getattr(config, "num_layers", None)
    expected = expected * (getattr(config, "inner_group_num", 1) or 1) if expected else len(maps)
    if len(maps) != expected:
        raise UnsupportedModelError(
            checkpoint.model_type, f"{len(maps)} attention layers came by, its configuration says {expected}"
        )
    return [f"{len(maps)} of {expected} attention layers came by"]


def _check_against_eager(checkpoint: Checkpoint, ids: Tensor, maps: list[Tensor], tolerance: float) -> str:
    """Compare with the maps that the model itself returns under eager attention."""
    encoder = checkpoint.encoder
    before = encoder.config._attn_implementation
    try:
        switch_attention(encoder, "eager")
        with torch.inference_mode():
            found = encoder(input_ids=ids.to(encoder.device), output_attentions=True).attentions
    except Exception as error:
        return f"its own maps can't be had for comparison ({first_line(error)})"
    finally:
        switch_attention(encoder, before)
    if not found or found[0] is None or found[0].shape != maps[0].shape:
        return "it gives no maps of its own for comparison"
    apart = max(
        float((a.cpu().double() - b.cpu().double()).abs().max()) for a, b in zip(found, maps, strict=True)
    )
    if not apart <= tolerance:
        raise UnsupportedModelError(
            checkpoint.model_type, f"the maps read differ from its own eager maps by {apart:.1e}"
        )
    return f"maps equal the model's own eager maps (largest difference {apart:.1e})"


def _oddities(maps: list[Tensor]) -> list[str]:
    copies = [
        layer for layer, rows in enumerate(maps) if rows.shape[1] > 1 and bool((rows == rows[:, :1]).all())
    ]
    return [f"all heads are exact copies in layers {copies}"] if copies else []


def relative_difference(found: Tensor, expected: Tensor) -> float:
    """Give the largest difference over the largest expected value."""
    exact = expected.cpu().double()
    return float((found.cpu().double() - exact).abs().max() / exact.abs().max().clamp_min(1e-12))


def _head_width(checkpoint: Checkpoint, heads: int) -> int:
    config = checkpoint.encoder.config.get_text_config()
    for name in ("head_dim", "d_kv"):
        if isinstance(width := getattr(config, name, None), int):
            return width
    return config.hidden_size // heads
