"""The page of a report."""

import base64
import zlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

from markupsafe import Markup

from attnprobe.reports.page import (
    RECORD,
    bundle_scripts,
    choose_precision,
    embed_bytes,
    embed_json,
    read_asset,
    render_page,
)
from attnprobe.reports.profile import read_profile
from attnprobe.reports.report_page import text
from attnprobe.reports.report_page.heads import Heads, Measure, collect_heads, collect_measures
from attnprobe.reports.report_page.pictures import draw_atlas, draw_tables, list_findings
from attnprobe.reports.report_page.report import GROUPS, OF_GOLD, OTHER, Contents
from attnprobe.reports.view.packing import SCALE, make_visible, pack_layer
from attnprobe.table.cells import clean
from attnprobe.table.sequence import SequenceAttention
from attnprobe.table.table import HeadTable

#: A table of more rows is not in the page: that of 16,110 pairs, of 180 heads, is.
MOST_ROWS = 20_000
#: So many rows of a table are shown; its file has all.
_SHOWN = 400
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
    every = contents.every
    heads = collect_heads(every)
    measures = [
        measure
        for section in ("census", "importance")
        for measure in collect_measures(heads, contents.of(section))
    ]
    roles = next(iter(contents.of("roles").values()), None)
    numbers = {name: number for number, name in enumerate(every)}
    record = text.make_record(contents)
    sentences = [_pack_sequence(one, n, heads) for n, one in enumerate(contents.seen)]
    atlas, beside, below = _sort_into_sections(contents, heads)
    data = {
        "heads": [list(head) for head in heads.every],
        "names": [heads.name(place) for place in range(len(heads.every))],
        "measures": [{"numbers": measure.write_numbers(), "ranks": measure.rank()} for measure in measures],
        "roles": None if roles is None else text.describe_roles(heads, roles, measures),
        "sentences": [{"kinds": kinds} for kinds, _ in sentences],
        "scale": SCALE,
        "shown": _SHOWN,
        "first": _choose_first(contents, measures),
        "tables": [
            {
                "name": name,
                "columns": [{"name": column.name, "role": column.role} for column in table.columns],
            }
            for name, table in every.items()
        ],
    }
    packed = {
        f"table-{numbers[name]}": _pack_table(table)
        for name, table in every.items()
        if len(table) <= MOST_ROWS
    }
    return render_page(
        "report.html.jinja",
        [read_asset("report.css")],
        [bundle_scripts("unpack.js", "report.js", "tables.js")],
        title=f"Attention heads of {make_visible(contents.model) or 'a checkpoint'}",
        lead=text.describe_heads(contents, heads),
        findings=[
            (clean(table.title), findings)
            for table in every.values()
            if (findings := list(list_findings(table)))
        ],
        atlas=atlas,
        beside=beside,
        below=below,
        meanings=[] if roles is None else text.explain_roles(roles),
        notes=text.collect_notes(contents),
        asked=text.describe_inputs(contents),
        limits=text.list_limits(contents),
        again=text.describe_command(record),
        heads=heads,
        measures=list(enumerate(measures)),
        sentences=[
            " | ".join(make_visible(one)[:_LONGEST_TEXT] for one in dict.fromkeys(sequence.texts))
            for sequence in contents.seen
        ],
        chosen=clean(contents.chosen),
        numbers=numbers,
        titles={name: clean(table.title) for name, table in every.items()},
        most_rows=MOST_ROWS,
        version=version("attnprobe"),
        created=record["created"],
        data=[embed_json("report-data", data), embed_json(RECORD, record)],
        packed=[
            embed_bytes(name, content)
            for part in (packed, *(layers for _, layers in sentences))
            for name, content in part.items()
        ],
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


def _choose_first(contents: Contents, measures: Sequence[Measure]) -> int:
    """Choose the head that the page opens on: the most important one, if that is known."""
    for measure in measures:
        if measure.table in contents.of("importance"):
            return max(range(len(measure.values)), key=lambda place: abs(measure.values[place] or 0.0))
    return 0


def _pack_table(table: HeadTable) -> str:
    """Pack a table as the csv file that ``-o`` writes, with as many digits as a page has room for."""
    content = table.render("csv", choose_precision(len(table)))
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
            "layers": list(maps.layers),
            "heads": width,
            "queries": [make_visible(label)[:_LONGEST] for label in maps.queries.labels],
            "keys": [make_visible(label)[:_LONGEST] for label in maps.keys.labels],
            "packed": name,
        }
        layers[name] = pack_layer(maps.rows.reshape(size * width, queries, keys))
    return kinds, layers
