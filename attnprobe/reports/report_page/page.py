"""The page of a report."""

import base64
import re
import zlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

from markupsafe import Markup

from attnprobe.errors import AttnprobeError
from attnprobe.reports.charts.draw import draw_picture, list_kinds
from attnprobe.reports.findings import state_finding
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
from attnprobe.reports.report_page.atlas import draw_atlas
from attnprobe.reports.report_page.measures import (
    Heads,
    Measure,
    collect_heads,
    collect_measures,
)
from attnprobe.reports.report_page.report import GROUPS, OF_GOLD, OTHER, SECTIONS, Contents
from attnprobe.reports.scales import Scale, find_p_name, fit_scales_by_unit, mark_effects
from attnprobe.reports.theme import ROLE_COLOURS, SEQUENTIAL, THEMES, choose_ink, interpolate_colours
from attnprobe.reports.view.packing import SCALE, encode_svg, make_visible, pack_layer
from attnprobe.table.cells import clean
from attnprobe.table.naming import LETTERS, MIXED, NOUNS, find_role_kind
from attnprobe.table.numbers import format_number, format_with_error, is_number
from attnprobe.table.sequence import SequenceAttention
from attnprobe.table.table import HeadTable

#: How the classes of colours begin: of what starts at 0, and of what goes both ways from it.
_LEVELS, _EFFECTS = "v", "e"
#: What the class of an effect ends with that may be none.
_FAINT = " faint"
#: The class of each role; that of a head without any has the colour of nothing.
_ROLE_STYLES = {kind: "none" if ROLE_COLOURS[kind] is None else f"r{n}" for n, kind in enumerate(LETTERS)}
#: A table of more rows is not in the page: that of 16,110 pairs, of 180 heads, is.
MOST_ROWS = 20_000
#: So many rows of a table are shown; its file has all.
_SHOWN = 400
#: Digits of a number of the card, of which it shows four.
_DIGITS = 10
#: What of a graphic is for readers of its marks, whom an image within a page has none.
_SPOKEN = re.compile(r' (?:aria-[a-z]+|role|pointer-events)="[^"]*"')
#: Steps of the colours of a heat map.
_STEPS = 32
#: Sections that show the pictures of their tables, with what their headings say.
_DRAWN = {
    **{section: f"What heads find: {section}" for section in OF_GOLD},
    GROUPS: "Groups of documents",
    "distance": "Heads with similar attention",
    "prune": "Pruning",
    "correlate": "Other data",
    OTHER: "More tables",
}
#: Most characters of a token and of a text.
_LONGEST, _LONGEST_TEXT = 40, 400


#: The section of the head atlas, and its id.
_ATLAS = "atlas"


class _Cell(NamedTuple):
    """A head in a grid: the class of its colour, what it says, and the letter that stands in it."""

    style: str
    label: str
    sign: str = ""


class Picture(NamedTuple):
    """A picture of all heads that is a section of its own, before those of numbers."""

    section: str  # whose notes and tables belong to it; the id of the section
    title: str
    words: str  # how it is read
    grids: Sequence[Mapping[str, Any]] = ()  # one for each kind of attention
    legend: Sequence[tuple[str, str, str, int, str]] = ()  # class, letter, name, how many heads, meaning
    drawing: Markup | None = None  # as wide as the page, in place of grids


class Drawing(NamedTuple):
    """The picture of a table, as a data URL, and what stands for it where it is not seen."""

    source: str
    label: str


def write_page(contents: Contents) -> str:
    """Write the page; see ``report.js`` for what it does."""
    every = contents.every
    heads = collect_heads(every)
    measures = [
        one for name in ("census", "importance") for one in collect_measures(heads, contents.of(name))
    ]
    roles = next(iter(contents.of("roles").values()), None)
    numbers = {name: number for number, name in enumerate(every)}
    record = text.make_record(contents)
    several = any(kind for kind, _, _ in heads.every)
    sentences = [_pack_sequence(one, n, several) for n, one in enumerate(contents.seen)]
    pictures = draw_pictures(contents, heads)
    under = _sort_under_pictures(contents, pictures)
    data = {
        "heads": [list(head) for head in heads.every],
        "measures": [_describe_measure(one) for one in measures],
        "roles": None if roles is None else _describe_roles(heads, roles, measures),
        "sentences": [{"kinds": kinds} for kinds, _ in sentences],
        "scale": SCALE,
        "shown": _SHOWN,
        "first": _choose_first(contents, measures),
        "tables": [
            {
                "name": name,
                "rows": len(table),
                "embedded": len(table) <= MOST_ROWS,
                "columns": [{"name": column.name, "role": column.role} for column in table.columns],
            }
            for name, table in every.items()
        ],
    }
    model = make_visible(contents.model) or "a checkpoint"
    return render_page(
        "report.html.jinja",
        [read_asset("report.css") + _list_colours()],
        [bundle_scripts("unpack.js", "report.js", "tables.js")],
        title=f"Attention heads of {model}",
        lead=text.describe_heads(contents, heads),
        notes=text.collect_notes(contents),
        asked=text.describe_inputs(contents),
        limits=text.list_limits(contents),
        again=text.describe_command(record),
        heads=heads,
        pictures=pictures,
        maps=_draw_maps(heads, measures, every),
        measures=list(enumerate(measures)),
        has_roles=roles is not None,
        effects=text.explain_effects(measures),
        sentences=[
            " | ".join(make_visible(one)[:_LONGEST_TEXT] for one in dict.fromkeys(sequence.texts))
            for sequence in contents.seen
        ],
        chosen=clean(contents.chosen),
        drawn=[
            (section, title, [one for table in under[section].values() if (one := _draw_table(table))])
            for section, title in _DRAWN.items()
            if under[section]
        ],
        tables={
            section: [(name, numbers[name], len(table)) for name, table in some.items()]
            for section, some in under.items()
        },
        titles={name: clean(table.title) for name, table in every.items()},
        shown_rows=_SHOWN,
        most_rows=MOST_ROWS,
        version=version("attnprobe"),
        created=record["created"],
        data=[embed_json("report-data", data), embed_json(RECORD, record)],
        packed=[
            *(embed_bytes(f"table-{numbers[name]}", _pack_table(table)) for name, table in every.items()
              if len(table) <= MOST_ROWS),
            *(embed_bytes(name, packed) for _, layers in sentences for name, packed in layers.items()),
        ],
    )  # fmt: skip


def draw_pictures(contents: Contents, heads: Heads) -> list[Picture]:
    """Draw the pictures of all heads, in the order of the page; the first one follows the highlights."""
    roles, atlas = next(iter(contents.of("roles").values()), None), draw_atlas(heads, contents.every)
    found = []
    if atlas is not None:
        drawing, words = atlas
        found.append(Picture(_ATLAS, "What each head looks at", words, drawing=drawing))
    return found if roles is None else [*found, _draw_roles(heads, roles)]


def _draw_table(table: HeadTable) -> Drawing | None:
    """Draw the picture of a table; None where it has none. Pairs of heads are drawn as a map."""
    kinds = list_kinds(table)
    try:
        made = draw_picture([table], "map" if "map" in kinds else None)
        graphic = _SPOKEN.sub("", made.rendered("svg").decode())
        return Drawing(encode_svg(graphic), f"{made.title}: the table has its numbers")
    except AttnprobeError:  # its numbers don't make one
        return None


def _sort_under_pictures(contents: Contents, pictures: Sequence[Picture]) -> dict[str, dict[str, HeadTable]]:
    """Give the tables of each section; one of attention by offset, which no other shows, is of the atlas."""
    found = {section: dict(contents.of(section)) for section in (*SECTIONS, OTHER)}
    found[_ATLAS] = {}
    if any(one.section == _ATLAS for one in pictures):
        found[_ATLAS] = {name: one for name, one in found[OTHER].items() if read_profile(one) is not None}
        found[OTHER] = {name: one for name, one in found[OTHER].items() if name not in found[_ATLAS]}
    return found


def _choose_first(contents: Contents, measures: Sequence[Measure]) -> int:
    for one in measures:
        if one.table in contents.of("importance"):
            return max(range(len(one.values)), key=lambda place: abs(one.values[place] or 0.0))
    return 0


def _describe_measure(measure: Measure) -> dict[str, Any]:
    """Give the numbers of a measure, as many digits as ever matter, and what it is."""
    values, errors = (
        [None if one is None else float(f"{one:.{_DIGITS}g}") for one in side]
        for side in (measure.values, measure.errors)
    )
    return {"name": clean(measure.column.name), "values": values, "errors": errors}


def _pack_table(table: HeadTable) -> str:
    """Pack a table as the csv file that ``-o`` writes, with as many digits as a page has room for."""
    content = table.render("csv", choose_precision(len(table)))
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


def _pack_sequence(
    sequence: SequenceAttention, number: int, several: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """Give the tokens of a sentence by kind of attention, and the attention of all heads, packed, by name."""
    kinds, layers = {}, {}
    for maps in sequence.maps:
        size, width, queries, keys = maps.rows.shape
        name = f"sentence-{number}-{maps.kind.value}"
        kinds[maps.kind.value if several else ""] = {
            "layers": list(maps.layers),
            "heads": width,
            "queries": [make_visible(label)[:_LONGEST] for label in maps.queries.labels],
            "keys": [make_visible(label)[:_LONGEST] for label in maps.keys.labels],
            "packed": name,
        }
        layers[name] = pack_layer(maps.rows.reshape(size * width, queries, keys))
    return kinds, layers


def _draw_maps(
    heads: Heads, measures: Sequence[Measure], tables: Mapping[str, HeadTable]
) -> list[dict[str, Any]]:
    """Lay out the headline measures, each with a grid for every kind of attention."""
    drawn = [(number, one) for number, one in enumerate(measures) if one.column.headline]
    scales = fit_scales_by_unit([(one.column, one.values, one.errors) for _, one in drawn])
    found = []
    for (number, measure), scale in zip(drawn, scales, strict=True):
        found.append({
            "number": number, "measure": measure,
            "finding": clean(state_finding(tables[measure.table], measure.column)),
            "low": format_number(scale.low), "high": format_number(scale.high),
            "colours": _EFFECTS if scale.is_of_effects else _LEVELS,
            "grids": _lay_out_grids(heads, _colour_heads(heads, measure, scale, measures)),
        })  # fmt: skip
    return found


def _find_step(value: float | None, scale: Scale) -> int | None:
    """Find the step of the colour of a number.

    >>> [_find_step(value, Scale(-1, 1)) for value in (-1, 0, 1, None)]
    [0, 16, 31, None]
    """
    return None if value is None else min(_STEPS - 1, int(scale.place(value) * _STEPS))


def _colour_heads(heads: Heads, measure: Measure, scale: Scale, measures: Sequence[Measure]) -> list[_Cell]:
    """Give each head its colour, and its number in a sentence; an effect that may be none is faint."""
    pale = [False] * len(measure.values)
    if scale.is_of_effects:
        beside = {one.column.name: one.values for one in measures if one.table == measure.table}
        p = find_p_name(
            measure.column.name, beside, lambda name: any(one is not None for one in beside[name])
        )
        pale = mark_effects(
            measure.values, measure.errors, measure.documents, None if p is None else beside[p]
        ).pale
    kind = _EFFECTS if scale.is_of_effects else _LEVELS
    steps = [_find_step(value, scale) for value in measure.values]
    styles = ["" if step is None else f"{kind}{step}{_FAINT * pale[n]}" for n, step in enumerate(steps)]
    return [
        _Cell(style, f"{heads.name(n)}: {measure.title}, {measure.describe(n)}")
        for n, style in enumerate(styles)
    ]


def _lay_out_grids(heads: Heads, cells: Sequence[_Cell]) -> list[dict[str, Any]]:
    found = []
    for kind, (layers, numbers) in heads.grids.items():
        places = [[heads.find((kind, layer, head)) for head in numbers] for layer in layers]
        lines = [[None if place is None else (place, cells[place]) for place in line] for line in places]
        rows = list(zip(layers, lines, strict=True))
        wide = "many" if len(numbers) > 16 else "some" if len(numbers) > 12 else "few"
        found.append({"kind": kind, "heads": numbers, "rows": rows, "wide": wide})
    return found


def _describe_roles(heads: Heads, table: HeadTable, measures: Sequence[Measure]) -> list[str]:
    titles = {one.column.name: one.title for one in measures}
    names = ("role", "measure", "value", "value_se", "threshold", "also")
    found = []
    for role, measure, value, error, threshold, also in zip(
        *(heads.sort_cells(table, name) for name in names), strict=True
    ):
        said = f"Role: {clean(str(role or MIXED))}"
        if measure and is_number(value):
            title = titles.get(str(measure)) or str(measure).replace("_", " ")
            said += f"; {clean(title)} {format_with_error(value, error)}"
            said += f", threshold {format_number(threshold)}" if is_number(threshold) else ""
        said += f"; also: {clean(str(also))}" if also else ""
        found.append(f"{said}.")
    return found


def _draw_roles(heads: Heads, table: HeadTable) -> Picture:
    roles = heads.sort_cells(table, "role")
    kinds = [find_role_kind(str(role)) for role in roles if role is not None]
    legend = [
        (_ROLE_STYLES[kind], LETTERS[kind], kind, kinds.count(kind), text.MEANINGS[kind])
        for kind in LETTERS
        if kind in kinds
    ]
    words = (
        "The letter of a head stands for the first role that its attention shows beyond the threshold. "
        "Choose a head here or in any other chart, and all charts show it. The arrow keys move from head to "
        "head."
    )
    return Picture("roles", "Roles", words, _lay_out_grids(heads, _colour_roles(heads, table)), legend)


def _colour_roles(heads: Heads, table: HeadTable) -> list[_Cell]:
    cells = []
    names = ("role", "value", "value_se")
    for place, (role, *evidence) in enumerate(
        zip(*(heads.sort_cells(table, name) for name in names), strict=True)
    ):
        if role is None:
            cells.append(_Cell("", f"{heads.name(place)}: no role was asked for"))
            continue
        kind = find_role_kind(str(role))
        said = f"{heads.name(place)}: {NOUNS.get(kind) or clean(str(role))}"
        if is_number(evidence[0]):
            said += f", {format_with_error(*evidence)}"
        cells.append(_Cell(_ROLE_STYLES[kind], said, LETTERS[kind]))
    return cells


def _list_colours() -> str:
    """Give the colours of cells: of levels, of effects, of roles; ink that is read on each."""
    levels, effects = (interpolate_colours(ramp, _STEPS) for ramp in (SEQUENTIAL, THEMES["light"].diverging))
    named = {f"{kind}{step}": one for kind, ramp in ((_LEVELS, levels), (_EFFECTS, effects))
             for step, one in enumerate(ramp)}  # fmt: skip
    named |= {style: one for kind, style in _ROLE_STYLES.items() if (one := ROLE_COLOURS[kind]) is not None}
    lines = [
        f".{style}{{background:{one};fill:{one};color:{choose_ink(one)}}}" for style, one in named.items()
    ]
    return "\n".join(["", *lines, ""])
