"""Which pictures a table can be drawn as, told from its columns and never from the command that made it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from textwrap import wrap
from typing import Any, get_args

from altair.utils.schemapi import debug_mode

from attnprobe.errors import AttnprobeError
from attnprobe.reports.pictures.asked import Asked, is_numeric
from attnprobe.reports.pictures.clusters import cluster_table
from attnprobe.reports.pictures.kinds import TREE, Kind, ThemeName
from attnprobe.reports.pictures.picture import Picture
from attnprobe.reports.pictures.rows import cells, constants, keys
from attnprobe.reports.pictures.stacking import stacked
from attnprobe.reports.pictures.theme import THEMES, Theme
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable

#: Narrower, nothing can be read; wider, nobody has a screen or a page.
_WIDTHS = (200, 4000)
#: How many characters a description has.
_HEARD = 400
#: Room beside a title, for the axis that stands before it.
_MARGIN = 60
#: How wide a bold letter is at most, on average, as a share of its size.
_LETTER = 0.58
#: Kinds that draw the same columns of every table.
_FIXED = {"roles", "relations", "intervals", "shares", "checks"}
#: Where a kind is drawn, if not in a file of its name.
_FILES = {"roles": "rolemap", "lines": "dynamics", "map": "mds"}


@dataclass(frozen=True)
class _Drawing:
    fits: Callable[[HeadTable], bool]
    is_natural: Callable[[HeadTable], bool]  # asked of tables that fit
    draw: Callable[[HeadTable, Asked], Any]


def kinds_of(table: HeadTable) -> list[str]:
    """List the kinds a table can be drawn as, its own by nature first."""
    found = {kind: _drawing(kind) for kind in get_args(Kind)}
    fitting = [kind for kind, one in found.items() if one.fits(table)]
    return sorted(fitting, key=lambda kind: not found[kind].is_natural(table))  # otherwise in their order


def picture(
    tables: Sequence[HeadTable],
    kind: str | None = None,
    measures: Sequence[str] = (),
    theme: ThemeName = "light",
    width: int | None = None,
    title: str | None = None,
    clusters: int | None = None,
) -> Picture:
    """Draw tables of one kind as one picture.

    Args:
        tables: One or more.
        kind: One of those that suit them; by default their own.
        measures: Columns to draw; by default those that a table puts first.
        theme: Colours and sizes.
        width: About how many pixels; by default as the theme says.
        title: What stands above; by default the table's own title.
        clusters: Into how many parts a tree of heads is cut; with it, a tree is drawn.

    Raises:
        AttnprobeError: When they can't be drawn like this; it says as what else.
    """
    if theme not in THEMES:
        raise AttnprobeError(f"--theme is one of {', '.join(THEMES)}, not {clean(str(theme))}")
    if width is not None and not _WIDTHS[0] <= width <= _WIDTHS[1]:
        raise AttnprobeError(f"--width is a number of pixels from {_WIDTHS[0]} to {_WIDTHS[1]}")
    if kind is not None and kind not in get_args(Kind):
        raise AttnprobeError(f"--kind is one of {', '.join(get_args(Kind))}, not {clean(str(kind))}")
    if clusters is not None:
        if kind not in {None, TREE}:
            raise AttnprobeError(f"--clusters is about --kind {TREE}: leave it out of --kind {kind}")
        if clusters < 1:
            raise AttnprobeError(f"--clusters is a number of parts, 1 or more, not {clusters}")
        kind = TREE
    table = stacked(tables, kind)
    known = kinds_of(table) if len(table) else []
    if not len(table):
        raise AttnprobeError("the table has no rows, and there is nothing to draw")
    if not known:
        raise AttnprobeError(f"the table can't be drawn: {_lack(table)}")
    if kind is not None and kind not in known:
        option = f"--kind {kind}" if clusters is None else "--clusters, which is about all pairs of heads"
        raise AttnprobeError(f"this table can't be drawn with {option}; it can with {', '.join(known)}")
    chosen = kind or known[0]
    if measures and chosen in _FIXED:
        raise AttnprobeError(f"the picture of --kind {chosen} has measures of its own: leave --measure out")
    look = THEMES[theme]
    asked = Asked(look, width or look.width, tuple(measures), clusters)
    heading = clean(table.title) if title is None else clean(title)
    # altair would hold every row against the schema, several times; the tests do, for every kind.
    with debug_mode(False):
        chart = _titled(_drawing(chosen).draw(table, asked), heading, constants(table), asked.width, look)
        chart = chart.properties(description=_description(chosen, table.title, constants(table)))
    clustered = partial(cluster_table, table, asked) if chosen == TREE else None
    return Picture(chosen, heading, chart, look, clustered)


def _lack(table: HeadTable) -> str:
    """Say why no picture suits a table."""
    names = keys(table)
    rows = list(zip(*(cells(table, name) for name in names), strict=True))
    if names and len(set(rows)) < len(rows):
        return f"several rows have the same {', '.join(map(clean, names))}, and nothing tells them apart"
    if {"layer", "head"} <= set(names) and not any(is_numeric(table, column) for column in table.columns):
        return "it has no column of numbers"
    return (
        "its rows are named by neither layer and head, nor pairs of heads, nor anything else that a table of "
        "attnprobe has"
    )


def _drawing(kind: str) -> _Drawing:
    found = import_module(f"attnprobe.reports.pictures.{_FILES.get(kind, kind)}")
    return _Drawing(found.fits, getattr(found, "is_natural", lambda _: True), found.draw)


def _description(kind: str, title: str, about: str) -> str:
    """Say what the picture is, for those who hear it."""
    said = ". ".join(filter(None, [clean(title), about, f"A picture of kind {kind}"]))
    return said if len(said) <= _HEARD else f"{said[:_HEARD]} ..."


def _titled(chart: Any, title: str, about: str, width: int, theme: Theme) -> Any:
    """Put a title above the whole, and below it of which model and data it is."""
    import altair as alt

    whole = chart if isinstance(chart, alt.VConcatChart) else alt.vconcat(chart)
    if not title and not about:
        return whole
    subtitle = [about] if about else alt.Undefined
    # A name may have thousands of letters; a title stands in lines no wider than the picture.
    letters = max(20, int((width - _MARGIN) / (_LETTER * (theme.size + 1))))
    lines = wrap(title, letters, max_lines=3, placeholder=" ...")
    return whole.properties(
        title=alt.TitleParams(
            lines if len(lines) > 1 else title, anchor="start", offset=14, subtitle=subtitle,
            limit=width - _MARGIN,
        )
    )  # fmt: skip
