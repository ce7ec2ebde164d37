"""Channels of charts: tooltips, colours, legends, small charts side by side."""

import math
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import altair as alt

from attnprobe.reports.columns import DrawingRequest, Record
from attnprobe.reports.scales import Scale
from attnprobe.reports.theme import SEQUENTIAL, Theme, interpolate_colours
from attnprobe.table.cells import clean
from attnprobe.table.numbers import choose_format
from attnprobe.table.table import Cell, Column

#: Narrower pictures have their legends below.
BESIDE = 480


def wrap_words(text: str, width: float, size: int, most: int = 4) -> list[str]:
    """Break prose into lines of about ``width`` pixels; a letter is taken to be half as wide as high."""
    return wrap(text, max(12, int(2 * width / size)), max_lines=most, placeholder=" ...")


def measure_words(words: Sequence[str], size: int) -> float:
    """Estimate the pixels that the longest of several words takes, rather too many than too few."""
    return 0.56 * size * max(map(len, words), default=0)


def make_title(title: str, lines: Sequence[str], width: float, theme: Theme) -> alt.TitleParams:
    """Make the title of a whole picture, with lines of prose below it."""
    below = [line for words in lines for line in wrap_words(words, width, theme.small(1))]
    heading = wrap_words(title, width, theme.size + 2)
    look: dict[str, Any] = {"anchor": "start", "frame": "bounds", "offset": 12, "limit": width}
    return alt.TitleParams(heading, subtitle=below or alt.Undefined, **look)


def make_tooltip(titles: Mapping[str, str]) -> list[alt.Tooltip]:
    """Make the lines of a tooltip from the titles of fields with their types, such as ``value:Q``.

    Backslashes and quotes in titles are replaced: Vega-Lite writes titles into a quoted expression.
    """
    lines = []
    for field, title in titles.items():
        name, _, kind = field.partition(":")
        format = ".2~g" if name.endswith(("error", "_se")) else ".4~g"
        written = kind == "Q" and name != "n"
        plain = title.replace("\\", "/").replace('"', "'")
        lines.append(alt.Tooltip(field, title=plain, format=format if written else alt.Undefined))
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
    """Draw a chart for each value of ``panel``, ``across`` of them side by side."""
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
    """Choose how many charts stand side by side, ``most`` of them at most, with full rows where possible.

    >>> balance_panels(6, 4), balance_panels(12, 5), balance_panels(7, 4)
    (3, 4, 4)
    """
    most = max(1, min(panels, most))
    full = (across for across in range(most, 0, -1) if panels % across == 0 and 2 * across > most)
    return next(full, most)


def arrange_panels(number: int, room: float, high: float, beside: float = 0) -> tuple[int, float, float]:
    """Arrange small charts: how many stand side by side, and how wide and how high each is.

    The number is the largest that leaves comfortable widths, or else the one that makes charts largest.
    ``beside`` is the width of what stands to the right of each.
    """
    choices = []
    for most in range(min(number, 8), 0, -1):
        across = balance_panels(number, most)
        width = room / across - 50 - beside  # an axis takes about 50
        height = min(0.62 * width, high / math.ceil(number / across) - 62)
        if width >= 130 and height >= 43:
            return across, width, height
        choices.append((height, across, width))
    height, across, width = max(choices, key=lambda choice: choice[0])
    return across, max(width, 40.0), max(height, 30.0)


def colour_by_layer(
    labels: Sequence[Cell], theme: Theme, channel: Any = alt.Color, colours: Sequence[str] = (), **look: Any
) -> Any:
    """Make the channel that colours by layer."""
    colours = list(colours or (SEQUENTIAL[1:] if theme.name == "dark" else SEQUENTIAL[:-1]))
    if len(labels) > 16 and all(isinstance(label, int) for label in labels):
        legend = alt.Legend(title="layer", format="~s", gradientLength=140, **look)
        scale = alt.Scale(domain=[labels[0], labels[-1]], range=colours, interpolate="rgb")
        return channel("layer:Q", scale=scale, legend=legend)
    scale = alt.Scale(domain=list(labels), range=interpolate_colours(colours, len(labels)))
    return channel("layer:O", scale=scale, legend=alt.Legend(title="layer", symbolOpacity=1, **look))


def colour_by_value(
    column: Column, scale: Scale, values: Sequence[float | None], side: float, request: DrawingRequest
) -> Any:
    """Make the channel of a measure's colour; its legend, about ``side`` long, has the unit as title."""
    ramp, below = request.theme.diverging if scale.is_of_effects else SEQUENTIAL, request.width < BESIDE
    colours = alt.Scale(domain=[scale.low, scale.high], range=list(ramp), interpolate="rgb", clamp=True)
    if all(value is None for value in values):
        return alt.Color("value:Q", scale=colours, legend=None)
    ends = scale.ends if any(values) else [0.0]  # where all is 0, other numbers would promise some
    format = ".6~g" if 1e-3 <= scale.high <= 1e6 else ".3~g"
    look: dict[str, Any] = {"orient": "bottom", "direction": "horizontal", "offset": 6} if below else {}
    unit = wrap(clean(column.unit), 32 if below else 16, max_lines=3, placeholder=" ...") or None
    length = min(max(side, 60), 140)
    legend = alt.Legend(title=unit, gradientLength=length, values=ends, format=format, **look)
    return alt.Color("value:Q", scale=colours, legend=legend)


def write_numbers(values: Sequence[float | int | None], *, signed: bool) -> list[str]:
    r"""Write numbers in about four characters: to two digits of the largest, without a 0 before the point.

    A number that rounds to 0 has only its sign. If the largest needs a power of ten, or all are 0, every text
    is empty.

    >>> write_numbers([0.914, 0.05, None, 0.0], signed=False)
    ['.91', '.05', '', '0']
    >>> write_numbers([-0.321, 0.0004, 0.12], signed=True)
    ['\u2212.32', '+', '+.12']
    """
    numbers = choose_format(values, digits=2, most_decimals=4)
    if numbers.exponent or not any(values):
        return [""] * len(values)
    texts = []
    for value in values:
        digits = numbers.write(abs(value or 0.0))
        digits = "" if not float(digits) else digits.removeprefix("0") if "." in digits else digits
        sign = "\u2212" if (value or 0) < 0 else "+" if signed and value else ""
        texts.append("" if value is None else f"{sign}{digits}" or "0")
    return texts


def make_word_axis(**axis: Any) -> alt.Axis:
    """Make the axis of rows whose labels ``number_words`` made: it shows the words alone."""
    words = "slice(datum.value, indexof(datum.value, '|') + 1)"
    return alt.Axis(labelExpr=words, ticks=False, domain=False, **axis)


def sort_rows(**axis: Any) -> Any:
    """Make the channel of rows, which are known by ``label``, in the order of the data."""
    return alt.Y("label:N", sort=None, title=None, axis=make_word_axis(**axis))


def number_words(words: Sequence[str]) -> list[str]:
    """Number the labels of rows, as in ``3|words``: two rows may have the same words."""
    return [f"{number}|{word}" for number, word in enumerate(words)]
