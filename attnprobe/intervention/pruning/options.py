"""In which order heads go and how far, checked before a model is loaded."""

from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from attnprobe.errors import AttnprobeError

if TYPE_CHECKING:
    from attnprobe.findings.pair import Side

#: Criteria that are measured. Anything else names a column of a table: FILE:COLUMN.
CRITERIA = ("gradient", "lrp", "ablation", "entropy", "confidence")
#: Criteria that can be measured again with heads already off.
RERANKED = ("gradient", "lrp", "ablation")


@dataclass(frozen=True)
class Criterion:
    """What orders the heads.

    Attributes:
        name: The ``criterion`` column.
        side: The table that holds it, if it is not measured.
        highest_first: Whether the heads with the highest value go first.
    """

    name: str
    side: "Side | None" = None
    highest_first: bool = False

    @classmethod
    def parse(cls, spec: str, *, highest_first: bool = False) -> "Criterion":
        """Read ``gradient``, ``lrp``, ``ablation``, ``entropy``, ``confidence`` or ``FILE:COLUMN``."""
        if spec in CRITERIA:
            if highest_first:
                raise AttnprobeError(f"--highest-first is for tables; {spec} has its own order.")
            return cls(spec)
        path, colon, column = spec.rpartition(":")
        if not colon or not path or not column:
            raise AttnprobeError(
                f"There is no criterion {spec!r}; choose one of {', '.join(CRITERIA)}, or FILE:COLUMN."
            )
        from attnprobe.findings.pair import Side  # takes pandas, and a while
        from attnprobe.table.head_table import read_table

        side = Side.from_frame(read_table(Path(path)), path, column)
        if len(set(side.values.values())) < 2:
            raise AttnprobeError(f"All heads have the same {column} in {path}, which orders none of them.")
        name = f"{Path(path).name}:{column}{' (highest first)' if highest_first else ''}"
        return cls(name, side, highest_first)


@dataclass(frozen=True)
class PruneOptions:
    """How heads go; the fields are the options of the command line.

    Attributes:
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
    random_orders: int = 5
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
        if self.rerank and self.criterion.name not in RERANKED:
            raise AttnprobeError(
                f"--rerank measures again with heads off, which only {', '.join(RERANKED)} can; "
                f"leave it out for {self.criterion.name}."
            )
