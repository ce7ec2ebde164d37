"""Outliers, in sentences; what was asked; what the numbers don't say."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attnprobe.attention.kinds import Kind
from attnprobe.findings.outliers import FEWEST, Outliers, outliers
from attnprobe.reports.dossier.contents import Contents
from attnprobe.reports.dossier.figures import DIGITS, in_words
from attnprobe.reports.dossier.heads import Heads, Measure
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import MIXED, listed

#: So many heads are named in a sentence.
_NAMED = 3


def lead(contents: Contents, heads: Heads) -> str:
    """Say which heads the report is about, and what they read."""
    sizes = [_size(kind, heads) for kind in heads.grids()]
    about = f"This report is about {listed(sizes) if sizes else 'all heads together'}."
    corpus = next((found for table in contents.every.values() if (found := _part(table, "corpus"))), {})
    tokens, documents = (corpus.get(name) for name in ("tokens", "documents"))
    if not isinstance(tokens, int) or not isinstance(documents, int):
        return about
    return f"{about} They read {_number(documents, contents.unit)}, {_number(tokens, 'token')}."


def _size(kind: str, heads: Heads) -> str:
    """Say how many layers and heads there are of a kind of attention; layers may have lost some."""
    each = Counter(layer for one, layer, _ in heads.every if one == kind)
    least, most = min(each.values()), max(each.values())
    number = _number(most, "head") if least == most else f"{least} to {most} heads"
    named = "cross-attention" if kind == Kind.CROSS.value else kind
    return f"{_number(len(each), f'{named} layer'.strip())} of {number}"


def _number(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def findings(contents: Contents, heads: Heads, measures: Sequence[Measure]) -> list[dict[str, Any]]:
    """Say which heads are outliers, each sentence with the heads that it names."""
    found: list[dict[str, Any]] = []
    for measure in measures:
        if not measure.column.headline or measure.column.unit == "probability":
            continue
        values, errors = (np.array(side, float) for side in (measure.values, measure.errors))
        some = None if np.isnan(errors).all() else errors
        found += [_sentence(one, measure, heads, values) for one in outliers(values, some)]
    return found


def nothing(measures: Sequence[Measure]) -> str:
    """Say why no head is an outlier, where none is."""
    sizes = [sum(value is not None for value in one.values) for one in measures if one.column.headline]
    if not sizes:
        return ""
    if max(sizes) < FEWEST:
        return f"Only among {FEWEST} heads or more can one be called an outlier, and there are fewer here."
    return "No head is an outlier in the measures below."


def notes(contents: Contents) -> dict[str, list[str]]:
    """Give the sentences of each table, once."""
    said: set[str] = set()
    found: dict[str, list[str]] = {}
    for name, table in contents.every.items():
        mine = [clean(note) for note in table.notes]
        found[name] = [note for note in mine if note not in said]
        said.update(mine)
    return found


def apart(contents: Contents) -> str:
    """Say that roles are of other data than the census, where they are."""
    data = [
        {str(_part(table, "dataset").get("sha256", "")) for table in contents.of(section).values()}
        for section in ("census", "roles")
    ]
    if not all(data) or "" in data[0] | data[1] or data[0] == data[1]:
        return ""
    return (
        "The roles are of other texts than the maps and the numbers of a head (\u201cWhat was asked\u201d "
        "names both), so a role\u2019s evidence may differ a little from them."
    )


def _sentence(one: Outliers, measure: Measure, heads: Heads, values: np.ndarray) -> dict[str, Any]:
    named = [
        {"head": place, "name": heads.name(place), "value": in_words(float(values[place]))}
        for place in one.heads[:_NAMED]
    ]
    more = len(one.heads) - len(named)
    last = float(values[one.heads[-1]])
    beyond = (one.nearest > last) is one.above and one.nearest != last
    side = "above" if one.above else "below"
    named[0]["name"] = named[0]["name"][:1].upper() + named[0]["name"][1:]
    return {
        "heads": named,
        "more": f" and {more} more" if more else "",
        "what": "is an outlier" if len(one.heads) == 1 else "are outliers",
        "side": "high" if one.above else "low",
        "title": measure.title,
        "rest": "." if beyond else f"; no other head is {side} {in_words(one.limit(DIGITS))}.",
    }


#: What a head of each role does, after "it".
MEANINGS = {
    "previous": "looks at the token before",
    "next": "looks at the token after",
    "self": "looks at the token itself",
    "offset": "looks at the token at a fixed distance",
    "delimiter": "looks at special tokens or punctuation",
    "rare words": "looks at the rarest token",
    "syntactic": "finds the other end of a grammatical relation",
    "coreference": "finds who or what a word stands for",
    "induction": "looks at what came after the same token earlier",
    "duplicate": "looks at the same token in another place",
    "broad": "spreads almost evenly over all tokens",
    "block": "stays within one of two texts",
    MIXED: "shows none of the roles asked for",
}
#: What roles are read off and the census has no column for, in words.
_EVIDENCE = {
    "special_excess": "attention to special tokens beyond that of uniform attention",
    "punctuation_excess": "attention to punctuation beyond that of uniform attention",
    "effective_share": "share of the tokens that attention is as broad as",
    "rarest_excess": "share of queries that look most at the rarest token, beyond chance",
    "segment_excess": "attention within the query\u2019s own text beyond that of uniform attention",
    "induction": "attention to what came after the same token, in random tokens that are given twice, beyond "
    "that without a repetition",
    "duplicate": "attention to the same token, in random tokens that are given twice, beyond that without a "
    "repetition",
    "accuracy": "share of the relation\u2019s words that are found",
}


def evidence(measure: str, measures: Sequence[Measure]) -> str:
    """Say in words what a role was read off."""
    titles = {one.column.name: one.title for one in measures}
    return titles.get(measure) or _EVIDENCE.get(measure.partition(",")[0]) or measure.replace("_", " ")


def importance_of(table: HeadTable, number: int) -> dict[str, Any]:
    """Say for which task heads matter, and by which method that was measured."""
    first = {name: clean(str(cells[0])) for name, cells in table.data.items() if cells}
    return {
        "measure": number,
        "task": first.get("objective", "the task").replace("-", " "),
        "method": first.get("method", "the table"),
    }


def asked(contents: Contents) -> list[tuple[str, list[str]]]:
    """Say what was asked: of which checkpoint, over which data, how it was verified."""
    found: list[tuple[str, list[str]]] = []
    first = next((table for table in contents.every.values() if _part(table, "model")), None)
    model = {} if first is None else _part(first, "model")
    said = [contents.model]
    said += [
        f"{name.replace('_', ' ')}: {model[name]}"
        for name in ("folder", "model_type", "revision", "dtype")
        if model.get(name)
    ]
    said += [f"{name}: sha256 {digest}" for name, digest in _mapping(model.get("weights")).items()]
    found.append(("Checkpoint", [clean(str(one)) for one in said]))
    data: dict[str, list[str]] = {}
    for name, table in contents.every.items():
        dataset = _part(table, "dataset") or {"name": next(iter(table.data.get("dataset", [""])), "")}
        digest = f", sha256 {dataset['sha256']}" if dataset.get("sha256") else ""
        data.setdefault(f"{dataset.get('name')}{digest}", []).append(name)
    several = len(data) > 1
    said = [f"{one}{f' ({listed(names)})' if several else ''}" for one, names in data.items()]
    found.append(("Data", [clean(one) for one in said]))
    evidence = [] if first is None else _part(first, "architecture").get("evidence")
    if isinstance(evidence, Sequence) and not isinstance(evidence, str) and evidence:
        found.append(("How the reading of attention was checked", [clean(str(one)) for one in evidence]))
    options = {} if first is None else _part(first, "options")
    kept = [
        f"{name.replace('_', ' ')}: {value}"
        for name, value in options.items()
        if value not in (None, False, "auto")
    ]
    if kept:
        found.append(("Options", [clean(one) for one in kept]))
    return found


def limits(contents: Contents, measures: Sequence[Measure]) -> list[str]:
    """Say what the numbers of this report don't say."""
    read = f"{contents.unit}s"
    said = [
        "Attention is not explanation. Where a head looks is one part of what a layer does; values, other "
        "heads, feed-forward layers and the residual stream decide what comes of it.",
        f"Every number is about these {read} and this checkpoint. A head may do something else on other "
        f"{read}.",
        f"\u00b1 is one standard error over the {read}. With many heads, some numbers are extreme by chance. "
        "A head is called an outlier where its whole interval lies beyond Tukey\u2019s outer fence (three "
        "interquartile ranges beyond the quartiles of all heads). The intervals of all heads hold together "
        "with 95 % in each measure, not over all measures.",
    ]
    if any(one.column.headline and all(error is None for error in one.errors) for one in measures):
        said.append(
            "Some numbers have no standard error, as those of a single text have none. Outliers in such "
            "numbers may be chance."
        )
    if contents.of("roles"):
        said.append(
            "A role is a word for what can be measured, beyond a threshold. Another threshold would give "
            "other roles, and \u201cmixed\u201d means that none of the roles asked for was found."
        )
    if contents.of("importance"):
        said.append(
            "Importance is for one task and its examples. A head that can go alone may be needed once others "
            "are gone; the pruning curve tells more."
        )
    if contents.seen:
        said.append(
            "A few sentences are an illustration. They are too few to show what a head does in general."
        )
    return said


def record(contents: Contents) -> dict[str, Any]:
    """Give what is needed to make the report again, without the sums."""
    tables = [
        {"name": name, "provenance": {key: _without_sums(value) for key, value in table.provenance.items()}}
        for name, table in contents.every.items()
    ]
    first = next((table for table in contents.every.values() if table.provenance), None)
    of = {} if first is None else first.provenance
    return {
        "command": contents.command if isinstance(contents.command, str) else list(contents.command),
        "versions": dict(contents.versions) or dict(_mapping(of.get("versions"))),
        "created": of.get("created"),
        "model": dict(_mapping(of.get("model"))),
        "dataset": dict(_mapping(of.get("dataset"))),
        "tables": tables,
    }


def again(contents: Contents) -> Iterator[tuple[str, str]]:
    """Say how to run it again: command, versions."""
    import shlex

    command = contents.command
    yield "Command", clean(command if isinstance(command, str) else shlex.join(command))
    versions = record(contents)["versions"]
    if versions:
        yield "Versions", clean(", ".join(f"{name} {number}" for name, number in versions.items()))


def _without_sums(value: Any) -> Any:
    return {key: one for key, one in value.items() if key != "sums"} if isinstance(value, Mapping) else value


def _part(table: HeadTable, name: str) -> dict[str, Any]:
    return dict(_mapping(table.provenance.get(name)))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
