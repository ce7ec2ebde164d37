"""What a report says in sentences: which heads it is about, what was asked, its notes; and its record."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attnprobe.attention.kinds import Kind
from attnprobe.reports.report.card import Heads
from attnprobe.reports.report.report import Contents, read_record
from attnprobe.table.cells import clean
from attnprobe.table.formats.json import to_json
from attnprobe.table.naming import MIXED, find_role_kind, join_names
from attnprobe.table.table import HeadTable

#: What a head of each role does, after "it".
_MEANINGS = {
    "previous": "looks at the token before",
    "next": "looks at the token after",
    "self": "looks at the token itself",
    "offset": "looks at the token at a fixed distance",
    "delimiter": "looks at special tokens or punctuation",
    "rare words": "looks at the rarest token",
    "syntactic": "finds the other end of a grammatical relation",
    "coreference": "finds who or what a word stands for",
    "links": "finds the other end of a link of your own",
    "induction": "looks at what came after the same token earlier",
    "duplicate": "looks at the same token in another place",
    "broad": "spreads almost evenly over all tokens",
    "block": "stays within one of two texts",
    "aligns": "looks at the same place in the other text",
    "sink": "looks at the first token, whatever it is",
    MIXED: "shows none of the roles asked for",
}


def describe_heads(contents: Contents, heads: Heads) -> str:
    """Say which heads the report is about, and what they read."""
    sizes = []
    for kind in heads.kinds:
        layers = Counter(layer for other, layer, _ in heads.every if other == kind)
        least, most = min(layers.values()), max(layers.values())  # layers may have lost some
        number = count_noun(most, "head") if least == most else f"{least} to {most} heads"
        named = "cross-attention" if kind == Kind.CROSS.value else kind
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
    """Write a number of things.

    >>> count_noun(1, "head"), count_noun(1200, "token")
    ('1 head', '1,200 tokens')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def explain_roles(table: HeadTable) -> list[tuple[str, str]]:
    """Say of each role of a table what a head that has it does."""
    kinds = {find_role_kind(str(role)) for role in table.data["role"] if role is not None}
    return [(kind, meaning) for kind, meaning in _MEANINGS.items() if kind in kinds]


def collect_notes(contents: Contents) -> dict[str, list[str]]:
    """Collect the notes of each table; one that several tables have, once."""
    known: set[str] = set()
    notes = {}
    for name, table in contents.every.items():
        notes[name] = [note for note in map(clean, table.notes) if note not in known]
        known.update(notes[name])
    return notes


def describe_inputs(contents: Contents) -> Iterator[tuple[str, Sequence[str]]]:
    """Say what was asked: of which checkpoint, over which data, with which options; and what checked it."""
    tables = contents.every
    first = next((table for table in tables.values() if read_record(table, "model")), None)
    model = {} if first is None else read_record(first, "model")
    lines = [contents.model, *_list_values(model, ("folder", "model_type", "revision", "dtype"))]
    weights = model.get("weights")
    if isinstance(weights, Mapping):
        lines += [f"{name}: sha256 {digest}" for name, digest in weights.items()]
    yield "Checkpoint", [clean(line) for line in lines]
    data = {name: _describe_data(table) for name, table in tables.items()}
    yield from _join_same("Data", data)
    evidence = None if first is None else read_record(first, "architecture").get("evidence")
    if isinstance(evidence, list | tuple) and evidence:
        yield "How the reading of attention was checked", [clean(str(line)) for line in evidence]
    options = {name: read_record(table, "options") for name, table in tables.items()}
    lines_of = {name: tuple(_list_values(values, values)) for name, values in options.items()}
    yield from _join_same("Options", lines_of)


def _describe_data(table: HeadTable) -> tuple[str]:
    dataset = read_record(table, "dataset") or {"name": next(iter(table.data.get("dataset", [""])), "")}
    digest = f", sha256 {dataset['sha256']}" if dataset.get("sha256") else ""
    return (clean(f"{dataset.get('name')}{digest}"),)


def _join_same(title: str, lines: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, Sequence[str]]]:
    """Put tables of which the same is to be said under one title, which names them unless all are alike."""
    names: dict[tuple[str, ...], list[str]] = {}
    for name, part in lines.items():
        names.setdefault(part, []).append(name)
    for part in filter(None, names):
        yield f"{title} of {join_names(names[part])}" if len(names) > 1 else title, part


def _list_values(record: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Write what a record has under some names; of several values, with commas between."""
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
    """Give what is needed to make the report again, without the sums."""
    first = next((table for table in contents.every.values() if table.provenance), None)
    known = {} if first is None else {name: read_record(first, name) for name in ("model", "dataset")}
    versions = {} if first is None else read_record(first, "versions")
    return {
        **known,
        "command": contents.command,
        "versions": dict(contents.versions or versions),
        "created": None if first is None else first.provenance.get("created"),
        "tables": [
            {
                "name": name,  # an interval that is not known is infinite, which json has no number for
                "provenance": to_json({key: _drop_sums(part) for key, part in table.provenance.items()}),
            }
            for name, table in contents.every.items()
        ],
    }


def _drop_sums(part: Any) -> Any:
    return {key: value for key, value in part.items() if key != "sums"} if isinstance(part, Mapping) else part
