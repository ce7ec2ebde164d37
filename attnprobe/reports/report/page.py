"""The page of a report."""

import base64
import shlex
import zlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

from markupsafe import Markup

from attnprobe.reports.page import (
    bundle_scripts,
    embed_bytes,
    embed_json,
    read_asset,
    render_page,
)
from attnprobe.reports.profile import read_profile
from attnprobe.reports.report import text
from attnprobe.reports.report.card import Heads, collect_heads, collect_measures, describe_roles
from attnprobe.reports.report.pictures import draw_atlas, draw_tables, list_findings
from attnprobe.reports.report.report import GROUPS, OF_GOLD, OTHER, Contents
from attnprobe.reports.view.packing import SCALE, make_visible, pack_layer
from attnprobe.table.cells import clean
from attnprobe.table.sequence import SequenceAttention
from attnprobe.table.table import HeadTable

#: A table of more rows is not in the page: that of 16,110 pairs, of 180 heads, is.
MOST_ROWS = 20_000
#: So many rows of a table are shown; its file has all.
_SHOWN = 400
#: Most rows of a table whose numbers a page holds exactly, and the significant digits of longer ones: of
#: pairs of 144 heads, all digits would be half of the page.
_EXACT, _SHORT = 2_000, 8
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


class Section(NamedTuple):
    """A section of the page: tables, their notes and their pictures."""

    name: str
    title: str
    tables: Mapping[str, HeadTable]
    pictures: Sequence[Markup]


def write_page(contents: Contents) -> str:
    """Write the page; see ``report.js`` for what it does."""
    every, command = contents.every, contents.command
    heads = collect_heads(every)
    important = collect_measures(heads, contents.of("importance"))
    measures = [*collect_measures(heads, contents.of("census")), *important]
    roles = next(iter(contents.of("roles").values()), None)
    record = text.make_record(contents)
    sentences = [_pack_sequence(seen, number, heads) for number, seen in enumerate(contents.seen)]
    atlas, beside, below = _sort_into_sections(contents, heads)
    data = {
        "heads": heads.every,
        "names": heads.names,
        "measures": [{name: measure[name] for name in ("numbers", "ranks")} for measure in measures],
        "roles": None if roles is None else describe_roles(heads, roles),
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
        "report.html.jinja",
        [read_asset("report.css")],
        [bundle_scripts("common.js", "report.js")],
        title=f"Attention heads of {make_visible(contents.model) or 'a checkpoint'}",
        lead=text.describe_heads(contents, heads),
        findings=[(title, lines) for title, lines in findings if lines],
        atlas=atlas,
        beside=beside,
        below=below,
        meanings=[] if roles is None else text.explain_roles(roles),
        notes=text.collect_notes(contents),
        asked=text.describe_inputs(contents),
        unit=contents.unit,
        important=bool(important),
        record=record,
        command=clean(command if isinstance(command, str) else shlex.join(command)),
        versions=clean(", ".join(f"{name} {number}" for name, number in record["versions"].items())),
        heads=heads,
        measures=list(enumerate(measures)),
        sentences=[
            " | ".join(make_visible(part)[:_LONGEST_TEXT] for part in dict.fromkeys(seen.texts))
            for seen in contents.seen
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
) -> tuple[Section | None, list[Section], list[Section]]:
    """Draw the atlas, the sections beside the card of a head, and those below."""
    tables = {section: dict(contents.of(section)) for section in (*_BESIDE, *_BELOW)}
    picture, atlas = draw_atlas(heads, contents.every), None
    if picture is not None:  # it is what a table of nothing but attention by offset is drawn as
        profiles = {name: table for name, table in tables[OTHER].items() if read_profile(table) is not None}
        tables[OTHER] = {name: table for name, table in tables[OTHER].items() if name not in profiles}
        atlas = Section("atlas", "What each head looks at", profiles, [picture])

    def draw(titles: Mapping[str, str]) -> Iterator[Section]:
        for name, title in titles.items():
            if tables[name]:
                yield Section(name, title, tables[name], draw_tables(heads, tables[name]))

    return atlas, list(draw(_BESIDE)), list(draw(_BELOW))


def _pack_table(table: HeadTable) -> str:
    """Pack a table as the csv file that ``-o`` writes, with as many digits as a page has room for."""
    content = table.render("csv", None if len(table) <= _EXACT else _SHORT)
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


def _pack_sequence(
    sequence: SequenceAttention, number: int, heads: Heads
) -> tuple[dict[str, Any], dict[str, str]]:
    """Give the tokens of a sentence by kind of attention, and the attention of all heads, packed, by name."""
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
