"""A dry run that checks itself, because most ways to read attention wrongly are silent."""

from dataclasses import replace

from attnprobe.attention.kinds import Kind, kind_of
from attnprobe.errors import first_line
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.support import AttentionSinkError, UnsupportedModelError, refuse_by_name
from attnprobe.model.reading.capture import captured_attention
from attnprobe.model.reading.routing import Way, evaluating
from attnprobe.model.reading.variants import full_attention, window_warnings
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.checks import (
    RefutedError,
    boxless,
    check_against_own,
    check_heads,
    check_layers,
    check_maps,
    check_mixing,
    check_numbers,
    head_width,
    oddities,
)
from attnprobe.model.verifying.positions import find_grid
from attnprobe.model.verifying.probing import (
    SAID,
    TOLERANCE,
    Known,
    Probe,
    ask_model,
    keeps_nothing,
    probe_inputs,
    relative_difference,
    unguessing,
)

NO_LAYER = "no attention was found"


def examine(checkpoint: Checkpoint) -> tuple[Checkpoint, Architecture]:
    """Find the largest part of a model that can be read: all of it, or else its encoder alone.

    Raises:
        UnsupportedModelError: With the first check that failed on each way.
    """
    checkpoint = unguessing(checkpoint)
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

    The ways to attention are tried one after the other. One is accepted only if every layer was read,
    the hidden states agree with the untouched model, rows sum to 1, and the maps equal those of eager
    attention where the model gives them.

    Raises:
        UnsupportedModelError: With the first check that failed on each way.
    """
    refuse_by_name(checkpoint.model_type)
    body = checkpoint.body
    with full_attention(body) as warnings, evaluating(body):
        inputs = probe_inputs(checkpoint)
        steady = keeps_nothing(checkpoint, inputs)
        known = ask_model(checkpoint, inputs)
        failures: dict[Way, str] = {}
        refuted = False
        for way in Way:
            try:
                found = _inspect(checkpoint, known, way, warnings)
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
    raise UnsupportedModelError(checkpoint.model_type, _summed_up(failures))


def _inspect(checkpoint: Checkpoint, known: Known, way: Way, warnings: tuple[str, ...]) -> Architecture:
    body, name = checkpoint.body, checkpoint.model_type
    tolerance = TOLERANCE[body.dtype.itemsize]
    probe = Probe(name, known.inputs)
    try:
        with captured_attention(body, probe, way) as capture:
            captured = checkpoint.forward(known.inputs)
            sites = capture.sites
            called, computed = tuple(sites.called), sites.computed
    except UnsupportedModelError:
        raise
    except Exception as error:  # whatever a model does when it is read in a way it was not made for
        raise UnsupportedModelError(name, f"it can't be run that way ({first_line(error)})") from error
    if sites.sunk:
        warnings = (
            *warnings,
            "what goes to its learned sinks is left out, and rows are over the tokens alone",
        )
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
    evidence += check_maps(name, maps, tolerance, checkpoint.pruning)
    evidence += check_layers(checkpoint, kinds)
    numbers, left = check_numbers(checkpoint, known, len(maps), maps[0].shape[3], way)
    warnings = (*warnings, *left)
    evidence.append(check_against_own(name, known, maps, kinds, tolerance))
    evidence += [SAID] * checkpoint.masked
    if way is not Way.REGISTRY:
        evidence.append(check_heads(name, maps))
    if way in {Way.TAP, Way.SECOND_TAP}:
        evidence.append(check_mixing(checkpoint, known, way, maps))
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
        heads=checkpoint.pruning.heads if checkpoint.pruning else maps[0].shape[1],
        head_width=head_width(checkpoint, called[0], maps[0].shape[1]),
        way=way,
        evidence=tuple(evidence),
        warnings=(
            *warnings,
            *window_warnings(body),
            *boxless(checkpoint, known.inputs),
            *oddities(maps, numbers),
        ),
        sites=called,
        kinds=kinds,
        positions=maps[0].shape[3],
        grid=grid,
        numbers=numbers,
        removed=checkpoint.pruning.removed if checkpoint.pruning else (),
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
