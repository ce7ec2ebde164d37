"""The head atlas as a chart: shapes and words where ``reports.atlas`` puts them, and a tooltip a head."""

from typing import Any

import altair as alt

from attnprobe.reports.atlas import Atlas, lay_out_atlas
from attnprobe.reports.columns import DrawingRequest, Record, read_cells, read_numbers
from attnprobe.reports.pictures.channels import make_records, make_tooltip
from attnprobe.reports.shapes import AXES, label_rows
from attnprobe.table.head_table import HeadTable

#: How an anchor is called there.
_ALIGN: dict[str, Any] = {"start": "left", "middle": "center", "end": "right"}
#: A path is a symbol in pixels at this size.
_PIXELS = 4
#: What a tooltip says of a head, where the table has it.
_TOLD = {
    "role": "role", "measure": "measure", "value": "value",
    "value_se": "standard error", "entropy": "entropy (nats)",
    "profile_first": "attention to the first token", "profile_special": "to other special tokens",
    "profile_-1": "to the previous token", "profile_0": "to itself", "profile_1": "to the next token",
    "profile_before": "further before", "profile_after": "further behind", "profile_beyond": "further away",
}  # fmt: skip


def draw_atlas(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw the atlas; a head is one mark, which says its numbers."""
    atlas = lay_out_atlas(table, request.theme, request.width)
    paths = make_records({
        "path": [one.path for one in atlas.shapes], "fill": [one.fill for one in atlas.shapes],
        "opacity": [one.opacity for one in atlas.shapes],
    })  # fmt: skip
    x, y = (alt.X("x:Q", scale=None, axis=None), alt.Y("y:Q", scale=None, axis=None))
    symbol = {"filled": True, "size": _PIXELS, "strokeWidth": 0, "opacity": 1}
    shapes = alt.Chart(alt.InlineData(values=paths)).mark_point(**symbol, aria=False).encode(
        x=alt.value(0), y=alt.value(0), shape=alt.Shape("path:N", scale=None),
        fill=alt.Fill("fill:N", scale=None), fillOpacity=alt.FillOpacity("opacity:Q", scale=None),
    )  # fmt: skip
    texts = []
    for anchor, bold in dict.fromkeys((one.anchor, one.bold) for one in atlas.words):
        some = [one for one in atlas.words if (one.anchor, one.bold) == (anchor, bold)]
        values = [{"x": one.x, "y": one.y, "text": one.text, "fill": one.fill} for one in some]
        mark = alt.Chart(alt.InlineData(values=values)).mark_text(
            align=_ALIGN[anchor],
            baseline="alphabetic",
            fontSize=some[0].size,
            fontWeight="bold" if bold else "normal",
        )
        texts.append(mark.encode(x=x, y=y, text="text:N", color=alt.Color("fill:N", scale=None)))
    heads = alt.Chart(alt.InlineData(values=_list_heads(table, atlas))).mark_point(
        **symbol, fill="transparent"
    )
    told = {
        f"{name}:{'N' if name in {'role', 'measure'} else 'Q'}": title
        for name, title in _TOLD.items()
        if name in table.data
    }
    places = {"place:N": "of"} if len(set(_label_maps(table))) > 1 else {}
    named = make_tooltip({**places, **{f"{name}:O": name for name in AXES}, **told})
    marks = heads.encode(x=x, y=y, shape=alt.Shape("path:N", scale=None), tooltip=named)
    return alt.layer(shapes, *texts, marks).properties(width=atlas.width, height=atlas.height)


def _label_maps(table: HeadTable) -> list[str]:
    return label_rows(table, [name for name in ("model", "dataset", "attention") if name in table.data])


def _list_heads(table: HeadTable, atlas: Atlas) -> list[Record]:
    told: dict[str, Any] = {
        name: read_cells(table, name) for name in (*AXES, "role", "measure") if name in table.data
    }
    told |= {name: read_numbers(table, name) for name in _TOLD if name in table.data and name not in told}
    labels = _label_maps(table)
    return [
        {
            **{name: cells[place.row] for name, cells in told.items()},
            "place": labels[place.row],
            "x": place.x,
            "y": place.y,
            "path": f"M0 0h{place.width:.2f}v{place.height:.2f}h{-place.width:.2f}z",
        }
        for place in atlas.places
    ]
