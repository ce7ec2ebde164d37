"""What a report is made of: tables, told apart by their columns, and sentences that heads were watched on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from attnprobe.errors import AttnprobeError
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from attnprobe.survey.viewing.tokens import Seen

#: The sections of a report that are measured, in the order of the page.
Section = Literal["census", "roles", "sentences", "importance", "distance", "prune", "correlate"]
SECTIONS: tuple[Section, ...] = get_args(Section)
#: Those that need a task.
OF_A_TASK = ("importance", "prune", "correlate")
#: Those that only text has.
OF_TEXT = ("roles", "sentences")
#: What a table is that no section shows.
OTHER = "other"
#: Kinds of data that are no text.
MEDIA = ("image", "sound")
_FORMATS = (".csv", ".json", ".parquet", ".xlsx")


@dataclass(frozen=True)
class Contents:
    """All that a page shows.

    Attributes:
        tables: The tables of each section, by name; what a section has no use for lies under ``other``.
        seen: Sentences, each with the attention of all heads.
        chosen: How the sentences were chosen.
        missing: For each section that is not there, what would make it.
        command: The command line, or the function, that made the report.
        versions: Of what computed; empty where the tables say it.
    """

    tables: Mapping[str, Mapping[str, HeadTable]]
    seen: Sequence["Seen"] = ()
    chosen: str = ""
    missing: Mapping[str, str] = field(default_factory=dict)
    command: str | Sequence[str] = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def every(self) -> dict[str, HeadTable]:
        """All tables by name, in the order of the page."""
        return {name: table for section in (*SECTIONS, OTHER) for name, table in self.of(section).items()}

    def of(self, section: str) -> Mapping[str, HeadTable]:
        """Give the tables of a section; none where it is not there."""
        return self.tables.get(section, {})

    @property
    def unit(self) -> str:
        """What one of the data is called: text, image or sound."""
        described = (table.provenance.get("dataset") for table in self.every.values())
        kinds = {str(one.get("kind")) for one in described if isinstance(one, Mapping)}
        return next((kind for kind in MEDIA if kind in kinds), "text")

    @property
    def model(self) -> str:
        """What the user calls the checkpoint."""
        return next((model for table in self.every.values() for model in table.models), "")


def section_of(table: HeadTable) -> str:
    """Tell from its columns in which section a table belongs."""
    names = set(table.data)
    head = {"layer", "head"} <= names
    if {"layer_a", "head_a", "layer_b", "head_b", "jsd"} <= names:
        return "distance"
    if head and "role" in names:
        return "roles"
    if {"criterion", "step", "share_removed", "score"} <= names and "checkpoint_step" not in names:
        return "prune"
    if {"in_domain", "pearson"} <= names or (head and {"rank_in", "rank_out"} <= names):
        return "correlate"
    if head and len({"model", "layer", "head"} & names) == 3 and "step" not in names:
        return "importance" if {"objective", "method"} & names else "census"
    return OTHER


def sorted_in(tables: Mapping[str, HeadTable]) -> dict[str, dict[str, HeadTable]]:
    """Put tables into sections.

    A section shows one table, of correlation one in one row and one by head; what comes after the first of a
    section is shown as a table only.

    Raises:
        AttnprobeError: When they are about more than one checkpoint.
    """
    _check_one_checkpoint(tables)
    found: dict[str, dict[str, HeadTable]] = {}
    for name, table in tables.items():
        section = section_of(table)
        there = found.get(section, {})
        alike = [one for one in there.values() if ("head" in one.data) == ("head" in table.data)]
        found.setdefault(OTHER if alike else section, {})[name] = table
    return found


def read_folder(folder: Path) -> dict[str, HeadTable]:
    """Read every table of a folder, by name.

    Raises:
        AttnprobeError: When there is no such folder, or no table in it.
    """
    if not folder.is_dir():
        raise AttnprobeError(f"There is no folder {folder}.")
    found: dict[str, HeadTable] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in _FORMATS or path.name.startswith("."):
            continue
        if (path.exists() and not path.is_file()) or _describes_another(path):  # a folder may have any name
            continue
        name = path.stem if path.stem not in found else path.name
        found[name] = HeadTable.read(path)
    found = {name: table for name, table in found.items() if table.models}
    if not found:
        raise AttnprobeError(
            f"{folder} holds no table of attnprobe; write some there first, such as "
            f"`attnprobe census MODEL -d DATA -o {folder / 'census.csv'}`."
        )
    return found


def _describes_another(path: Path) -> bool:
    """Tell a json beside a table, or some other json, from a table."""
    from attnprobe.table.destination import said_in

    return path.suffix.lower() == ".json" and not isinstance(said_in(path).get("rows"), list)


def _check_one_checkpoint(tables: Mapping[str, HeadTable]) -> None:
    models: dict[str, str] = {}
    weights: dict[str, str] = {}
    for name, table in tables.items():
        for model in table.models:
            models.setdefault(model, name)
        known = table.provenance.get("model")
        if isinstance(known, Mapping) and known.get("weights"):
            weights.setdefault(repr(known["weights"]), name)
    for different in (models, weights):
        if len(different) > 1:
            one, other = list(different.values())[:2]
            raise AttnprobeError(
                f"{clean(one)} and {clean(other)} are about different checkpoints, and a report is about "
                "one: put the tables of each into a folder of its own."
            )
