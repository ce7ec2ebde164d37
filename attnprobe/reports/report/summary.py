"""What a report says in words and numbers: its heads, their measures and roles, and how it was made."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from attnprobe.attention.kinds import Kind
from attnprobe.reports.columns import name_measure
from attnprobe.reports.report.contents import Contents, read_record
from attnprobe.reports.view.notes import read_roles
from attnprobe.table.cells import clean
from attnprobe.table.formats.json import to_json
from attnprobe.table.naming import MIXED, join_names, list_offsets
from attnprobe.table.numbers import format_with_error, is_number, name_head
from attnprobe.table.table import HeadTable

#: Kind of attention (empty where a model has one), layer, head.
Head = tuple[str, int, int]
_KINDS = ["", *(kind.value for kind in Kind)]
#: Columns of attention by offset, which the atlas shows.
_OFFSETS = {f"profile_{name}" for patches in (False, True) for name, _ in list_offsets(patches=patches)}


@dataclass(frozen=True)
class Heads:
    """All heads of a report, in the order of a forward pass, which numbers them from 0."""

    every: Sequence[Head]

    @cached_property
    def places(self) -> dict[Head, int]:
        return {head: place for place, head in enumerate(self.every)}

    @cached_property
    def names(self) -> list[str]:
        return [name_head(*head) for head in self.every]

    @cached_property
    def kinds(self) -> list[str]:
        return list(dict.fromkeys(kind for kind, _, _ in self.every))

    def sort_cells(self, table: HeadTable, name: str) -> list[Any]:
        """Give the cells of a column in the order of the report's heads; None for heads without one."""
        known = dict(zip(read_heads(table), table.data[name], strict=True)) if name in table.data else {}
        return [known.get(head) for head in self.every]


def read_heads(table: HeadTable, side: str = "") -> list[Head | None]:
    """Read the head of each row, or one of a pair's (``"_a"``, ``"_b"``); None for rows without one."""
    kinds = table.data.get("attention", [""] * len(table))
    columns = (kinds, table.data[f"layer{side}"], table.data[f"head{side}"])
    return [
        (str(kind), layer, head)
        if kind in _KINDS and isinstance(layer, int) and isinstance(head, int)
        else None
        for kind, layer, head in zip(*columns, strict=True)
    ]


def collect_heads(tables: Mapping[str, HeadTable]) -> Heads:
    """Collect and sort the heads of all tables; if a table names kinds of attention, only heads with one."""
    every = {
        head
        for table in tables.values()
        for side in ("", "_a", "_b")
        if {f"layer{side}", f"head{side}"} <= set(table.data)
        for head in read_heads(table, side)
        if head is not None
    }
    if any(kind for kind, _, _ in every):  # a table without kinds can't say which head it means
        every = {head for head in every if head[0]}
    return Heads(sorted(every, key=lambda head: (_KINDS.index(head[0]), head[1:])))


def collect_measures(heads: Heads, tables: Mapping[str, HeadTable]) -> list[dict[str, Any]]:
    """Collect each measure: its numbers with errors as text, and ranks of heads, 1 for the highest number."""
    measures = []
    for table in tables.values():
        for column in table.columns:
            measured = column.role == "measure" and column.name not in _OFFSETS
            if not measured or not any(map(is_number, table.data[column.name])):
                continue
            cells, errors = (
                [float(cell) if is_number(cell) else None for cell in heads.sort_cells(table, name)]
                for name in (column.name, f"{column.name}_se")
            )
            falling = sorted((cell for cell in cells if cell is not None), reverse=True)
            measures.append(
                {
                    "title": name_measure(column),
                    "name": ", ".join(filter(None, map(clean, (column.name, column.unit)))),
                    "headline": column.headline,
                    "numbers": [format_with_error(*pair) for pair in zip(cells, errors, strict=True)],
                    "ranks": [None if cell is None else falling.index(cell) + 1 for cell in cells],
                }
            )
    return measures


def describe_roles(heads: Heads, table: HeadTable) -> list[str]:
    """Describe the role of each head, and the evidence for it."""
    lines = dict(zip(read_heads(table), read_roles(table), strict=True))
    sentences = []
    for head in heads.every:
        (_, role), *rest = lines.get(head, [("role", MIXED)])
        sentences.append(f"Role: {'; '.join([role, *(f'{name} {text}' for name, text in rest)])}.")
    return sentences


def describe_heads(contents: Contents, heads: Heads) -> str:
    """Describe in a sentence or two which heads the report is about, and how much they read."""
    sizes = []
    for kind in heads.kinds:
        layers = Counter(layer for other, layer, _ in heads.every if other == kind)
        named = "cross-attention" if kind == Kind.CROSS.value else kind
        number = count_noun(max(layers.values()), "head")
        sizes.append(f"{count_noun(len(layers), f'{named} layer'.strip())} of {number}")
    about = f"This report is about {join_names(sizes) if sizes else 'all heads together'}."
    records = [read_record(table, "corpus") for table in contents.every.values()]
    pairs = [(record.get("documents"), record.get("tokens")) for record in records]
    counts = [(read, tokens) for read, tokens in pairs if isinstance(read, int) and isinstance(tokens, int)]
    if not counts:
        return about
    (least, _), (most, _) = min(counts), max(counts)
    if least < most:  # as each reads as much as it takes, or leaves out what has no label
        return f"{about} Each section read {least:,} to {count_noun(most, contents.unit)}."
    return f"{about} They read {count_noun(most, contents.unit)}, {count_noun(counts[0][1], 'token')}."


def count_noun(number: int, noun: str) -> str:
    """Write a number of things: 1 head, or 1,200 tokens."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def collect_notes(contents: Contents) -> dict[str, list[str]]:
    """Collect the notes of each table, by its name; a note of several tables is under the first alone."""
    known: set[str] = set()
    notes = {}
    for name, table in contents.every.items():
        notes[name] = [note for note in map(clean, table.notes) if note not in known]
        known.update(notes[name])
    return notes


def describe_inputs(contents: Contents) -> Iterator[tuple[str, Sequence[str]]]:
    """Describe the checkpoint, the data and the options, and how the reading of attention was checked."""
    tables = contents.every
    first = next((table for table in tables.values() if read_record(table, "model")), None)
    model = {} if first is None else read_record(first, "model")
    about = _list_values(model, ("folder", "model_type", "revision", "dtype", "weights"))
    yield "Checkpoint", [clean(contents.model), *about]
    yield from _join_same("Data", tables, "dataset", ("name", "sha256"))
    evidence = None if first is None else read_record(first, "architecture").get("evidence")
    if isinstance(evidence, list | tuple) and evidence:
        yield "How the reading of attention was checked", [clean(str(line)) for line in evidence]
    yield from _join_same("Options", tables, "options")


def _join_same(
    title: str, tables: Mapping[str, HeadTable], part: str, keys: Sequence[str] = ()
) -> Iterator[tuple[str, Sequence[str]]]:
    """Describe a part of the records; tables whose records agree share a title, which names them."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name, table in tables.items():
        record = read_record(table, part)
        names.setdefault(tuple(_list_values(record, keys or record)), []).append(name)
    for lines in filter(None, names):
        yield f"{title} of {join_names(names[lines])}" if len(names) > 1 else title, lines


def _list_values(record: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Write the values of some keys of a record, a line each; empty, False and "auto" ones are left out."""
    lines = []
    for name in names:
        value = record.get(name)
        if value in (None, False, "", "auto"):
            continue
        if isinstance(value, Mapping):
            value = [f"{key} {part}" for key, part in value.items()]
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        lines.append(clean(f"{name.replace('_', ' ')}: {text}"))
    return lines


def make_record(contents: Contents) -> dict[str, Any]:
    """Make the record of the report: all that is needed to make it again, without the sums."""
    first = next((table for table in contents.every.values() if table.provenance), None)
    records = {name: dict(table.provenance) for name, table in contents.every.items()}
    for record in records.values():
        for key, part in record.items():
            if isinstance(part, Mapping):
                record[key] = {name: value for name, value in part.items() if name != "sums"}
    return {
        "command": contents.command,
        "versions": dict(contents.versions or ({} if first is None else read_record(first, "versions"))),
        "created": None if first is None else first.provenance.get("created"),
        # An interval that is not known is infinite, which json has no number for.
        "tables": {name: to_json(record) for name, record in records.items()},
    }
