"""The criterion that orders heads for pruning, checked before a model is loaded."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attnprobe.errors import DataError, UsageError

if TYPE_CHECKING:
    from attnprobe.findings.sides import TableSide

#: The criteria that are measured. Any other criterion is a column of a table, FILE:COLUMN.
CRITERIA = ("gradient", "gradient-normed", "fisher", "ig", "lrp", "ablation")
#: Columns with a sign, which heads are not to be ordered by; a criterion and a column to take instead.
SIGNED = {
    "gradient_signed": ("gradient", "importance"),
    "relevance": ("lrp", "relevance_abs"),
    "ig": ("ig", "ig_abs"),
    "delta": ("ablation", "moved"),
}


@dataclass(frozen=True)
class Criterion:
    """A criterion that is measured, or ``side``, a column of the table in the file ``path``."""

    name: str
    side: "TableSide | None" = None
    highest_first: bool = False
    path: Path | None = None

    @classmethod
    def parse(cls, spec: str, *, highest_first: bool = False) -> "Criterion":
        """Parse the name of a criterion, or ``FILE:COLUMN``, whose table is read."""
        if spec in CRITERIA:
            if highest_first:
                raise UsageError(f"--highest-first is for tables; {spec} has its own order.")
            return cls(spec)
        path, _, column = spec.rpartition(":")
        if (signed := column.lower().replace("-", "_")) in SIGNED:
            criterion, size = SIGNED[signed]
            raise UsageError(
                f"{column} has a sign: heads that help some examples and harm others have a mean near 0, and "
                "would go first however much they do. Order by a size instead: "
                f"{f'{path}:{size}' if path else criterion}."
            )
        if not path or not column:
            raise UsageError(
                f"There is no criterion {spec!r}; choose one of {', '.join(CRITERIA)}, or FILE:COLUMN."
            )
        from attnprobe.findings.sides import TableSide  # takes a while
        from attnprobe.table.table import HeadTable

        side = TableSide.from_table(HeadTable.read(path), path, column)
        if len(set(side.values.tolist())) < 2:
            raise DataError(f"All heads have the same {column} in {path}, which orders none of them.")
        name = f"{Path(path).name}:{column}{' (highest first)' if highest_first else ''}"
        return cls(name, side, highest_first, Path(path))

    def check_measured(self, option: str) -> None:
        """Refuse an option about ranking where the order comes from a table."""
        if self.side is not None:
            raise UsageError(f"{option} has nothing to rank, as {self.name} is an order; leave it out.")
