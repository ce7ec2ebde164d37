"""A dry run that checks itself, because most ways to read attention wrongly are silent."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.kinds import PARTS, Kind, infer_kind
from attnprobe.corpus.batch import find_sight
from attnprobe.corpus.media import BOTH
from attnprobe.model.check.architecture import Architecture, describe_skipped_layers, find_attending_layers
from attnprobe.model.check.places import find_grid
from attnprobe.model.check.reference import (
    OTHER_STATES,
    Reference,
    find_largest,
    measure_row_sum_error,
    run_untouched,
)
from attnprobe.model.check.trace import (
    draw_probe_inputs,
    find_tolerance,
    relative_difference,
    token_error,
    trace_pass,
)
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.processing import SeeingProcessor
from attnprobe.model.quirks import (
    HEAD_WIDTHS,
    AttentionSinkError,
    UnsupportedModelError,
    count_stated_layers,
    force_full_attention,
    list_reading_warnings,
    pick_shown,
    refuse_by_name,
)
from attnprobe.model.reading.gates import gate_attention
from attnprobe.model.reading.ways import Way, evaluation_mode

#: What is said of a way by which nothing comes.
NO_LAYER = "no attention was found"


def examine(checkpoint: Checkpoint) -> tuple[Checkpoint, Architecture]:
    """Find the largest part of a model that can be read: all of it, or else its encoder alone.

    Raises:
        UnsupportedModelError: With the first check that failed on each way.
    """
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
    name, failures = checkpoint.model_type, dict[str, list[str]]()
    refuse_by_name(name)
    with force_full_attention(checkpoint.body) as warnings, evaluation_mode(checkpoint.body):
        inputs = draw_probe_inputs(checkpoint)
        known = run_untouched(checkpoint, inputs)
        for way in Way:
            try:
                return _inspect_way(checkpoint, inputs, known, way, warnings)
            except AttentionSinkError as error:
                # Another way would show rows that sum to 1, and not what becomes of them.
                raise AttentionSinkError(name) from error
            except UnsupportedModelError as error:
                failures.setdefault(error.reason, []).append(way)
    if len(failures) > 1:
        failures.pop(NO_LAYER, None)
    if len(failures) == 1 and NO_LAYER not in failures:
        raise UnsupportedModelError(name, next(iter(failures)))
    reasons = (f"{reason} ({', '.join(ways)})" for reason, ways in failures.items())
    raise UnsupportedModelError(name, "; ".join(reasons))


def _inspect_way(
    checkpoint: Checkpoint,
    inputs: Mapping[str, Tensor],
    known: Reference,
    way: Way,
    warnings: tuple[str, ...],
) -> Architecture:
    name, tolerance, kept = checkpoint.model_type, find_tolerance(checkpoint), checkpoint.kept
    trace = trace_pass(checkpoint, inputs, way)
    maps, called = trace.maps, tuple(trace.sites.called)
    if not maps:
        raise UnsupportedModelError(name, NO_LAYER)
    check_tokens(name, inputs, maps)
    if trace.sites.sunk:
        warnings += ("what goes to its learned sinks is left out, and rows are over the tokens alone",)
    if way is Way.TAP and not known.maps and trace.sites.computed < len(called):
        raise UnsupportedModelError(name, f"what was tapped can't be checked, since {known.absence}")
    evidence = [
        _check_hidden_states(name, trace.hidden, known, tolerance),
        check_row_sums(name, maps, tolerance),
    ]
    shapes = {rows.shape[2:] for rows in maps}
    uneven = checkpoint.modality == "image" and (
        len(shapes) > 1 or any(len({*shape}) > 1 for shape in shapes)
    )
    sight = Sight((Kind.ENCODER,) * len(maps))
    if not uneven:
        sight = _find_sight(checkpoint, inputs, maps)
        _check_head_counts(name, [rows.shape[1] for rows in maps], kept)
    evidence += _check_layers(checkpoint, sight.kinds)
    numbers = _check_numbers(checkpoint, called)
    if numbers:
        warnings += (describe_skipped_layers(checkpoint.body.config.get_text_config()),)
    if known.absence == OTHER_STATES:
        warnings += (OTHER_STATES,)
    else:
        evidence.append(_check_against_own(checkpoint, known, maps, sight.kinds))
    if way is Way.TAP:
        evidence.append(_check_mixing(checkpoint, inputs, known, maps))
    evidence += sight.evidence
    grid = None
    if checkpoint.modality not in {"text", BOTH} and {*sight.kinds} == {Kind.ENCODER} and not uneven:
        grid = find_grid(checkpoint, inputs, called[0])
    if grid is not None:
        within = f"the first of them token {grid.first} of {maps[0].shape[3]}"
        evidence.append(f"{grid.rows} x {grid.columns} patches, {within}")
    elif checkpoint.modality == "image":
        where = "differ from layer to layer" if uneven else "are no patches in rows"
        warnings += (f"its tokens {where}, so that columns about places are empty",)
    warnings += list_reading_warnings(checkpoint.body, checkpoint.inputs(inputs))
    return Architecture(
        model_type=name,
        layers=len(maps),
        heads=max(rows.shape[1] for rows in maps) if kept is None else kept.shape[1],
        head_width=_find_head_width(checkpoint, called[0], maps[0].shape[1]),
        way=way,
        evidence=tuple(evidence),
        warnings=warnings,
        sites=called,
        kinds=sight.kinds,
        positions=max(max(rows.shape[2:]) for rows in maps),
        layer_heads=tuple(rows.shape[1] for rows in maps) if uneven else (),
        grid=grid,
        numbers=numbers,
        removed=checkpoint.removed,
        joined=sight.joined,
        threaded=known.steady,
    )


def check_tokens(name: str, inputs: Mapping[str, Tensor], maps: Sequence[Tensor]) -> None:
    """Refuse maps that are not of tokens for tokens; those that a model makes of an image may change."""
    source, targets = (
        inputs[name].shape[1] if name in inputs else None for name in ("input_ids", "decoder_input_ids")
    )
    if source is None and targets is None:
        return
    source = source or maps[0].shape[3]
    for rows in maps:
        if rows.shape[2:] not in {(source, source), (targets, targets), (targets, source)}:
            raise token_error(name, *rows.shape[2:])


def _check_hidden_states(name: str, captured: Tensor, known: Reference, tolerance: float) -> str:
    """Refuse a way of reading under which the model computes something else."""
    difference = relative_difference(captured, known.untouched)
    if not difference <= tolerance:
        reason = f"hidden states under capture differ from its own by {difference:.1e}"
        raise UnsupportedModelError(name, reason)
    return f"hidden states agree with the untouched model (relative difference {difference:.1e})"


def check_row_sums(name: str, maps: Iterable[Tensor], tolerance: float) -> str:
    """Refuse rows that are no distributions."""
    off = measure_row_sum_error(maps)
    if not off <= tolerance:
        raise UnsupportedModelError(name, f"its attention rows do not sum to 1 (off by {off:.1e})")
    return f"every attention row sums to 1 (largest error {off:.1e})"


def _check_head_counts(name: str, counts: list[int], kept: NDArray[np.bool_] | None) -> None:
    if kept is not None and counts != np.maximum(kept.sum(1), 1).tolist():
        reason = f"its layers have {counts} heads, which is not what its record says"
        raise UnsupportedModelError(name, reason)
    if kept is None and len(set(counts)) > 1:
        reason = "its layers have different numbers of heads; of a physically pruned one, give the folder"
        raise UnsupportedModelError(name, reason)


@dataclass(frozen=True)
class Sight:
    """What the tokens of each layer see; whether those of an image see each other in a decoder."""

    kinds: tuple[Kind, ...]
    joined: bool = False
    evidence: tuple[str, ...] = ()


def _find_sight(checkpoint: Checkpoint, inputs: Mapping[str, Tensor], maps: Sequence[Tensor]) -> Sight:
    """Infer it from maps; refuse a decoder that sees later tokens, but for those of its own image."""
    name, processor = checkpoint.model_type, checkpoint.processor
    if isinstance(processor, SeeingProcessor):
        image = processor.is_image(inputs["input_ids"])
        kinds, joined = infer_sight(name, maps, image)
        sees = ", which see each other" if joined else ""
        number = f"{int(image[0].sum())} of {image.shape[1]}"
        return Sight(kinds, joined, (f"{number} tokens stand for the image{sees}; {processor.described}",))
    targets = inputs["decoder_input_ids"].shape[1] if checkpoint.decodes else None
    kinds = tuple(infer_kind(rows, targets=targets) for rows in maps)
    if any(kind is Kind.DECODER and rows.triu(1).any() for rows, kind in zip(maps, kinds, strict=True)):
        raise UnsupportedModelError(name, "its decoder sees later tokens, which is not expected of one")
    return Sight(kinds)


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


def _check_layers(checkpoint: Checkpoint, kinds: Sequence[Kind]) -> list[str]:
    """Refuse another number of layers than the configuration says, of each kind."""
    counts = Counter(kinds)
    if checkpoint.decodes:
        config = checkpoint.model.config
        stated = {kind: count_stated_layers(getattr(config, kind, config), kind) for kind in PARTS[:2]}
        expected = {kind: stated[Kind.DECODER if kind is Kind.CROSS else kind] for kind in PARTS}
        counted = [(f"{kind} ", counts[kind], expected[kind] or counts[kind]) for kind in PARTS]
    else:
        config = checkpoint.body.config.get_text_config()
        number = len(find_attending_layers(config)) or count_stated_layers(config)
        counted = [("", len(kinds), number or len(kinds))]
    for of, number, expected in counted:
        if number != expected:
            layers = f"{number} layer{'s' * (number != 1)}"
            reason = f"{of}attention of {layers} was read, its configuration says {expected}"
            raise UnsupportedModelError(checkpoint.model_type, reason)
    return [f"{of}attention of {number} of {number} layers was read" for of, number, _ in counted]


def _check_against_own(
    checkpoint: Checkpoint, known: Reference, maps: list[Tensor], kinds: Sequence[Kind]
) -> str:
    """Compare with the maps that the model itself returns under eager attention."""
    if not known.maps:
        return known.absence
    name, config = checkpoint.model_type, checkpoint.body.config
    differences: list[Tensor] = []
    for kind, layers in known.maps.items():
        read = [rows for rows, other in zip(maps, kinds, strict=True) if kind in {None, other}]
        read = pick_shown(config, read, len(layers))
        if [rows.shape for rows in layers] != [rows.shape for rows in read]:
            given, tapped = ([*dict.fromkeys(map(tuple, (m.shape for m in side)))] for side in (layers, read))
            raise UnsupportedModelError(name, f"it gives maps of its own of {given}, and {tapped} were found")
        for expected, rows in zip(layers, read, strict=True):
            precise = rows.cpu().double()
            precise = precise.mean(1, keepdim=True) if known.averaged else precise
            differences.append((expected.cpu().double() - precise).abs().max())
    difference = find_largest(differences)
    if not difference <= find_tolerance(checkpoint):
        raise UnsupportedModelError(name, f"the maps read differ from its own eager maps by {difference:.1e}")
    source = "model's own eager maps"
    if known.scored or known.averaged:
        what = "mean over heads" if known.averaged else "softmax of the scores"
        source = f"{what} that the model gives as its own"
    return f"maps equal the {source} (largest difference {difference:.1e})"


def _check_numbers(checkpoint: Checkpoint, sites: Sequence[str]) -> tuple[int, ...]:
    """Verify that the layers that were read are those that attend, where a model has others; number them.

    ``sites`` are the modules that attended, in order; their names hold the numbers of their layers, unless
    layers share a module.
    """
    config = checkpoint.body.config.get_text_config()
    attending = () if checkpoint.decodes else find_attending_layers(config)
    numbers = tuple(int(part) for site in sites for part in re.findall(r"(?:^|\.)(\d+)(?:\.|$)", site)[:1])
    if attending and len(set(sites)) == len(sites) and numbers != attending:
        stated = f"its configuration says {list(attending)}"
        reason = f"attention was found in its layers {list(numbers)}, {stated}"
        raise UnsupportedModelError(checkpoint.model_type, reason)
    return attending


def _check_mixing(
    checkpoint: Checkpoint, inputs: Mapping[str, Tensor], known: Reference, maps: list[Tensor]
) -> str:
    """Refuse a softmax that has no part in the hidden states of its layer, whatever it looks like."""
    with gate_attention(checkpoint.body, Way.TAP) as gates:
        for layer, rows in enumerate(maps):
            gates.rows = {layer: rows.new_zeros(1, rows.shape[1])}
            if torch.equal(checkpoint.forward(inputs), known.untouched):
                reason = f"the hidden states do not depend on the softmax tapped in layer {layer}"
                raise UnsupportedModelError(checkpoint.model_type, reason)
    return "hidden states depend on every tapped softmax"


def _find_head_width(checkpoint: Checkpoint, site: str, heads: int) -> int:
    """Find the width of a head's keys, which the module of its layer or the configuration states."""
    config = checkpoint.body.config.get_text_config()
    for place, names in zip((checkpoint.body.get_submodule(site), config), HEAD_WIDTHS, strict=True):
        for name in names:
            if isinstance(width := getattr(place, name, None), int):
                return width
    return config.hidden_size // heads
