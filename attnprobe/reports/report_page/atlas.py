"""The head atlas on the page of a report: the same shapes as in a picture, with a button a head."""

from collections.abc import Mapping
from dataclasses import replace
from html import escape

from markupsafe import Markup

from attnprobe.errors import AttnprobeError
from attnprobe.reports.atlas import Atlas, lay_out_atlas
from attnprobe.reports.profile import can_draw_atlas, join_beside_profile, read_profile
from attnprobe.reports.report_page.measures import Heads, read_heads
from attnprobe.reports.theme import FONT, THEMES
from attnprobe.table.cells import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import MIXED

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
_WIDTH = 1000
#: Pixels of the widest cell; words stand beside what is left.
_WIDEST = 78.0
_LABEL = "Each head with its attention by offset, its role and its entropy"


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
    atlas = lay_out_atlas(joined, _THEME, _WIDTH, captioned=False, widest=_WIDEST)
    return _write_svg(atlas, heads, joined), atlas.caption


def _write_svg(atlas: Atlas, heads: Heads, table: HeadTable) -> Markup:
    parts = [
        f'<path d="{one.path}" fill="{one.fill}"{_write("fill-opacity", one.opacity, 1.0)}/>'
        for one in atlas.shapes
    ]
    for one in atlas.words:
        anchor = _write("text-anchor", one.anchor, "start")
        bold = ' font-weight="bold"' if one.bold else ""
        place = f'x="{one.x:.4g}" y="{one.y:.5g}"'
        parts.append(f'<text {place} fill="{one.fill}"{anchor}{bold}>{escape(clean(one.text))}</text>')
    named = read_heads(table)
    for one in atlas.places:
        number = heads.find(named[one.row])
        if number is not None:
            place = f'x="{one.x:.5g}" y="{one.y:.5g}" width="{one.width:.4g}" height="{one.height:.4g}"'
            role = clean(str(table.data["role"][one.row] or MIXED)) if "role" in table.data else ""
            label = escape(f"{heads.name(number)}{role and f': {role}'}")
            parts.append(
                f'<rect {place} data-h="{number}" role="button" tabindex="-1" aria-label="{label}"/>'
            )
    size = atlas.words[0].size if atlas.words else _THEME.size
    box = f'viewBox="-2 -2 {atlas.width + 4:.0f} {atlas.height + 4:.0f}" width="{atlas.width + 4:.0f}"'
    font = f'font-family="{FONT}" font-size="{size}"'  # of known widths
    opening = f'<svg class="atlas" {box} {font} role="group" aria-label="{_LABEL}" data-grid>'
    return Markup(f"{opening}{''.join(parts)}</svg>")


def _write(name: str, value: object, usual: object) -> str:
    return "" if value == usual else f' {name}="{value}"'
