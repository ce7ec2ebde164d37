"""Adding tables of separate jobs up to the table of the whole, from the moments in their records."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from attnprobe.attention.kinds import places_of
from attnprobe.errors import AttnprobeError, first_line
from attnprobe.run.packing import packed, unpacked
from attnprobe.statistics import Statistic, all_statistics, statistics_of
from attnprobe.survey.measurement import Measurement
from attnprobe.survey.tabulate import by_head_table, by_layer_table, head_table, pair_table
from attnprobe.table.builder import Labels
from attnprobe.table.head_table import HeadTable

#: How tables that are not one row a head are made, by their titles.
_PAIRS: dict[str, Callable[..., HeadTable]] = {
    "distance between heads": pair_table,
    "distance of heads to their layer": by_head_table,
    "distance within layers": by_layer_table,
}
#: What must be alike in the records, and what a person calls it.
_ALIKE = {"model": "model", "architecture": "architecture", "options": "setting"}
#: Options that say how much is read or how fast, not what is measured.
_FREE = {"limit", "batch_tokens", "memory"}


@dataclass(frozen=True)
class Part:
    """One job: its measurement and what is on record about it.

    Attributes:
        path: The file.
        title: Of its table.
        measurement: The moments.
        statistics: What was measured.
        texts: Which texts it has seen, by their SHA-256.
        rarity: Which tokens it took for rare, by a SHA-256.
        record: The provenance.
    """

    path: Path
    title: str
    measurement: Measurement
    statistics: list[str]
    texts: list[str]
    rarity: str
    record: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Part":
        """Read the json that lies beside a table, or a table in json."""
        if path.suffix != ".json":
            path = path.with_suffix(".json")
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            record = content["provenance"]
            measurement, statistics = unpacked(record["measurement"])
            corpus = record["corpus"]
            texts, rarity = [str(text) for text in corpus["texts"]], str(corpus["rarity"])
            return cls(path, str(content["title"]), measurement, statistics, texts, rarity, record)
        except OSError as error:
            raise AttnprobeError(
                f"{path} can't be read: {error.strerror}; tables are merged from the json beside them."
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise AttnprobeError(
                f"{path} is no record of a table that can be merged ({first_line(error)}); give the "
                "json beside "
                "tables of census, entropy, positional, special or distance."
            ) from error


def merged(paths: Sequence[Path], command: Sequence[str]) -> HeadTable:
    """Add up the tables of separate jobs over parts of a corpus.

    Moments add up exactly, so the result is the table of the whole corpus, up to rounding. What is rare is
    counted in each job's own text; where the counts differ, the columns on rare tokens are left out.

    Args:
        paths: The json files beside the tables.
        command: For the record.

    Raises:
        AttnprobeError: When a file is no such record, or two don't belong together.
    """
    if len(paths) < 2:
        raise AttnprobeError("One table is whole already; give at least two.")
    parts = [Part.read(path) for path in paths]
    first = parts[0]
    for part in parts[1:]:
        _check_alike(first, part)
    seen: set[str] = set()
    for part in parts:
        if seen & set(part.texts):
            raise AttnprobeError(f"{part.path} is about a text that is there already; it would count twice.")
        seen |= set(part.texts)
    whole = reduce(add, (part.measurement for part in parts))
    statistics, notes = _comparable(parts)
    record = {key: first.record[key] for key in (*_ALIKE, "versions") if key in first.record}
    datasets = " and ".join(dict.fromkeys(str(part.record["dataset"]["name"]) for part in parts))
    record |= {
        "command": list(command),
        "dataset": {"name": datasets},
        "corpus": {"texts": sorted(seen), "rarity": first.rarity},
        "merged": [part.record.get("dataset") for part in parts],
        "measurement": packed(whole, [statistic.name for statistic in statistics]),
    }
    architecture = first.record["architecture"]
    labels = Labels(
        str(first.record["model"]["name"]),
        datasets,
        record,
        places_of(architecture["kinds"]),
        architecture["grid"] is not None,
    )
    heads = int(architecture["heads"])
    if first.title in _PAIRS:
        table = _PAIRS[first.title](first.title, whole, heads, labels)
    else:
        table = head_table(first.title, whole, statistics, labels)
    return HeadTable(table.title, table.columns, table.data, [*table.notes, *notes], table.provenance)


def _check_alike(first: Part, other: Part) -> None:
    if (first.title, first.statistics) != (other.title, other.statistics):
        raise AttnprobeError(f"{first.path} and {other.path} are not tables of the same command.")
    for key, name in _ALIKE.items():
        ours, theirs = (_settled(part.record.get(key)) for part in (first, other))
        if ours != theirs:
            raise AttnprobeError(f"{first.path} and {other.path} were made with another {name}.")


def _settled(record: Any) -> Any:
    """Leave out what may differ: what was found on the way, and how much was read."""
    if not isinstance(record, dict):
        return record
    return {key: value for key, value in record.items() if key not in {*_FREE, "evidence", "warnings"}}


def _comparable(parts: Sequence[Part]) -> tuple[list[Statistic], list[str]]:
    """Leave out statistics of rare tokens where the jobs did not mean the same tokens."""
    known = all_statistics()
    if missing := [name for name in parts[0].statistics if name not in known]:
        raise AttnprobeError(f"{parts[0].path} holds {missing[0]!r}, which this version does not know.")
    statistics = [known[name] for name in parts[0].statistics]
    rare = {statistic.name for statistic in statistics_of("rare")}
    if len({part.rarity for part in parts}) == 1:
        return statistics, []
    left = [statistic for statistic in statistics if statistic.name not in rare]
    if len(left) == len(statistics):
        return statistics, []
    if not left:
        raise AttnprobeError(
            "What is rare was counted in each job's own text, so tables on rare tokens don't add up."
        )
    return left, ["Columns on rare tokens are left out: what is rare was counted in each job's own text."]
