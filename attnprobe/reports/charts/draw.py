"""Drawing tables: which pictures the kind of a table has, and which of them its numbers allow."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import altair as alt
from altair.utils.schemapi import debug_mode

from attnprobe.errors import AttnprobeError
from attnprobe.reports.charts.figure import TALLEST, Figure
from attnprobe.reports.charts.figures import FIGURES
from attnprobe.reports.charts.kinds import PICTURES, PictureKind
from attnprobe.reports.charts.marks import amend, make_title
from attnprobe.reports.charts.stacking import stack_tables
from attnprobe.reports.columns import DrawingRequest, list_keys, name_source
from attnprobe.reports.findings import state_finding
from attnprobe.reports.picture import Picture, measure_picture
from attnprobe.reports.theme import Theme, ThemeName, choose_look
from attnprobe.table.cells import clean
from attnprobe.table.table import HeadTable


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
    """Draw tables of one kind as one picture; options that are None are chosen by the tables and the theme.

    Args:
        tables: One or more.
        kind: One of those that suit them.
        measures: Columns; by default those that a table puts first.
        theme: Colours and sizes.
        width: A length, see ``parse_width``.
        columns: How many columns of a page it fills, in place of a length.
        title: What stands above; by default the table's own title. Where it is empty, nothing does.
        clusters: Into how many parts a tree of heads is cut; with it, a tree is drawn.

    Raises:
        AttnprobeError: When they can't be drawn like this; it says as what else.
    """
    look, pixels = choose_look(theme, width, columns)
    if kind is not None and kind not in get_args(PictureKind):
        raise AttnprobeError(f"--kind is one of {', '.join(get_args(PictureKind))}, not {clean(str(kind))}")
    if clusters is not None:
        if kind not in {None, "clustermap"}:
            raise AttnprobeError(f"--clusters is about --kind clustermap: leave it out of --kind {kind}")
        if clusters < 1:
            raise AttnprobeError(f"--clusters is a number of parts, 1 or more, not {clusters}")
        kind = "clustermap"
    table = stack_tables(tables, kind)
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
    known = list_kinds(table)
    if not len(table):
        raise AttnprobeError("the table has no rows, and there is nothing to draw")
    if kind == "atlas" and kind not in known:
        raise AttnprobeError(
            "an atlas shows each head of one table with its attention by offset; measure it with "
            "`attnprobe census MODEL --statistics census,profile -o heads.json`"
        )
    if not known:
        raise AttnprobeError(
            "the table can't be drawn: it is none that attnprobe writes, has no column of numbers, or has "
            f"several rows of the same {', '.join(map(clean, list_keys(table))) or 'keys'}"
        )
    if kind is not None and kind not in known:
        option = f"--kind {kind}" if clusters is None else "--clusters, which is about all pairs of heads"
        raise AttnprobeError(f"this table can't be drawn with {option}; it can with {', '.join(known)}")
    # Whoever names a measure wants a picture that can show it.
    chosen = min(known, key=lambda other: (other != kind, bool(measures) and FIGURES[other].fixed))
    if measures and FIGURES[chosen].fixed:
        raise AttnprobeError(f"the picture of --kind {chosen} has measures of its own: leave --only out")
    return chosen


def _fit_chart(
    figure: Figure, kind: PictureKind, table: HeadTable, request: DrawingRequest, title: str | None
) -> Any:
    """Draw a figure as wide as it is asked for and no taller than a page.

    Templates know about how much room labels and legends take. If it is more, which is measured, the figure
    is drawn again with so much less room.
    """
    heading, width, whole = clean(table.title) if title is None else title, request.width, None
    finding = _state_figure(figure, table, request) if title is None else ""
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


def _state_figure(figure: Figure, table: HeadTable, request: DrawingRequest) -> str:
    """State what a figure shows, see ``state_finding``; empty where it draws several measures."""
    if figure.states is None:
        return ""
    columns = [table.column(figure.states)] if figure.states else figure.columns(table, request)
    return state_finding(table, columns[0]) if len(columns) == 1 else ""
