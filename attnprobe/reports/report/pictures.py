"""Pictures within the page of a report: those of ``plot``, in its colours, with heads that can be chosen."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from xml.etree import ElementTree

from markupsafe import Markup

from attnprobe.errors import AttnprobeError
from attnprobe.reports.charts.draw import draw_picture, list_kinds
from attnprobe.reports.charts.figures import FIGURES
from attnprobe.reports.columns import DrawingRequest, name_measure
from attnprobe.reports.findings import state_finding
from attnprobe.reports.profile import can_draw_atlas, join_beside_profile, read_profile
from attnprobe.reports.report.card import Head, Heads, read_heads
from attnprobe.reports.theme import THEMES
from attnprobe.table.cells import clean
from attnprobe.table.table import HeadTable

#: The colours of the page, light or dark, and text that is as large as that around.
_THEME = replace(
    THEMES["light"],
    ink="var(--ink)",
    muted="var(--pale)",
    grid="var(--none)",
    background="var(--panel)",
    size=14,
)
#: Pixels of a picture, and of the atlas, which is as wide as the page.
_WIDTH, _WIDEST = 720, 1000
_SVG = "http://www.w3.org/2000/svg"
#: How the label of a mark names its head.
_HEAD, _LAYER = re.compile(r"\bhead:? (\d+)\b"), re.compile(r"\blayer:? (\d+)\b")
#: Parts of a label that say where a mark is, or with more digits what another part says; and their number.
_PLACES = {"head", "layer", "x", "y", "kind", "of", "n"}
#: Attributes for readers of single marks, in place of which the whole picture has a label; and the font.
_LEFT_OUT = {"role", "aria-label", "aria-roledescription", "aria-hidden", "pointer-events", "font-family"}
#: Decimals of a place that nobody sees.
_UNSEEN = re.compile(r"(\.\d)\d+")


def draw_tables(heads: Heads, tables: Mapping[str, HeadTable]) -> list[Markup]:
    """Draw each table that has a picture; pairs of heads as a map."""
    drawn = []
    for table in tables.values():
        kind = "map" if "map" in list_kinds(table) else None
        try:
            drawn.append(_draw(table, heads, kind, _WIDTH))
        except AttnprobeError:  # its numbers don't make one
            continue
    return drawn


def draw_atlas(heads: Heads, tables: Mapping[str, HeadTable]) -> Markup | None:
    """Draw the atlas: attention by offset of one table, roles and entropy of others about the same heads."""
    joined = profile = next((table for table in tables.values() if read_profile(table) is not None), None)
    if joined is None:
        return None
    for other in tables.values():
        beside = {"role", "entropy_normalized"} & other.data.keys()
        if other is not profile and beside and not beside & joined.data.keys():
            try:
                joined = join_beside_profile([joined, other])
            except AttnprobeError:  # it is about other heads
                continue
    return _draw(joined, heads, "atlas", _WIDEST) if can_draw_atlas(joined) else None


def list_findings(table: HeadTable) -> Iterator[tuple[str, str]]:
    """State what each measure shows that the picture of a table has, after its title."""
    kinds = list_kinds(table)
    if not kinds or (figure := FIGURES[kinds[0]]).states is None:
        return
    request = DrawingRequest(_THEME, _WIDTH)
    columns = [table.column(figure.states)] if figure.states else figure.columns(table, request)
    for column in columns:
        if finding := state_finding(table, column):
            yield name_measure(column), clean(finding)


def _draw(table: HeadTable, heads: Heads, kind: str | None, width: int) -> Markup:
    picture = draw_picture([table], kind, theme=_THEME, width=width)
    root = ElementTree.fromstring(picture.rendered("svg"))
    has_roles = {"layer", "head", "role"} <= table.data.keys()
    roles = dict(zip(read_heads(table), table.data["role"], strict=True)) if has_roles else {}
    for element in root.iter():
        label = element.get("aria-label", "")
        for name in _LEFT_OUT & element.attrib.keys():
            del element.attrib[name]
        for name in {"d", "transform"} & element.attrib.keys():
            element.set(name, _UNSEEN.sub(r"\1", element.attrib[name]))
        head = _read_head(label, heads) if element.tag == f"{{{_SVG}}}path" else None
        if head is not None and (number := heads.places.get(head)) is not None:
            evidence = _shorten(label, picture.kind) or clean(str(roles.get(head, "")))
            element.set("aria-label", ": ".join(filter(None, [heads.names[number], evidence])))
            element.set("data-h", str(number))
    has_heads = _mark_panels(root)
    for element in root.iter():
        for child in list(element):
            if child.tag == f"{{{_SVG}}}path" and not child.attrib.keys() - {"class", "d"}:
                element.remove(child)
        element.attrib.pop("class", None)
    root.attrib |= {
        "class": "picture",
        "role": "group" if has_heads else "img",
        "aria-label": f"{picture.title}: the table has its numbers",
        "font-family": _THEME.config()["font"],
    }
    ElementTree.register_namespace("", _SVG)
    return Markup(ElementTree.tostring(root, encoding="unicode").replace(" />", "/>"))


def _mark_panels(root: ElementTree.Element) -> bool:
    """Mark the panels that heads lie in, through which arrow keys lead; tell whether there are any."""
    groups = [element for element in root.iter() if "mark-group" in element.get("class", "")]
    inside = {mark: group for group in groups for mark in group.iterfind(".//*[@data-h]")}  # the innermost
    for panel in inside.values():
        panel.set("data-grid", "")
        title = panel.find(".//*[@class='mark-group role-title']")
        if title is not None:
            panel.attrib |= {"role": "group", "aria-label": " ".join(title.itertext())}
    return bool(inside)


def _read_head(label: str, heads: Heads) -> Head | None:
    """Read which head the label of a mark is about; beside a decoder it names the kind of attention."""
    head, layer = _HEAD.search(label), _LAYER.search(label)
    if head is None or layer is None:
        return None
    named = (kind for kind in heads.kinds if re.search(rf"\bof: [^;]*\b{kind}\b", label))
    kind = next(named, next(iter(heads.kinds), ""))
    return kind, int(layer[1]), int(head[1])


def _shorten(label: str, kind: str) -> str:
    r"""Give what a label says beside its place, as short as a tooltip is: the card of a head has all.

    >>> _shorten("head: 0; layer: 1; value: 0.311566; entropy: 0.31; standard error: 0.01", "heatmap")
    '0.31 ± 0.01'
    """
    hidden = _PLACES if kind == "roles" else {*_PLACES, "value"}
    parts = [part.partition(": ") for part in label.split("; ")]
    values = {name: value for name, _, value in parts if value not in ("", "null") and name not in hidden}
    error = values.pop("standard error", None) or values.pop("value error", None)
    return " \u00b1 ".join(filter(None, [", ".join(list(values.values())[:3]), error]))
