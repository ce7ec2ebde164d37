"""Drawing tables: which pictures the kind of a table has, and which of them its numbers allow."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt
from altair.utils.schemapi import debug_mode

from attnprobe.errors import DataError, UsageError
from attnprobe.reports.charts.channels import amend, make_title
from attnprobe.reports.charts.figure import TALLEST, Figure
from attnprobe.reports.charts.figures import FIGURES
from attnprobe.reports.charts.kinds import PICTURES, PictureKind
from attnprobe.reports.columns import DrawingRequest, list_keys, name_measure, name_source, read_cells
from attnprobe.reports.findings import state_finding
from attnprobe.reports.picture import Picture, measure_picture
from attnprobe.reports.profile import join_beside_profile
from attnprobe.reports.theme import Theme, ThemeName, choose_look
from attnprobe.table.cells import clean
from attnprobe.table.kinds import OUT
from attnprobe.table.table import Column, HeadTable


def list_kinds(table: HeadTable) -> list[PictureKind]:
    """List what a table can be drawn as, its own picture first."""
    return [kind for kind in PICTURES.get(table.kind, ()) if len(table) and FIGURES[kind].fits(table)]


def draw_picture(
    tables: Sequence[HeadTable],
    kind: str | None = None,
    measures: Sequence[str] = (),
    theme: ThemeName | Theme | None = None,
    width: str | int | None = None,
    title: str | None = None,
    clusters: int | None = None,
    *,
    columns: int | None = None,
) -> Picture:
    """Draw tables of one kind as one picture; the tables and the theme choose options that are None.

    ``width`` is a length, see ``parse_width``; ``columns`` is the number of columns of a page to fill. An
    empty ``title`` leaves out all text above the picture. With ``clusters``, the picture is a tree that is
    cut into so many parts.

    Raises AttnprobeError when the tables can't be drawn so, and names the kinds that they can be drawn as.
    """
    look, pixels = choose_look(theme, width, columns)
    if clusters is not None:
        if kind not in {None, "clustermap"}:
            raise UsageError(f"--clusters is about --kind clustermap: leave it out of --kind {kind}")
        kind = "clustermap"
    table = _stack_tables(tables, kind)
    chosen = _choose_kind(table, kind, measures, clusters)
    if chosen == "atlas":
        table = replace(table, title="what heads look at, by offset")
    title = None if title is None else clean(title)
    room = {"room": float(pixels), "high": TALLEST - 100.0}
    request = DrawingRequest(look, pixels, tuple(measures), clusters, **room)
    # altair would hold every row against the schema, several times; the tests do, for every kind.
    with debug_mode(False):
        chart = _fit_chart(FIGURES[chosen], chosen, table, request, title)
    return Picture(chosen, clean(table.title) if title is None else title, chart, look)


def _choose_kind(
    table: HeadTable, kind: str | None, measures: Sequence[str], clusters: int | None
) -> PictureKind:
    """Choose the kind of picture, by default the first that can show the measures; or refuse the options."""
    known = list_kinds(table)
    if not len(table):
        raise DataError("the table has no rows, and there is nothing to draw")
    if kind == "atlas" and kind not in known:
        raise UsageError(
            "an atlas shows each head of one table with its attention by offset; measure it with "
            "`attnprobe census MODEL --statistics census,profile -o heads.json`"
        )
    if not known:
        raise DataError(
            "the table can't be drawn: it is none that attnprobe writes, has no column of numbers, or has "
            f"several rows of the same {', '.join(map(clean, list_keys(table))) or 'keys'}"
        )
    if kind is not None and kind not in known:
        option = f"--kind {kind}" if clusters is None else "--clusters, which is about all pairs of heads"
        raise UsageError(f"this table can't be drawn with {option}; it can with {', '.join(known)}")
    # Whoever names a measure wants a picture that can show it.
    chosen = min(known, key=lambda other: (other != kind, bool(measures) and FIGURES[other].fixed))
    if measures and FIGURES[chosen].fixed:
        raise UsageError(f"the picture of --kind {chosen} has measures of its own: leave --only out")
    return chosen


def _fit_chart(
    figure: Figure, kind: PictureKind, table: HeadTable, request: DrawingRequest, title: str | None
) -> Any:
    """Draw a figure with its title, no wider than requested and no taller than a page.

    Templates only estimate how much room labels and legends take. The result is measured, and if it is too
    large, it is drawn again with less room, five times in all at most.
    """
    heading, width, whole = clean(table.title) if title is None else title, request.width, None
    stated = figure.list_stated(table, request) if title is None else []
    finding = state_finding(table, stated[0]) if len(stated) == 1 else ""
    for _ in range(5):
        drawing = figure.draw(table, request)
        whole = drawing.chart
        if not isinstance(whole, alt.VConcatChart | alt.ConcatChart):
            whole = alt.vconcat(whole)
        if heading or title is None:
            lines = (name_source(table), finding, "; ".join(filter(None, drawing.caption)))
            amend(whole, title=make_title(heading, lines, width, request.theme))
        amend(whole, description=f"{clean(table.title)}: a picture of kind {kind}")
        wide, high = measure_picture(whole, request.theme)
        wider, higher = max(0.0, wide - width), max(0.0, high - TALLEST)
        if wider <= 1 and higher <= 1:
            break
        # Cells are of whole pixels, so that a little less room may change nothing.
        wider, higher = (max(excess, 10) if excess > 1 else 0 for excess in (wider, higher))
        request = replace(request, room=request.room - wider, high=request.high - higher)
    return whole


def _stack_tables(tables: Sequence[HeadTable], kind: str | None = None) -> HeadTable:
    """Stack the rows of tables of one kind; for an atlas or a scatter, join tables of the same heads.

    A key ``table`` is added where model and data set do not tell tables apart. Raises AttnprobeError when
    there is no table, or their rows are named by different columns.
    """
    if not tables:
        raise UsageError("plot needs a table")
    if len(tables) == 1:
        return tables[0]
    if kind == "atlas":
        return join_beside_profile(tables)
    if kind == "scatter":
        if len(tables) > 2:
            raise UsageError("--kind scatter takes two tables at most, one for each axis")
        return _join_sides(tables[0], tables[1])
    names = list_keys(tables[0])
    for other in tables[1:]:
        if list_keys(other) != names:
            raise UsageError(
                "the tables are of different kinds: rows of the first are named by "
                f"{', '.join(names)}, rows of another by {', '.join(list_keys(other))}; plot them one by one"
            )
    columns: dict[str, Column] = {}
    for column in (column for table in tables for column in table.columns):
        columns.setdefault(column.name, column)
    data = {name: [cell for table in tables for cell in read_cells(table, name)] for name in columns}
    described = list(columns.values())
    sources = [
        set(zip(read_cells(table, "model"), read_cells(table, "dataset"), strict=True)) for table in tables
    ]
    if len(set().union(*sources)) < sum(map(len, sources)):  # model and dataset don't tell tables apart
        described.insert(0, Column("table", role="key"))
        titles = [f"{number} {clean(table.title)}" for number, table in enumerate(tables, start=1)]
        rows = [title for title, table in zip(titles, tables, strict=True) for _ in range(len(table))]
        data = {"table": rows, **data}
    return HeadTable(", ".join(dict.fromkeys(clean(table.title) for table in tables)), described, data)


def _join_sides(left: HeadTable, right: HeadTable) -> HeadTable:
    """Join two tables of the same heads; raise what ``HeadTable.join`` raises.

    A measure whose cells differ becomes ``NAME``, titled "in domain", and ``NAME_out``, "out of domain".
    """
    joined, columns = left.join(right, OUT), list[Column]()
    for column in joined.columns:
        name, title = column.name.removesuffix(OUT), column.title
        if column.role == "measure" and f"{name}{OUT}" in joined.data:
            domain = "in" if column.name == name else "out of"
            title = f"{name_measure(left.column(name))}, {domain} domain"
        columns.append(replace(column, title=title))
    return replace(joined, title=left.title, columns=columns)
