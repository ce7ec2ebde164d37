"""A dry run that checks itself: most ways to read attention wrongly are silent."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from attnprobe.errors import first_line
from attnprobe.model.adapters import full_attention
from attnprobe.model.bands import spread_maps, window_warnings
from attnprobe.model.capture import captured_attention
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.gates import gated_attention
from attnprobe.model.pieces import Piece
from attnprobe.model.routing import evaluating, switch_attention
from attnprobe.model.support import UnsupportedModelError, refuse_by_name
from attnprobe.model.ways import Way
from attnprobe.text.tokenization import Frame

#: Two sequences of this many tokens.
PROBE_LENGTH = 16
#: Largest difference that rounding explains, by bytes per number (float64, float32, half).
TOLERANCE = {8: 1e-6, 4: 1e-3, 2: 0.1}
NO_LAYER = "no attention came by"


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
    way: Way
    evidence: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()


class _RefutedError(UnsupportedModelError):
    """What looks like attention is none."""


class _Probe:
    """Attention maps of every layer, gathered from pieces."""

    def __init__(self, name: str, ids: Tensor) -> None:
        self._name, (self._batch, self._length) = name, ids.shape
        self.maps: dict[int, Tensor] = {}

    def __call__(self, piece: Piece) -> None:
        batch, heads, queries, keys = piece.probabilities.shape
        if keys != self._length or piece.sequence + batch > self._batch:
            found = f"maps of {batch} x {keys} keys came by for {self._batch} x {self._length} tokens"
            raise UnsupportedModelError(self._name, f"it does not attend from tokens to tokens ({found})")
        shape = (self._batch, heads, keys, keys)
        whole = self.maps.setdefault(piece.layer, piece.probabilities.new_full(shape, torch.nan))
        some = slice(piece.sequence, piece.sequence + batch)
        whole[some, :, piece.query : piece.query + queries] = piece.probabilities


@dataclass(frozen=True)
class _Known:
    """What each way is held against.

    Attributes:
        ids: Two short sequences.
        untouched: The hidden states of the untouched model.
        maps: The maps the model itself returns under eager attention, if it does.
        scored: Whether it gives scores, and the maps are their softmax.
        absence: Why there are none.
    """

    ids: Tensor
    untouched: Tensor
    maps: tuple[Tensor, ...] = ()
    scored: bool = False
    absence: str = ""


def inspect(checkpoint: Checkpoint) -> Architecture:
    """Run the encoder on two short sequences and verify that its attention is read rightly.

    The ways to attention are tried one after the other. One is accepted only if every layer came by,
    the hidden states agree with the untouched model, rows sum to 1, attention is bidirectional, and the
    maps equal those of eager attention where the model gives them.

    Raises:
        UnsupportedModelError: With the first check that failed on each way.
    """
    refuse_by_name(checkpoint.model_type)
    encoder = checkpoint.encoder
    with full_attention(encoder) as warnings, evaluating(encoder):
        known = _ask_model(checkpoint, probe_ids(checkpoint))
        failures: dict[Way, str] = {}
        refuted = False
        for way in Way:
            try:
                return _inspect(checkpoint, known, way, warnings)
            except _RefutedError as error:
                failures[way], refuted = error.reason, True
            except UnsupportedModelError as error:
                failures[way] = error.reason
            # A softmax that is no part of a layer may be what the model gives as its maps.
            if refuted and way is Way.SECOND_TAP:
                break
    raise UnsupportedModelError(checkpoint.model_type, _summed_up(failures))


def _ask_model(checkpoint: Checkpoint, ids: Tensor) -> _Known:
    """Run the model as it is, and let it give its own maps."""
    encoder = checkpoint.encoder
    try:
        untouched = checkpoint.forward(ids)
    except Exception as error:
        raise UnsupportedModelError(
            checkpoint.model_type, f"its encoder can't be run on token ids alone ({first_line(error)})"
        ) from error
    before = encoder.config._attn_implementation
    try:
        switch_attention(encoder, "eager")
        with torch.inference_mode():
            found = encoder(input_ids=ids.to(checkpoint.device), output_attentions=True).attentions
    except Exception as error:
        return _Known(ids, untouched, absence=f"its own maps can't be had ({first_line(error)})")
    finally:
        switch_attention(encoder, before)
    if not found or not all(isinstance(rows, Tensor) for rows in found):
        return _Known(ids, untouched, absence="it gives no maps of its own for comparison")
    maps = tuple(spread_maps(encoder, rows) for rows in found)
    if _furthest_from_1(maps) <= TOLERANCE[encoder.dtype.itemsize]:
        return _Known(ids, untouched, maps)
    # SqueezeBERT and ProphetNet give what goes into their softmax.
    return _Known(ids, untouched, tuple(rows.softmax(-1) for rows in maps), scored=True)


def _inspect(checkpoint: Checkpoint, known: _Known, way: Way, warnings: tuple[str, ...]) -> Architecture:
    encoder, name = checkpoint.encoder, checkpoint.model_type
    tolerance = TOLERANCE[encoder.dtype.itemsize]
    probe = _Probe(name, known.ids)
    try:
        with captured_attention(encoder, probe, way) as sites:
            captured = checkpoint.forward(known.ids)
            called = tuple(sites.called)
    except UnsupportedModelError:
        raise
    except Exception as error:  # whatever a model does when it is read in a way it was not made for
        raise UnsupportedModelError(name, f"it can't be run that way ({first_line(error)})") from error
    if not probe.maps:
        raise UnsupportedModelError(name, NO_LAYER)
    maps = [probe.maps[layer] for layer in sorted(probe.maps)]

    apart = relative_difference(captured, known.untouched)
    if not apart <= tolerance:
        raise UnsupportedModelError(name, f"hidden states under capture differ from its own by {apart:.1e}")
    evidence = [f"hidden states agree with the untouched model (relative difference {apart:.1e})"]
    evidence += _check_maps(name, maps, tolerance)
    evidence += _check_layers(checkpoint, maps)
    evidence.append(_check_against_own(name, known, maps, tolerance))
    if way is not Way.REGISTRY:
        evidence.append(_check_heads(name, maps))
    if way in {Way.TAP, Way.SECOND_TAP}:
        evidence.append(_check_mixing(checkpoint, known, way, maps))
    return Architecture(
        model_type=name,
        layers=len(maps),
        heads=maps[0].shape[1],
        head_width=_head_width(checkpoint, called[0], maps[0].shape[1]),
        way=way,
        evidence=tuple(evidence),
        warnings=(*warnings, *window_warnings(encoder), *_oddities(maps)),
        sites=called,
    )


def _summed_up(failures: dict[Way, str]) -> str:
    """Say why each way failed; a reason that several give is said once."""
    ways: dict[str, list[str]] = {}
    for way, reason in failures.items():
        ways.setdefault(reason, []).append(way)
    if len(ways) > 1:
        ways.pop(NO_LAYER, None)
    if len(ways) == 1 and NO_LAYER not in ways:
        return next(iter(ways))
    return "; ".join(f"{reason} ({', '.join(found)})" for reason, found in ways.items())


def probe_ids(checkpoint: Checkpoint) -> Tensor:
    """Draw two short sequences of ordinary tokens, framed as the tokenizer frames them."""
    frame = Frame.of(checkpoint.tokenizer)
    special = set(getattr(checkpoint.tokenizer, "all_special_ids", ()))
    known = len(checkpoint.tokenizer)
    vocabulary = getattr(checkpoint.model.config.get_text_config(), "vocab_size", known)
    ordinary = [token for token in range(min(vocabulary, known)) if token not in special]
    if not ordinary:
        raise UnsupportedModelError(checkpoint.model_type, "its tokenizer knows special tokens only")
    room = min(PROBE_LENGTH, checkpoint.longest or PROBE_LENGTH) - len(frame)
    drawn = torch.randint(len(ordinary), (2, max(room, 1)), generator=torch.Generator().manual_seed(0))
    return torch.tensor([frame.around([ordinary[i] for i in row]) for row in drawn.tolist()])


def _check_maps(name: str, maps: list[Tensor], tolerance: float) -> list[str]:
    off = _furthest_from_1(maps)
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


def _furthest_from_1(maps: Iterable[Tensor]) -> float:
    return _largest((rows.cpu().double().sum(-1) - 1).abs() for rows in maps)


def _largest(differences: Iterable[Tensor]) -> float:
    """Give the largest number of several tensors; NaN if there is one, which Python's max may pass over."""
    return float(torch.stack([values.max() for values in differences]).max())


def _check_layers(checkpoint: Checkpoint, maps: list[Tensor]) -> list[str]:
    config = checkpoint.encoder.config.get_text_config()
    expected = getattr(config, "num_hidden_layers", None) or getattr(config, "num_layers", None)
    expected = expected * (getattr(config, "inner_group_num", 1) or 1) if expected else len(maps)
    if len(maps) != expected:
        raise UnsupportedModelError(
            checkpoint.model_type, f"{len(maps)} attention layers came by, its configuration says {expected}"
        )
    return [f"{len(maps)} of {expected} attention layers came by"]


def _check_against_own(name: str, known: _Known, maps: list[Tensor], tolerance: float) -> str:
    """Compare with the maps that the model itself returns under eager attention."""
    if not known.maps:
        return known.absence
    if [rows.shape for rows in known.maps] != [rows.shape for rows in maps]:
        found, own = _shapes(maps), _shapes(known.maps)
        raise UnsupportedModelError(name, f"it gives maps of its own of {own}, and {found} came by")
    pairs = zip(known.maps, maps, strict=True)
    apart = _largest((own.cpu().double() - read.cpu().double()).abs() for own, read in pairs)
    if not apart <= tolerance:
        raise UnsupportedModelError(name, f"the maps read differ from its own eager maps by {apart:.1e}")
    own = (
        "softmax of the scores that the model gives as its own" if known.scored else "model's own eager maps"
    )
    return f"maps equal the {own} (largest difference {apart:.1e})"


def _shapes(maps: Iterable[Tensor]) -> str:
    """Say how many maps there are of which shape.

    >>> _shapes([torch.ones(2, 4, 8, 8)] * 3)
    '3 x (2, 4, 8, 8)'
    """
    counts = Counter(tuple(rows.shape) for rows in maps)
    return ", ".join(f"{count} x {shape}" for shape, count in counts.items())


def _check_heads(name: str, maps: list[Tensor]) -> str:
    """Refuse what may be the mean of all heads."""
    several = [rows for rows in maps if rows.shape[1] > 1]
    if several and all(_same_heads(rows) for rows in several):
        raise UnsupportedModelError(name, "all heads of every layer are copies of one map")
    return "heads differ"


def _check_mixing(checkpoint: Checkpoint, known: _Known, way: Way, maps: list[Tensor]) -> str:
    """Refuse a softmax that has no part in the hidden states of its layer, whatever it looks like."""
    with gated_attention(checkpoint.encoder, way) as gates:
        for layer, rows in enumerate(maps):
            gates.rows = {layer: rows.new_zeros(1, rows.shape[1])}
            if torch.equal(checkpoint.forward(known.ids), known.untouched):
                reason = f"the hidden states do not depend on the softmax tapped in layer {layer}"
                raise _RefutedError(checkpoint.model_type, reason)
    return "hidden states depend on every tapped softmax"


def _same_heads(rows: Tensor) -> bool:
    return bool((rows == rows[:, :1]).all())


def _oddities(maps: list[Tensor]) -> list[str]:
    copies = [layer for layer, rows in enumerate(maps) if rows.shape[1] > 1 and _same_heads(rows)]
    return [f"all heads are exact copies in layers {copies}"] if copies else []


def relative_difference(found: Tensor, expected: Tensor) -> float:
    """Give the largest difference over the largest expected value."""
    exact = expected.cpu().double()
    return float((found.cpu().double() - exact).abs().max() / exact.abs().max().clamp_min(1e-12))


def _head_width(checkpoint: Checkpoint, site: str, heads: int) -> int:
    module, config = checkpoint.encoder.get_submodule(site), checkpoint.encoder.config.get_text_config()
    stated = ((module, "attention_head_size"), (module, "head_dim"), (config, "head_dim"), (config, "d_kv"))
    for place, name in stated:
        if isinstance(width := getattr(place, name, None), int):
            return width
    return config.hidden_size // heads
