"""In which order heads go and how far, checked before a model is loaded."""

from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from attnprobe.errors import AttnprobeError

if TYPE_CHECKING:
    from attnprobe.findings.sides import TableSide

#: Criteria that are measured, also with heads already off. Anything else is a column of a table: FILE:COLUMN.
CRITERIA = ("gradient", "gradient-normed", "fisher", "ig", "lrp", "ablation")
#: Numbers with a sign that nobody should order heads by, and what to take instead: a criterion, and a column.
SIGNED = {
    "gradient_signed": ("gradient", "importance"),
    "relevance": ("lrp", "relevance_abs"),
    "ig": ("ig", "ig_abs"),
    "delta": ("ablation", "moved"),
}
#: Random orders by default: one more would be the best of all at a step in 20, which is p = .05.
RANDOM_ORDERS = 19


@dataclass(frozen=True)
class Criterion:
    """What orders the heads.

    Attributes:
        name: The ``criterion`` column.
        side: The table that holds it, if it is not measured.
        highest_first: Whether the heads with the highest value go first.
        path: The file of the table.
    """

    name: str
    side: "TableSide | None" = None
    highest_first: bool = False
    path: Path | None = None

    @classmethod
    def parse(cls, spec: str, *, highest_first: bool = False) -> "Criterion":
        """Read the name of a criterion, or ``FILE:COLUMN``."""
        if spec in CRITERIA:
            if highest_first:
                raise AttnprobeError(f"--highest-first is for tables; {spec} has its own order.")
            return cls(spec)
        if (signed := spec.lower().replace("-", "_")) in SIGNED:
            raise AttnprobeError(_refuse_signed(spec, SIGNED[signed][0]))
        path, colon, column = spec.rpartition(":")
        if not colon or not path or not column:
            raise AttnprobeError(
                f"There is no criterion {spec!r}; choose one of {', '.join(CRITERIA)}, or FILE:COLUMN."
            )
        if column in SIGNED:
            raise AttnprobeError(_refuse_signed(column, f"{path}:{SIGNED[column][1]}"))
        from attnprobe.findings.sides import TableSide  # takes a while
        from attnprobe.table.table import HeadTable

        side = TableSide.from_table(HeadTable.read(path), path, column)
        if len(set(side.values.tolist())) < 2:
            raise AttnprobeError(f"All heads have the same {column} in {path}, which orders none of them.")
        name = f"{Path(path).name}:{column}{' (highest first)' if highest_first else ''}"
        return cls(name, side, highest_first, Path(path))


def _refuse_signed(name: str, instead: str) -> str:
    return (
        f"{name} has a sign: heads that help some examples and harm others have a mean near 0, and would go "
        f"first however much they do. Order by a size instead: {instead}."
    )


def check_ranked(criterion: Criterion) -> None:
    """Refuse data to rank on where the criterion is not measured on examples."""
    if criterion.side is not None:
        raise AttnprobeError(
            "--by reads the order of heads from a table, so that --rank-data has nothing to rank."
        )


@dataclass(frozen=True)
class PruneOptions:
    """How heads go; the fields are the options of the command line.

    Attributes:
        criterion: What orders the heads.
        step: Share of all heads that goes in one step.
        rerank: Whether those left are ranked anew after each step.
        share: Share of all heads that is to be removed in the end, or None.
        margin: Loss of score that is allowed, in its unit, or None.
        saving: Whether a checkpoint is to be written, without ``share`` of the heads, or those that can
            go within ``margin``.
    """

    criterion: Criterion
    step: float = 0.1
    rerank: bool = False
    random_orders: int = RANDOM_ORDERS
    share: float | None = None
    physical: bool = False
    margin: float | None = None
    saving: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.step <= 1:
            raise AttnprobeError(f"--step must be more than 0 and at most 1, not {self.step:g}.")
        if self.random_orders < 0:
            raise AttnprobeError(f"--random-orders must be at least 0, not {self.random_orders}.")
        if self.share is not None and not 0 < self.share < 1:
            raise AttnprobeError(f"--share must be more than 0 and less than 1, not {self.share:g}.")
        if self.margin is not None and not 0 < self.margin < inf:
            raise AttnprobeError(f"--margin must be more than 0, not {self.margin:g}.")
        if self.rerank and self.criterion.side is not None:
            raise AttnprobeError(
                f"--rerank measures again with heads off, which a table can't; leave it out for "
                f"{self.criterion.name}."
            )
