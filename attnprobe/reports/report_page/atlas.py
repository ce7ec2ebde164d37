"""The head atlas on the page of a report: the picture of it, with a button a head."""

import re
from collections.abc import Mapping
from dataclasses import replace
from html import escape

from altair.utils.schemapi import debug_mode
from markupsafe import Markup

from attnprobe.errors import AttnprobeError
from attnprobe.reports.charts.figures import FIGURES
from attnprobe.reports.columns import DrawingRequest
from attnprobe.reports.picture import make_spec, render_svg
from attnprobe.reports.profile import can_draw_atlas, join_beside_profile, read_profile
from attnprobe.reports.report_page.measures import Heads, read_heads
from attnprobe.reports.theme import THEMES
from attnprobe.table.cells import clean
from attnprobe.table.naming import MIXED
from attnprobe.table.table import HeadTable

#: The colours of the page, light or dark, and text that is as large as that of its other charts.
_THEME = replace(
    THEMES["light"],
    ink="var(--ink)",
    muted="var(--pale)",
    grid="var(--none)",
    background="var(--panel)",
    size=14,
)
#: Pixels; wider ones scroll where a screen is narrow.
_WIDTH, _HIGH = 1000, 2000
_LABEL = "Each head with its attention by offset, its role and its entropy"
#: The marks of heads, which lie over all others, in the order of the table.
_HEAD = re.compile(r'<path aria-label="layer [^"]*, head [^"]*"[^>]*>')
#: What of the picture is for readers of its marks; here, its heads are buttons.
_SPOKEN = re.compile(r' (?:aria-[a-z]+|role)="[^"]*"')


def draw_atlas(heads: Heads, tables: Mapping[str, HeadTable]) -> tuple[Markup, str] | None:
    """Draw the atlas of a report as svg, with marks that choose heads; say how it is read.

    Attention by offset is in one of the tables; roles and entropy are read off the others about the same
    heads.
    """
    own = next((table for table in tables.values() if read_profile(table) is not None), None)
    if own is None:
        return None
    joined = own
    for other in tables.values():
        wanted = {"role", "entropy_normalized"} & other.data.keys()
        if other is not own and wanted and not wanted & joined.data.keys():
            try:
                joined = join_beside_profile([joined, other])
            except AttnprobeError:  # it is about other heads
                continue
    if not can_draw_atlas(joined):
        return None
    with debug_mode(False):
        drawing = FIGURES["atlas"].draw(joined, DrawingRequest(_THEME, _WIDTH, room=_WIDTH, high=_HIGH))
        svg = render_svg(make_spec(drawing.chart, _THEME)).decode()
    return _add_buttons(svg, heads, joined), f"{'; '.join(drawing.caption)}."


def _add_buttons(svg: str, heads: Heads, table: HeadTable) -> Markup:
    named = iter(zip(read_heads(table), table.data.get("role", [None] * len(table)), strict=True))

    def write_button(match: re.Match[str]) -> str:
        mark, (head, role) = _SPOKEN.sub("", match[0]), next(named)
        number = heads.find(head)
        if number is None:
            return mark
        said = f": {clean(str(role or MIXED))}" if "role" in table.data else ""
        label = escape(f"{heads.name(number)}{said}")
        return mark.replace(
            "<path",
            f'<path data-h="{number}" fill="transparent" role="button" tabindex="-1" aria-label="{label}"',
        )

    silent = []
    for part in re.split(f"({_HEAD.pattern})", svg):
        silent.append(part if _HEAD.fullmatch(part) else _SPOKEN.sub("", part))
    marked = _HEAD.sub(write_button, "".join(silent)).replace(' class="marks"', "", 1)
    return Markup(
        marked.replace("<svg", f'<svg class="atlas" role="group" aria-label="{_LABEL}" data-grid', 1)
    )
