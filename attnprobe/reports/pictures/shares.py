"""Where a measure varies: shares of its variance, a bar a measure."""

from typing import Any

import altair as alt

from attnprobe.reports.pictures.asked import Asked
from attnprobe.reports.pictures.rows import Record, keys, labelled, numbers
from attnprobe.table.head_table import HeadTable

#: The columns in their order, what they are called, and their colours: of place blue, of checkpoints orange,
#: of texts green; grey tells the rest.
_SHARES = {
    "layers": ("layers", "#08519c"),
    "heads": ("heads of a layer", "#6baed6"),
    "seeds": ("checkpoints", "#a63603"),
    "layers_by_seed": ("layers, by checkpoint", "#e6550d"),
    "heads_by_seed": ("heads, by checkpoint", "#fdae6b"),
    "texts": ("texts", "#006d2c"),
    "layers_by_text": ("layers, by text", "#31a354"),
    "heads_by_text": ("heads, by text", "#a1d99b"),
    "seeds_by_text": ("checkpoints, by text", "#756bb1"),
    "rest": ("rest", "#969696"),
}
#: Pixels of a bar, and of the names beside them.
_STEP, _NAMES = 26, 170


def fits(table: HeadTable) -> bool:
    """Tell whether rows are measures, and columns shares of their variance."""
    return _SHARES.keys() <= table.data.keys() and len(table) > 0


def draw(table: HeadTable, asked: Asked) -> Any:
    """Draw a bar from 0 to 1 for each measure, in parts that add up to it; errors stand in the tooltip."""
    names = labelled(table, keys(table))
    data: list[Record] = []
    for order, (column, (name, _)) in enumerate(_SHARES.items()):
        rows = zip(names, numbers(table, column), numbers(table, f"{column}_se"), strict=True)
        data += [
            {"row": row, "part": name, "share": share, "error": error, "order": order}
            for row, share, error in rows
        ]
    said, colours = zip(*_SHARES.values(), strict=True)
    labels = list(dict.fromkeys(names))
    return (
        alt.Chart(alt.InlineData(values=data))
        .mark_bar()
        .encode(
            y=alt.Y(
                "row:N", sort=labels, title=None, axis=alt.Axis(ticks=False, domain=False, labelLimit=_NAMES)
            ),
            x=alt.X("share:Q", title="share of the variance", scale=alt.Scale(domain=[0, 1]), stack="zero"),
            color=alt.Color(
                "part:N",
                sort=list(said),
                scale=alt.Scale(domain=list(said), range=list(colours)),
                legend=alt.Legend(title="between", symbolType="square"),
            ),
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("row:N", title="measure"),
                alt.Tooltip("part:N", title="between"),
                alt.Tooltip("share:Q", title="share", format=".4~g"),
                alt.Tooltip("error:Q", title="standard error", format=".2~g"),
            ],
        )
        .properties(width=max(120, asked.width - _NAMES - 190), height=alt.Step(_STEP))
    )
