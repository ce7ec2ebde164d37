"""The page of a report: sections of tables and of pictures, in which heads can be chosen."""

import base64
import re
import shlex
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any, ClassVar, NamedTuple
from xml.etree import ElementTree

from markupsafe import Markup

from attnprobe.errors import AttnprobeError
from attnprobe.reports.charts.draw import draw_picture, list_kinds
from attnprobe.reports.charts.figures import FIGURES
from attnprobe.reports.columns import DrawingRequest, name_measure
from attnprobe.reports.findings import state_finding
from attnprobe.reports.page import embed_bytes, embed_json, frame_page, render_page
from attnprobe.reports.profile import join_beside_profile, read_profile
from attnprobe.reports.report import summary
from attnprobe.reports.report.contents import GROUPS, OF_GOLD, OTHER, Contents
from attnprobe.reports.report.summary import Head, Heads, read_heads
from attnprobe.reports.theme import THEMES
from attnprobe.reports.view.packing import SCALE, make_visible, pack_layer
from attnprobe.table.cells import clean
from attnprobe.table.destination import Saveable
from attnprobe.table.sequence import SequenceAttention
from attnprobe.table.table import HeadTable

#: A table of more rows is not in the page: that of 16,110 pairs, of 180 heads, is.
MOST_ROWS = 20_000
#: How many rows of a table are shown; its file has all.
_SHOWN = 400
#: Most rows of a table that a page holds with all digits, and the digits of longer tables: all digits of the
#: pairs of 144 heads would be half of the page.
_EXACT, _SHORT = 2_000, 6
#: Sections that stand beside the card of a head, and those below, with their headings.
_BESIDE = {"roles": "Roles", "importance": "Importance", "census": "Maps of all heads"}
_BELOW = {
    **{section: f"What heads find: {section}" for section in OF_GOLD},
    GROUPS: "Groups of documents",
    "distance": "Heads with similar attention",
    "prune": "Pruning",
    "correlate": "Other data",
    OTHER: "More tables",
}
#: Most characters of a token and of a text.
_LONGEST, _LONGEST_TEXT = 40, 400
#: Colours follow the page, light or dark, and text is as large as that around.
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
#: Parts of a label that say only where a mark is.
_PLACES = {"head", "layer", "x", "y", "kind", "of", "n"}
#: Attributes that are left out: the font, and labels of single marks, as the whole picture has one.
_LEFT_OUT = {"role", "aria-label", "aria-roledescription", "aria-hidden", "pointer-events", "font-family"}
#: Attributes that are the default.
_PLAIN = {("opacity", "1"), ("fill-opacity", "1"), ("stroke-width", "0"), ("font-weight", "normal")}
#: Decimals of pixels that nobody sees.
_UNSEEN = re.compile(r"(\.\d)\d+")


class PageSection(NamedTuple):
    """A section of the page: tables, their notes and their pictures."""

    name: str
    title: str
    tables: Mapping[str, HeadTable]
    pictures: Sequence[Markup]


def write_page(contents: Contents) -> str:
    """Write a report as the text of an html page; see ``report.js`` for what the page does."""
    every, command = contents.every, contents.command
    heads = summary.collect_heads(every)
    important = summary.collect_measures(heads, contents.of("importance"))
    measures = [*summary.collect_measures(heads, contents.of("census")), *important]
    roles = next(iter(contents.of("roles").values()), None)
    record = summary.make_record(contents)
    sentences = [
        _pack_sequence(sequence, number, heads) for number, sequence in enumerate(contents.sentences)
    ]
    atlas, beside, below = _sort_into_sections(contents, heads)
    data = {
        "heads": heads.every,
        "names": heads.names,
        "measures": [{name: measure[name] for name in ("numbers", "ranks")} for measure in measures],
        "roles": None if roles is None else summary.describe_roles(heads, roles),
        "sentences": [kinds for kinds, _ in sentences],
        "scale": SCALE,
        "shown": _SHOWN,
        # The page opens on the most important head, if that is known.
        "first": next((measure["ranks"].index(1) for measure in important), 0),
        "tables": [
            {"name": name, "columns": [[column.name, column.role] for column in table.columns]}
            for name, table in every.items()
        ],
    }
    packed = {
        f"table-{number}": _pack_table(table)
        for number, table in enumerate(every.values())
        if len(table) <= MOST_ROWS
    }
    for _, layers in sentences:
        packed |= layers
    findings = [(clean(table.title), list(list_findings(table))) for table in every.values()]
    return render_page(
        "report",
        title=f"Attention heads of {make_visible(contents.model) or 'a checkpoint'}",
        lead=summary.describe_heads(contents, heads),
        findings=[(title, lines) for title, lines in findings if lines],
        atlas=atlas,
        beside=beside,
        below=below,
        roles=roles is not None,
        notes=summary.collect_notes(contents),
        inputs=summary.describe_inputs(contents),
        unit=contents.unit,
        important=bool(important),
        record=record,
        command=clean(command if isinstance(command, str) else shlex.join(command)),
        versions=clean(", ".join(f"{name} {number}" for name, number in record["versions"].items())),
        heads=heads,
        measures=list(enumerate(measures)),
        sentences=[
            " | ".join(make_visible(part)[:_LONGEST_TEXT] for part in dict.fromkeys(sequence.texts))
            for sequence in contents.sentences
        ],
        chosen=clean(contents.chosen),
        numbers={name: number for number, name in enumerate(every)},
        titles={name: clean(table.title) for name, table in every.items()},
        most_rows=MOST_ROWS,
        version=version("attnprobe"),
        data=[embed_json("report-data", data), embed_json("attnprobe-record", record)],
        packed=[embed_bytes(name, content) for name, content in packed.items()],
    )


def _sort_into_sections(
    contents: Contents, heads: Heads
) -> tuple[PageSection | None, list[PageSection], list[PageSection]]:
    """Draw all sections: the atlas or None, those beside the card of a head, and those below."""
    tables = {section: dict(contents.of(section)) for section in (*_BESIDE, *_BELOW)}
    picture, atlas = draw_atlas(heads, contents.every), None
    if picture is not None:  # it is what a table of nothing but attention by offset is drawn as
        profiles = {name: table for name, table in tables[OTHER].items() if read_profile(table) is not None}
        tables[OTHER] = {name: table for name, table in tables[OTHER].items() if name not in profiles}
        atlas = PageSection("atlas", "What each head looks at", profiles, [picture])

    def draw(titles: Mapping[str, str]) -> Iterator[PageSection]:
        for name, title in titles.items():
            if tables[name]:
                yield PageSection(name, title, tables[name], draw_tables(heads, tables[name]))

    return atlas, list(draw(_BESIDE)), list(draw(_BELOW))


def _pack_table(table: HeadTable) -> str:
    """Pack a table as compressed csv in base64, with fewer digits if it is long."""
    content = table.render("csv", None if len(table) <= _EXACT else _SHORT)
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


def _pack_sequence(
    sequence: SequenceAttention, number: int, heads: Heads
) -> tuple[dict[str, Any], dict[str, str]]:
    """Pack a sentence: its tokens by kind of attention, and by name the attention of all heads."""
    kinds, layers = {}, {}
    for maps in sequence.maps:
        size, width, queries, keys = maps.rows.shape
        name = f"sentence-{number}-{maps.kind.value}"
        kinds[maps.kind.value if any(heads.kinds) else ""] = {
            "layers": maps.layers,
            "heads": width,
            "queries": [make_visible(label)[:_LONGEST] for label in maps.queries.labels],
            "keys": [make_visible(label)[:_LONGEST] for label in maps.keys.labels],
            "packed": name,
        }
        layers[name] = pack_layer(maps.rows.reshape(size * width, queries, keys))
    return kinds, layers


def draw_tables(heads: Heads, tables: Mapping[str, HeadTable]) -> list[Markup]:
    """Draw each table that has a picture; pairs of heads as a map."""
    drawn = []
    for table in tables.values():
        with suppress(AttnprobeError):  # its numbers make no picture
            drawn.append(_draw_svg(table, heads, "map" if "map" in list_kinds(table) else None, _WIDTH))
    return drawn


def draw_atlas(heads: Heads, tables: Mapping[str, HeadTable]) -> Markup | None:
    """Draw the atlas of the first table of attention by offset, if any, plus others' roles and entropies."""
    joined = profile = next((table for table in tables.values() if read_profile(table) is not None), None)
    if joined is None:
        return None
    for other in tables.values():
        beside = {"role", "entropy_normalized"} & other.data.keys()
        if other is not profile and beside and not beside & joined.data.keys():
            with suppress(AttnprobeError):  # it is about other heads
                joined = join_beside_profile([joined, other])
    return _draw_svg(joined, heads, "atlas", _WIDEST) if "atlas" in list_kinds(joined) else None


def list_findings(table: HeadTable) -> Iterator[tuple[str, str]]:
    """List the measures in the picture of a table, each with its finding."""
    kinds = list_kinds(table)
    request = DrawingRequest(_THEME, _WIDTH)
    for column in FIGURES[kinds[0]].list_stated(table, request) if kinds else ():
        if finding := state_finding(table, column):
            yield name_measure(column), clean(finding)


def _draw_svg(table: HeadTable, heads: Heads, kind: str | None, width: int) -> Markup:
    picture = draw_picture([table], kind, theme=_THEME, width=width)
    root = ElementTree.fromstring(picture.render("svg"))
    has_roles = {"layer", "head", "role"} <= table.data.keys()
    roles = dict(zip(read_heads(table), table.data["role"], strict=True)) if has_roles else {}
    for element in root.iter():
        label = element.get("aria-label", "")
        kept = {
            name: _UNSEEN.sub(r"\1", value) if name in ("d", "transform") else value
            for name, value in element.items()
            if name not in _LEFT_OUT and (name, value) not in _PLAIN
        }
        element.attrib.clear()
        element.attrib |= kept
        head = _read_head(label, heads) if element.tag == f"{{{_SVG}}}path" else None
        if head is not None and (number := heads.places.get(head)) is not None:
            evidence = _shorten(label, picture.kind) or clean(str(roles.get(head, "")))
            element.set("aria-label", ": ".join(filter(None, [heads.names[number], evidence])))
            element.set("data-h", str(number))
    has_heads = _mark_panels(root)
    for element in root.iter():
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
    """Mark the panels with heads, through which arrow keys walk; tell whether there are any."""
    groups = [element for element in root.iter() if "mark-group" in element.get("class", "")]
    inside = {mark: group for group in groups for mark in group.iterfind(".//*[@data-h]")}  # the innermost
    for panel in inside.values():
        panel.set("data-grid", "")
        title = panel.find(".//*[@class='mark-group role-title']")
        if title is not None:
            panel.attrib |= {"role": "group", "aria-label": " ".join(title.itertext())}
    return bool(inside)


def _read_head(label: str, heads: Heads) -> Head | None:
    """Read the head off the label of a mark, which ``heads`` need not hold; None if it names none."""
    head, layer = _HEAD.search(label), _LAYER.search(label)
    if head is None or layer is None:
        return None
    named = (kind for kind in heads.kinds if re.search(rf"\bof: [^;]*\b{kind}\b", label))
    kind = next(named, next(iter(heads.kinds), ""))
    return kind, int(layer[1]), int(head[1])


def _shorten(label: str, kind: str) -> str:
    """Shorten the label of a mark to three values and an error, without its place.

    >>> _shorten("head: 0; layer: 1; value: 0.311566; entropy: 0.31; standard error: 0.01", "heatmap")
    '0.31 ± 0.01'
    """
    hidden = _PLACES if kind == "roles" else {*_PLACES, "value"}
    parts = [part.partition(": ") for part in label.split("; ")]
    values = {name: value for name, _, value in parts if value not in ("", "null") and name not in hidden}
    error = values.pop("standard error", None) or values.pop("value error", None)
    return " ± ".join(filter(None, [", ".join(list(values.values())[:3]), error]))


@dataclass(frozen=True, repr=False)
class Report(Saveable):
    """One page about a checkpoint, in one file that needs no network."""

    endings: ClassVar[Sequence[str]] = ("html",)

    contents: Contents = field(repr=False)

    @property
    def tables(self) -> Mapping[str, HeadTable]:
        """The tables of the report, by name; ``tables["census"].to_pandas()`` is a DataFrame."""
        return self.contents.every

    @cached_property
    def html(self) -> str:
        """The page."""
        return write_page(self.contents)

    def render(self, format: str) -> bytes:
        """Give the page as bytes."""
        return self.html.encode()

    def _repr_html_(self) -> str:
        return frame_page(self.html, "Report of a checkpoint", 800)

    def __repr__(self) -> str:
        return f"Report({self.contents.model!r}: {', '.join(self.tables)})"
