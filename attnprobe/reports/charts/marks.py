"""Channels of charts: tooltips, colours, legends, small charts side by side."""

import math
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import altair as alt

from attnprobe.reports.columns import Record
from attnprobe.reports.scales import Scale
from attnprobe.reports.theme import SEQUENTIAL, Theme, interpolate_colours
from attnprobe.table.cells import clean
from attnprobe.table.table import Cell, Column

#: Narrower pictures have their legends below.
BESIDE = 480
#: How numbers are written in a tooltip, by field; others with four digits.
_FORMATS = {
    **dict.fromkeys(("error", "x_error", "y_error", "value_se", "p"), ".2~g"),
    **dict.fromkeys(("n", "heads"), None),
    **{"removed": ".1%", "step": ","},
}
#: About how many pixels stand beside and above a small chart, how wide one is that is easy to read, and how
#: high it is for its width.
AXIS, _ABOVE, _COMFORTABLE, _RATIO = 50, 46, 130, 0.62


def wrap_words(text: str, width: float, size: int, most: int = 4) -> list[str]:
    """Break prose into lines of about a width, at letters half as wide as high."""
    return wrap(text, max(12, int(2 * width / size)), max_lines=most, placeholder=" ...")


def make_title(title: str, lines: Sequence[str], width: float, theme: Theme) -> alt.TitleParams:
    """Make the title of a whole picture, with lines of prose below it."""
    below = [line for words in lines for line in wrap_words(words, width, theme.small(1))]
    heading = wrap_words(title, width, theme.size + 2)
    look: dict[str, Any] = {"anchor": "start", "frame": "bounds", "offset": 12, "limit": width}
    return alt.TitleParams(heading, subtitle=below or alt.Undefined, **look)


def make_tooltip(titles: Mapping[str, str]) -> list[alt.Tooltip]:
    """Make the lines of a tooltip from the titles of fields with their types, such as ``value:Q``.

    Vega-Lite writes titles into an expression, between quotes, where a backslash would end them.
    """
    lines = []
    for field, title in titles.items():
        name, _, kind = field.partition(":")
        format = _FORMATS.get(name, ".4~g") if kind == "Q" else None
        plain = title.replace("\\", "/").replace('"', "'")
        lines.append(alt.Tooltip(field, title=plain, format=format or alt.Undefined))
    return lines


def make_records(columns: Mapping[str, Sequence[Any]]) -> list[Record]:
    """Turn columns into the rows of a chart's data."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


class _Rows(alt.InlineData):
    """Data that altair hands on, instead of copying all of it at every step."""

    def __deepcopy__(self, memo: object = None) -> "_Rows":
        return self


def make_chart(records: Sequence[Record]) -> Any:
    return alt.Chart(_Rows(values=list(records)))


def amend(chart: Any, **properties: Any) -> Any:
    """Set properties of a chart that was just made; altair's own ``properties`` copies all that it holds."""
    for name, value in properties.items():
        chart[name] = value
    return chart


def draw_panels(chart: Any, data: list[Record], panels: Sequence[str], across: int) -> Any:
    """Draw a chart for each value of ``panel``, so many across; the only one has no name."""
    values = _Rows(values=data)
    if len(panels) == 1 and not panels[0]:
        return amend(chart, data=values)
    header = alt.Header(title=None, labelOrient="top", labelAnchor="start", labelPadding=4)
    facet = alt.Facet("panel:N", sort=list(panels), title=None, header=header)
    return chart.facet(facet=facet, columns=across, data=values)


def stack_charts(charts: Sequence[Any], columns: int = 1) -> Any:
    """Put charts beside or below one another, each with scales of its own."""
    if len(charts) == 1:
        return charts[0]
    return amend(alt.concat(*charts, columns=columns), resolve={"scale": {"color": "independent"}})


def balance_panels(panels: int, most: int) -> int:
    """Choose how many charts stand side by side: as many as find room, in full rows where there are such.

    >>> balance_panels(6, 4), balance_panels(12, 5), balance_panels(7, 4)
    (3, 4, 4)
    """
    most = max(1, min(panels, most))
    return next((one for one in range(most, 0, -1) if panels % one == 0 and 2 * one > most), most)


def colour_by_layer(
    labels: Sequence[Cell],
    theme: Theme,
    *,
    colours: Sequence[str] = (),
    channel: Any = alt.Color,
    **look: Any,
) -> Any:
    """Make the channel that colours by layer."""
    colours = list(colours or (SEQUENTIAL[1:] if theme.name == "dark" else SEQUENTIAL[:-1]))
    if len(labels) > 16 and all(isinstance(label, int) for label in labels):
        legend = alt.Legend(title="layer", format="~s", gradientLength=140, **look)
        ends = [min(labels), max(labels)]  # type: ignore[type-var]
        scale = alt.Scale(domain=ends, range=colours, interpolate="rgb")
        return channel("layer:Q", scale=scale, legend=legend)
    scale = alt.Scale(domain=list(labels), range=interpolate_colours(colours, len(labels)))
    return channel("layer:O", scale=scale, legend=alt.Legend(title="layer", symbolOpacity=1, **look))


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


def colour_by_value(
    column: Column,
    scale: Scale,
    values: Sequence[float | int | None],
    length: float,
    theme: Theme,
    *,
    below: bool,
) -> Any:
    """Make the channel of a measure's colour: one way from 0, or both; the legend has its unit."""
    ramp = theme.diverging if scale.is_of_effects else SEQUENTIAL
    colours = alt.Scale(domain=[scale.low, scale.high], range=list(ramp), interpolate="rgb", clamp=True)
    known = [value for value in values if value is not None]
    if not known:
        return alt.Color("value:Q", scale=colours, legend=None)
    ends = scale.ends if any(known) else [0.0]  # where all is 0, other numbers would promise some
    format = ".6~g" if 1e-3 <= scale.high <= 1e6 else ".3~g"
    look: dict[str, Any] = {"orient": "bottom", "direction": "horizontal", "offset": 6} if below else {}
    unit = wrap(clean(column.unit), 32 if below else 16, max_lines=3, placeholder=" ...") or None
    legend = alt.Legend(title=unit, gradientLength=length, values=ends, format=format, **look)
    return alt.Color("value:Q", scale=colours, legend=legend)


def make_word_axis(**axis: Any) -> alt.Axis:
    """Make the axis of rows that are known by ``number|words``: the same words may name two rows."""
    words = "slice(datum.value, indexof(datum.value, '|') + 1)"
    return alt.Axis(labelExpr=words, ticks=False, domain=False, **axis)


def sort_rows(name: str = "label", **axis: Any) -> Any:
    """Make the channel of rows in the order of the data, see ``make_word_axis``."""
    return alt.Y(f"{name}:N", sort=None, title=None, axis=make_word_axis(**axis))


def number_words(words: Sequence[str]) -> list[str]:
    """Make words of rows that ``make_word_axis`` tells apart."""
    return [f"{number}|{word}" for number, word in enumerate(words)]


def round_ends(low: float, high: float) -> list[float]:
    """Widen ends to what ticks have.

    >>> round_ends(-0.118, 0.4131)
    [-0.2, 0.5]
    """
    step = 10.0 ** math.floor(math.log10((high - low) / 2)) if high > low else 1.0
    return [math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step]


def arrange_panels(number: int, room: float, high: float, beside: float = 0) -> tuple[int, float, float]:
    """Arrange small charts: how many stand side by side, how wide and how high each is.

    They are as many as leave comfortable widths, or else as make the charts largest. ``beside`` is what
    stands right of each.
    """

    def size(across: int) -> tuple[float, float]:
        width = room / across - AXIS - beside
        return width, min(_RATIO * width, high / math.ceil(number / across) - _ABOVE)

    choices = [balance_panels(number, across) for across in range(min(number, 8), 0, -1)]
    comfortable = (
        one for one in choices if size(one)[0] >= _COMFORTABLE and size(one)[1] >= _COMFORTABLE / 3
    )
    across = next(comfortable, max(choices, key=lambda one: min(_RATIO * size(one)[0], size(one)[1])))
    width, height = size(across)
    return across, max(width, 40.0), max(height, 30.0)
