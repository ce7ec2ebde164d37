"""A dry run that checks itself, because most ways to read attention wrongly are silent."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnprobe.attention.kinds import PARTS, Kind, infer_kind
from attnprobe.corpus.batch import find_sight
from attnprobe.corpus.media import BOTH
from attnprobe.errors import first_line
from attnprobe.model import quirks
from attnprobe.model.check.architecture import Architecture, find_attending_layers, find_layer_kinds
from attnprobe.model.check.trace import (
    draw_probe_inputs,
    find_grid,
    find_tolerance,
    relative_difference,
    run_twice,
    trace_pass,
)
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.private import get_attn_implementation
from attnprobe.model.processing import SeeingProcessor
from attnprobe.model.quirks import AttentionSinkError, UnsupportedModelError
from attnprobe.model.reading.blocks import spread_maps
from attnprobe.model.reading.gates import gate_attention
from attnprobe.model.reading.ways import MapShape, Way, evaluation_mode, switch_attention

NO_LAYER = "no attention was found"
OTHER_STATES = (
    "its own eager maps come with other hidden states: what is measured is the attention that it runs by "
    "itself, and not its eager attention"
)
#: What a model may give, the last two as WavLM does, and as SqueezeBERT and ProphetNet.
OWN, MEANS = "model's own eager maps", "mean over heads that the model gives as its own"
SCORES = "softmax of the scores that the model gives as its own"


@dataclass(frozen=True)
class Reference:
    """Two short sequences, and the states and maps that the untouched model gives of them."""

    inputs: dict[str, Tensor]
    untouched: Tensor  # the hidden states
    steady: bool  # passes left the model unchanged, so that threads may share it
    maps: dict[Kind | None, list[Tensor]] = field(default_factory=dict)  # of the layers of each kind
    source: str = OWN  # what the maps are
    absence: str = ""  # why there are none


def examine(checkpoint: Checkpoint) -> tuple[Checkpoint, Architecture]:
    """Inspect a whole model, or else its encoder alone; gives a checkpoint of the part that can be read."""
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
    """Run the model on two short sequences, and find the first way that reads its attention correctly.

    Every layer has to be read, hidden states have to agree with those of the untouched model, rows have to
    sum to 1, and maps have to equal those of eager attention, where the model gives them.

    Raises:
        UnsupportedModelError: With the first check that failed on each way.
    """
    name, failures = checkpoint.model_type, list[str]()
    quirks.refuse_by_name(name)
    with quirks.force_full_attention(checkpoint.body) as warnings, evaluation_mode(checkpoint.body):
        known = run_untouched(checkpoint)
        for way in Way:
            try:
                return _inspect_way(checkpoint, known, way, warnings)
            except AttentionSinkError as error:
                # With another way rows would sum to 1, although the model turns their outputs down.
                raise AttentionSinkError(name) from error
            except UnsupportedModelError as error:
                failures.append(error.reason)
    reasons = [reason for reason in dict.fromkeys(failures) if reason != NO_LAYER] or [NO_LAYER]
    raise UnsupportedModelError(name, "; ".join(reasons))


def _inspect_way(
    checkpoint: Checkpoint, known: Reference, way: Way, warnings: tuple[str, ...]
) -> Architecture:
    inputs, name, body, kept = known.inputs, checkpoint.model_type, checkpoint.body, checkpoint.kept
    tolerance, trace = find_tolerance(checkpoint), trace_pass(checkpoint, inputs, way, {"maps"})
    maps, sites = [seen["maps"] for seen in trace.layers], tuple(trace.counter.called)
    if not maps:
        raise UnsupportedModelError(name, NO_LAYER)
    if way is Way.TAP and not known.maps and trace.counter.answered < len(sites):
        raise UnsupportedModelError(name, f"what was tapped can't be checked, since {known.absence}")
    difference = relative_difference(trace.hidden, known.untouched)
    if not difference <= tolerance:
        reason = f"hidden states under capture differ from its own by {difference:.1e}"
        raise UnsupportedModelError(name, reason)
    evidence = [
        f"hidden states agree with the untouched model (relative difference {difference:.1e})",
        check_maps(name, inputs, maps, tolerance),
    ]
    counts, shapes = [rows.shape[1] for rows in maps], {rows.shape[2:] for rows in maps}
    uneven = checkpoint.modality == "image" and (len(shapes) > 1 or any(len({*each}) > 1 for each in shapes))
    kinds, joined = (Kind.ENCODER,) * len(maps), False
    if not uneven:
        kinds, joined = _infer_kinds(checkpoint, inputs, maps)
        if counts != (counts[:1] * len(maps) if kept is None else np.maximum(kept.sum(1), 1).tolist()):
            reason = f"its layers have {counts} heads, which no record says; give a pruned one's folder"
            raise UnsupportedModelError(name, reason)
    config = body.config.get_text_config()
    numbers = () if checkpoint.decodes else find_attending_layers(config)
    evidence += _check_layers(checkpoint, kinds, numbers, sites)
    if known.maps:
        evidence.append(_check_against_own(checkpoint, known, maps, kinds))
    elif known.absence != OTHER_STATES:
        evidence.append(known.absence)
    if way is Way.TAP:
        evidence.append(_check_mixing(checkpoint, known, maps))
    if trace.counter.sunk:
        warnings += ("what goes to its learned sinks is left out, and rows are over the tokens alone",)
    warnings += quirks.list_reading_warnings(body, checkpoint.inputs(inputs))
    grid = None
    if checkpoint.modality not in {"text", BOTH} and {*kinds} == {Kind.ENCODER} and not uneven:
        grid = find_grid(checkpoint, inputs, sites[0])
    if grid is not None:
        within = f"the first of them token {grid.first} of {maps[0].shape[3]}"
        evidence.append(f"{grid.rows} x {grid.columns} patches, {within}")
    if isinstance(checkpoint.processor, SeeingProcessor):
        image = checkpoint.processor.is_image(inputs["input_ids"])[0]
        counted = f"{int(image.sum())} of {len(image)} tokens stand for the image"
        evidence.append(f"{counted}{', which see each other' * joined}")
    architecture = Architecture(
        model_type=name,
        layers=len(maps),
        heads=max(counts) if kept is None else kept.shape[1],
        head_width=quirks.find_head_width(body.get_submodule(sites[0]), config, counts[0]),
        way=way,
        evidence=tuple(evidence),
        sites=sites,
        kinds=kinds,
        positions=max(max(rows.shape[2:]) for rows in maps),
        layer_heads=tuple(counts) if uneven else (),
        grid=grid,
        numbers=numbers,
        removed=checkpoint.removed,
        joined=joined,
        threaded=known.steady,
    )
    return replace(architecture, warnings=(*warnings, *_list_warnings(checkpoint, architecture, known)))


def _list_warnings(checkpoint: Checkpoint, architecture: Architecture, known: Reference) -> Iterator[str]:
    if architecture.numbers:
        kinds = find_layer_kinds(checkpoint.body.config.get_text_config())
        others = Counter(kind.removesuffix("_layer") for kind in kinds if not quirks.has_map(kind))
        listed = ", ".join(f"{number} {kind}" for kind, number in others.items())
        yield f"layers without an attention map are left out: {listed}"
    if known.absence == OTHER_STATES:
        yield OTHER_STATES
    if checkpoint.modality == "image" and architecture.grid is None:
        where = "differ from layer to layer" if architecture.layer_heads else "are no patches in rows"
        yield f"its tokens {where}, so that columns about places are empty"


def check_maps(name: str, inputs: Mapping[str, Tensor], maps: Sequence[Tensor], tolerance: float) -> str:
    """Refuse maps of other than tokens for tokens, and rows that do not sum to 1; gives evidence."""
    read = [inputs[key].shape[1] if key in inputs else 0 for key in ("input_ids", "decoder_input_ids")]
    source, targets = read[0] or maps[0].shape[3], read[1]  # of an image, nobody says how many it makes
    for queries, keys in (rows.shape[2:] for rows in maps) if any(read) else ():
        if (queries, keys) not in {(source, source), (targets, targets), (targets, source)}:
            reason = f"it does not attend from tokens to tokens (maps of {queries} x {keys} tokens were read)"
            raise UnsupportedModelError(name, reason)
    sums = (rows.cpu().sum(-1, dtype=torch.float64) for rows in maps)
    off = float(torch.stack([(each - 1).abs().max() for each in sums]).max())
    if not off <= tolerance:
        raise UnsupportedModelError(name, f"its attention rows do not sum to 1 (off by {off:.1e})")
    return f"every attention row sums to 1 (largest error {off:.1e})"


def _infer_kinds(
    checkpoint: Checkpoint, inputs: Mapping[str, Tensor], maps: Sequence[Tensor]
) -> tuple[tuple[Kind, ...], bool]:
    """Infer from maps the kind of each layer, and whether tokens of an image see later ones in a decoder.

    Raises UnsupportedModelError if later tokens are seen in some layers of a decoder but not all, or in one
    that does not read images with text.
    """
    if isinstance(checkpoint.processor, SeeingProcessor):
        sight = find_sight(checkpoint.processor.is_image(inputs["input_ids"])).to(maps[0].device)
        beyond = (torch.arange(sight.shape[1], device=sight.device) > sight[..., None])[:, None]
        kinds = tuple(Kind.ENCODER if bool((rows * beyond).any()) else Kind.DECODER for rows in maps)
    else:
        targets = inputs["decoder_input_ids"].shape[1] if checkpoint.decodes else None
        kinds = tuple(infer_kind(rows, targets=targets) for rows in maps)
    decoders = (rows for rows, kind in zip(maps, kinds, strict=True) if kind is Kind.DECODER)
    ahead = {bool(rows.triu(1).any()) for rows in decoders}
    if len(ahead) > 1 or (True in ahead and checkpoint.modality != BOTH):
        reason = "its decoder sees later tokens, which is not expected of one"
        raise UnsupportedModelError(checkpoint.model_type, reason)
    return kinds, True in ahead


def _check_layers(
    checkpoint: Checkpoint, kinds: Sequence[Kind], numbers: tuple[int, ...], sites: Sequence[str]
) -> list[str]:
    """Refuse layers that differ from the configuration in number or place; gives a sentence for each part."""
    name, decodes, evidence = checkpoint.model_type, checkpoint.decodes, []
    config = checkpoint.model.config if decodes else checkpoint.body.config.get_text_config()
    for kind in PARTS if decodes else ("",):
        part = Kind.DECODER if kind == Kind.CROSS else kind
        number = kinds.count(kind) if kind else len(kinds)
        stated = len(numbers) or quirks.count_stated_layers(getattr(config, part, config), part)
        attention = f"{kind} attention".strip()
        if stated not in {0, number}:
            reason = f"{attention} of {number} layers was read, its configuration says {stated}"
            raise UnsupportedModelError(name, reason)
        evidence.append(f"{attention} of {number} of {number} layers was read")
    read = tuple(int(part) for site in sites for part in re.findall(r"(?:^|\.)(\d+)(?:\.|$)", site)[:1])
    if numbers and len(set(sites)) == len(sites) and read != numbers:
        reason = f"attention was read in its layers {list(read)}, its configuration says {list(numbers)}"
        raise UnsupportedModelError(name, reason)
    return evidence


def _check_against_own(
    checkpoint: Checkpoint, known: Reference, maps: list[Tensor], kinds: Sequence[Kind]
) -> str:
    """Refuse maps that differ from those of the model's own eager attention; gives evidence."""
    name, differences = checkpoint.model_type, list[Tensor]()
    for kind, layers in known.maps.items():
        read = [rows for rows, other in zip(maps, kinds, strict=True) if kind in {None, other}]
        read = quirks.pick_shown(checkpoint.body.config, read, len(layers))
        if [rows.shape for rows in layers] != [rows.shape for rows in read]:
            raise UnsupportedModelError(name, "the maps read are of other shapes than its own eager maps")
        for expected, rows in zip(layers, read, strict=True):
            given = rows.mean(1, keepdim=True) if known.source == MEANS else rows
            differences.append((expected.cpu() - given.cpu()).abs().max().double())
    difference = float(torch.stack(differences).max())
    if not difference <= find_tolerance(checkpoint):
        raise UnsupportedModelError(name, f"the maps read differ from its own eager maps by {difference:.1e}")
    return f"maps equal the {known.source} (largest difference {difference:.1e})"


def _check_mixing(checkpoint: Checkpoint, known: Reference, maps: list[Tensor]) -> str:
    """Refuse a tapped softmax on which the hidden states do not depend; gives evidence."""
    with gate_attention(checkpoint.body, Way.TAP) as gates:
        for layer, rows in enumerate(maps):
            gates.rows = {layer: rows.new_zeros(1, rows.shape[1])}
            if torch.equal(checkpoint.forward(known.inputs), known.untouched):
                reason = f"the hidden states do not depend on the softmax tapped in layer {layer}"
                raise UnsupportedModelError(checkpoint.model_type, reason)
    return "hidden states depend on every tapped softmax"


def run_untouched(checkpoint: Checkpoint) -> Reference:
    """Run the model as it is, and ask it for its own maps; why it gives none is stated as ``absence``."""
    inputs, model = draw_probe_inputs(checkpoint), checkpoint.forward_model
    untouched, steady = run_twice(checkpoint, inputs)
    reference, before = partial(Reference, inputs, untouched, steady), get_attn_implementation(model)
    try:
        switch_attention(model, "eager")
        with torch.inference_mode():
            given = model(**checkpoint.inputs(inputs), output_attentions=True)
        maps, source = _take_maps(given, checkpoint, len(untouched))
        alike = relative_difference(given[0], untouched) <= find_tolerance(checkpoint)
    except Exception as error:
        return reference(absence=f"its own maps can't be had ({first_line(error)})")
    finally:
        switch_attention(model, before)
    if not maps:
        return reference(absence="it gives no maps of its own for comparison")
    # Falcon loses its mask when it is switched.
    return reference(maps, source) if alike else reference(absence=OTHER_STATES)


def _take_maps(given: Any, checkpoint: Checkpoint, batch: int) -> tuple[dict[Kind | None, list[Tensor]], str]:
    """Take the maps of layers that attend from an output, make rows sum to 1, and say what they are."""
    if checkpoint.decodes:
        maps: dict[Kind | None, Any] = {kind: getattr(given, f"{kind}_attentions", None) for kind in PARTS}
    else:
        layers = quirks.take_text_output(given).attentions
        attending = find_attending_layers(checkpoint.body.config.get_text_config())
        if attending and layers and len(layers) > attending[-1]:
            layers = [layers[layer] for layer in attending]
        maps = {None: layers}
    if not all(layers and all(isinstance(rows, Tensor) for rows in layers) for layers in maps.values()):
        return {}, ""
    scored = any(bool((rows < 0).any()) for rows in chain(*maps.values()))

    def arrange(rows: Tensor) -> Tensor:
        spread = spread_maps(checkpoint.body, rows)
        rows = MapShape(batch, windows=len(spread) // batch).by_head(spread)
        # Probabilities may leave something for a learned sink.
        return rows.softmax(-1) if scored else rows / rows.sum(-1, keepdim=True)

    maps = {kind: [arrange(rows) for rows in layers] for kind, layers in maps.items()}
    every = chain(*maps.values())
    averaged = all(rows.shape[1] > 1 and bool((rows == rows[:, :1]).all()) for rows in every)
    return maps, SCORES if scored else MEANS if averaged else OWN
