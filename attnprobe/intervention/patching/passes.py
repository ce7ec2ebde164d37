"""Patching: what a head gives on one text, put in the place of what it gives on another."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.contrast import ContrastMeasure
from attnprobe.intervention.objectives.objective import Answer, upcast
from attnprobe.intervention.task import TaskData
from attnprobe.model.gates import BatchReplay, Gates
from attnprobe.run.memory import Halving
from attnprobe.sums.base import Sum, compute_digest

Floats = NDArray[np.float64]
#: Heads (layer, head), or heads at positions (layer, head, position).
Cells = NDArray[np.bool_]


@dataclass(frozen=True)
class PatchPlan:
    """How pairs are patched.

    Attributes:
        noising: Whether the clean text is read, with heads from the corrupted one.
        positions: Whether each token is patched by itself.
    """

    noising: bool = False
    positions: bool = False

    def describe(self) -> dict[str, str]:
        """Name what the numbers depend on, for the state of a run."""
        return {"--noising": str(self.noising), "--positions": str(self.positions)}


@dataclass(frozen=True)
class PatchedPairs(Sum):
    """What was measured of pairs, one row each; two add up to more pairs.

    Attributes:
        members: Which pairs these are.
        base: m of the text that is read, (pair,).
        source: m of the text that heads are taken from, (pair,).
        effect: What patching does to m, (pair, layer, head) or (pair, layer, head, position); NaN where
            nothing was patched.
        attribution: Its first order, of the same shape; NaN where it was not computed.
    """

    members: NDArray[np.int64]
    base: Floats
    source: Floats
    effect: Floats
    attribution: Floats

    def __add__(self, other: "PatchedPairs") -> "PatchedPairs":
        ours, theirs = self.arrays(), other.arrays()
        return PatchedPairs(**{name: np.concatenate([ours[name], theirs[name]]) for name in ours})

    def sort(self) -> "PatchedPairs":
        """Put the pairs in their order."""
        order = np.argsort(self.members)
        return PatchedPairs(**{name: array[order] for name, array in self.arrays().items()})

    @property
    def gap(self) -> Floats:
        """What all that differs between the texts does to m, (pair,)."""
        return self.source - self.base

    @property
    def fixed(self) -> Cells:
        """Which effects are 0 by construction: the head gives the same on both texts.

        So do those of a decoder before the first token that differs; there is nothing to test.
        """
        return ~np.any([(np.nan_to_num(part) != 0).any(0) for part in (self.effect, self.attribution)], 0)


class Patcher:
    """Patches heads of batches of pairs, within ``gate_attention``."""

    def __init__(self, data: TaskData, plan: PatchPlan, gates: Gates, replay: BatchReplay) -> None:
        assert isinstance(data.objective, ContrastMeasure)
        self._measure, self._subject, self._plan = data.objective, data.model, plan
        self._gates, self._replay = gates, replay
        self._resumes = data.model.gating.replays

    def patch(self, batch: Batch, chosen: Cells, *, attribute: bool) -> PatchedPairs:
        """Patch the chosen heads of a batch; with ``attribute``, the first order of all is there too."""
        corrupted = batch.baseline
        assert corrupted is not None
        base, source = (batch, corrupted) if self._plan.noising else (corrupted, batch)
        with torch.inference_mode():
            self._gates.open()
            with self._gates.record_outputs() as others:
                source_m = self._measure.measure(source, corrupted=self._plan.noising).loss
        slopes: dict[int, Tensor] = {}
        recording = self._replay.record if self._resumes else self._gates.record_outputs
        with torch.enable_grad() if attribute else torch.inference_mode():
            with recording(differentiable=attribute):
                base_m = self._run(base).loss
            outputs = dict(self._gates.outputs)
            if attribute:
                given = torch.autograd.grad(base_m.sum(), list(outputs.values()), allow_unused=True)
                slopes = {layer: one for layer, one in zip(outputs, given, strict=True) if one is not None}
        base_m = base_m.detach()
        if not all(bool(torch.isfinite(m).all()) for m in (base_m, source_m)):
            raise AttnprobeError(
                f"{self._subject.checkpoint.name} gives NaN or infinite numbers; try --dtype float32, or "
                "look at its weights."
            )
        effect, attribution = np.full((2, len(batch), *chosen.shape), np.nan)
        with torch.inference_mode():
            outputs = {layer: output.detach() for layer, output in outputs.items()}
            if attribute:
                self._attribute(attribution, outputs, others, slopes)
            if chosen.any():
                self._patch_each(effect, base, base_m, outputs, others, chosen)
        return PatchedPairs(batch.members, _as_array(base_m), _as_array(source_m), effect, attribution)

    def _list_heads(self, layer: int) -> list[int]:
        """List the numbers of the heads that a layer computes."""
        present = self._subject.architecture.present
        return list(present[layer]) if present else list(range(self._subject.shape[1]))

    def _attribute(
        self,
        attribution: Floats,
        outputs: Mapping[int, Tensor],
        others: Mapping[int, Tensor],
        slopes: Mapping[int, Tensor],
    ) -> None:
        """Fill in (o_source - o_base) . dm/do_base of every head, or of every head at each position."""
        for layer, output in outputs.items():
            change = upcast(others[layer] - output)
            slope = upcast(slopes[layer]) if layer in slopes else torch.zeros_like(change)
            by_place = (change * slope).double().sum(-1).transpose(1, 2).cpu().numpy()  # (batch, head, query)
            heads = self._list_heads(layer)
            if self._plan.positions:
                attribution[:, layer, heads, : by_place.shape[-1]] = by_place
            else:
                attribution[:, layer, heads] = by_place.sum(-1)

    def _patch_each(
        self,
        effect: Floats,
        base: Batch,
        base_m: Tensor,
        outputs: Mapping[int, Tensor],
        others: Mapping[int, Tensor],
        chosen: Cells,
    ) -> None:
        """Fill in m with each of the chosen patched, less m without."""
        for layer, output in outputs.items():
            with self._replay.resume_at(layer) if self._resumes else nullcontext():
                for place, head in enumerate(self._list_heads(layer)):
                    patches = self._list_patches(output, others[layer], place, chosen[layer, head])
                    for at, patched in patches:
                        change = np.zeros(len(base_m))
                        if patched is not None:  # a pass with what is there already would give the same
                            self._close(layer, head, patched)
                            change = _as_array(self._run(base).loss - base_m)
                        effect[(slice(None), layer, head, *at)] = change
        self._gates.open()

    def _list_patches(
        self, output: Tensor, other: Tensor, place: int, chosen: Cells
    ) -> Iterator[tuple[tuple[int, ...], Tensor | None]]:
        """List what takes the place of a layer's outputs, at which positions; None where nothing changes."""
        if not chosen.any():
            return
        differs = (output[:, :, place] != other[:, :, place]).any(-1).any(0).cpu().numpy()  # (query,)
        if not self._plan.positions:
            yield (), other if differs.any() else None
            return
        for position in np.flatnonzero(chosen[: len(differs)]).tolist():
            patched = None
            if differs[position]:
                patched = output.clone()
                patched[:, position] = other[:, position]
            yield (position,), patched

    def _close(self, layer: int, head: int, patched: Tensor) -> None:
        row = torch.ones(1, self._subject.shape[1], device=patched.device)
        row[0, head] = 0
        self._gates.rows, self._gates.replacements = {layer: row}, {layer: patched}

    def _run(self, base: Batch) -> Answer:
        return self._measure.measure(base, corrupted=not self._plan.noising)


def _as_array(values: Tensor) -> Floats:
    return values.detach().cpu().double().numpy()


def patch_pairs(
    data: TaskData, plan: PatchPlan, chosen: Cells, name: str, *, attribute: bool
) -> PatchedPairs:
    """Measure every pair on both sides, and with each of the chosen heads patched.

        effect_h = m(base, head h as in the source) - m(base)
        attribution_h = (o_h(source) - o_h(base)) . dm/do_h at the base

    with o_h what head h gives to the output projection at every position. The base is the corrupted text and
    the source the clean one, or, with ``noising``, the other way round. The attribution is the first order of
    the effect. The pass resumes at the layer of the head.

    Unit: that of m. Limits: 0 where both texts are the same.

    Args:
        data: Checkpoint, whose weights are frozen, measure and pairs.
        plan: How they are patched.
        chosen: Which heads (layer, head), or heads at positions (layer, head, position), are patched.
        name: Of the pass.
        attribute: Whether attributions are computed.

    References:
        Vig et al. (2020), Investigating gender bias in language models using causal mediation analysis; Meng
        et al. (2022), Locating and editing factual associations in GPT; Kramar et al. (2024), AtP*.
    """
    model, halving = data.model, Halving()
    checkpoint = model.checkpoint
    if attribute and checkpoint.quantisation is not None:
        checkpoint.quantisation.check_gradients(checkpoint.model_type)
    with model.gate() as gates:
        replay = BatchReplay(checkpoint.body, gates)
        patcher = Patcher(data, plan, gates, replay)

        def patch_batch(batch: Batch) -> PatchedPairs:
            parts = halving.run(batch, lambda part: patcher.patch(part, chosen, attribute=attribute))
            return reduce(add, parts)

        with replay.watch(model.architecture.sites) if model.gating.replays else nullcontext():
            pairs: PatchedPairs = data.total(
                name,
                patch_batch,
                PatchedPairs.from_arrays,
                thread_context=gates.thread_context,
                question={**plan.describe(), "heads": compute_digest(chosen), "attribution": str(attribute)},
            )
            return pairs.sort()


def measure_pairs(data: TaskData, plan: PatchPlan, *, fast: bool = False, top: int = 10) -> PatchedPairs:
    """Measure the effect of every head on every pair, or of the ``top`` ones by attribution."""
    model, batches = data.model, data.corpus.batches
    kept = model.architecture.standing
    every = kept
    if plan.positions:
        every = np.repeat(kept[..., None], int(batches.longer[batches.members].max()), -1)
    if not fast:
        differentiable = model.checkpoint.quantisation is None
        return patch_pairs(data, plan, every, "patching", attribute=differentiable)
    first = patch_pairs(data, plan, np.zeros(every.shape, bool), "attributing", attribute=True)
    size = np.abs(np.nansum(first.attribution, 0))
    chosen = np.zeros(every.shape, bool)
    chosen.flat[np.argsort(-size, axis=None, kind="stable")[:top]] = True
    chosen &= every
    if not chosen.any():
        return first
    confirmed = patch_pairs(data, plan, chosen, "confirming", attribute=False)
    return replace(confirmed, attribution=first.attribution)
