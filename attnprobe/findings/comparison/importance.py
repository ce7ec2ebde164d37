"""Importance in two checkpoints, head by head, over the same examples."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attnprobe.errors import AttnprobeError
from attnprobe.findings.comparison.differences import Difference, Rows, blocked, check_same_documents, paired
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import listed
from attnprobe.table.table import Column

_KEYS = ("attention", "layer", "head")
#: Fewer blocks of documents than this make errors rough.
FEW = 8


def importance_differences(
    tables: Sequence[HeadTable],
    names: Sequence[str],
    *,
    dataset: str,
    notes: Sequence[str],
    record: Mapping[str, Any],
) -> HeadTable:
    """Tabulate the importance of heads of one number in two checkpoints, and how it differs.

    Errors and p values are those of ``differences.paired``: over blocks of documents, in which both have the
    same.

    Args:
        tables: Of importance, one for each, with what they keep of blocks of documents.
        names: Of the checkpoints.
        dataset: What the ``dataset`` column says.
        notes: What is to be said of how they were measured.
        record: What goes into the provenance.

    Raises:
        AttnprobeError: When they have no heads of one number, or read other documents.
    """
    check_same_documents(tables, names)
    sides = [blocked(table, name)[0] for table, name in zip(tables, names, strict=True)]
    places = [{head: place for place, head in enumerate(side.heads)} for side in sides]
    heads = [head for head in sides[0].heads if head in places[1]]
    layers = [{head[:-1] for head in side.heads} for side in sides]
    if layers[0] != layers[1] or not heads:
        raise AttnprobeError(
            f"{names[0]} has {len(layers[0])} layers and {names[1]} {len(layers[1])}, or others; importance "
            "is compared head by head of one number, so give checkpoints of one shape."
        )
    at = [np.array([place[head] for head in heads], np.intp) for place in places]
    sums = [side.sums for side in sides]
    sizes = len(sides[0].heads), len(sides[1].heads)
    found = paired(sums[0], sums[1], Rows.of_heads(at[0], at[1], sizes))
    table, name, unit = tables[0], sides[0].column.name, sides[0].column.unit
    title = sides[0].column.title or name
    build = TableBuilder(Labels(names[0], dataset, record), len(heads))
    build.add(Column("model_b", role="key"), [names[1]] * len(heads))
    for key in ("objective", "method", *_KEYS):
        if key in table.data:
            build.add(Column(key, role="key"), [table.data[key][place] for place in at[0]])
    build.count("n", np.array([table.data["n"][place] for place in at[0]]))
    for mark, which, values in (("a", "first", found.first), ("b", "second", found.second)):
        build.add(Column(f"{name}_{mark}", unit, headline=True, title=f"{title}, {which} model"), values)
    build.measure(f"{name}_delta", unit, found.delta, found.error, headline=True, title=f"change of {title}")
    build.add(
        Column(f"{name}_p_adjusted", "probability", title=f"adjusted p of the change of {title}"),
        found.adjusted,
    )
    said = _said(found, heads, names[1], name, int(sides[0].sizes.any(1).sum()))
    said += _left_out(names, [len(side.heads) - len(heads) for side in sides])
    return build.table(f"{name} of heads in {names[0]} and in {names[1]}", [*said, *notes])


def _said(
    found: Difference, heads: Sequence[tuple[Any, ...]], other: str, name: str, blocks: int
) -> list[str]:
    """Say how many heads matter more, and which changed most."""
    certain = found.adjusted < SIGNIFICANT
    up, down = int((certain & (found.delta > 0)).sum()), int((certain & (found.delta < 0)).sum())
    how = f"p < {SIGNIFICANT} after Holm's correction over heads"
    if np.isnan(found.p).all():
        return ["Errors and p values need at least two documents."]
    if not (up or down):
        said = [f"No head differs significantly in {name} ({how})."]
    else:
        said = [f"In {other}, {name} is higher in {up} and lower in {down} of {len(heads)} heads ({how})."]
        order = [place for place in np.argsort(-np.abs(found.delta), kind="stable") if certain[place]][:3]
        named = [f"{_place(*heads[place])} ({found.delta[place]:+.2g})" for place in order]
        said.append(f"Of these, the most changed: {listed(named)}.")
    if blocks < FEW:
        said.append(f"Differences are over {blocks} documents only: errors and p values are rough.")
    return said


def _left_out(names: Sequence[str], missing: Sequence[int]) -> list[str]:
    return [
        f"{number} head{'s' * (number != 1)} of {name} that the other checkpoint lacks "
        f"{'is' if number == 1 else 'are'} left out."
        for name, number in zip(names, missing, strict=True)
        if number
    ]


def _place(*head: Any) -> str:
    *kind, layer, number = head
    return " ".join([*map(str, kind), f"layer {layer} head {number}"])
