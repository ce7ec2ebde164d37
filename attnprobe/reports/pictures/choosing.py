"""Drawing tables: which pictures the kind of a table has, and which of them its numbers allow."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import Any, get_args

import altair as alt
from altair.utils.schemapi import debug_mode

from attnprobe.errors import AttnprobeError
from attnprobe.reports.columns import BOLD, DrawingRequest, list_keys, name_source, read_cells
from attnprobe.reports.headline import state_finding
from attnprobe.reports.picture import Picture
from attnprobe.reports.pictures import (
    alignments,
    atlas,
    changes,
    clustermap,
    curves,
    groups,
    interactions,
    lists,
    maps,
    matrices,
    modality,
    positions,
    probes,
    relations,
    roles,
    scatter,
    settling,
    similarity,
    training,
)
from attnprobe.reports.profile import can_draw_atlas, join_beside_profile
from attnprobe.reports.shapes import lay_out_grid
from attnprobe.reports.theme import ThemeName, choose_look
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import CLUSTERMAP, KINDS, PictureKind
from attnprobe.table.table import Column

ATLAS: PictureKind = "atlas"
#: The title of a picture that says more than one of a census would.
_ATLAS_TITLE = "what heads look at, by offset"
#: The column that tells tables apart where neither model nor dataset does.
TABLE = "table"


def stack_tables(tables: Sequence[HeadTable], kind: str | None = None) -> HeadTable:
    """Stack tables of one kind; for a scatter, join two tables of the same heads side by side.

    Raises AttnprobeError when there is none, or their rows are named by different columns.
    """
    if not tables:
        raise AttnprobeError("plot needs a table")
    if len(tables) == 1:
        return tables[0]
    if kind == ATLAS:
        return join_beside_profile(tables)
    if kind == "scatter":
        if len(tables) > 2:
            raise AttnprobeError("--kind scatter takes two tables at most, one for each axis")
        return join_sides(tables[0], tables[1])
    names = list_keys(tables[0])
    for other in tables[1:]:
        if list_keys(other) != names:
            raise AttnprobeError(
                "the tables are of different kinds: rows of the first are named by "
                f"{', '.join(names)}, rows of another by {', '.join(list_keys(other))}; plot them one by one"
            )
    columns = {column.name: column for table in reversed(tables) for column in table.columns}
    order = list(dict.fromkeys(column.name for table in tables for column in table.columns))
    data = {name: [cell for table in tables for cell in read_cells(table, name)] for name in order}
    described = [columns[name] for name in order]
    if not _are_distinct(tables):
        described.insert(0, Column(TABLE, role="key"))
        numbered = enumerate(tables, start=1)
        rows = [f"{n} {clean(table.title)}" for n, table in numbered for _ in range(len(table))]
        data = {TABLE: rows, **data}
    return HeadTable(", ".join(dict.fromkeys(clean(table.title) for table in tables)), described, data)


def join_sides(left: HeadTable, right: HeadTable) -> HeadTable:
    """Give each measure of two tables of the same heads twice: ``NAME_in`` and ``NAME_out``."""
    joined = left.join(right, "_out")
    columns, data = list(joined.columns), dict(joined.data)
    for column in left.columns:
        base = column.name
        if column.role != "measure" or base not in right.data:
            continue
        if f"{base}_out" not in data:  # the same in both tables, which join says once
            columns.append(replace(column, name=f"{base}_out"))
            data[f"{base}_out"] = data[base]
        for end in ("", "_se"):
            if f"{base}{end}" in data:
                columns.append(replace(left.column(f"{base}{end}"), name=f"{base}_in{end}"))
                data[f"{base}_in{end}"] = data[f"{base}{end}"]
    both = [table.data["dataset"][0] for table in (left, right) if "dataset" in table.data]
    said = " and ".join(dict.fromkeys(map(format_cell, both)))
    if "dataset" in data and said:
        data["dataset"] = [said] * len(left)
    return HeadTable(left.title, columns, data)


def _are_distinct(tables: Sequence[HeadTable]) -> bool:
    """Tell whether model and dataset tell the tables apart."""
    named = [
        set(zip(read_cells(table, "model"), read_cells(table, "dataset"), strict=True)) for table in tables
    ]
    return all(not one & other for place, one in enumerate(named) for other in named[:place])


#: Room beside a title.
_MARGIN = 16
#: Kinds that draw the same columns of every table.
_FIXED = {
    "atlas", "roles", "relations", "intervals", "pairs", "probes", "modality", "alignments",
}  # fmt: skip


_Drawing = tuple[Callable[[HeadTable], object], Callable[[HeadTable, DrawingRequest], Any]]
#: How each kind of picture is drawn, and whether the numbers of a table allow it.
_DRAWINGS: Mapping[PictureKind, _Drawing] = {
    "atlas": (can_draw_atlas, atlas.draw_atlas),
    "roles": (lay_out_grid, roles.draw_roles),
    "change": (changes.can_draw_change, changes.draw_change),
    "relations": (bool, relations.draw_relations),
    "settling": (bool, settling.draw_settling),
    "curves": (curves.can_draw_curves, curves.draw_curves),
    "lines": (training.can_draw_lines, training.draw_lines),
    "scatter": (scatter.can_draw_scatter, scatter.draw_scatter),
    "matrix": (matrices.can_draw_matrix, matrices.draw_matrix),
    "map": (similarity.can_draw_map, similarity.draw_map),
    "clustermap": (clustermap.can_draw_clustermap, clustermap.draw_clustermap),
    "heatmap": (maps.can_draw_heatmap, maps.draw_heatmap),
    "positions": (positions.can_draw_positions, positions.draw_positions),
    "depth": (curves.can_draw_depth, curves.draw_depth),
    "intervals": (bool, lists.draw_intervals),
    "pairs": (bool, interactions.draw_pairs),
    "probes": (bool, probes.draw_probes),
    "groups": (groups.can_draw_groups, groups.draw_groups),
    "alignments": (bool, alignments.draw_alignments),
    "modality": (modality.can_draw_modality, modality.draw_modality),
}


def list_kinds(table: HeadTable) -> list[PictureKind]:
    """List what a table can be drawn as, its own picture first."""
    return [one for one in KINDS[table.kind].pictures if len(table) and _DRAWINGS[one][0](table)]


#: The column that the finding of a kind is about; kinds of maps are about the one column that they draw.
_STATED = {"relations": "gain", "pairs": "interaction"}
_OF_MAPS = {"heatmap", "change", "positions", "depth"}


def state_picture(kind: PictureKind, table: HeadTable, request: DrawingRequest) -> str:
    """State what a picture shows, see ``state_finding``; empty where it draws several measures."""
    if kind in _STATED:
        return state_finding(table, table.column(_STATED[kind]))
    if kind not in _OF_MAPS:
        return ""
    columns = changes.list_changes(table, request) if kind == "change" else request.columns(table)
    return state_finding(table, columns[0]) if len(columns) == 1 else ""


def draw_picture(
    tables: Sequence[HeadTable],
    kind: str | None = None,
    measures: Sequence[str] = (),
    theme: ThemeName | None = None,
    width: str | int | None = None,
    title: str | None = None,
    clusters: int | None = None,
    *,
    columns: int | None = None,
) -> Picture:
    """Draw tables of one kind as one picture; options that are None are chosen by the tables and the theme.

    Args:
        tables: One or more.
        kind: One of those that suit them.
        measures: Columns to draw; by default those that a table puts first.
        theme: Colours and sizes.
        width: About how wide.
        title: What stands above; by default the table's own title.
        clusters: Into how many parts a tree of heads is cut; with it, a tree is drawn.
        columns: How many columns of a page it fills.

    Raises:
        AttnprobeError: When they can't be drawn like this; it says as what else.
    """
    look, pixels = choose_look(theme, width, columns)
    if kind is not None and kind not in get_args(PictureKind):
        raise AttnprobeError(f"--kind is one of {', '.join(get_args(PictureKind))}, not {clean(str(kind))}")
    if clusters is not None:
        if kind not in {None, CLUSTERMAP}:
            raise AttnprobeError(f"--clusters is about --kind {CLUSTERMAP}: leave it out of --kind {kind}")
        if clusters < 1:
            raise AttnprobeError(f"--clusters is a number of parts, 1 or more, not {clusters}")
        kind = CLUSTERMAP
    table = stack_tables(tables, kind)
    known = list_kinds(table)
    if kind == ATLAS and len(table) and ATLAS not in known:
        raise AttnprobeError(
            "an atlas shows each head of one table with its attention by offset; measure it with "
            "`attnprobe census MODEL --statistics census,profile -o heads.json`"
        )
    if not len(table):
        raise AttnprobeError("the table has no rows, and there is nothing to draw")
    if not known:
        raise AttnprobeError(
            "the table can't be drawn: it is none that attnprobe writes, has no column of numbers, or has "
            f"several rows of the same {', '.join(map(clean, list_keys(table))) or 'keys'}"
        )
    if kind is not None and kind not in known:
        option = f"--kind {kind}" if clusters is None else "--clusters, which is about all pairs of heads"
        raise AttnprobeError(f"this table can't be drawn with {option}; it can with {', '.join(known)}")
    # Whoever names a measure wants a picture that can show it.
    chosen = min(known, key=lambda one: (one != kind, bool(measures) and one in _FIXED))
    if chosen == ATLAS:
        table = replace(table, title=_ATLAS_TITLE)
    if measures and chosen in _FIXED:
        raise AttnprobeError(f"the picture of --kind {chosen} has measures of its own: leave --measure out")
    request = DrawingRequest(look, pixels, tuple(measures), clusters)
    heading = clean(table.title) if title is None else clean(title)
    finding = state_picture(chosen, table, request) if title is None else ""
    # altair would hold every row against the schema, several times; the tests do, for every kind.
    with debug_mode(False):
        chart = _add_titles(
            _DRAWINGS[chosen][1](table, request), heading, [name_source(table), finding], request
        )
        chart = chart.properties(description=f"{clean(table.title)}: a picture of kind {chosen}")
    return Picture(chosen, heading, chart, look)


def _add_titles(chart: Any, title: str, below: Sequence[str], request: DrawingRequest) -> Any:
    whole = chart if isinstance(chart, alt.VConcatChart) else alt.vconcat(chart)
    subtitle = list(filter(None, below)) or alt.Undefined
    if not title and subtitle is alt.Undefined:
        return whole
    # A name may have thousands of letters; a title stands in lines no wider than the picture.
    width = request.width - _MARGIN
    lines = wrap(
        title, max(20, int(width / (BOLD * (request.theme.size + 1)))), max_lines=4, placeholder=" ..."
    )
    heading = lines if len(lines) > 1 else title
    return whole.properties(
        title=alt.TitleParams(
            heading, anchor="start", frame="bounds", offset=14, subtitle=subtitle, limit=width
        )
    )
