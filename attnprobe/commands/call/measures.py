"""What can be measured over checkpoints: which function measures it, and which keywords that takes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from attnprobe.commands.census import census, mixing, rank
from attnprobe.commands.dynamics import dynamics
from attnprobe.commands.intervene import importance
from attnprobe.commands.prune import prune
from attnprobe.errors import AttnprobeError
from attnprobe.table.head_table import HeadTable

_FUNCTIONS: dict[str, Any] = {one.__name__: one for one in (importance, prune, census, rank, mixing)}
#: Columns that are measured by commands of their own.
COLUMNS = {
    "rank": ("head_width", "longer", "logit_rank", "logit_rank_share", "qk_rank", "qk_top_half", "map_rank"),
    "mixing": ("explained_by_others", "explained_by_others_null", "contribution_norm"),
}
#: What keywords of other functions are called where names would be taken.
_RENAMED = {"prune_by": "by", "prune_step": "step"}
#: Keywords of ``dynamics`` itself.
_ITS_OWN = {"model", "texts", "labels", "measure", "revisions", "steps", "by", "keep"}


def _find_keywords() -> dict[str, set[str]]:
    """Find the keywords of each function that ``dynamics`` has too and not all of the functions take."""
    names = set(dynamics.command.keywords) - _ITS_OWN  # type: ignore[attr-defined]
    taken: dict[str, set[str]] = {}
    for name, function in _FUNCTIONS.items():
        renamed = _RENAMED if name == "prune" else {}
        taken[name] = {one for one in names if renamed.get(one, one) in function.command.keywords}
    common = set.intersection(*taken.values())
    return {function: some - common for function, some in taken.items()}


@dataclass(frozen=True)
class Measure:
    """A measure of heads.

    Attributes:
        column: The one column of its table that is meant, or None for all.
        own: Keywords that the name itself stands for.
    """

    name: str
    function: str
    column: str | None = None
    own: Mapping[str, Any] | None = None

    @classmethod
    def find(cls, name: str) -> "Measure":
        """Find a measure: importance, prune, census, everything, rank, mixing, a column or a family."""
        if name in _FUNCTIONS:
            return cls(name, name)
        if name == "everything":
            return cls(name, "census", own={"everything": True})
        for function, columns in COLUMNS.items():
            if name in columns:
                more = {"map_rank": True} if name == "map_rank" else {}
                return cls(name, function, name, more)
        names = [part.strip() for part in name.split(",") if part.strip()]
        from attnprobe.statistics.registry import choose  # takes torch

        try:
            choose(names)
        except AttnprobeError as error:
            others = ", ".join([*_FUNCTIONS, "everything", *chain(*COLUMNS.values())])
            raise AttnprobeError(f"{error} Beside these, --measure takes {others}.") from error
        return cls(name, "census", own={"statistics": names})

    @property
    def labelled(self) -> bool:
        """Whether texts come with what is right for each."""
        return self.function in {"importance", "prune"}

    def pick_keywords(self, options: Mapping[str, Any]) -> dict[str, Any]:
        takes, options_of = _find_keywords(), dynamics.command.keywords  # type: ignore[attr-defined]
        special = set().union(*takes.values())
        for name in sorted(special - takes[self.function]):
            if name in options and options[name] is not False and options_of[name].is_given(options[name]):
                owners = ", ".join(owner for owner, taken in takes.items() if name in taken)
                raise AttnprobeError(
                    f"{options_of[name].flags[0]} is for --measure {owners}; leave it out for {self.name}."
                )
        taken = {name for name in options if name not in special or name in takes[self.function]}
        found = {_RENAMED.get(name, name): options[name] for name in taken}
        return found | dict(self.own or {})

    def measure(self, model: str, texts: Any, labels: Any, keywords: Mapping[str, Any]) -> HeadTable:
        """Measure a checkpoint, and keep the columns that were asked for."""
        data = (texts, labels) if self.labelled else (texts,)
        table: HeadTable = _FUNCTIONS[self.function](model, *data, **keywords)
        if self.column is None:
            return table
        if self.column not in table.data:
            said = next((note for note in table.notes if self.column in note), "the model does not give it")
            raise AttnprobeError(f"{self.column} can't be measured: {said}")
        wanted = {self.column, f"{self.column}_se", f"{self.column}_n", "n"}
        columns = [one for one in table.columns if one.role == "key" or one.name in wanted]
        return replace(table, columns=columns, data={one.name: table.data[one.name] for one in columns})
