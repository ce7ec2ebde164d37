"""The contents of a report: tables by section, whether they were just measured or read from a folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from attnprobe.errors import DataError, UsageError
from attnprobe.table.cells import clean
from attnprobe.table.destination import check_file, read_description
from attnprobe.table.formats import READABLE, extension
from attnprobe.table.table import HeadTable

if TYPE_CHECKING:
    from attnprobe.table.sequence import SequenceAttention

#: The sections of a report that are measured, in the order of the page.
Section = Literal[
    "census", "roles", "sentences", "syntax", "coreference", "links", "groups", "importance", "distance",
    "prune", "correlate",
]  # fmt: skip
SECTIONS: tuple[Section, ...] = get_args(Section)
#: Sections that need a task.
OF_A_TASK = ("importance", "prune", "correlate")
#: Sections about gold links, with the keyword that names their file; and the section about groups.
OF_GOLD: Mapping[str, str] = {"syntax": "treebank", "coreference": "coreference", "links": "links"}
GROUPS: Section = "groups"
#: The place of tables that no section shows.
OTHER = "other"
#: The section of the kinds of tables that have one.
_BY_KIND: Mapping[str, Section] = {
    "roles": "roles",
    "heads of groups": GROUPS,
    "all pairs": "distance",
    "pruning": "prune",
    "correlations": "correlate",
    "two sides": "correlate",
}


@dataclass(frozen=True)
class Contents:
    """All that a page shows."""

    #: The tables of each section, by name; those that no section shows are under ``other``.
    tables: Mapping[str, Mapping[str, HeadTable]]
    sentences: Sequence["SequenceAttention"] = ()  # sentences, each with the attention of all heads
    chosen: str = ""  # how the sentences were chosen, or why there are none
    command: str | Sequence[str] = ""  # the command line, or the function, that made the report
    #: Versions of what computed; empty if they are in the records of the tables.
    versions: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def every(self) -> dict[str, HeadTable]:
        """All tables by name, in the order of the page."""
        return {name: table for section in (*SECTIONS, OTHER) for name, table in self.of(section).items()}

    def of(self, section: str) -> Mapping[str, HeadTable]:
        return self.tables.get(section, {})

    @property
    def unit(self) -> str:
        """What a document of the data is: text, image, sound or video."""
        kinds = {str(read_record(table, "dataset").get("kind")) for table in self.every.values()}
        return next((kind for kind in ("image", "sound", "video") if kind in kinds), "text")

    @property
    def model(self) -> str:
        """What the user calls the checkpoint."""
        return next((model for table in self.every.values() for model in table.models), "")


def _find_section(table: HeadTable) -> str:
    names = table.data.keys()
    if table.kind == "best heads":  # whose title names the gold links
        return next((section for section in OF_GOLD if table.title.startswith(section)), OTHER)
    if table.kind in _BY_KIND:
        return _BY_KIND[table.kind]
    if {"layer", "head"} <= names and "step" not in names:
        return "importance" if {"objective", "method"} & names else "census"
    return OTHER


def sort_tables(tables: Mapping[str, HeadTable]) -> dict[str, dict[str, HeadTable]]:
    """Put tables into sections; raises AttnprobeError when they are about more than one checkpoint.

    A section shows one table of heads and one of anything else; further ones go to ``other``.
    """
    models, weights = dict[str, str](), dict[str, str]()
    sections: dict[str, dict[str, HeadTable]] = {}
    for name, table in tables.items():
        models |= {model: models.get(model, name) for model in table.models}
        if known := read_record(table, "model").get("weights"):
            weights.setdefault(repr(known), name)
        section = _find_section(table)
        shown = [("head" in other.data) for other in sections.get(section, {}).values()]
        sections.setdefault(OTHER if ("head" in table.data) in shown else section, {})[name] = table
    for different in (models, weights):
        if len(different) > 1:
            first, second = list(different.values())[:2]
            raise DataError(
                f"{clean(first)} and {clean(second)} are about different checkpoints, and a report is about "
                "one: put the tables of each into a folder of its own."
            )
    return sections


def read_record(table: HeadTable, name: str) -> Mapping[str, Any]:
    """Read a part of the record of a table, such as its ``model``; empty where it has none."""
    part = table.provenance.get(name)
    return part if isinstance(part, Mapping) else {}


def read_folder(folder: Path) -> dict[str, HeadTable]:
    """Read all tables of a folder that name a model, by name; raises AttnprobeError when there is none."""
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}.")
    tables: dict[str, HeadTable] = {}
    for path in sorted(folder.iterdir()):
        if extension(path) not in READABLE or path.name.startswith(".") or not path.is_file():
            continue
        if path.suffix.lower() == ".json" and not isinstance(read_description(path).get("rows"), list):
            continue  # what describes a table beside it, or some other json
        if (table := HeadTable.read(path)).models:
            tables[path.stem if path.stem not in tables else path.name] = table
    if not tables:
        raise DataError(
            f"{folder} holds no table of attnprobe; write some there first, such as "
            f"`attnprobe census MODEL -d DATA -o {folder / 'census.csv'}`."
        )
    return tables


def check_tables_folder(folder: Path, names: list[str], *, overwrite: bool) -> None:
    """Raise AttnprobeError, before anything is measured, if tables can't be written to a folder."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; name another one for the tables.")
    if not folder.parent.is_dir():
        raise UsageError(f"can't make {folder}: the folder {folder.parent} does not exist; make it first.")
    if folder.is_dir():
        for name in names:
            check_file(folder / f"{name}.csv", overwrite)
