"""Error rates of alignments: of the best ones, and of every head or the mean of every layer."""

from typing import Any

import altair as alt

from attnprobe.reports.columns import (
    DrawingRequest,
    Record,
    label_by_others,
    label_rows,
    list_keys,
    read_cells,
    read_numbers,
)
from attnprobe.reports.pictures.channels import (
    choose_across,
    draw_panels,
    make_remark,
    make_tooltip,
    thin_labels,
)
from attnprobe.reports.scales import BEYOND
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.cells import Cell, format_cell
from attnprobe.table.head_table import HeadTable

#: Pixels of a chart at most and at least; and so many heads of each are named.
_WIDEST, _LEAST, _NAMED = 420, 150, 3
_PLACE = "same relative place"
#: Where a name may stand, in lines above its point; and how wide a letter is, as a share of its size.
_LINES, _LETTER = (0, 1, -1, 2, -2, 3, 4), 0.58
#: What the layout of a line or a chart says of it.
_LOWER = "the lower, the better; bars: 95 % intervals"


def draw_alignments(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw the error rate of each alignment with its 95 % interval; a tick is that of the same place.

    A point is filled, and a star stands beside it, where the adjusted p is below 0.05.
    """
    theme = request.theme
    panels = label_rows(table, [name for name in ("weights", "attention") if name in table.data])
    names = label_rows(table, ["alignment"])
    if len(set(zip(panels, names, strict=True))) < len(table):
        names = label_rows(table, ["alignment", "direction"])
    columns = ("aer", "aer_se", "baseline", "p_adjusted", "n")
    numbers = zip(*(read_numbers(table, name) for name in columns), strict=True)
    data: list[Record] = []
    for panel, name, (value, error, place, p, n) in zip(panels, names, numbers, strict=True):
        sure = p is not None and p < SIGNIFICANT
        data.append({
            "panel": panel, "name": name, "value": value, "error": error, "place": place, "p": p, "n": n,
            "sure": sure, "star": "*" if sure else "",
        })  # fmt: skip
    room = 12 + 0.52 * theme.size * max(map(len, names))
    width = int(max(120, min(_WIDEST, request.width - room - 24)))
    x: dict[str, Any] = {"title": "alignment error rate", "scale": alt.Scale(domain=[0, 1], nice=False)}
    axis = alt.Axis(tickCount=5)
    y_axis = alt.Axis(ticks=False, domain=False, labelLimit=240, grid=True)
    base = alt.Chart().encode(y=alt.Y("name:N", sort=list(dict.fromkeys(names)), title=None, axis=y_axis))
    known = base.transform_filter("isValid(datum.value)")
    bars = known.transform_filter("isValid(datum.error)").transform_calculate(
        low="datum.value - 1.96 * datum.error", high="datum.value + 1.96 * datum.error"
    )
    tooltip = make_tooltip({
        "name:N": "alignment", "value:Q": "error rate", "error:Q": "standard error",
        "place:Q": _PLACE, "p:Q": "adjusted p", "n:Q": "pairs of texts",
    })  # fmt: skip
    best, other, *_ = theme.categories
    look: dict[str, Any] = {"size": 54, "strokeWidth": 1.5, "opacity": 1}
    filled = known.transform_filter("datum.sure").mark_point(filled=True, color=best, **look)
    empty = known.transform_filter("!datum.sure").mark_point(
        filled=True, fill=theme.background, stroke=best, **look
    )
    places = base.transform_filter("isValid(datum.place)").mark_tick(color=other, thickness=2, height=14)
    stars = known.mark_text(align="left", color=theme.ink)
    value = alt.X("value:Q", axis=axis, **x)
    chart = alt.layer(
        bars.mark_rule(strokeWidth=1.6, clip=True, color=best).encode(
            x=alt.X("low:Q", axis=axis, **x), x2="high:Q"
        ),
        filled.encode(x=value, tooltip=tooltip),
        empty.encode(x=value, tooltip=tooltip),
        places.encode(x=alt.X("place:Q", axis=axis, **x)),
        stars.encode(x=alt.value(width + 6), text="star:N"),
    ).properties(width=width, height=alt.Step(24))
    drawn = draw_panels(chart, data, list(dict.fromkeys(panels)), 1, width)
    lines = [_LOWER, f"ticks: {_PLACE}; filled, *: adjusted p < {SIGNIFICANT}"]
    return drawn.properties(title=make_remark(lines, theme, request.width))


def can_draw_errors(table: HeadTable) -> bool:
    """Tell whether each head, or the mean of each layer, is there once with an error rate."""
    keys = list_keys(table)
    rows = set(zip(*(read_cells(table, name) for name in keys), strict=True))
    return len(rows) == len(table) and any(value is not None for value in read_numbers(table, "aer"))


def draw_errors(table: HeadTable, request: DrawingRequest) -> Any:
    """Draw the error rate of each head, or of the mean of each layer, against the layer.

    Where a decoder is asked and who asks stand in charts of their own with one axis. A dashed line is the
    error rate of the words at the same relative place. Of heads, those with the lowest rates have an interval
    and a name; of layers, the lowest one.
    """
    theme = request.theme
    of_heads = "head" in list_keys(table)
    panels = label_by_others(table, {"layer", "head"})
    sides = list(dict.fromkeys(panels))
    layers = list(dict.fromkeys(read_cells(table, "layer")))
    layers = sorted(layers) if all(isinstance(layer, int) for layer in layers) else layers  # type: ignore[type-var]
    across = choose_across(len(sides), (request.width - 40) // (_LEAST + 20))
    width = int(max(_LEAST, min(_WIDEST, (request.width - 50) / across - 34)))
    height = int(min(220, width * 0.7))
    data = _read_errors(table, panels)
    _name_lowest(data, sides, layers, (width, height), theme.small(2))
    axis = alt.Axis(labelAngle=0, values=thin_labels(layers, width / len(layers)))
    x = alt.X("layer:O", title="layer", axis=axis, scale=alt.Scale(domain=layers))
    look: dict[str, Any] = {"title": "alignment error rate", "scale": alt.Scale(domain=[0, 1], nice=False)}
    y_axis = alt.Axis(tickCount=5)
    y = alt.Y("value:Q", axis=y_axis, **look)
    base = alt.Chart().encode(x=x)
    tooltip = make_tooltip({
        "panel:N": "of", "layer:O": "layer", **({"head:O": "head"} if of_heads else {}),
        "value:Q": "error rate", "error:Q": "standard error", "place:Q": _PLACE, "n:Q": "pairs of texts",
    })  # fmt: skip
    known = base.transform_filter("isValid(datum.value)")
    named = known.transform_filter("datum.name !== ''")
    best, other, *_ = theme.categories
    line = alt.Chart().transform_filter("isValid(datum.place)").mark_rule(strokeDash=[5, 3], color=other)
    parts = [line.encode(y=alt.Y("mean(place):Q", axis=y_axis, **look))]
    if not of_heads:
        parts.append(known.mark_line(strokeWidth=1.5, color=best).encode(y=y))
    barred = named if of_heads else known
    bars = barred.transform_filter("isValid(datum.error)").transform_calculate(
        low=f"max(0, datum.value - {BEYOND} * datum.error)",
        high=f"min(1, datum.value + {BEYOND} * datum.error)",
    )
    others = known.transform_filter("datum.name === ''").mark_point(
        filled=True, size=24, opacity=0.55, color=theme.muted
    )
    leading = named.mark_point(filled=True, size=44, opacity=1, color=best)
    texts = [
        named.transform_filter(f"{'' if left else '!'}datum.left").mark_text(
            align="right" if left else "left", dx=-7 if left else 7, fontSize=theme.small(2), color=theme.ink
        )
        for left in (False, True)
    ]
    parts += [
        bars.mark_rule(strokeWidth=1.5, color=best).encode(
            y=alt.Y("low:Q", axis=y_axis, **look), y2="high:Q"
        ),
        others.encode(y=y, tooltip=tooltip),
        leading.encode(y=y, tooltip=tooltip),
        *(text.encode(y=alt.Y("at:Q", axis=y_axis, **look), text="name:N") for text in texts),
    ]
    chart = alt.layer(*parts).properties(width=width, height=height)
    drawn = draw_panels(chart, data, sides, across, width)
    return drawn.properties(title=make_remark([_LOWER, f"dashed: {_PLACE}"], theme, request.width))


def _read_errors(table: HeadTable, panels: list[str]) -> list[Record]:
    columns = ("aer", "aer_se", "baseline", "n")
    value, error, place, n = (read_numbers(table, name) for name in columns)
    layers, heads = read_cells(table, "layer"), read_cells(table, "head")
    return [
        {
            "panel": panels[row], "layer": layers[row], "head": heads[row], "value": value[row],
            "error": error[row], "place": place[row], "n": n[row], "name": "", "at": value[row],
            "left": False,
        }
        for row in range(len(table))
    ]  # fmt: skip


def _name_lowest(
    data: list[Record], sides: list[str], layers: list[Cell], size: tuple[int, int], letters: int
) -> None:
    """Name what has the lowest error rates of each chart, and place names where they lie on no other name.

    A name stands to the right of its point, or to the left in the right half of a chart. Where another name
    is, it goes up or down by lines; where none of a few is free, there is no name.
    """
    width, height = size
    gap = letters + 1
    for side in sides:
        own = [one for one in data if one["panel"] == side and one["value"] is not None]
        lowest = sorted(own, key=lambda one: one["value"])
        lowest = lowest[: _NAMED if any(one["head"] is not None for one in own) else 1]
        placed: list[tuple[float, float, float]] = []
        for one in lowest:
            whose = "" if one["head"] is None else f" H{format_cell(one['head'])}"
            name = f"L{format_cell(one['layer'])}{whose}"
            x = (layers.index(one["layer"]) + 0.5) / len(layers) * width
            wide = 7 + len(name) * _LETTER * letters
            one["left"] = x > width / 2
            left, right = (x - wide, x) if one["left"] else (x, x + wide)
            for step in _LINES:
                y = one["value"] * height + step * gap
                if 0 <= y <= height and all(
                    right < other[0] or left > other[1] or abs(y - other[2]) >= gap for other in placed
                ):
                    one["name"], one["at"] = name, y / height
                    placed.append((left, right, y))
                    break
