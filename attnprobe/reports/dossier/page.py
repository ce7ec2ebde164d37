"""The page of a report."""

import base64
import zlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from math import isfinite
from typing import Any

from attnprobe.reports.dossier import charts, prose
from attnprobe.reports.dossier.contents import OTHER, Contents
from attnprobe.reports.dossier.figures import of_p, shown
from attnprobe.reports.dossier.heads import Heads, Measure, all_heads, measures_of
from attnprobe.reports.page.document import asset, bytes_script, data_script, filled
from attnprobe.reports.page.embedded import RECORD
from attnprobe.reports.pictures.channels import spread
from attnprobe.reports.pictures.maps import COLOURS
from attnprobe.reports.scales import Scale, mark, p_name, scales_by_unit
from attnprobe.reports.theme import SEQUENTIAL, THEMES, ink_on
from attnprobe.reports.view.labels import visible
from attnprobe.reports.view.packing import SCALE, packed_layer
from attnprobe.table.cleaning import clean
from attnprobe.table.destination import render_table
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import LETTERS, kind_of
from attnprobe.table.table import Column

_ASSETS = "attnprobe.reports.dossier.assets"
#: How the classes of colours begin: of what starts at 0, and of what goes both ways from it.
_LEVELS, _EFFECTS = "v", "e"
#: A table of more rows is not in the page: that of 16,110 pairs, of 180 heads, is.
MOST_ROWS = 20_000
#: So many rows of a table are shown; its file has all.
_SHOWN = 400
#: Most characters of a token and of a text.
_LONGEST, _LONGEST_TEXT = 40, 400


def page(contents: Contents) -> str:
    """Write the page; see ``assets`` for what it does."""
    every = contents.every
    heads = all_heads(every)
    measured = {name: contents.of(name) for name in ("census", "importance")}
    measures = [one for tables in measured.values() for one in measures_of(heads, tables)]
    seen = _seen(contents, heads)
    roles = next(iter(contents.of("roles").items()), None)
    correlated = contents.of("correlate")
    by_head = next(((name, table) for name, table in correlated.items() if "head" in table.data), None)
    in_one_row = next(((name, table) for name, table in correlated.items() if "head" not in table.data), None)
    distance = next(iter(contents.of("distance").items()), None)
    pruned = next(iter(contents.of("prune").items()), None)
    numbers = {name: place for place, name in enumerate(every)}
    importance = _importance(contents, measures)
    data = {
        "heads": [list(head) for head in heads.every],
        "measures": [{"values": list(one.values), "errors": list(one.errors)} for one in measures],
        "roles": None if roles is None else _roles(heads, roles[1], measures),
        "importance": importance,
        "sentences": [one["data"] for one in seen],
        "scale": SCALE,
        "shown": _SHOWN,
        "first": _first(contents, heads, measures),
        "tables": [_described(name, table) for name, table in every.items()],
    }
    return filled(
        _ASSETS,
        "report.html.jinja",
        asset(_ASSETS, "report.css") + _colours(),
        [asset("attnprobe.reports.page", "unpack.js"), asset(_ASSETS, "report.js")],
        model=visible(contents.model) or "a checkpoint",
        lead=prose.lead(contents, heads),
        findings=prose.findings(contents, heads, measures),
        nothing=prose.nothing(measures),
        notes=prose.notes(contents),
        asked=prose.asked(contents),
        limits=prose.limits(contents, measures),
        again=list(prose.again(contents)),
        missing=[(section, clean(made)) for section, made in contents.missing.items()],
        heads=heads,
        grids=heads.grids(),
        maps=_maps(heads, measures),
        measures=[_measure(one) for one in measures],
        roles=None if roles is None else _role_map(heads, roles[1]),
        apart=prose.apart(contents),
        importance=importance,
        sentences=[one["text"] for one in seen],
        chosen=clean(contents.chosen),
        distance=[] if distance is None else charts.maps_of_heads(heads, distance[1]),
        least_on_a_map=charts.LEAST_ON_A_MAP,
        most_on_a_map=charts.MOST_ON_A_MAP,
        curve=None if pruned is None else charts.curve(pruned[1]),
        scatter=None if by_head is None else charts.scatter(heads, by_head[1]),
        correlation=None if in_one_row is None else _correlation(in_one_row[1]),
        tables={
            section: [(name, numbers[name], len(table)) for name, table in contents.of(section).items()]
            for section in ("census", "roles", "importance", "distance", "prune", "correlate", OTHER)
        },
        titles={name: clean(table.title) for name, table in every.items()},
        shown_rows=_SHOWN,
        most_rows=MOST_ROWS,
        version=version("attnprobe"),
        created=prose.record(contents)["created"],
        data=[data_script("report-data", data), data_script(RECORD, prose.record(contents))],
        packed=[
            *(bytes_script(f"table-{numbers[name]}", _packed(table)) for name, table in every.items()
              if len(table) <= MOST_ROWS),
            *(script for one in seen for script in one["scripts"]),
        ],
    )  # fmt: skip


def _packed(table: HeadTable) -> str:
    """Pack a table as the csv file that ``-o`` writes."""
    return base64.b64encode(zlib.compress(render_table(table, "csv"), 9)).decode("ascii")


def _described(name: str, table: HeadTable) -> dict[str, Any]:
    return {
        "name": name,
        "rows": len(table),
        "embedded": len(table) <= MOST_ROWS,
        "columns": [{"name": column.name, "role": column.role} for column in table.columns],
    }


def _first(contents: Contents, heads: Heads, measures: Sequence[Measure]) -> int:
    """Choose the head that the page shows first: an outlier, or else the first."""
    found = prose.findings(contents, heads, measures)
    return found[0]["heads"][0]["head"] if found else 0


def _maps(heads: Heads, measures: Sequence[Measure]) -> list[dict[str, Any]]:
    """Lay out the headline measures, each with a grid for every kind of attention."""
    shown_first = [(place, measure) for place, measure in enumerate(measures) if measure.column.headline]
    scales = scales_by_unit([(one.column, one.values, one.errors) for _, one in shown_first])
    return [
        {
            "title": measure.title,
            "name": clean(measure.column.name),
            "unit": clean(measure.column.unit),
            "measure": place,
            "low": shown(scale.low),
            "high": shown(scale.high),
            "colours": _EFFECTS if scale.is_of_effects else _LEVELS,
            "grids": _grids(heads, _coloured(heads, measure, scale, measures)),
        }
        for (place, measure), scale in zip(shown_first, scales, strict=True)
    ]


def _coloured(
    heads: Heads, measure: Measure, scale: Scale, measures: Sequence[Measure]
) -> dict[int, tuple[str, str, str]]:
    """Give each head the class of its colour, and its number in words."""
    pale = [False] * len(measure.values)
    if scale.is_of_effects:
        beside = {one.column.name: one.values for one in measures if one.table == measure.table}
        p = p_name(measure.column.name, beside, lambda name: any(one is not None for one in beside[name]))
        pale = mark(measure.values, measure.errors, None if p is None else beside[p]).pale
    kind = _EFFECTS if scale.is_of_effects else _LEVELS
    steps = [charts.step_of(value, scale) for value in measure.values]
    return {
        number: (
            "" if step is None else f"{kind}{step}{' faint' if pale[number] else ''}",
            charts.said_of(heads, measure, number),
            "",
        )
        for number, step in enumerate(steps)
    }


def _grids(heads: Heads, cells: Mapping[int, tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Lay out cells in a grid for each kind of attention: place, class, words, letter; None for no head."""
    found = []
    for kind, (layers, numbers) in heads.grids().items():
        rows = []
        for layer in layers:
            places = [heads.place((kind, layer, head)) for head in numbers]
            rows.append((layer, [None if place is None else (place, *cells[place]) for place in places]))
        wide = "many" if len(numbers) > 16 else "some" if len(numbers) > 12 else "few"
        found.append({"kind": kind, "heads": numbers, "rows": rows, "wide": wide})
    return found


def _importance(contents: Contents, measures: Sequence[Measure]) -> dict[str, Any] | None:
    """Find the importance of heads for a task, if there is one."""
    for name, table in contents.of("importance").items():
        for number, measure in enumerate(measures):
            if measure.table == name:
                return prose.importance_of(table, number)
    return None


def _roles(heads: Heads, table: HeadTable, measures: Sequence[Measure]) -> list[dict[str, Any]]:
    """Give what the card says of the role of each head."""
    columns = {
        name: heads.in_order(table, name) if name in table.data else [None] * len(heads.every)
        for name in ("role", "measure", "value", "value_se", "threshold", "also", "stability")
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [
        {name: _plain(cell) for name, cell in row.items()}
        | {
            "meaning": prose.MEANINGS[kind_of(str(row["role"]))],
            "evidence": clean(prose.evidence(str(row["measure"] or ""), measures)),
        }
        for row in rows
    ]


def _plain(cell: object) -> object:
    if isinstance(cell, str):
        return clean(cell)
    return None if isinstance(cell, float) and not isfinite(cell) else cell


def _role_map(heads: Heads, table: HeadTable) -> dict[str, Any]:
    kinds = list(LETTERS)
    cells, counts = {}, dict.fromkeys(kinds, 0)
    for place, role in enumerate(heads.in_order(table, "role")):
        if role is None:
            cells[place] = ("", f"{heads.name(place)}: no role was asked for", "")
            continue
        kind = kind_of(str(role))
        counts[kind] += 1
        cells[place] = (f"r{kinds.index(kind)}", f"{heads.name(place)}: {clean(str(role))}", LETTERS[kind])
    legend = [
        (f"r{kinds.index(kind)}", LETTERS[kind], kind, number, prose.MEANINGS[kind])
        for kind, number in counts.items()
        if number
    ]
    return {"grids": _grids(heads, cells), "legend": legend}


def _measure(measure: Measure) -> dict[str, Any]:
    return {
        "title": measure.title,
        "name": clean(measure.column.name),
        "unit": clean(measure.column.unit),
        "table": clean(measure.table),
        "strip": charts.strip(measure),
        "headline": measure.column.headline,
    }


def _correlation(table: HeadTable) -> list[tuple[str, str]]:
    """Give the numbers of a comparison in one row, by name."""
    row = {column: table.data[column.name][0] for column in table.columns if column.name != "model"}
    return [(clean(column.name.replace("_", " ")), _worded(cell, column)) for column, cell in row.items()]


def _worded(cell: object, column: Column) -> str:
    if isinstance(cell, str):
        return clean(cell)
    if column.unit == "probability" and isinstance(cell, int | float) and isfinite(cell):
        return of_p(cell)
    return shown(_plain(cell))


def _seen(contents: Contents, heads: Heads) -> list[dict[str, Any]]:
    """Pack sentences: their tokens, and the attention of every head."""
    several = any(kind for kind, _, _ in heads.every)
    found = []
    for number, one in enumerate(contents.seen):
        kinds, scripts = {}, []
        for maps in one.maps:
            layers, width, queries, keys = maps.rows.shape
            name = f"sentence-{number}-{maps.kind.value}"
            kinds[maps.kind.value if several else ""] = {
                "layers": list(maps.layers),
                "heads": width,
                "queries": _tokens(maps.queries.labels),
                "keys": _tokens(maps.keys.labels),
                "packed": name,
            }
            scripts.append(bytes_script(name, packed_layer(maps.rows.reshape(layers * width, queries, keys))))
        text = " | ".join(visible(text)[:_LONGEST_TEXT] for text in dict.fromkeys(one.texts))
        found.append({"data": {"kinds": kinds}, "scripts": scripts, "text": text})
    return found


def _tokens(labels: Sequence[str]) -> list[str]:
    return [visible(label)[:_LONGEST] for label in labels]


def _colours() -> str:
    """Give the colours of cells: of levels, of effects, of roles; ink that is read on each."""
    lines = []
    for step, colour in enumerate(spread(SEQUENTIAL, charts.STEPS)):
        lines.append(f".{_LEVELS}{step} {{ background: {colour}; fill: {colour}; }}")
    for step, colour in enumerate(spread(THEMES["light"].diverging, charts.STEPS)):
        lines.append(f".{_EFFECTS}{step} {{ background: {colour}; }}")
    for place, kind in enumerate(LETTERS):
        colour = COLOURS[kind]
        if colour is not None:
            lines.append(f".r{place} {{ background: {colour}; color: {ink_on(colour)}; }}")
    return "\n".join(["", *lines, ""])
