"""A dry run that checks itself: most ways to read attention wrongly are silent."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from attnprobe.attention import Grid
from attnprobe.errors import first_line
from attnprobe.model.adapters import full_attention
from attnprobe.model.bands import spread_maps, window_warnings
from attnprobe.model.capture import captured_attention
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.gates import gated_attention
from attnprobe.model.grid import find_grid
from attnprobe.model.kinds import Kind, Place, kind_of, places_of
from attnprobe.model.pieces import Piece
from attnprobe.model.processing import stacked
from attnprobe.model.routing import evaluating, switch_attention
from attnprobe.model.support import AttentionSinkError, UnsupportedModelError, refuse_by_name
from attnprobe.model.ways import Way
from attnprobe.text.tokenization import Frame, Tokenizer

#: Two sequences of this many tokens, and as many for a decoder beside an encoder.
PROBE_LENGTH, PROBE_TARGETS = 16, 11
#: Largest difference that rounding explains, by bytes per number (float64, float32, half).
TOLERANCE = {8: 1e-6, 4: 1e-3, 2: 0.1}
NO_LAYER = "no attention came by"


@dataclass(frozen=True)
class Architecture:
    """What the dry run found, and how it was verified.

    Attributes:
        model_type: As ``config.model_type`` names it.
        layers: Attention layers in a forward pass, of all kinds.
        heads: Query heads in each.
        head_width: Width of a head's keys.
        way: How attention is reached.
        evidence: One sentence for each check that passed.
        warnings: One sentence for each thing that is odd without being wrong.
        sites: The module of each layer.
        kinds: The kind of each layer.
        positions: Tokens in each sequence of the dry run.
        grid: Where the patches are, if it reads images and its tokens are patches.
    """

    model_type: str
    layers: int
    heads: int
    head_width: int
    way: Way
    evidence: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    positions: int = 0
    grid: Grid | None = None

    @property
    def places(self) -> tuple[Place, ...]:
        """What names each layer."""
        return places_of(self.kinds)


class _RefutedError(UnsupportedModelError):
    """What looks like attention is none."""


class _Probe:
    """Attention maps of every layer, gathered from pieces."""

    def __init__(self, name: str, inputs: Mapping[str, Tensor]) -> None:
        self._name = name
        self._batch = len(next(iter(inputs.values())))
        self._length = inputs["input_ids"].shape[1] if "input_ids" in inputs else None
        self._targets = inputs["decoder_input_ids"].shape[1] if "decoder_input_ids" in inputs else None
        self.maps: dict[int, Tensor] = {}

    def _expected(self, queries: int, keys: int) -> bool:
        """Whether these are tokens of the sequences; how many a model makes of an image, it tells first."""
        if self._length is None and queries == keys:
            self._length = keys
        source, targets = self._length, self._targets
        return (queries, keys) in {(source, source), (targets, targets), (targets, source)}

    def __call__(self, piece: Piece) -> None:
        batch, heads, rows, keys = piece.probabilities.shape
        queries = piece.queries
        if not self._expected(queries, keys) or piece.sequence + batch > self._batch:
            found = f"maps of {queries} x {keys} tokens came by"
            raise UnsupportedModelError(self._name, f"it does not attend from tokens to tokens ({found})")
        shape = (self._batch, heads, queries, keys)
        whole = self.maps.setdefault(piece.layer, piece.probabilities.new_full(shape, torch.nan))
        some = slice(piece.sequence, piece.sequence + batch)
        whole[some, :, piece.query : piece.query + rows] = piece.probabilities


@dataclass(frozen=True)
class _Known:
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


def examine(checkpoint: Checkpoint) -> tuple[Checkpoint, Architecture]:
    """Find the largest part of a model that can be read: all of it, or else its encoder alone.

    Raises:
        UnsupportedModelError: With the first check that failed on each way.
    """
    if not checkpoint.decodes:
        return checkpoint, inspect(checkpoint)
    try:
        return checkpoint, inspect(checkpoint)
    except UnsupportedModelError as whole:
        part = replace(checkpoint, encoder_only=True)
        try:
            architecture = inspect(part)
        except UnsupportedModelError:
            raise whole from None
        warning = f"only its encoder can be read; with its decoder, {whole.reason}"
        return part, replace(architecture, warnings=(warning, *architecture.warnings))


def inspect(checkpoint: Checkpoint) -> Architecture:
    """Run the model on two short sequences and verify that its attention is read rightly.

    The ways to attention are tried one after the other. One is accepted only if every layer came by,
    the hidden states agree with the untouched model, rows sum to 1, and the maps equal those of eager
    attention where the model gives them.

    Raises:
        UnsupportedModelError: With the first check that failed on each way.
    """
    refuse_by_name(checkpoint.model_type)
    body = checkpoint.body
    with full_attention(body) as warnings, evaluating(body):
        known = _ask_model(checkpoint, probe_inputs(checkpoint))
        failures: dict[Way, str] = {}
        refuted = False
        for way in Way:
            try:
                return _inspect(checkpoint, known, way, warnings)
            except AttentionSinkError as error:
                # Another way would show rows that sum to 1, and not what becomes of them.
                raise AttentionSinkError(checkpoint.model_type) from error
            except _RefutedError as error:
                failures[way], refuted = error.reason, True
            except UnsupportedModelError as error:
                failures[way] = error.reason
            # A softmax that is no part of a layer may be what the model gives as its maps.
            if refuted and way is Way.SECOND_TAP:
                break
    raise UnsupportedModelError(checkpoint.model_type, _summed_up(failures))


def _ask_model(checkpoint: Checkpoint, inputs: Mapping[str, Tensor]) -> _Known:
    """Run the model as it is, and let it give its own maps."""
    body = checkpoint.body
    try:
        untouched = checkpoint.forward(inputs)
    except Exception as error:
        alone = {"text": "token ids"}.get(checkpoint.modality, f"{checkpoint.modality}")
        raise UnsupportedModelError(
            checkpoint.model_type, f"it can't be run on {alone} alone ({first_line(error)})"
        ) from error
    before = body.config._attn_implementation
    try:
        switch_attention(body, "eager")
        with torch.inference_mode():
            given = body(**checkpoint.inputs(inputs), output_attentions=True)
        found = _given_maps(given, checkpoint)
        alike = relative_difference(given[0], untouched) <= TOLERANCE[body.dtype.itemsize]
    except Exception as error:
        return _Known(inputs, untouched, absence=f"its own maps can't be had ({first_line(error)})")
    finally:
        switch_attention(body, before)
    if not found:
        return _Known(inputs, untouched, absence="it gives no maps of its own for comparison")
    if not alike:  # Falcon loses its mask when it is switched
        return _Known(inputs, untouched, absence="its own eager maps come with other hidden states")
    maps = {kind: tuple(spread_maps(body, rows) for rows in layers) for kind, layers in found.items()}
    if all(_furthest_from_1(layers) <= TOLERANCE[body.dtype.itemsize] for layers in maps.values()):
        averaged = all(rows.shape[1] > 1 and _same_heads(rows) for layers in maps.values() for rows in layers)
        return _Known(inputs, untouched, maps, averaged=averaged)
    # SqueezeBERT and ProphetNet give what goes into their softmax.
    softened = {kind: tuple(rows.softmax(-1) for rows in layers) for kind, layers in maps.items()}
    return _Known(inputs, untouched, softened, scored=True)


def _given_maps(given: Any, checkpoint: Checkpoint) -> dict[Kind | None, tuple[Tensor, ...]]:
    """Take the maps out of what a model returns; none at all if some are missing."""
    if checkpoint.decodes:
        found: dict[Kind | None, Any] = {kind: getattr(given, f"{kind}_attentions", None) for kind in Kind}
    else:
        found = {None: given.attentions}
    whole = all(layers and all(isinstance(rows, Tensor) for rows in layers) for layers in found.values())
    return {kind: tuple(layers) for kind, layers in found.items()} if whole else {}


def _inspect(checkpoint: Checkpoint, known: _Known, way: Way, warnings: tuple[str, ...]) -> Architecture:
    body, name = checkpoint.body, checkpoint.model_type
    tolerance = TOLERANCE[body.dtype.itemsize]
    probe = _Probe(name, known.inputs)
    try:
        with captured_attention(body, probe, way) as sites:
            captured = checkpoint.forward(known.inputs)
            called, computed = tuple(sites.called), sites.computed
    except UnsupportedModelError:
        raise
    except Exception as error:  # whatever a model does when it is read in a way it was not made for
        raise UnsupportedModelError(name, f"it can't be run that way ({first_line(error)})") from error
    if not probe.maps:
        raise UnsupportedModelError(name, NO_LAYER)
    if way is not Way.REGISTRY and not known.maps and computed < len(called):
        raise UnsupportedModelError(name, f"what was tapped can't be checked, since {known.absence}")
    maps = [probe.maps[layer] for layer in sorted(probe.maps)]
    targets = known.inputs["decoder_input_ids"].shape[1] if checkpoint.decodes else None
    kinds = tuple(kind_of(rows, targets=targets) for rows in maps)

    apart = relative_difference(captured, known.untouched)
    if not apart <= tolerance:
        raise UnsupportedModelError(name, f"hidden states under capture differ from its own by {apart:.1e}")
    ahead = [
        rows for rows, kind in zip(maps, kinds, strict=True) if kind is Kind.DECODER and rows.triu(1).any()
    ]
    if ahead:
        raise UnsupportedModelError(name, "its decoder sees later tokens, which is not expected of one")
    evidence = [f"hidden states agree with the untouched model (relative difference {apart:.1e})"]
    evidence += _check_maps(name, maps, tolerance)
    evidence += _check_layers(checkpoint, kinds)
    evidence.append(_check_against_own(name, known, maps, kinds, tolerance))
    if way is not Way.REGISTRY:
        evidence.append(_check_heads(name, maps))
    if way in {Way.TAP, Way.SECOND_TAP}:
        evidence.append(_check_mixing(checkpoint, known, way, maps))
    grid = None
    if checkpoint.modality != "text" and set(kinds) == {Kind.ENCODER}:
        grid = find_grid(checkpoint, known.inputs, called[0])
    if grid is not None:
        evidence.append(
            f"{grid.rows} x {grid.columns} patches, the first of them token {grid.first} of "
            f"{maps[0].shape[3]}"
        )
    elif checkpoint.modality == "image":
        warnings = (*warnings, "its tokens are no patches in rows, so that columns about places are empty")
    return Architecture(
        model_type=name,
        layers=len(maps),
        heads=maps[0].shape[1],
        head_width=_head_width(checkpoint, called[0], maps[0].shape[1]),
        way=way,
        evidence=tuple(evidence),
        warnings=(*warnings, *window_warnings(body), *_boxless(checkpoint, known.inputs), *_oddities(maps)),
        sites=called,
        kinds=kinds,
        positions=maps[0].shape[3],
        grid=grid,
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


def probe_inputs(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Draw two short sequences of ordinary tokens, framed as the tokenizer frames them; or noise.

    Where there is a decoder beside the encoder, it reads two of another length.
    """
    if checkpoint.processor is not None:
        inputs = stacked([checkpoint.processor.noise(number) for number in range(2)])
    else:
        inputs = {"input_ids": _drawn(checkpoint, checkpoint.tokenizer, PROBE_LENGTH, checkpoint.longest)}
    if checkpoint.decodes:
        spells = checkpoint.target_tokenizer or checkpoint.tokenizer
        targets = _drawn(checkpoint, spells, PROBE_TARGETS, checkpoint.longest_target)
        inputs["decoder_input_ids"] = torch.tensor([checkpoint.shifted(row) for row in targets.tolist()])
    return inputs


def _drawn(checkpoint: Checkpoint, tokenizer: Tokenizer, length: int, longest: int | None) -> Tensor:
    frame = Frame.of(tokenizer)
    special = set(getattr(tokenizer, "all_special_ids", ()))
    known = len(tokenizer)
    vocabulary = getattr(checkpoint.model.config.get_text_config(), "vocab_size", known)
    ordinary = [token for token in range(min(vocabulary, known)) if token not in special]
    if not ordinary:
        raise UnsupportedModelError(checkpoint.model_type, "its tokenizer knows special tokens only")
    room = min(length, longest or length) - len(frame)
    drawn = torch.randint(len(ordinary), (2, max(room, 1)), generator=torch.Generator().manual_seed(0))
    return torch.tensor([frame.around([ordinary[i] for i in row]) for row in drawn.tolist()])


def _check_maps(name: str, maps: list[Tensor], tolerance: float) -> list[str]:
    off = _furthest_from_1(maps)
    if not off <= tolerance:
        raise UnsupportedModelError(name, f"its attention rows do not sum to 1 (off by {off:.1e})")
    if len({rows.shape[1] for rows in maps}) > 1:
        raise UnsupportedModelError(name, "its layers have different numbers of heads")
    return [f"every attention row sums to 1 (largest error {off:.1e})"]


def _furthest_from_1(maps: Iterable[Tensor]) -> float:
    return _largest((rows.cpu().double().sum(-1) - 1).abs() for rows in maps)


def _largest(differences: Iterable[Tensor]) -> float:
    """Give the largest number of several tensors; NaN if there is one, which Python's max may pass over."""
    return float(torch.stack([values.max() for values in differences]).max())


def _check_layers(checkpoint: Checkpoint, kinds: Sequence[Kind]) -> list[str]:
    if not checkpoint.decodes:
        config = checkpoint.body.config.get_text_config()
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
            checkpoint.model_type, f"{found} {of}attention layers came by, its configuration says {expected}"
        )
    return f"{found} of {expected} {of}attention layers came by"


def _check_against_own(
    name: str, known: _Known, maps: list[Tensor], kinds: Sequence[Kind], tolerance: float
) -> str:
    """Compare with the maps that the model itself returns under eager attention."""
    if not known.maps:
        return known.absence
    differences: list[Tensor] = []
    for kind, layers in known.maps.items():
        read = [rows for rows, found in zip(maps, kinds, strict=True) if kind in {None, found}]
        if [rows.shape for rows in layers] != [rows.shape for rows in read]:
            found, own = _shapes(read), _shapes(layers)
            raise UnsupportedModelError(name, f"it gives maps of its own of {own}, and {found} came by")
        for own, rows in zip(layers, read, strict=True):
            found = rows.cpu().double().mean(1, keepdim=True) if known.averaged else rows.cpu().double()
            differences.append((own.cpu().double() - found).abs())
    apart = _largest(differences)
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


def _check_heads(name: str, maps: list[Tensor]) -> str:
    """Refuse what may be the mean of all heads."""
    several = [rows for rows in maps if rows.shape[1] > 1]
    if several and all(_same_heads(rows) for rows in several):
        raise UnsupportedModelError(name, "all heads of every layer are copies of one map")
    return "heads differ"


def _check_mixing(checkpoint: Checkpoint, known: _Known, way: Way, maps: list[Tensor]) -> str:
    """Refuse a softmax that has no part in the hidden states of its layer, whatever it looks like."""
    with gated_attention(checkpoint.body, way) as gates:
        for layer, rows in enumerate(maps):
            gates.rows = {layer: rows.new_zeros(1, rows.shape[1])}
            if torch.equal(checkpoint.forward(known.inputs), known.untouched):
                reason = f"the hidden states do not depend on the softmax tapped in layer {layer}"
                raise _RefutedError(checkpoint.model_type, reason)
    return "hidden states depend on every tapped softmax"


def _same_heads(rows: Tensor) -> bool:
    return bool((rows == rows[:, :1]).all())


def _boxless(checkpoint: Checkpoint, inputs: Mapping[str, Tensor]) -> list[str]:
    boxless = "bbox" in checkpoint.inputs(inputs)
    return ["it reads pages; without boxes, all words stand in one place"] if boxless else []


def _oddities(maps: list[Tensor]) -> list[str]:
    copies = [layer for layer, rows in enumerate(maps) if rows.shape[1] > 1 and _same_heads(rows)]
    return [f"all heads are exact copies in layers {copies}"] if copies else []


def relative_difference(found: Tensor, expected: Tensor) -> float:
    """Give the largest difference over the largest expected value."""
    exact = expected.cpu().double()
    return float((found.cpu().double() - exact).abs().max() / exact.abs().max().clamp_min(1e-12))


def _head_width(checkpoint: Checkpoint, site: str, heads: int) -> int:
    module, config = checkpoint.body.get_submodule(site), checkpoint.body.config.get_text_config()
    stated = ((module, "attention_head_size"), (module, "head_dim"), (config, "head_dim"), (config, "d_kv"))
    for place, name in stated:
        if isinstance(width := getattr(place, name, None), int):
            return width
    return config.hidden_size // heads
