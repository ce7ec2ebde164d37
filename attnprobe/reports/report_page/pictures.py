"""Pictures within the page of a report: those of ``plot``, in its colours, with heads that can be chosen."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from xml.etree import ElementTree

from markupsafe import Markup

from attnprobe.errors import AttnprobeError
from attnprobe.reports.charts.draw import draw_picture, list_kinds
from attnprobe.reports.charts.figures import FIGURES
from attnprobe.reports.columns import DrawingRequest
from attnprobe.reports.findings import state_finding
from attnprobe.reports.profile import join_beside_profile, read_profile
from attnprobe.reports.report_page.heads import Head, Heads, read_heads
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
#: What an attribute for readers of single marks is; in a page, the whole picture has a label.
_SPOKEN = ("role", "aria-label", "aria-roledescription", "aria-hidden", "pointer-events")
#: What an attribute says that is so anyway.
_PLAIN = {"opacity": "1", "fill-opacity": "1", "stroke-width": "0", "font-weight": "normal"}
#: Decimals of a place that nobody sees.
_UNSEEN = re.compile(r"(\.\d)\d+")
#: A path of nothing but straight lines, and a point of it.
_LINES, _POINT = re.compile(r"[MLZ\d.,-]+"), re.compile(r"([ML])([\d.-]+),([\d.-]+)")
_RGB = re.compile(r"rgb\((\d+), (\d+), (\d+)\)")


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
    return _draw(joined, heads, "atlas", _WIDEST) if "atlas" in list_kinds(joined) else None


def list_findings(table: HeadTable) -> Iterator[tuple[str, str]]:
    """State what each measure shows that the picture of a table has, after its title."""
    kinds = list_kinds(table)
    if not kinds or (figure := FIGURES[kinds[0]]).states is None:
        return
    request = DrawingRequest(_THEME, _WIDTH)
    columns = [table.column(figure.states)] if figure.states else figure.columns(table, request)
    for column in columns:
        if finding := state_finding(table, column):
            yield clean(column.title or column.name.replace("_", " ")), clean(finding)


def _draw(table: HeadTable, heads: Heads, kind: str | None, width: int) -> Markup:
    picture = draw_picture([table], kind, theme=_THEME, width=width)
    root = ElementTree.fromstring(picture.rendered("svg"))
    parents = {child: parent for parent in root.iter() for child in parent}
    has_roles = {"layer", "head", "role"} <= table.data.keys()
    roles = dict(zip(read_heads(table), table.data["role"], strict=True)) if has_roles else {}
    panels = {}
    for element in root.iter():
        label = element.get("aria-label", "")
        _trim(element)
        head = _read_head(label, heads) if element.tag == f"{{{_SVG}}}path" else None
        if (number := heads.find(head)) is not None:
            evidence = _shorten(label, picture.kind) or clean(str(roles.get(head, "")))
            element.set("aria-label", ": ".join(filter(None, [heads.name(number), evidence])))
            element.set("data-h", str(number))
            panels[_find_panel(element, parents)] = None
    for panel in panels:
        panel.set("data-grid", "")
        title = panel.find(".//*[@class='mark-group role-title']")
        if title is not None:
            panel.attrib |= {"role": "group", "aria-label": " ".join(title.itertext())}
    for element, parent in parents.items():
        unseen = element.get("display") == "none" or element.attrib.keys() <= {"class", "d"}
        if element.tag == f"{{{_SVG}}}path" and unseen:
            parent.remove(element)
        element.attrib.pop("class", None)
    root.attrib |= {
        "class": "picture",
        "role": "group" if panels else "img",
        "aria-label": f"{picture.title}: the table has its numbers",
        "font-family": _THEME.config()["font"],
    }
    ElementTree.register_namespace("", _SVG)
    return Markup(ElementTree.tostring(root, encoding="unicode").replace(" />", "/>"))


def _trim(element: ElementTree.Element) -> None:
    """Leave out what a page need not hold of each mark."""
    attributes = {
        name: _write_path(value) if name in ("d", "transform") else _RGB.sub(_write_hex, value)
        for name, value in element.attrib.items()
        if name not in (*_SPOKEN, "font-family") and _PLAIN.get(name) != value
    }
    element.attrib.clear()
    element.attrib |= attributes


def _write_path(path: str) -> str:
    """Write a path with a decimal, and lines straight across or down as such.

    >>> _write_path("M0.123,5L0.123,7.5L3,7.5L4,8")
    'M0.1,5V7.5H3L4,8'
    """
    path = _UNSEEN.sub(r"\1", path)
    if not _LINES.fullmatch(path):
        return path
    before = ("", "")

    def write(point: re.Match[str]) -> str:
        nonlocal before
        (x, y), (command, *place) = before, point.groups()
        before = (place[0], place[1])
        if command == "L" and x == place[0]:
            return f"V{place[1]}"
        return f"H{place[0]}" if command == "L" and y == place[1] else point[0]

    return _POINT.sub(write, path)


def _write_hex(colour: re.Match[str]) -> str:
    return "#" + "".join(f"{int(part):02x}" for part in colour.groups())


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


def _find_panel(
    element: ElementTree.Element, parents: Mapping[ElementTree.Element, ElementTree.Element]
) -> ElementTree.Element:
    """Find the panel that a mark lies in, through which arrow keys lead."""
    while element in parents and "mark-group" not in element.get("class", ""):
        element = parents[element]
    return element
