"""Patching: what a head gives on one text, put in the place of what it gives on another."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.contrast import ContrastMeasure
from attnprobe.intervention.objectives.objective import Answer, upcast
from attnprobe.intervention.patching.values import Floats, PairValues
from attnprobe.intervention.task import Bench
from attnprobe.model.gates import BatchReplay, Gates, gate_attention
from attnprobe.run.memory import Halving
from attnprobe.sums.base import compute_digest


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
class _Replacement:
    """What takes the place of what the heads of a layer give: (batch, query, head, width), of either text."""

    own: Tensor
    other: Tensor

    @cached_property
    def differs(self) -> NDArray[np.bool_]:
        """Where the two differ at all in a batch, (query, head)."""
        return (self.own != self.other).any(-1).any(0).cpu().numpy()

    def at(self, position: int) -> Tensor:
        """Give what the text gives itself, but for one position."""
        found = self.own.clone()
        found[:, position] = self.other[:, position]
        return found


class Patcher:
    """Patches heads of batches of pairs, within ``open_patcher``."""

    def __init__(self, bench: Bench, plan: PatchPlan, gates: Gates, replay: BatchReplay) -> None:
        assert isinstance(bench.objective, ContrastMeasure)
        self._measure, self._subject, self._plan = bench.objective, bench.subject, plan
        self._gates, self._replay = gates, replay
        self._resumes = bench.subject.gating.replays

    def patch(self, batch: Batch, chosen: NDArray[np.bool_], *, attribute: bool) -> PairValues:
        """Patch the chosen heads (layer, head), or heads at positions (layer, head, position), of a batch.

        What is not chosen is NaN. With ``attribute``, the first order of all is there too.
        """
        corrupted = batch.baseline
        assert corrupted is not None
        base, source = (batch, corrupted) if self._plan.noising else (corrupted, batch)
        with torch.inference_mode():
            self._gates.open()
            with self._gates.record_outputs() as given:
                other = self._measure.measure(source, corrupted=self._plan.noising)
        slopes: dict[int, Tensor] = {}
        with torch.enable_grad() if attribute else torch.inference_mode():
            with (
                self._replay.record(differentiable=attribute)
                if self._resumes
                else (self._gates.record_outputs(differentiable=attribute))
            ):
                own = self._run(base)
            outputs = dict(self._gates.outputs)
            if attribute:
                found = torch.autograd.grad(own.loss.sum(), list(outputs.values()), allow_unused=True)
                slopes = {k: slope for k, slope in zip(outputs, found, strict=True) if slope is not None}
        self._check(own.loss, other.loss)
        with torch.inference_mode():
            outputs = {layer: output.detach() for layer, output in outputs.items()}
            replaced = {layer: _Replacement(output, given[layer]) for layer, output in outputs.items()}
            values = {"own": _as_array(own.loss), "other": _as_array(other.loss)}
            if attribute:
                values["attribution"] = self._attribute(replaced, slopes)
            if chosen.any():
                values["effect"] = self._patch_each(base, own.loss.detach(), replaced, chosen)
        return PairValues(((batch.members, values),))

    def _check(self, *measured: Tensor) -> None:
        if not all(bool(torch.isfinite(one).all()) for one in measured):
            raise AttnprobeError(
                f"{self._subject.checkpoint.name} gives NaN or infinite numbers; try --dtype float32, or "
                "look at its weights."
            )

    def _number_heads(self, layer: int) -> list[int]:
        present = self._subject.architecture.present
        return list(present[layer]) if present else list(range(self._subject.shape[1]))

    def _find_shape(self, replaced: Mapping[int, _Replacement]) -> tuple[int, ...]:
        if not self._plan.positions:
            return self._subject.shape
        return *self._subject.shape, max(one.own.shape[1] for one in replaced.values())

    def _attribute(self, replaced: Mapping[int, _Replacement], slopes: Mapping[int, Tensor]) -> Floats:
        """Compute (o_other - o_own) . dm/do_own of every head, (batch, layer, head), or at each position."""
        shape = self._find_shape(replaced)
        batch = len(next(iter(replaced.values())).own)
        found = np.full((batch, *shape), np.nan)
        for layer, one in replaced.items():
            heads = self._number_heads(layer)
            slope = slopes.get(layer)
            product = (
                torch.zeros_like(one.own) if slope is None else upcast(one.other - one.own) * upcast(slope)
            )
            by_place = product.double().sum(-1).transpose(1, 2).cpu().numpy()  # (batch, head, query)
            if self._plan.positions:
                found[:, layer, heads, : by_place.shape[-1]] = by_place
            else:
                found[:, layer, heads] = by_place.sum(-1)
        return found

    def _patch_each(
        self, base: Batch, own: Tensor, replaced: Mapping[int, _Replacement], chosen: NDArray[np.bool_]
    ) -> Floats:
        """Measure m with each of the chosen patched, less m without, (batch, layer, head, ...)."""
        found = np.full((len(own), *self._find_shape(replaced)), np.nan)
        for layer, one in replaced.items():
            with self._replay.resume_at(layer) if self._resumes else nullcontext():
                for place, head in enumerate(self._number_heads(layer)):
                    for cell, changed, other in self._list_patches(one, place, chosen[layer, head]):
                        effect = np.zeros(len(own))
                        if changed:  # a pass with what is there already would give the same
                            self._close(layer, head, other)
                            effect = _as_array(self._run(base).loss - own)
                        found[(slice(None), layer, head, *cell)] = effect
        self._gates.open()
        return found

    def _list_patches(
        self, one: _Replacement, place: int, chosen: NDArray[np.bool_]
    ) -> Iterator[tuple[tuple[int, ...], bool, Tensor]]:
        if not self._plan.positions:
            if chosen:
                yield (), bool(one.differs[:, place].any()), one.other
            return
        for position in np.flatnonzero(chosen[: one.own.shape[1]]).tolist():
            changed = bool(one.differs[position, place])
            yield (position,), changed, one.at(position) if changed else one.own

    def _close(self, layer: int, head: int, other: Tensor) -> None:
        row = torch.ones(1, self._subject.shape[1], device=other.device)
        row[0, head] = 0
        self._gates.rows, self._gates.replacements = {layer: row}, {layer: other}

    def _run(self, base: Batch) -> Answer:
        return self._measure.measure(base, corrupted=not self._plan.noising)


def _as_array(values: Tensor) -> Floats:
    return values.detach().cpu().double().numpy()


def patch_pairs(
    bench: Bench, plan: PatchPlan, chosen: NDArray[np.bool_], name: str, *, attribute: bool
) -> PairValues:
    """Measure every pair on both sides, and with each of the chosen heads patched.

        effect_h = m(base, head h as in the source) - m(base)
        attribution_h = (o_h(source) - o_h(base)) . dm/do_h at the base

    with o_h what head h gives to the output projection at every position. The base is the corrupted text and
    the source the clean one, or, with ``noising``, the other way round. The attribution is the first order of
    the effect. The pass resumes at the layer of the head.

    Unit: that of m. Limits: 0 where both texts are the same.

    Args:
        bench: Checkpoint, whose weights are frozen, measure and pairs.
        plan: How they are patched.
        chosen: Which heads (layer, head), or heads at positions (layer, head, position), are patched.
        name: Of the pass.
        attribute: Whether attributions are computed.

    References:
        Vig et al. (2020), Investigating gender bias in language models using causal mediation analysis; Meng
        et al. (2022), Locating and editing factual associations in GPT; Kramar et al. (2024), AtP*.
    """
    subject, halving = bench.subject, Halving()
    checkpoint, architecture = subject.checkpoint, subject.architecture
    if attribute and checkpoint.quantisation is not None:
        checkpoint.quantisation.check_gradients(checkpoint.model_type)
    way, sites, present = architecture.way, architecture.sites, architecture.present
    with gate_attention(checkpoint.body, way, sites, present) as gates:
        replay = BatchReplay(checkpoint.body, gates)
        patcher = Patcher(bench, plan, gates, replay)

        def work(batch: Batch) -> PairValues:
            parts = halving.run(batch, lambda part: patcher.patch(part, chosen, attribute=attribute))
            return reduce(add, parts)

        with replay.watch(architecture.sites) if subject.gating.replays else nullcontext():
            return bench.total(
                name,
                work,
                PairValues.from_arrays,
                thread_context=gates.thread_context,
                question={**plan.describe(), "heads": compute_digest(chosen), "attribution": str(attribute)},
            )
