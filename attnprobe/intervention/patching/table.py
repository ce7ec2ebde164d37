"""What patching every head does, over pairs of texts, as a table."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from attnprobe.attention.kinds import Kind
from attnprobe.corpus.contrasts import ContrastBatches
from attnprobe.findings.noise import block_record
from attnprobe.intervention.objectives.contrast import ContrastMeasure
from attnprobe.intervention.patching.pairs import PatchedPairs, adjust_tests, count_flips
from attnprobe.intervention.patching.values import Floats
from attnprobe.intervention.task import Bench
from attnprobe.sums.blocked import Blocks
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.inference import SIGNIFICANT, Correction
from attnprobe.table.builder import TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.numbers import format_number, format_with_error
from attnprobe.table.table import Column

#: What names the way heads are patched, the usual one first.
DENOISING, NOISING = "denoising", "noising"
#: A token stands for a position where so large a share of the pairs have it there.
_USUAL = 0.5
#: Half of a 95 % interval of a normal distribution, in standard errors.
Z_95 = 1.96


def tabulate_patching(
    bench: Bench,
    found: PatchedPairs,
    dataset: str,
    *,
    fast: bool = False,
    correction: Correction = "holm",
    facts: Mapping[str, Any],
) -> HeadTable:
    """Tabulate the effects of all heads, one row a head, or a head and a position."""
    assert isinstance(bench.objective, ContrastMeasure)
    subject, unit = bench.subject, bench.objective.unit
    layers, heads = subject.shape
    positions = found.effect.shape[3] if found.plan.positions else 1
    cells = layers * heads * positions
    effects, attributions = found.summarise(found.effect), found.summarise(found.attribution)
    p = np.where(found.fixed, np.nan, effects.estimate.p())
    counted = (np.isfinite(found.effect) | np.isfinite(found.attribution)).sum(0)
    share, share_error = found.recovered
    adjusted = adjust_tests(p.ravel(), ((counted > 0) & ~found.fixed).ravel(), correction)
    labels = bench.labels(dataset, facts).with_record({"patching": _describe_gap(found, bench.objective)})
    if not found.plan.positions and not fast:
        blocks = Blocks.of(found.effect, found.documents)
        labels = labels.with_record(block_record("effect", labels.places, blocks, effects.average))
    build = TableBuilder(labels, cells)
    build.key("objective", [bench.objective.name] * cells)
    build.key("method", [NOISING if found.plan.noising else DENOISING] * cells)
    _name_rows(build, bench, found, layers, heads, positions)
    build.count("n", counted, "pairs")
    build.measure(
        "effect", unit, effects.average, effects.standard_error, headline=True, title="effect of patching"
    )
    build.measure("recovered", "share of gap", share, share_error, title="share of the gap")
    build.add(Column("p", "probability", title="p"), p.ravel())
    build.add(Column("p_adjusted", "probability", headline=not fast, title="adjusted p"), adjusted)
    build.measure(
        "attribution",
        unit,
        attributions.average,
        attributions.standard_error,
        title="first order of the effect",
    )
    notes = _describe(found, bench.objective, effects, adjusted)
    title = "patching of heads at each position" if found.plan.positions else "patching of heads"
    table = build.table(title, notes, "heads at positions" if found.plan.positions else "heads")
    return _drop_empty(table) if found.plan.positions else table


def _name_rows(
    build: TableBuilder, bench: Bench, found: PatchedPairs, layers: int, heads: int, positions: int
) -> None:
    if not found.plan.positions:
        build.heads(heads)
        return
    build.layers([layer for layer in range(layers) for _ in range(heads * positions)])
    build.key("head", np.tile(np.repeat(np.arange(heads), positions), layers))
    build.key("position", np.tile(np.arange(positions), layers * heads))
    named = {side: _name_tokens(bench, found, positions, targets=side) for side in (False, True)}
    targets = bench.corpus.batches.targets is not None
    kinds = [place.kind for place in bench.subject.architecture.places]
    sides = [targets and kind in (Kind.DECODER, Kind.CROSS) for kind in kinds]
    tokens = [named[side][place] for side in sides for _ in range(heads) for place in range(positions)]
    build.add(Column("token", role="text"), tokens)


def _name_tokens(bench: Bench, found: PatchedPairs, positions: int, *, targets: bool) -> list[str | None]:
    batches = bench.corpus.batches
    assert isinstance(batches, ContrastBatches)
    side = batches.targets if targets else batches.source if found.plan.noising else batches.corrupted
    if side is None:
        return [None] * positions
    checkpoint = bench.subject.checkpoint
    tokenizer: Any = (targets and checkpoint.target_tokenizer) or checkpoint.tokenizer
    rows = [side.store.ids(int(member)) for member in batches.members]
    named: list[str | None] = []
    for place in range(positions):
        there = Counter(int(row[place]) for row in rows if place < len(row))
        token, count = there.most_common(1)[0] if there else (0, 0)
        usual = count > _USUAL * sum(there.values())
        named.append(tokenizer.convert_ids_to_tokens([token])[0] if usual else None)
    return named


def _describe_gap(found: PatchedPairs, measure: ContrastMeasure) -> dict[str, Any]:
    gap = found.summarise(found.gap)
    clean, corrupted = (found.base, found.source)[:: 1 if found.plan.noising else -1]
    return {
        "method": NOISING if found.plan.noising else DENOISING,
        "pairs": len(found.base),
        "clean": float(clean.mean()),
        "corrupted": float(corrupted.mean()),
        "total_effect": float(gap.average),
        "total_effect_se": float(gap.standard_error),
        "flips": count_flips(clean, corrupted, signed=measure.signed),
    }


def _describe(
    found: PatchedPairs, measure: ContrastMeasure, effects: Clustered, adjusted: Floats
) -> list[str]:
    """Say what m is and how far both sides are apart, and how many heads differ from no effect."""
    number = len(found.base)
    clean, corrupted = (found.base, found.source)[:: 1 if found.plan.noising else -1]
    gap = found.summarise(clean - corrupted)
    size = format_with_error(float(gap.average), float(gap.standard_error))
    what = "heads at positions" if found.plan.positions else "heads"
    sides = [format_number(side.mean()) for side in (clean, corrupted)]
    notes = [
        f"m is {measure.said}: {sides[0]} for clean texts, {sides[1]} for corrupted ones. The gap is {size}, "
        f"over {number:,} pair{'s' * (number > 1)}."
    ]
    if number > 1 and abs(float(gap.average)) < Z_95 * float(gap.standard_error):
        notes.append("The gap is no larger than its error allows for, so shares of it say little.")
    tested = np.isfinite(adjusted)
    if not tested.any():
        return notes
    significant = adjusted < SIGNIFICANT
    most = ""
    if significant.any():
        sizes = np.where(significant, np.abs(effects.average.ravel()), -1)
        mean, error = (one.flat[sizes.argmax()] for one in (effects.average, effects.standard_error))
        most = f", the largest {format_with_error(mean, error, signed=True)} {measure.unit}".rstrip()
    return [
        *notes,
        f"The effects of {int(significant.sum()):,} of {int(tested.sum()):,} {what} differ significantly "
        f"from 0{most} (paired t over documents, adjusted p < {SIGNIFICANT}).",
    ]


def _drop_empty(table: HeadTable) -> HeadTable:
    """Leave out the positions that no pair has in a layer."""
    kept = [row for row, number in enumerate(table.data["n"]) if number]
    data = {name: [cells[row] for row in kept] for name, cells in table.data.items()}
    return HeadTable(table.title, table.columns, data, table.notes, table.provenance, table.kind)
