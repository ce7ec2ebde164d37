"""What patching every head does, over pairs of texts, as a table."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.corpus.contrasts import ContrastBatches
from attnprobe.findings.noise import block_record
from attnprobe.intervention.objectives.contrast import ContrastMeasure
from attnprobe.intervention.patching.passes import Floats, PatchedPairs, PatchPlan
from attnprobe.intervention.task import TaskData
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.inference import CONFIDENCE, Correction, Estimate, adjust
from attnprobe.table.builder import TableBuilder
from attnprobe.table.numbers import format_number, format_with_error
from attnprobe.table.table import Column, HeadTable

#: What names the way heads are patched, the usual one first.
DENOISING, NOISING = "denoising", "noising"
#: A token stands for a position where so large a share of the pairs have it there.
_USUAL = 0.5


def tabulate_patching(
    data: TaskData,
    plan: PatchPlan,
    pairs: PatchedPairs,
    dataset: str,
    *,
    fast: bool = False,
    correction: Correction = "holm",
    facts: Mapping[str, Any],
) -> HeadTable:
    """Tabulate the effects of all heads, one row a head, or a head and a position."""
    assert isinstance(data.objective, ContrastMeasure)
    unit, batches = data.objective.unit, data.corpus.batches
    clusters, documents = batches.clusters[pairs.members], batches.documents[pairs.members]
    effects, attributions, gap = (
        Clustered.of(values, clusters).estimate for values in (pairs.effect, pairs.attribution, pairs.gap)
    )
    counted = (np.isfinite(pairs.effect) | np.isfinite(pairs.attribution)).sum(0)
    p = np.where(pairs.fixed, np.nan, effects.p())
    adjusted = adjust_tests(p, (counted > 0) & ~pairs.fixed, correction)
    clean, corrupted = (pairs.base, pairs.source) if plan.noising else (pairs.source, pairs.base)
    record = {
        "method": NOISING if plan.noising else DENOISING,
        "pairs": len(pairs.members),
        "clean": float(clean.mean()),
        "corrupted": float(corrupted.mean()),
        "total_effect": float(gap.value),
        "total_effect_se": float(gap.error),
        "flips": count_flips(clean, corrupted, signed=data.objective.signed),
    }
    labels = data.labels(dataset, facts).with_record({"patching": record})
    if not plan.positions and not fast:
        blocks = Blocked.of(pairs.effect, documents=documents)
        labels = labels.with_record(block_record("effect", labels.places, blocks, effects.value))
    cells = counted.size
    build = TableBuilder(labels, cells)
    build.key("objective", [data.objective.name] * cells)
    build.key("method", [record["method"]] * cells)
    if plan.positions:
        _name_positions(build, data, plan, counted.shape)
    else:
        build.heads(counted.shape[1])
    build.count("n", counted, "pairs")
    build.measure("effect", unit, effects.value, effects.error, headline=True, title="effect of patching")
    share = compute_share(pairs.effect, pairs.gap, documents)
    build.measure("recovered", "share of gap", share.value, share.error, title="share of the gap")
    build.test(p, adjusted, headline=not fast)
    title = "first order of the effect"
    build.measure("attribution", unit, attributions.value, attributions.error, title=title)
    notes = _describe_gap(data.objective.described, clean, corrupted, gap)
    title = "patching of heads at each position" if plan.positions else "patching of heads"
    table = build.table(title, notes)
    return _drop_empty(table) if plan.positions else table


def compute_share(effect: Floats, gap: Floats, documents: NDArray[np.int64]) -> Estimate:
    """Divide the sum of effects (pair, ...) by the sum of gaps (pair,), of the pairs that have both.

    The error is that of the jackknife over blocks of documents. It is the error of the share, which the test
    of the effect against 0 does not know: a share several errors from 0 may have an effect that is not
    significant, where effects and gaps vary together.

    References:
        Cochran (1977), Sampling techniques, section 6.4.
    """
    gaps = np.where(np.isnan(effect), np.nan, gap.reshape(-1, *[1] * (effect.ndim - 1)))

    def divide(means: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = means[..., 0] / means[..., 1]
        return np.where(np.isfinite(shares), shares, np.nan)

    return Blocked.of(np.stack([effect, gaps], -1), documents=documents).apply(divide)


def adjust_tests(p: Floats, tested: NDArray[np.bool_], correction: Correction) -> Floats:
    """Adjust p for all that could have been tested: what was not chosen for a test counts as one of p = 1.

    >>> adjust_tests(np.array([0.01, np.nan, np.nan]), np.array([True, True, False]), "holm")
    array([0.02,  nan,  nan])
    """
    filled = np.where(tested & np.isnan(p), 1.0, p)
    return np.where(np.isnan(p), np.nan, adjust(filled.ravel(), correction).reshape(p.shape))


def count_flips(clean: Floats, corrupted: Floats, *, signed: bool) -> int:
    """Count the pairs in which what the model decides for changes: m falls from above 0 to below.

    Where the sign of m says nothing, such as of a log probability, those in which the clean text has more.
    """
    return int(((clean > 0) & (corrupted < 0)).sum() if signed else (clean > corrupted).sum())


def _name_positions(build: TableBuilder, data: TaskData, plan: PatchPlan, shape: tuple[int, ...]) -> None:
    layers, heads, positions = shape
    build.layers(np.repeat(np.arange(layers), heads * positions).tolist())
    build.key("head", np.tile(np.repeat(np.arange(heads), positions), layers))
    build.key("position", np.tile(np.arange(positions), layers * heads))
    named = {side: _name_tokens(data, plan, positions, targets=side) for side in (False, True)}
    targets = data.corpus.batches.targets is not None
    kinds = [place.kind for place in data.model.architecture.places]
    sides = [targets and kind in (Kind.DECODER, Kind.CROSS) for kind in kinds]
    build.add(Column("token", role="text"), [token for side in sides for token in named[side] * heads])


def _name_tokens(data: TaskData, plan: PatchPlan, positions: int, *, targets: bool) -> list[str | None]:
    """Name the token at each position that most pairs have there; None where they differ."""
    batches = data.corpus.batches
    assert isinstance(batches, ContrastBatches)
    side = batches.targets if targets else batches.source if plan.noising else batches.corrupted
    if side is None:
        return [None] * positions
    checkpoint = data.model.checkpoint
    tokenizer: Any = (targets and checkpoint.target_tokenizer) or checkpoint.tokenizer
    rows = [side.store.ids(int(member)) for member in batches.members]
    named: list[str | None] = []
    for place in range(positions):
        there = Counter(int(row[place]) for row in rows if place < len(row))
        token, count = there.most_common(1)[0] if there else (0, 0)
        usual = count > _USUAL * sum(there.values())
        named.append(tokenizer.convert_ids_to_tokens([token])[0] if usual else None)
    return named


def _describe_gap(what: str, clean: Floats, corrupted: Floats, gap: Estimate) -> list[str]:
    """Say what m is, and how far the source and the base are apart."""
    pairs, sides = len(clean), [format_number(side.mean()) for side in (clean, corrupted)]
    size = np.sign(clean.mean() - corrupted.mean()) * np.abs(gap.value)
    notes = [
        f"m is {what}: {sides[0]} for clean texts, {sides[1]} for corrupted ones. The gap is "
        f"{format_with_error(float(size), float(gap.error))}, over {pairs:,} pair{'s' * (pairs > 1)}."
    ]
    if gap.p() > 1 - CONFIDENCE:
        notes.append("The gap is no larger than its error allows for, so shares of it say little.")
    return notes


def _drop_empty(table: HeadTable) -> HeadTable:
    """Leave out the positions that no pair has in a layer."""
    kept = [row for row, number in enumerate(table.data["n"]) if number]
    data = {name: [cells[row] for row in kept] for name, cells in table.data.items()}
    return HeadTable(table.title, table.columns, data, table.notes, table.provenance)
