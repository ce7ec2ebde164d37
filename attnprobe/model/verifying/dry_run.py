"""A dry run that checks itself, because most ways to read attention wrongly are silent."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnprobe.attention.kinds import Kind, infer_kind
from attnprobe.attention.layout import Tiling
from attnprobe.corpus.sources.pictures import BOTH
from attnprobe.errors import first_line
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.gates import gate_attention
from attnprobe.model.pruned import PruningRecord
from attnprobe.model.reading.blocks import force_full_attention, list_window_warnings
from attnprobe.model.reading.capture import capture_attention
from attnprobe.model.reading.routing import TAPS, Piece, Way, evaluation_mode
from attnprobe.model.refusals import AttentionSinkError, UnsupportedModelError, refuse_by_name
from attnprobe.model.seeing import SeeingProcessor, find_sight
from attnprobe.model.verifying.architecture import (
    Architecture,
    SoftmaxTracker,
    describe_skipped_layers,
    find_attending_layers,
    list_layer_kinds,
)
from attnprobe.model.verifying.positions import find_grid
from attnprobe.model.verifying.probing import (
    MASKED_NOTE,
    Probe,
    Reference,
    are_heads_equal,
    convert_inputs,
    draw_probe_inputs,
    find_guessed_mask,
    find_largest,
    find_tolerance,
    is_stateless,
    measure_row_sum_error,
    relative_difference,
    run_untouched,
)
from attnprobe.model.verifying.tiling import (
    TileProbe,
    check_order,
    count_stated_layers,
    describe_tilings,
    find_tilings,
    list_tiling_warnings,
    refer_to_modules,
)


class RefutedError(UnsupportedModelError):
    """What looks like attention is none."""


def check_maps(
    name: str, maps: list[Tensor], tolerance: float, pruning: PruningRecord | None = None
) -> list[str]:
    """Refuse rows that are no distributions, and layers of different numbers of heads than is on record."""
    evidence = check_row_sums(name, maps, tolerance)
    found = [rows.shape[1] for rows in maps]
    if pruning is not None and found != [max(1, kept) for kept in pruning.kept_per_layer]:
        raise UnsupportedModelError(name, f"its layers have {found} heads, which is not what its record says")
    if pruning is None and len(set(found)) > 1:
        reason = "its layers have different numbers of heads; of a physically pruned one, give the folder"
        raise UnsupportedModelError(name, reason)
    return evidence


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
        stated = _find_stated(config, "num_hidden_layers", "num_layers")
        repeats = getattr(config, "inner_group_num", 1) or 1
        return [_check_count(checkpoint, len(kinds), len(find_attending_layers(config)) or stated * repeats)]
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
    return [_check_count(checkpoint, found[kind], expected[kind], of=f"{kind} ") for kind in Kind]


def _find_stated(config: Any, *names: str) -> int:
    """Find the first number that a configuration states; 0 where it states none."""
    return next((value for name in names if (value := getattr(config, name, None))), 0)


def _check_count(checkpoint: Checkpoint, found: int, expected: int, of: str = "") -> str:
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
    own = "softmax that the model multiplies its values by" if known.multiplied else own
    return f"maps equal the {own} (largest difference {apart:.1e})"


def _format_shapes(maps: Iterable[Tensor]) -> str:
    """Say how many maps there are of which shape.

    >>> _format_shapes([torch.ones(2, 4, 8, 8)] * 3)
    '3 x (2, 4, 8, 8)'
    """
    counts = Counter(tuple(rows.shape) for rows in maps)
    return ", ".join(f"{count} x {shape}" for shape, count in counts.items())


def check_numbers(
    checkpoint: Checkpoint, known: Reference, layers: int, keys: int, way: Way
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Verify that the layers that were read are those that attend, where a model has others.

    Returns:
        The model's own numbers of the layers, and a sentence on those that are left out; nothing for a model
        in which all attend.
    """
    config = checkpoint.body.config.get_text_config()
    attend = () if checkpoint.decodes else find_attending_layers(config)
    if not attend:
        return (), ()
    tracker, found = SoftmaxTracker(keys), dict[int, int | None]()

    def note(piece: Piece) -> None:
        found.setdefault(piece.layer, tracker.now)

    with tracker.track(checkpoint.body, len(list_layer_kinds(config))):
        checkpoint.forward(known.inputs)
        unread = sorted(tracker.softmaxes - {*attend})
        with capture_attention(checkpoint.body, note, way):
            checkpoint.forward(known.inputs)
    if unread:
        reason = f"layers {unread} take a softmax over tokens, and its configuration says they do not attend"
        raise UnsupportedModelError(checkpoint.model_type, reason)
    numbers = tuple(found.get(layer) for layer in range(layers))
    if numbers != attend:
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
                raise RefutedError(checkpoint.model_type, reason)
    return "hidden states depend on every tapped softmax"


def find_oddities(maps: list[Tensor], numbers: Sequence[int] = ()) -> list[str]:
    named = zip(numbers or range(len(maps)), maps, strict=True)
    copies = [layer for layer, rows in named if rows.shape[1] > 1 and are_heads_equal(rows)]
    if not copies:
        return []
    return [f"all heads have the same maps in layer{'s' * (len(copies) > 1)} {', '.join(map(str, copies))}"]


def find_head_width(checkpoint: Checkpoint, site: str, heads: int) -> int:
    """Find the width of a head's keys, which the module of its layer or the configuration states."""
    module, config = checkpoint.body.get_submodule(site), checkpoint.body.config.get_text_config()
    stated = ((module, "attention_head_size"), (module, "head_dim"), (config, "head_dim"), (config, "d_kv"))
    for place, name in stated:
        if isinstance(width := getattr(place, name, None), int):
            return width
    return config.hidden_size // heads


NO_LAYER = "no attention was found"


def examine(checkpoint: Checkpoint) -> tuple[Checkpoint, Architecture]:
    """Find the largest part of a model that can be read: all of it, or else its encoder alone.

    Raises:
        UnsupportedModelError: With the first check that failed on each way.
    """
    checkpoint = find_guessed_mask(convert_inputs(checkpoint))
    try:
        return checkpoint, inspect(checkpoint)
    except UnsupportedModelError as whole:
        if not checkpoint.decodes:
            raise
        part = replace(checkpoint, encoder_only=True)
        try:
            architecture = inspect(part)
        except UnsupportedModelError:
            raise whole from None
        warning = f"only its encoder can be read; with its decoder, {whole.reason}"
        return part, replace(architecture, warnings=(warning, *architecture.warnings))


def inspect(checkpoint: Checkpoint) -> Architecture:
    """Run the model on two short sequences and verify that its attention is read rightly.

    The ways to attention are tried one after the other. One is accepted only if every layer was read,
    the hidden states agree with the untouched model, rows sum to 1, and the maps equal those of eager
    attention where the model gives them.

    Raises:
        UnsupportedModelError: With the first check that failed on each way.
    """
    refuse_by_name(checkpoint.model_type)
    body = checkpoint.body
    with force_full_attention(body) as warnings, evaluation_mode(body):
        inputs = draw_probe_inputs(checkpoint)
        steady = is_stateless(checkpoint, inputs)
        known = run_untouched(checkpoint, inputs)
        failures: dict[Way, str] = {}
        refuted = False
        text = checkpoint.modality == "text"
        tiled = not text and count_stated_layers(body.config) > 0
        for way in (Way.REGISTRY, Way.TILES) if tiled else Way:
            # Also where nothing is found in another way, as in MobileViT, whose configuration is silent.
            if way is Way.TILES and not tiled and (text or {*failures.values()} != {NO_LAYER}):
                continue
            try:
                inspect_way = _inspect_tiles if tiled or way is Way.TILES else _inspect_way
                found = inspect_way(checkpoint, known, way, warnings)
                # What hands maps over on request does so through state of its own.
                return replace(found, threaded=steady and way is not Way.HOOKS)
            except AttentionSinkError as error:
                # Another way would show rows that sum to 1, and not what becomes of them.
                raise AttentionSinkError(checkpoint.model_type) from error
            except RefutedError as error:
                failures[way], refuted = error.reason, True
            except UnsupportedModelError as error:
                failures[way] = error.reason
            # A softmax that is no part of a layer may be what the model gives as its maps.
            if refuted and way is Way.SECOND_TAP:
                break
    raise UnsupportedModelError(checkpoint.model_type, _join_failures(failures))


#: Where the tokens are of what has no grid.
_PLACELESS = {"image": "are no patches in rows", "video": "lie in time and space"}


def _inspect_way(
    checkpoint: Checkpoint, known: Reference, way: Way, warnings: tuple[str, ...]
) -> Architecture:
    body, name = checkpoint.body, checkpoint.model_type
    tolerance = find_tolerance(checkpoint)
    probe = Probe(name, known.inputs)
    try:
        with capture_attention(body, probe, way) as capture:
            captured = checkpoint.forward(known.inputs)
            sites = capture.sites
            called, computed = tuple(sites.called), sites.computed
    except UnsupportedModelError:
        raise
    except Exception as error:  # whatever a model does when it is read in a way it was not made for
        raise UnsupportedModelError(name, f"it can't be run that way ({first_line(error)})") from error
    if sites.sunk:
        warnings += ("what goes to its learned sinks is left out, and rows are over the tokens alone",)
    if not probe.maps:
        raise UnsupportedModelError(name, NO_LAYER)
    if way is not Way.REGISTRY and not known.maps and computed < len(called):
        raise UnsupportedModelError(name, f"what was tapped can't be checked, since {known.absence}")
    maps = [probe.maps[layer] for layer in sorted(probe.maps)]
    apart = relative_difference(captured, known.untouched)
    if not apart <= tolerance:
        raise UnsupportedModelError(name, f"hidden states under capture differ from its own by {apart:.1e}")
    sight = Sight.of(checkpoint, known.inputs, maps)
    kinds = sight.kinds
    evidence = [f"hidden states agree with the untouched model (relative difference {apart:.1e})"]
    evidence += check_maps(name, maps, tolerance, checkpoint.pruning)
    evidence += check_layers(checkpoint, kinds)
    numbers, skipped = check_numbers(checkpoint, known, len(maps), maps[0].shape[3], way)
    warnings += skipped
    evidence.append(check_against_own(name, known, maps, kinds, tolerance))
    evidence += [MASKED_NOTE] * checkpoint.masked
    if way is not Way.REGISTRY:
        evidence.append(check_heads(name, maps))
    if way in TAPS:
        evidence.append(check_mixing(checkpoint, known, way, maps))
    evidence += sight.evidence
    grid = None
    if checkpoint.modality not in {"text", BOTH} and set(kinds) == {Kind.ENCODER}:
        grid = find_grid(checkpoint, known.inputs, called[0])
    if grid is not None:
        evidence.append(
            f"{grid.rows} x {grid.columns} patches, the first of them token {grid.first} of "
            f"{maps[0].shape[3]}"
        )
    elif (where := _PLACELESS.get(checkpoint.modality)) is not None:
        warnings += (f"its tokens {where}, so that columns about places are empty",)
    warnings += list_window_warnings(body)
    paged = "bbox" in checkpoint.inputs(known.inputs)
    warnings += ("it reads pages; without boxes, all words stand in one place",) * paged
    return Architecture(
        model_type=name,
        layers=len(maps),
        heads=checkpoint.pruning.heads if checkpoint.pruning else maps[0].shape[1],
        head_width=find_head_width(checkpoint, called[0], maps[0].shape[1]),
        way=way,
        evidence=tuple(evidence),
        warnings=(*warnings, *find_oddities(maps, numbers)),
        sites=called,
        kinds=kinds,
        positions=maps[0].shape[3],
        grid=grid,
        numbers=numbers,
        removed=checkpoint.pruning.removed if checkpoint.pruning else (),
        joined=sight.joined,
    )


def _inspect_tiles(
    checkpoint: Checkpoint, known: Reference, way: Way, warnings: tuple[str, ...]
) -> Architecture:
    """Read a model in stages, of which each layer may see windows, or fewer keys, with heads of its own."""
    body, name = checkpoint.body, checkpoint.model_type
    tolerance, stated = find_tolerance(checkpoint), count_stated_layers(body.config)
    try:
        probe = TileProbe()
        with capture_attention(body, probe, way, {"values"}) as capture:
            captured = checkpoint.forward(known.inputs)
            called = tuple(capture.sites.called)
    except UnsupportedModelError:
        raise
    except Exception as error:  # as for any other way
        raise UnsupportedModelError(name, f"it can't be run that way ({first_line(error)})") from error
    maps = probe.maps
    if not maps:
        raise UnsupportedModelError(name, NO_LAYER)
    apart = relative_difference(captured, known.untouched)
    if not apart <= tolerance:
        raise UnsupportedModelError(name, f"hidden states under capture differ from its own by {apart:.1e}")
    known = refer_to_modules(checkpoint, known)
    if way is not Way.REGISTRY and not known.maps:
        raise UnsupportedModelError(name, f"what was tapped can't be checked, since {known.absence}")
    kinds = (Kind.ENCODER,) * len(maps)
    evidence = [f"hidden states agree with the untouched model (relative difference {apart:.1e})"]
    evidence += check_row_sums(name, maps, tolerance)
    evidence.append(_check_count(checkpoint, len(maps), stated))
    evidence.append(check_against_own(name, known, maps, kinds, tolerance))
    evidence.append(check_order(checkpoint, known.inputs, way, maps))
    if way is not Way.REGISTRY:
        evidence += [check_heads(name, maps), check_mixing(checkpoint, known, way, maps)]
    tilings = find_tilings(checkpoint, known.inputs, maps, called)
    evidence += describe_tilings(tilings)
    heads = max(one.heads for one in tilings)
    return Architecture(
        model_type=name,
        layers=len(maps),
        heads=heads,
        head_width=probe.width or _find_stage_width(checkpoint, called, tilings),
        way=way,
        evidence=tuple(evidence),
        warnings=(*warnings, *list_tiling_warnings(tilings), *find_oddities(maps)),
        sites=called,
        kinds=kinds,
        positions=max(one.sequences * max(one.queries, one.keys) for one in tilings),
        tilings=tilings,
    )


def _find_stage_width(checkpoint: Checkpoint, sites: Sequence[str], tilings: Sequence[Tiling]) -> int:
    """Find the width of a head by the projections of a layer, where its attention does not show it."""
    widths = [1]
    for site, tiling in zip(sites, tilings, strict=True):
        module: Any = checkpoint.body.get_submodule(site)
        linear = (one.out_features for one in module.modules() if isinstance(one, nn.Linear))
        whole = min((width for width in linear if width % tiling.heads == 0), default=tiling.heads)
        stated = getattr(module, "attention_head_size", None)
        widths.append(stated if isinstance(stated, int) else whole // tiling.heads)
    return max(widths)


def _join_failures(failures: dict[Way, str]) -> str:
    """Say why each way failed; a reason that several give is said once."""
    ways: dict[str, list[str]] = {}
    for way, reason in failures.items():
        ways.setdefault(reason, []).append(way)
    if len(ways) > 1:
        ways.pop(NO_LAYER, None)
    if len(ways) == 1 and NO_LAYER not in ways:
        return next(iter(ways))
    return "; ".join(f"{reason} ({', '.join(found)})" for reason, found in ways.items())
