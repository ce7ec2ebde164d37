"""What was checked of a checkpoint, and how it came out."""

from typing import Any

import altair as alt

from attnprobe.reports.pictures.asked import Asked
from attnprobe.reports.pictures.rows import Record, cells, labelled
from attnprobe.table.cells import written
from attnprobe.table.head_table import HeadTable

#: Places in the colours of a theme.
_COLOURS = {"ok": 2, "warning": 1, "failed": 5}


def fits(table: HeadTable) -> bool:
    """Tell whether rows are checks."""
    return {"check", "status", "detail"} <= table.data.keys() and len(table) > 0


def draw(table: HeadTable, asked: Asked) -> Any:
    """Draw a line a check: its name, how it came out, and what was found."""
    of = labelled(table, ["model", "dataset"])
    columns = {name: [written(cell) for cell in cells(table, name)] for name in ("check", "status", "detail")}
    data: list[Record] = [
        {"row": row, "name": ", ".join(filter(None, [of[row], check])), "status": status, "detail": detail}
        for row, (check, status, detail) in enumerate(zip(*columns.values(), strict=True))
    ]  # fmt: skip
    left = 12 + max(len(record["name"]) for record in data) * asked.theme.size * 0.55
    statuses = list(dict.fromkeys(columns["status"]))
    scale = alt.Scale(domain=statuses, range=[_colour(status, asked) for status in statuses])
    y = alt.Y("row:O", axis=None)
    tooltip = [alt.Tooltip(f"{name}:N", title=name) for name in ("name", "status", "detail")]
    base = alt.Chart(alt.InlineData(values=data)).encode(y=y, tooltip=tooltip)
    text: dict[str, Any] = {"align": "left", "fontSize": asked.theme.size - 1}
    room = max(80, asked.width - left - 56)  # a longer detail ends in dots, and the tooltip has all of it
    parts = [
        base.mark_text(**text).encode(x=alt.value(0), text="name:N"),
        base.mark_text(**text, fontWeight="bold").encode(
            x=alt.value(left), text="status:N", color=alt.Color("status:N", scale=scale, legend=None)
        ),
        base.mark_text(**text, color=asked.theme.muted, limit=room).encode(
            x=alt.value(left + 56), text="detail:N"
        ),
    ]
    return alt.layer(*parts).properties(width=asked.width, height=alt.Step(18))


def _colour(status: str, asked: Asked) -> str:
    return asked.theme.categories[_COLOURS[status]] if status in _COLOURS else asked.theme.muted
