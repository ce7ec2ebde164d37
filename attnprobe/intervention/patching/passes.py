"""Patching: the output of a head on one text replaces its output on another."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.intervention.objectives.contrast import ContrastMeasure
from attnprobe.intervention.objectives.objective import check_finite, upcast
from attnprobe.intervention.task import TaskData
from attnprobe.model.quantisation import refuse_gradients
from attnprobe.model.reading.gates import Gates
from attnprobe.model.reading.replay import BatchReplay
from attnprobe.run.passes import Halving
from attnprobe.sums.base import Sum, compute_digest

Floats = NDArray[np.float64]
#: A choice of heads (layer, head), or of heads at positions (layer, head, position).
Cells = NDArray[np.bool_]


@dataclass(frozen=True)
class PatchPlan:
    """How pairs are patched: ``noising`` reads the clean text, ``positions`` patches each token by itself."""

    noising: bool = False
    positions: bool = False


@dataclass(frozen=True)
class PatchedPairs(Sum):
    """Measurements of pairs, one row a pair.

    Attributes:
        members: The numbers of the pairs.
        base: m of the text that is read, (pair,).
        source: m of the text whose outputs are patched in, (pair,).
        effect: The change of m by patching, (pair, layer, head) or (pair, layer, head, position); NaN where a
            head is not patched.
        attribution: The first order of the effect, of the same shape; NaN where it is not computed.
    """

    members: NDArray[np.int64]
    base: Floats
    source: Floats
    effect: Floats
    attribution: Floats

    def __add__(self, other: Self) -> Self:
        ours, theirs = self.arrays(), other.arrays()
        return type(self)(**{name: np.concatenate([ours[name], theirs[name]]) for name in ours})

    def sort(self) -> Self:
        """Sort the pairs by their numbers."""
        order = np.argsort(self.members)
        return type(self)(**{name: array[order] for name, array in self.arrays().items()})

    @property
    def gap(self) -> Floats:
        """The difference of m between source and base, (pair,)."""
        return self.source - self.base

    @property
    def fixed(self) -> Cells:
        """Which effects are 0 by construction and not tested: the head gives the same on both texts."""
        return ~np.any([(np.nan_to_num(part) != 0).any(0) for part in (self.effect, self.attribution)], 0)


def measure_pairs(data: TaskData, plan: PatchPlan, *, fast: bool = False, top: int = 10) -> PatchedPairs:
    """Measure the effects of all heads on all pairs, or with ``fast`` of the ``top`` heads by attribution."""
    model, batches = data.model, data.corpus.batches
    every = model.architecture.kept
    if plan.positions:
        every = np.repeat(every[..., None], int(batches.longer[batches.members].max()), -1)
    if not fast:
        return patch_pairs(data, plan, every, "patching", attribute=not model.checkpoint.quantisation)
    first = patch_pairs(data, plan, np.zeros(every.shape, bool), "attributing", attribute=True)
    size = np.abs(np.nansum(first.attribution, 0))
    chosen = np.zeros(every.shape, bool)
    chosen.flat[np.argsort(-size, axis=None, kind="stable")[:top]] = True
    confirmed = patch_pairs(data, plan, chosen & every, "confirming", attribute=False)
    return replace(confirmed, attribution=first.attribution)


def patch_pairs(
    data: TaskData, plan: PatchPlan, chosen: Cells, name: str, *, attribute: bool
) -> PatchedPairs:
    """Measure m of both texts of every pair, and with each of the chosen heads patched.

        effect_h = m(base, head h as in the source) - m(base)
        attribution_h = (o_h(source) - o_h(base)) . dm/do_h at the base

    with o_h what head h gives to the output projection at every position. The base is the corrupted text and
    the source the clean one; with ``noising``, the other way round. The attribution is the first order of the
    effect. Patched passes resume at the layer of the head.

    Unit: that of m. Limits: 0 where both texts are the same.

    References:
        Vig et al. (2020), Investigating gender bias in language models using causal mediation analysis; Meng
        et al. (2022), Locating and editing factual associations in GPT; Kramar et al. (2024), AtP*.
    """
    model, measure, halving = data.model, data.objective, Halving()
    assert isinstance(measure, ContrastMeasure)
    checkpoint, architecture, resumes = model.checkpoint, model.architecture, model.gating.replays
    if attribute:
        refuse_gradients(checkpoint)
    heads = architecture.computed_heads or [range(model.shape[1])] * model.shape[0]
    with model.gate() as gates:
        replay = BatchReplay(checkpoint.body, gates)

        def measure_part(part: Batch) -> PatchedPairs:
            assert part.baseline is not None
            base, source = (part, part.baseline) if plan.noising else (part.baseline, part)
            gates.open()
            with torch.inference_mode(), gates.record_outputs() as others:
                source_m = measure.compute_m(source, corrupted=plan.noising)
            recording = replay.record if resumes else gates.record_outputs
            mode = torch.enable_grad() if attribute else torch.inference_mode()
            with mode, recording(differentiable=attribute):
                base_m = measure.compute_m(base, corrupted=not plan.noising)
            check_finite(torch.stack([base_m.detach(), source_m]), checkpoint, "numbers")
            outputs = dict(gates.outputs)
            effect, attribution = np.full((2, len(part), *chosen.shape), np.nan)
            if attribute:
                slopes = torch.autograd.grad(base_m.sum(), list(outputs.values()), materialize_grads=True)
                for slope, (layer, output) in zip(slopes, outputs.items(), strict=True):
                    product = upcast(others[layer] - output.detach()) * upcast(slope)
                    first_order = product.double().sum(-1).transpose(1, 2).cpu().numpy()
                    if plan.positions:
                        attribution[:, layer, heads[layer], : first_order.shape[-1]] = first_order
                    else:
                        attribution[:, layer, heads[layer]] = first_order.sum(-1)
            for layer, output in outputs.items():
                with torch.inference_mode(), replay.resume_at(layer) if resumes else nullcontext():
                    fill_effects(effect, layer, base, base_m.detach(), output.detach(), others[layer])
            return PatchedPairs(part.members, _as_array(base_m), _as_array(source_m), effect, attribution)

        def fill_effects(
            effect: Floats, layer: int, base: Batch, base_m: Tensor, output: Tensor, other: Tensor
        ) -> None:
            for place, head in enumerate(heads[layer]):
                cells = chosen[layer, head]
                for at in np.argwhere(cells[: output.shape[1]] if plan.positions else cells).tolist():
                    where, change = at or slice(None), np.zeros(len(base_m))
                    if bool((output[:, where, place] != other[:, where, place]).any()):  # or m is the same
                        patched = output.clone() if at else other
                        patched[:, where] = other[:, where]
                        close_head(gates, layer, head, patched, model.shape[1])
                        change = _as_array(measure.compute_m(base, corrupted=not plan.noising) - base_m)
                    effect[(slice(None), layer, head, *at)] = change

        with replay.watch(architecture.sites) if resumes else nullcontext():
            pairs: PatchedPairs = data.total(
                name,
                lambda batch: halving.total(batch, measure_part),
                PatchedPairs.from_arrays,
                thread_context=gates.thread_context,
                question={"heads": compute_digest(chosen), "attribution": str(attribute)},
            )
            return pairs.sort()


def close_head(gates: Gates, layer: int, head: int, patched: Tensor, heads: int) -> None:
    """Close the gate of one head, let ``patched`` replace its output, and open all other gates."""
    row = torch.ones(1, heads, device=patched.device)
    row[0, head] = 0
    gates.rows, gates.replacements = {layer: row}, {layer: patched}


def _as_array(values: Tensor) -> Floats:
    return values.detach().cpu().double().numpy()
