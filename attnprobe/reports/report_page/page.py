"""The page of a report."""

import base64
import zlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

from markupsafe import Markup

from attnprobe.reports.columns import DrawingRequest
from attnprobe.reports.page import (
    RECORD,
    bundle_scripts,
    choose_precision,
    embed_bytes,
    embed_json,
    read_asset,
    render_page,
)
from attnprobe.reports.pictures.channels import interpolate_colours
from attnprobe.reports.pictures.choosing import state_picture
from attnprobe.reports.profile import read_profile
from attnprobe.reports.report_page import charts, text
from attnprobe.reports.report_page.atlas import draw_atlas
from attnprobe.reports.report_page.charts import find_factor, format_cells
from attnprobe.reports.report_page.evidence import find_examples, list_relations
from attnprobe.reports.report_page.highlights import Charts, Highlight, choose_highlights
from attnprobe.reports.report_page.measures import (
    Heads,
    Measure,
    collect_heads,
    collect_measures,
    format_number,
    format_p,
    format_with_error,
    is_number,
)
from attnprobe.reports.report_page.report import OF_GOLD, OTHER, SECTIONS, Contents
from attnprobe.reports.scales import Scale, find_p_name, fit_scales_by_unit, mark_effects
from attnprobe.reports.shapes import lay_out_roles
from attnprobe.reports.theme import ROLE_COLOURS, SEQUENTIAL, THEMES, choose_ink
from attnprobe.reports.view import SCALE, make_visible, pack_layer
from attnprobe.survey.tokens import SequenceAttention
from attnprobe.table.cells import clean
from attnprobe.table.destination import render_table
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import PictureKind
from attnprobe.table.naming import LETTERS, NOUNS, find_role_kind

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
#: Grids of more heads have no number in each cell, but the rank in those of the highest; so many of these.
_NARROW, _RANKED = 12, 5
#: Most characters of a token and of a text.
_LONGEST, _LONGEST_TEXT = 40, 400


#: The section of the head atlas, and its id.
_ATLAS = "atlas"


class _Cell(NamedTuple):
    """A head in a grid: the class of its colour, what it says, and the letter or number that stands in it."""

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
    finding: str = ""  # what the table of the picture bears out


def write_page(contents: Contents) -> str:
    """Write the page; see ``report.js`` for what it does."""
    every = contents.every
    heads = collect_heads(every)
    measures = [
        one for name in ("census", "importance") for one in collect_measures(heads, contents.of(name))
    ]
    distance, pruned, roles = (
        next(iter(contents.of(name).values()), None) for name in ("distance", "prune", "roles")
    )
    by_head, in_one_row = (
        next((one for one in contents.of("correlate").values() if ("head" in one.data) is of_heads), None)
        for of_heads in (True, False)
    )
    numbers = {name: number for number, name in enumerate(every)}
    tasks = contents.of("importance")
    important = ((number, tasks[one.table]) for number, one in enumerate(measures) if one.table in tasks)
    importance = next((text.describe_importance(table, number) for number, table in important), None)
    record = text.make_record(contents)
    several = any(kind for kind, _, _ in heads.every)
    sentences = [_pack_sequence(one, n, several) for n, one in enumerate(contents.seen)]
    maps = _draw_maps(heads, measures)
    drawn = Charts(
        {one["number"]: one["styles"] for one in maps},
        [] if roles is None else [cell.style for cell in _colour_roles(heads, roles)],
        [] if distance is None else charts.draw_head_maps(heads, distance),
        None if pruned is None else charts.draw_curve(pruned),
        None if by_head is None else charts.draw_scatter(heads, by_head, measures),
    )
    task = "the task" if importance is None else importance["task"]
    sections = {section: contents.of(section) for section in SECTIONS}
    pictures = draw_pictures(contents, heads)
    highlights = choose_highlights(heads, measures, sections, task, drawn)
    data = {
        "title": contents.title,
        "author": contents.author,
        "note": contents.note,
        "heads": [list(head) for head in heads.every],
        "measures": [_describe_measure(one) for one in measures],
        "roles": None if roles is None else _describe_roles(heads, roles, measures),
        "importance": importance,
        "sentences": [{"kinds": kinds} for kinds, _ in sentences],
        "scale": SCALE,
        "shown": _SHOWN,
        "first": _choose_first(highlights),
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
    usual = f"Attention heads of {model}"
    return render_page(
        "report.html.jinja",
        [read_asset("report.css") + _list_colours()],
        [bundle_scripts("unpack.js", "report.js", "tables.js")],
        title=make_visible(contents.title) if contents.title.strip() else usual,
        model=model,
        is_titled=bool(contents.title.strip()),
        author=make_visible(contents.author) if contents.author.strip() else "",
        remarks=[make_visible(line) for line in contents.note.splitlines() if line.strip()],
        lead=text.describe_heads(contents, heads),
        highlights=highlights,
        notes=text.collect_notes(contents),
        asked=text.describe_inputs(contents),
        limits=text.list_limits(contents, measures),
        again=text.describe_command(record),
        missing=[(section, clean(command)) for section, command in contents.missing.items()],
        heads=heads,
        pictures=pictures,
        findings=_state_sections(contents) | {one.section: one.finding for one in pictures if one.finding},
        maps=maps,
        measures=[(number, one, charts.draw_strip(one)) for number, one in enumerate(measures)],
        has_roles=roles is not None,
        effects=text.explain_effects(measures),
        apart=text.warn_of_other_data(contents),
        gold={
            section: list_relations(heads, table)
            for section in OF_GOLD
            for table in contents.of(section).values()
        },
        examples=[] if roles is None else find_examples(heads, roles, contents.seen),
        importance=importance,
        sentences=[
            " | ".join(make_visible(one)[:_LONGEST_TEXT] for one in dict.fromkeys(sequence.texts))
            for sequence in contents.seen
        ],
        chosen=clean(contents.chosen),
        distance=drawn.distance,
        least_on_a_map=charts.LEAST_ON_A_MAP,
        most_on_a_map=charts.MOST_ON_A_MAP,
        curve=drawn.curve,
        scatter=drawn.scatter,
        correlation=None if in_one_row is None else _list_correlation(in_one_row),
        tables={
            section: [(name, numbers[name], len(table)) for name, table in some.items()]
            for section, some in _sort_under_pictures(contents, pictures).items()
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
        drawing, words, stated = atlas
        title = "What each head looks at"
        found.append(Picture(_ATLAS, title, words, drawing=drawing, finding=stated))
    return found if roles is None else [*found, _draw_roles(heads, roles)]


#: Which picture of a section its heading states the finding of, as the title of that picture does.
_STATED: Mapping[str, PictureKind] = {
    "roles": "roles", "prune": "curves", "correlate": "intervals", **dict.fromkeys(OF_GOLD, "relations"),
}  # fmt: skip


def _state_sections(contents: Contents) -> dict[str, str]:
    """State what each section finds, of those whose tables bear a sentence out."""
    request = DrawingRequest(THEMES["light"], 0)
    found = {}
    for section, kind in _STATED.items():
        said = [state_picture(kind, table, request) for table in contents.of(section).values()]
        found[section] = clean(next(filter(None, said), ""))
    return found


def _sort_under_pictures(contents: Contents, pictures: Sequence[Picture]) -> dict[str, dict[str, HeadTable]]:
    """Give the tables of each section; one of attention by offset, which no other shows, is of the atlas."""
    found = {section: dict(contents.of(section)) for section in (*SECTIONS, OTHER)}
    found[_ATLAS] = {}
    if any(one.section == _ATLAS for one in pictures):
        found[_ATLAS] = {name: one for name, one in found[OTHER].items() if read_profile(one) is not None}
        found[OTHER] = {name: one for name, one in found[OTHER].items() if name not in found[_ATLAS]}
    return found


def _choose_first(highlights: Sequence[Highlight]) -> int:
    """Choose the head that the page opens with."""
    return next((one.head for one in highlights if one.head is not None), 0)


def _describe_measure(measure: Measure) -> dict[str, Any]:
    """Give the numbers of a measure, as many digits as ever matter, and what it is."""
    values, errors = (
        [None if one is None else float(f"{one:.{_DIGITS}g}") for one in side]
        for side in (measure.values, measure.errors)
    )
    return {"name": clean(measure.column.name), "values": values, "errors": errors}


def _pack_table(table: HeadTable) -> str:
    """Pack a table as the csv file that ``-o`` writes, with as many digits as a page has room for."""
    content = render_table(table, "csv", choose_precision(len(table)))
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


def _draw_maps(heads: Heads, measures: Sequence[Measure]) -> list[dict[str, Any]]:
    """Lay out the headline measures, each with a grid for every kind of attention."""
    drawn = [(number, one) for number, one in enumerate(measures) if one.column.headline]
    scales = fit_scales_by_unit([(one.column, one.values, one.errors) for _, one in drawn])
    found = []
    for (number, measure), scale in zip(drawn, scales, strict=True):
        cells = _colour_heads(heads, measure, scale, measures)
        factor = find_factor(scale.high)
        if narrow := max(len(numbers) for _, numbers in heads.grids.values()) <= _NARROW:
            signs = ["" if cell.style.endswith(_FAINT) else one for cell, one in zip(
                cells, format_cells(measure.values, factor), strict=True)]  # fmt: skip
            best = []
        else:
            best = sorted(
                (place for place, cell in enumerate(cells) if cell.style and not cell.style.endswith(_FAINT)),
                key=lambda place: -abs(measure.values[place] or 0.0),
            )[:_RANKED]
            signs = [str(best.index(place) + 1) if place in best else "" for place in range(len(cells))]
        cells = [cell._replace(sign=sign) for cell, sign in zip(cells, signs, strict=True)]
        found.append({
            "number": number, "measure": measure, "styles": [cell.style for cell in cells],
            "low": format_number(scale.low), "high": format_number(scale.high),
            "colours": _EFFECTS if scale.is_of_effects else _LEVELS,
            "factor": format_number(1 / factor) if narrow and factor != 1 else "",
            "best": [f"{heads.name(place)}, {measure.describe(place)}" for place in best],
            "grids": _lay_out_grids(heads, cells),
        })  # fmt: skip
    return found


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
    steps = [charts.find_step(value, scale) for value in measure.values]
    styles = ["" if step is None else f"{kind}{step}{_FAINT * pale[n]}" for n, step in enumerate(steps)]
    return [
        _Cell(style, f"{heads.name(n)}: {measure.title}, {measure.describe(n)}")
        for n, style in enumerate(styles)
    ]


def _lay_out_grids(heads: Heads, cells: Sequence[_Cell]) -> list[dict[str, Any]]:
    """Lay out cells in a grid for each kind of attention; None for no head."""
    found = []
    for kind, (layers, numbers) in heads.grids.items():
        places = [[heads.find((kind, layer, head)) for head in numbers] for layer in layers]
        lines = [[None if place is None else (place, cells[place]) for place in line] for line in places]
        rows = list(zip(layers, lines, strict=True))
        wide = "many" if len(numbers) > 16 else "some" if len(numbers) > _NARROW else "few"
        found.append({"kind": kind, "heads": numbers, "rows": rows, "wide": wide})
    return found


def _describe_roles(heads: Heads, table: HeadTable, measures: Sequence[Measure]) -> list[dict[str, Any]]:
    """Give what the card says of the role of each head."""
    names = ["role", "measure", "value", "value_se", "threshold", "also", "pattern"]
    found = []
    for row in zip(*(heads.sort_cells(table, name) for name in names), strict=True):
        said: dict[str, Any] = dict(zip(names, map(_clean_cell, row), strict=True))
        said["meaning"] = text.MEANINGS[find_role_kind(str(said["role"]))]
        said["evidence"] = clean(text.describe_evidence(str(said["measure"] or ""), measures))
        found.append(said)
    return found


def _clean_cell(cell: object) -> object:
    if isinstance(cell, str):
        return clean(cell)
    return None if isinstance(cell, float) and not is_number(cell) else cell


def _draw_roles(heads: Heads, table: HeadTable) -> Picture:
    """Draw the roles of all heads, and list those there are."""
    counts = lay_out_roles([None if role is None else str(role) for role in heads.sort_cells(table, "role")])
    legend = [
        (_ROLE_STYLES[kind], LETTERS[kind], kind, number, text.MEANINGS[kind])
        for kind, number in counts.counts.items()
    ]
    words = (
        "The letter of a head stands for the first role that its attention shows beyond the threshold. "
        "Choose a head here or in any other chart, and all charts show it. The arrow keys move from head to "
        "head."
    )
    return Picture("roles", "Roles", words, _lay_out_grids(heads, _colour_roles(heads, table)), legend)


def _colour_roles(heads: Heads, table: HeadTable) -> list[_Cell]:
    """Give each head the colour and the letter of its role, and say it with its evidence."""
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


def _list_correlation(table: HeadTable) -> list[tuple[str, str]]:
    """Give the numbers of a comparison in one row, by name."""
    found = []
    for column in [column for column in table.columns if column.name != "model"]:
        cell = table.data[column.name][0]
        number = format_p if column.unit == "probability" and is_number(cell) else format_number
        words = clean(cell) if isinstance(cell, str) else number(cell)  # type: ignore[arg-type]
        found.append((clean(column.name.replace("_", " ")), words))
    return found


def _list_colours() -> str:
    """Give the colours of cells: of levels, of effects, of roles; ink that is read on each."""
    levels, effects = (
        interpolate_colours(ramp, charts.STEPS) for ramp in (SEQUENTIAL, THEMES["light"].diverging)
    )
    named = {f"{kind}{step}": one for kind, ramp in ((_LEVELS, levels), (_EFFECTS, effects))
             for step, one in enumerate(ramp)}  # fmt: skip
    named |= {style: one for kind, style in _ROLE_STYLES.items() if (one := ROLE_COLOURS[kind]) is not None}
    lines = [
        f".{style}{{background:{one};fill:{one};color:{choose_ink(one)}}}" for style, one in named.items()
    ]
    return "\n".join(["", *lines, ""])
