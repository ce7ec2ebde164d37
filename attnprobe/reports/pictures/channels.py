"""Channels of charts: tooltips, layers as colours, small charts side by side."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import altair as alt

from attnprobe.reports.columns import PLAIN, Record
from attnprobe.reports.scales import Scale
from attnprobe.reports.theme import ABOVE, SEQUENTIAL, Theme, interpolate_colours
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.table import Cell, Column

#: How numbers are written in a tooltip, by field; others with four digits.
_FORMATS = {
    **dict.fromkeys(("error", "x_error", "y_error", "value_se", "p"), ".2~g"),
    **dict.fromkeys(("n", "heads"), None),
    **{"removed": ".1%", "step": ","},
}


def make_tooltip(titles: Mapping[str, str]) -> list[alt.Tooltip]:
    """Make the lines of a tooltip from the titles of fields with their types, such as ``value:Q``."""
    lines = []
    for field, title in titles.items():
        name, _, kind = field.partition(":")
        format = _FORMATS.get(name, ".4~g") if kind == "Q" else None
        lines.append(alt.Tooltip(field, title=title, format=format or alt.Undefined))
    return lines


def make_records(columns: Mapping[str, Sequence[Any]]) -> list[Record]:
    """Turn columns into the rows of a chart's data."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def draw_panels(
    chart: Any, data: list[Record], panels: Sequence[str], across: int, width: int, title: str | None = None
) -> Any:
    """Draw a chart for each panel, so many across; without a title, a single chart has no name either."""
    values = alt.InlineData(values=data)
    if len(panels) == 1 and title is None:
        return chart.properties(data=values)
    header = alt.Header(title=None, labelAnchor="start", labelLimit=max(width, 80))
    facet = alt.Facet("panel:N", sort=list(panels), title=None, header=header)
    drawn = chart.facet(facet=facet, columns=across, data=values)
    return drawn if title is None else drawn.properties(title=alt.TitleParams(title))


def make_remark(lines: Sequence[str], theme: Theme, width: float | None = None, **more: Any) -> Any:
    """Make what explains a picture's marks, above it: muted lines, wrapped where they are wider than it."""
    size = theme.small(2)
    letters = 200 if width is None else max(24, int(width / (PLAIN * size)))
    wrapped = [part for line in lines if line for part in wrap(line, letters)]
    look: dict[str, Any] = {"fontWeight": "normal", "fontSize": size, "frame": "bounds", **more}
    return alt.TitleParams(wrapped, color=theme.muted, **look)


def thin_labels(labels: Sequence[Cell], cell: float, letter: float = 7.5) -> list[Any]:
    """Choose which labels are written: every one, or every second, fifth, ... where they would touch."""
    longest = max((len(format_cell(label)) for label in labels), default=1)
    room = max(12.0, letter * longest + 4 * (letter > 0))
    steps = (1, 2, 4, 5, 8, 10, 20, 50, len(labels))
    return list(labels)[:: next(step for step in steps if step * cell >= room or step >= len(labels))]


def choose_across(panels: int, most: int) -> int:
    """Choose how many charts stand side by side: as many as find room, in full rows where there are such.

    >>> choose_across(6, 4), choose_across(12, 5), choose_across(7, 4)
    (3, 4, 4)
    """
    most = max(1, min(panels, most))
    return next((one for one in range(most, 0, -1) if panels % one == 0 and 2 * one > most), most)


def make_band(labels: Sequence[Cell]) -> alt.Scale:
    """Make the scale of heads or layers: a cell each, with a little air between."""
    return alt.Scale(domain=list(labels), paddingInner=0.06, paddingOuter=0.03)


#: Pixels that Vega adds to the size of letters for a line.
_LEADING = 2
#: More labels than this are a bar of colours instead of a list.
_MOST_LISTED = 16


def colour_by_layer(
    labels: Sequence[Cell], theme: Theme, *, field: str = "layer", colours: Sequence[str] = (), **look: Any
) -> Any:
    """Make the channel that colours by layer, or by another number that counts up."""
    numeric = all(isinstance(label, int) for label in labels)
    colours = list(colours or (SEQUENTIAL[1:] if theme.name == "dark" else SEQUENTIAL[:-1]))
    title = field.replace("_", " ")
    if numeric and len(labels) > _MOST_LISTED:
        legend = alt.Legend(**{"title": title, "format": "~s", "gradientLength": 140, **look})
        ends = [min(labels), max(labels)]  # type: ignore[type-var]
        scale = alt.Scale(domain=ends, range=colours, interpolate="rgb")
        return alt.Color(f"{field}:Q", scale=scale, legend=legend)
    scale = alt.Scale(domain=list(labels), range=interpolate_colours(colours, len(labels)))
    return alt.Color(f"{field}:O", scale=scale, legend=alt.Legend(title=title, symbolOpacity=1, **look))


def tell_marks_apart(looks: Mapping[str, tuple[str, str, str]], legend: Any) -> dict[str, Any]:
    """Make the channels by which marks differ, from the shape, fill and stroke of each, with one legend."""
    channels = (("shape", alt.Shape), ("fill", alt.Fill), ("stroke", alt.Stroke))
    return {
        name: channel(
            "mark:N",
            legend=legend,
            scale=alt.Scale(domain=list(looks), range=[look[place] for look in looks.values()]),
        )
        for place, (name, channel) in enumerate(channels)
    }


#: Numbers that a legend writes out; smaller and larger ones have a power of ten.
_PLAIN = (1e-3, 1e6)
#: How many characters of a unit stand in a line above a legend.
_UNIT = 16


def make_colour_scale(scale: Scale, theme: Theme) -> alt.Scale:
    """Make the scale of Vega-Lite: colours one way from 0, or both."""
    ramp = theme.diverging if scale.is_of_effects else SEQUENTIAL
    return alt.Scale(domain=[scale.low, scale.high], range=list(ramp), interpolate="rgb", clamp=True)


def make_legend(
    column: Column, scale: Scale, values: list[float | int | None], length: int, *, below: bool = False
) -> Any:
    """Make the legend of a scale of colours: the unit in lines, both ends of the scale, and its middle."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    ends = scale.ends if any(known) else [0.0]  # where all is 0, other numbers would promise some
    format = ".6~g" if _PLAIN[0] <= scale.high <= _PLAIN[1] else ".3~g"
    look: dict[str, Any] = {"gradientLength": length, "values": ends, "format": format}
    if below:
        look |= {"orient": "bottom", "direction": "horizontal", "offset": 6}
    wide = 2 * _UNIT if below else _UNIT
    unit = (
        wrap(
            clean(column.unit),
            wide,
            max_lines=3,
            placeholder=" ...",
        )
        or None
    )
    return alt.Legend(title=unit, **look)


def level_titles(titles: Sequence[Any], theme: Theme) -> None:
    """Move titles of charts in a row up, so that all begin at the height of the highest."""
    highs = []
    for title in titles:
        lines = 1 if isinstance(title.text, str) else len(title.text)
        below = len(title.subtitle) if isinstance(title.subtitle, list) else 0
        highs.append(lines * (theme.size + 1 + _LEADING) + below * (theme.small(1) + _LEADING))
    for title, high in zip(titles, highs, strict=True):
        if high < max(highs):
            title.offset = ABOVE + max(highs) - high
