"""What a report says in sentences: what was asked, limits; and its record."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attnprobe.attention.kinds import Kind
from attnprobe.reports.report_page.heads import Heads, Measure
from attnprobe.reports.report_page.report import Contents
from attnprobe.table.cells import clean
from attnprobe.table.formats.json import to_json
from attnprobe.table.naming import MIXED, find_role_kind, join_names
from attnprobe.table.numbers import format_number, format_with_error, is_number
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
        each = Counter(layer for one, layer, _ in heads.every if one == kind)
        least, most = min(each.values()), max(each.values())  # layers may have lost some
        number = count_noun(most, "head") if least == most else f"{least} to {most} heads"
        named = "cross-attention" if kind == Kind.CROSS.value else kind
        sizes.append(f"{count_noun(len(each), f'{named} layer'.strip())} of {number}")
    about = f"This report is about {join_names(sizes) if sizes else 'all heads together'}."
    records = [_read_record(table, "corpus") for table in contents.every.values()]
    read = [(one.get("documents"), one.get("tokens")) for one in records if one]
    counts = [(documents, tokens) for documents, tokens in read if isinstance(documents, int)]
    if not counts or not isinstance(tokens := counts[0][1], int):
        return about
    least, most = min(counts)[0], max(counts)[0]
    if least < most:  # as each reads as much as it takes, or leaves out what has no label
        return f"{about} Each section read {least:,} to {count_noun(most, contents.unit)}."
    return f"{about} They read {count_noun(most, contents.unit)}, {count_noun(tokens, 'token')}."


def count_noun(number: int, noun: str) -> str:
    """Write a number of things.

    >>> count_noun(1, "head"), count_noun(1200, "token")
    ('1 head', '1,200 tokens')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def describe_roles(heads: Heads, table: HeadTable, measures: Sequence[Measure]) -> list[str]:
    """Say which role each head has, and of what it was read off."""
    titles = {measure.column.name: measure.title for measure in measures}
    names = ("role", "measure", "value", "value_se", "threshold", "also")
    sentences = []
    for role, measure, value, error, threshold, also in zip(
        *(heads.sort_cells(table, name) for name in names), strict=True
    ):
        parts = [f"Role: {role or MIXED}"]
        if measure and is_number(value):
            title = titles.get(str(measure)) or str(measure).replace("_", " ")
            limit = f", threshold {format_number(threshold)}" if is_number(threshold) else ""
            parts.append(f"{title} {format_with_error(value, error)}{limit}")
        if also:
            parts.append(f"also: {also}")
        sentences.append(clean(f"{'; '.join(parts)}."))
    return sentences


def explain_roles(table: HeadTable) -> list[tuple[str, str]]:
    """Say of each role of a table what a head that has it does."""
    kinds = {find_role_kind(str(role)) for role in table.data["role"] if role is not None}
    return [(kind, meaning) for kind, meaning in _MEANINGS.items() if kind in kinds]


def collect_notes(contents: Contents) -> dict[str, list[str]]:
    """Collect the notes of each table; one that several tables have, once."""
    known: set[str] = set()
    found: dict[str, list[str]] = {}
    for name, table in contents.every.items():
        notes = [clean(note) for note in table.notes]
        found[name] = [note for note in notes if note not in known]
        known.update(notes)
    return found


def describe_inputs(contents: Contents) -> Iterator[tuple[str, list[str]]]:
    """Say what was asked: of which checkpoint, over which data, how it was verified."""
    first = next((table for table in contents.every.values() if _read_record(table, "model")), None)
    record = {} if first is None else first.provenance
    model = _ensure_mapping(record.get("model"))
    known = {name: model[name] for name in ("folder", "model_type", "revision", "dtype") if model.get(name)}
    lines = [contents.model, *_list_values(known)]
    lines += [f"{name}: sha256 {digest}" for name, digest in _ensure_mapping(model.get("weights")).items()]
    yield "Checkpoint", [clean(str(line)) for line in lines]
    data: dict[str, list[str]] = {}
    for name, table in contents.every.items():
        dataset = _read_record(table, "dataset") or {"name": next(iter(table.data.get("dataset", [""])), "")}
        digest = f", sha256 {dataset['sha256']}" if dataset.get("sha256") else ""
        data.setdefault(f"{dataset.get('name')}{digest}", []).append(name)
    several = len(data) > 1
    yield (
        "Data",
        [clean(f"{one}{f' ({join_names(names)})' if several else ''}") for one, names in data.items()],
    )
    evidence = _ensure_mapping(record.get("architecture")).get("evidence")
    if isinstance(evidence, Sequence) and not isinstance(evidence, str) and evidence:
        yield "How the reading of attention was checked", [clean(str(line)) for line in evidence]
    asked: dict[tuple[str, ...], list[str]] = {}
    for name, table in contents.every.items():
        options = _read_record(table, "options")
        given = {key: value for key, value in options.items() if value not in (None, False, "auto")}
        asked.setdefault(tuple(clean(line) for line in _list_values(given)), []).append(name)
    for said, names in asked.items():
        if said:
            yield f"Options{f' of {join_names(names)}' if len(asked) > 1 else ''}", list(said)


def _list_values(values: Mapping[str, Any]) -> list[str]:
    return [f"{name.replace('_', ' ')}: {_write_value(value)}" for name, value in values.items()]


def _write_value(value: Any) -> str:
    """Write the value of an option: of several, with commas between.

    >>> _write_value({"entropy": 0.1, "next": 0.02}), _write_value(["a", "b"]), _write_value(3)
    ('entropy 0.1, next 0.02', 'a, b', '3')
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return str(value)


def list_limits(contents: Contents) -> list[str]:
    """Say what the numbers of this report don't say."""
    data = f"{contents.unit}s"
    sentences = [
        "Attention is not explanation: it says where a head reads, not what the model makes of it.",
        f"Every number is about these {data} and this checkpoint. A head may do something else on other "
        f"{data}.",
        f"\u00b1 is one standard error over the {data}, where a number has one.",
    ]
    if contents.of("roles"):
        sentences.append("A role lies beyond a threshold; another threshold would give other roles.")
    if contents.of("importance"):
        sentences.append("A head that can go alone may be needed once others are gone.")
    if contents.seen:
        sentences.append("A few sentences are an illustration, and no evidence.")
    return sentences


def make_record(contents: Contents) -> dict[str, Any]:
    """Give what is needed to make the report again, without the sums."""
    tables = [
        {
            "name": name,  # an interval that is not known is infinite, which json has no number for
            "provenance": to_json({key: _drop_sums(value) for key, value in table.provenance.items()}),
        }
        for name, table in contents.every.items()
    ]
    first = next((table.provenance for table in contents.every.values() if table.provenance), {})
    return {
        "command": contents.command if isinstance(contents.command, str) else list(contents.command),
        "versions": dict(contents.versions) or dict(_ensure_mapping(first.get("versions"))),
        "created": first.get("created"),
        "model": dict(_ensure_mapping(first.get("model"))),
        "dataset": dict(_ensure_mapping(first.get("dataset"))),
        "tables": tables,
    }


def describe_command(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Say how to run it again: command, versions."""
    import shlex

    command, versions = record["command"], record["versions"]
    yield "Command", clean(command if isinstance(command, str) else shlex.join(command))
    if versions:
        yield "Versions", clean(", ".join(f"{name} {number}" for name, number in versions.items()))


def _drop_sums(value: Any) -> Any:
    return {key: one for key, one in value.items() if key != "sums"} if isinstance(value, Mapping) else value


def _read_record(table: HeadTable, name: str) -> Mapping[str, Any]:
    return _ensure_mapping(table.provenance.get(name))


def _ensure_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
