"""A dry run that checks itself, because most ways to read attention wrongly are silent."""

from collections.abc import Collection
from dataclasses import replace

from torch import Tensor

from attnprobe.attention.kinds import Kind
from attnprobe.corpus.sources.pictures import BOTH
from attnprobe.errors import first_line
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quirks import (
    AttentionSinkError,
    UnsupportedModelError,
    force_full_attention,
    list_reading_warnings,
    refuse_by_name,
)
from attnprobe.model.reading.capture import Observer, capture_attention
from attnprobe.model.reading.ways import Sites, Way, evaluation_mode
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.checks import (
    NO_LAYER,
    Sight,
    check_against_own,
    check_heads,
    check_hidden_states,
    check_layers,
    check_maps,
    check_mixing,
    check_numbers,
    check_row_sums,
    find_head_width,
)
from attnprobe.model.verifying.positions import find_grid
from attnprobe.model.verifying.probing import (
    OTHER_STATES,
    Probe,
    Reference,
    draw_probe_inputs,
    find_tolerance,
    is_stateless,
    run_untouched,
)


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
    refuse_by_name(checkpoint.model_type)
    body = checkpoint.body
    with force_full_attention(body) as warnings, evaluation_mode(body):
        inputs = draw_probe_inputs(checkpoint)
        steady = is_stateless(checkpoint, inputs)
        known = run_untouched(checkpoint, inputs)
        failures: dict[Way, str] = {}
        for way in Way:
            try:
                return replace(_inspect_way(checkpoint, known, way, warnings), threaded=steady)
            except AttentionSinkError as error:
                # Another way would show rows that sum to 1, and not what becomes of them.
                raise AttentionSinkError(checkpoint.model_type) from error
            except UnsupportedModelError as error:
                failures[way] = error.reason
    raise UnsupportedModelError(checkpoint.model_type, _join_failures(failures))


def _run_captured(
    checkpoint: Checkpoint, known: Reference, observer: Observer, way: Way, observe: Collection[str] = ()
) -> tuple[Tensor, Sites]:
    try:
        with capture_attention(checkpoint.body, observer, way, observe) as capture:
            return checkpoint.forward(known.inputs), capture.sites
    except UnsupportedModelError:
        raise
    except Exception as error:  # whatever a model does when it is read in a way it was not made for
        reason = f"it can't be run that way ({first_line(error)})"
        raise UnsupportedModelError(checkpoint.model_type, reason) from error


#: What tells the length of sequences beforehand.
_TEXTS = {"input_ids", "decoder_input_ids"}


def _inspect_way(
    checkpoint: Checkpoint, known: Reference, way: Way, warnings: tuple[str, ...]
) -> Architecture:
    body, name = checkpoint.body, checkpoint.model_type
    tolerance = find_tolerance(checkpoint)
    probe = Probe(name, known.inputs)
    captured, sites = _run_captured(checkpoint, known, probe, way)
    called, computed = tuple(sites.called), sites.computed
    if sites.sunk:
        warnings += ("what goes to its learned sinks is left out, and rows are over the tokens alone",)
    if not probe.maps:
        raise UnsupportedModelError(name, NO_LAYER)
    if way is not Way.REGISTRY and not known.maps and computed < len(called):
        raise UnsupportedModelError(name, f"what was tapped can't be checked, since {known.absence}")
    maps = [probe.maps[layer] for layer in sorted(probe.maps)]
    evidence = [check_hidden_states(name, captured, known, tolerance)]
    uneven = checkpoint.modality == "image" and len({rows.shape[2:] for rows in maps}) > 1
    if uneven:
        sight = Sight((Kind.ENCODER,) * len(maps))
        evidence += check_row_sums(name, maps, tolerance)
    else:
        sight = Sight.of(checkpoint, known.inputs, maps)
        evidence += check_maps(name, maps, tolerance, checkpoint.kept)
    kinds = sight.kinds
    evidence += check_layers(checkpoint, kinds)
    numbers, skipped = check_numbers(checkpoint, called)
    warnings += skipped
    if known.absence == OTHER_STATES:
        warnings += (OTHER_STATES,)
    else:
        evidence.append(check_against_own(name, known, maps, kinds, tolerance))
    if way is not Way.REGISTRY:
        evidence.append(check_heads(name, maps))
    if way is Way.TAP:
        evidence.append(check_mixing(checkpoint, known, way, maps))
    evidence += sight.evidence
    grid = None
    if checkpoint.modality not in {"text", BOTH} and set(kinds) == {Kind.ENCODER} and not uneven:
        grid = find_grid(checkpoint, known.inputs, called[0])
    if grid is not None:
        evidence.append(
            f"{grid.rows} x {grid.columns} patches, the first of them token {grid.first} of "
            f"{maps[0].shape[3]}"
        )
    elif checkpoint.modality == "image":
        where = "differ from layer to layer" if uneven else "are no patches in rows"
        warnings += (f"its tokens {where}, so that columns about places are empty",)
    warnings += list_reading_warnings(body, checkpoint.inputs(known.inputs))
    return Architecture(
        model_type=name,
        layers=len(maps),
        heads=max(rows.shape[1] for rows in maps) if checkpoint.kept is None else checkpoint.kept.shape[1],
        head_width=find_head_width(checkpoint, called[0], maps[0].shape[1]),
        way=way,
        evidence=tuple(evidence),
        warnings=warnings,
        sites=called,
        kinds=kinds,
        positions=max(max(rows.shape[2:]) for rows in maps),
        layer_heads=tuple(rows.shape[1] for rows in maps) if uneven else (),
        grid=grid,
        numbers=numbers,
        removed=checkpoint.removed,
        joined=sight.joined,
    )


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
