"""What a measure over checkpoints is: which function gives it, and which keywords that function takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from attnprobe.commands.census import census, mixing, rank
from attnprobe.commands.intervene import importance
from attnprobe.commands.prune import prune
from attnprobe.errors import AttnprobeError
from attnprobe.options import DEFAULTS
from attnprobe.table.head_table import HeadTable

_ATTENTION = frozenset({"content_only", "frequencies", "label_column", "layers"})
_TASK = frozenset({"objective", "label_column", "force_head"})
#: Of each function, the keywords that not all of them take.
TAKES: dict[str, frozenset[str]] = {
    "importance": _TASK | {"method", "content_only"},
    "prune": _TASK
    | {"metric", "prune_by", "highest_first", "prune_step", "rerank", "random_orders", "rank_texts"},
    "census": _ATTENTION | {"weights"},
    "rank": _ATTENTION,
    "mixing": _ATTENTION,
}
_FUNCTIONS: dict[str, Callable[..., HeadTable]] = {
    "importance": importance,
    "prune": prune,
    "census": census,
    "rank": rank,
    "mixing": mixing,
}
#: Columns that are measured by commands of their own.
COLUMNS = {
    "rank": ("head_width", "longer", "logit_rank", "logit_rank_share", "qk_rank", "qk_top_half", "map_rank"),
    "mixing": ("explained_by_others", "explained_by_others_null", "contribution_norm"),
}
#: What keywords of other functions are called where names would be taken.
_RENAMED = {"prune_by": "by", "prune_step": "step"}
#: What a keyword is where it is not given, beside those that functions share.
_DEFAULTS = {"method": "gradient", "prune_by": "gradient", "prune_step": 0.1, "random_orders": 5}
_SPELLED = {"rank_texts": "rank-data"}


@dataclass(frozen=True)
class Measure:
    """A measure of heads.

    Attributes:
        name: As the user calls it.
        function: The name of the function that gives it.
        column: The one column of its table that is meant, or None for all.
        own: Keywords that the name itself stands for.
    """

    name: str
    function: str
    column: str | None = None
    own: Mapping[str, Any] | None = None

    @classmethod
    def named(cls, name: str) -> "Measure":
        """Find a measure: importance, prune, census, everything, rank, mixing, a column or a family.

        Raises:
            AttnprobeError: When there is none of the name.
        """
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
            others = ", ".join(
                (*_FUNCTIONS, "everything", *(one for some in COLUMNS.values() for one in some))
            )
            raise AttnprobeError(f"{error} Beside these, --measure takes {others}.") from error
        return cls(name, "census", own={"statistics": names})

    @property
    def labelled(self) -> bool:
        """Whether texts come with what is right for each."""
        return self.function in {"importance", "prune"}

    def keywords(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Pick the keywords that the function takes.

        Raises:
            AttnprobeError: When one is given that it has no use for.
        """
        special = frozenset[str]().union(*TAKES.values())
        for name in sorted(special - TAKES[self.function]):
            value = options.get(name)
            usual = isinstance(value, str | int | float) and value == _DEFAULTS.get(name, DEFAULTS.get(name))
            if not (value is None or value is False or usual):
                owners = [owner for owner, taken in TAKES.items() if name in taken]
                said = f"--{_SPELLED.get(name, name.replace('_', '-'))}"
                raise AttnprobeError(
                    f"{said} is for --measure {', '.join(owners)}; leave it out for {self.name}."
                )
        taken = {name for name in options if name not in special or name in TAKES[self.function]}
        found = {_RENAMED.get(name, name): options[name] for name in taken}
        return found | dict(self.own or {})

    def of(self, model: str, texts: Any, labels: Any, keywords: Mapping[str, Any]) -> HeadTable:
        """Measure a checkpoint."""
        if self.labelled:
            return _FUNCTIONS[self.function](model, texts, labels, **keywords)
        return self._reduced(_FUNCTIONS[self.function](model, texts, **keywords))

    def _reduced(self, table: HeadTable) -> HeadTable:
        """Leave out the columns that were not asked for."""
        if self.column is None:
            return table
        if self.column not in table.data:
            said = next((note for note in table.notes if self.column in note), "the model does not give it")
            raise AttnprobeError(f"{self.column} can't be measured: {said}")
        wanted = {self.column, f"{self.column}_se", f"{self.column}_n", "n"}
        columns = [one for one in table.columns if one.role == "key" or one.name in wanted]
        return replace(table, columns=columns, data={one.name: table.data[one.name] for one in columns})
