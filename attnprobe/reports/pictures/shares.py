"""Where a measure varies: shares of its variance, a bar a measure."""

from typing import Any

import altair as alt

from attnprobe.reports.pictures.asked import Asked
from attnprobe.reports.pictures.rows import Record, keys, labelled, numbers
from attnprobe.reports.pictures.theme import ink_on
from attnprobe.table.head_table import HeadTable

#: The columns in their order, what they are called, and their colours: of place blue, of checkpoints orange
#: and purple, of texts green. Neighbours differ in lightness, so that grey print keeps their border, and each
#: part has a number, which stands in it where there is room.
SHARES = {
    "layers": ("layers", "#08519c"),
    "heads": ("heads of a layer", "#9ecae1"),
    "seeds": ("checkpoints", "#7f2704"),
    "layers_by_seed": ("layers, by checkpoint", "#fec44f"),
    "heads_by_seed": ("heads, by checkpoint", "#bf4703"),
    "texts": ("texts", "#c7e9c0"),
    "layers_by_text": ("layers, by text", "#006d2c"),
    "heads_by_text": ("heads, by text", "#a1d99b"),
    "seeds_by_text": ("checkpoints, by text", "#54278f"),
    "rest": ("rest", "#d9d9d9"),
}
#: Pixels of a bar, of the names beside them, of the legend, and of the narrowest part that has a number.
_STEP, _NAMES, _LEGEND, _NUMBERED = 26, 170, 190, 13
#: Narrower pictures have the legend below.
_BESIDE = 600


def fits(table: HeadTable) -> bool:
    """Tell whether rows are measures, and columns shares of their variance."""
    return SHARES.keys() <= table.data.keys() and len(table) > 0


def draw(table: HeadTable, asked: Asked) -> Any:
    """Draw a bar from 0 to 1 for each measure, in parts that add up to it; errors stand in the tooltip."""
    names = labelled(table, keys(table))
    beside = asked.width >= _BESIDE
    longest = min(_NAMES, 0.55 * asked.theme.size * max(map(len, names)) + 10)
    width = max(120, int(asked.width - longest - (_LEGEND if beside else 20)))
    said = [f"{number}  {name}" for number, (name, _) in enumerate(SHARES.values(), start=1)]
    colours = [colour for _, colour in SHARES.values()]
    data = _records(table, names, said, width)
    labels = list(dict.fromkeys(names))
    below: dict[str, Any] = {} if beside else {"orient": "bottom", "columns": 2}
    base = alt.Chart(alt.InlineData(values=data)).encode(
        y=alt.Y("row:N", sort=labels, title=None, axis=alt.Axis(ticks=False, domain=False, labelLimit=_NAMES))
    )
    bars = base.mark_bar(stroke=asked.theme.background, strokeWidth=0.8).encode(
        x=alt.X("start:Q", title="share of the variance", scale=alt.Scale(domain=[0, 1], nice=False)),
        x2="end:Q",
        color=alt.Color(
            "part:N",
            sort=said,
            scale=alt.Scale(domain=said, range=colours),
            legend=alt.Legend(title="between", symbolType="square", symbolStrokeWidth=0, **below),
        ),
        tooltip=[
            alt.Tooltip("row:N", title="measure"),
            alt.Tooltip("part:N", title="between"),
            alt.Tooltip("share:Q", title="share", format=".4~g"),
            alt.Tooltip("error:Q", title="standard error", format=".2~g"),
        ],
    )
    numbered = base.mark_text(baseline="middle", fontSize=asked.theme.size - 2).encode(
        x=alt.X("middle:Q", title="share of the variance"),
        text="number:N",
        color=alt.Color("ink:N", scale=None),
    )
    return alt.layer(bars, numbered).properties(width=width, height=alt.Step(_STEP))


def _records(table: HeadTable, names: list[str], said: list[str], width: int) -> list[Record]:
    """Place the parts of each bar one behind the other."""
    data: list[Record] = []
    ends = [0.0] * len(names)
    for number, (column, (_, colour)) in enumerate(SHARES.items(), start=1):
        rows = zip(numbers(table, column), numbers(table, f"{column}_se"), strict=True)
        for row, (share, error) in enumerate(rows):
            start, wide = ends[row], max(share or 0.0, 0.0)
            ends[row] = start + wide
            data.append(
                {
                    "row": names[row],
                    "part": said[number - 1],
                    "share": share,
                    "error": error,
                    "start": start,
                    "end": ends[row],
                    "middle": start + wide / 2,
                    "number": str(number) if wide * width >= _NUMBERED else "",
                    "ink": ink_on(colour),
                }
            )
    return data
