"""Passes over the same batches: as they are, with tokens shuffled, with all positions alike."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.blocks import equalise_positions
from attnprobe.model.refusals import UnsupportedModelError
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.positions import Positions, find_positions
from attnprobe.run.passes import Run
from attnprobe.run.preparation import PreparedCorpus
from attnprobe.statistics.statistic import CONTROLS, Control, Statistic
from attnprobe.sums.base import Measurement
from attnprobe.survey.measure import open_meter
from attnprobe.table.naming import join_names

#: What the passes are called: the stage that a person is told and a state knows.
STAGES: Mapping[Control, str] = {
    "": "measuring",
    "shuffled": "measuring, tokens shuffled",
    "alike": "measuring, positions equal",
}
#: From which orders and random tokens are drawn, where nobody says otherwise.
SEED = 42


@dataclass(frozen=True)
class Controls:
    """What statistics under controls need to be measured.

    Attributes:
        statistics: What is measured, without those whose control can't be had.
        seed: From which orders of tokens are drawn; None where nothing is shuffled.
        positions: The tables of positions, where they are to be made alike.
        notes: Why some can't be had.
    """

    statistics: Sequence[Statistic]
    seed: int | None = None
    positions: Positions | None = None
    notes: Sequence[str] = field(default=())

    @classmethod
    def of(
        cls, checkpoint: Checkpoint, architecture: Architecture, statistics: Sequence[Statistic], seed: int
    ) -> "Controls":
        """Look for tables of positions if they are to be made alike; if there are none, a note says why."""
        asked = {statistic.control for statistic in statistics} - {""}
        drawn = seed if "shuffled" in asked else None
        if "alike" not in asked:
            return cls(statistics, drawn)
        try:
            return cls(statistics, drawn, find_positions(checkpoint, architecture))
        except UnsupportedModelError as error:
            left = [statistic for statistic in statistics if statistic.control != "alike"]
            names = join_names([statistic.name for statistic in statistics if statistic not in left])
            note = (
                f"There are no columns {names}, since positions of {checkpoint.model_type!r} can't be made "
                f"equal: {error.reason}."
            )
            return cls(left, drawn, None, [note])

    @classmethod
    def join(cls, several: Sequence["Controls"]) -> "Controls":
        """Give what several tables need of one corpus, each statistic once."""
        every = {statistic.name: statistic for one in several for statistic in one.statistics}
        seeds = {one.seed for one in several} - {None}
        if len(seeds) > 1:
            raise ValueError("tables that share a pass have one seed")
        positions = next((one.positions for one in several if one.positions is not None), None)
        return cls(list(every.values()), next(iter(seeds), None), positions)

    @property
    def passes(self) -> dict[Control, list[Statistic]]:
        """What is measured in each pass, in their order."""
        passes: dict[Control, list[Statistic]] = {control: [] for control in CONTROLS}
        for statistic in self.statistics:
            passes[statistic.control].append(statistic)
        return {control: some for control, some in passes.items() if some}

    @property
    def largest(self) -> list[Statistic]:
        """What is measured in the pass that measures most, which takes most memory."""
        return max(self.passes.values(), key=len)

    @property
    def record(self) -> dict[str, Any]:
        """What tables must agree in to be added up."""
        return {} if self.seed is None else {"seed": self.seed}

    @property
    def evidence(self) -> list[str]:
        return [] if self.positions is None else [self.positions.evidence]


def measure_passes(
    run: Run,
    checkpoint: Checkpoint,
    architecture: Architecture,
    ready: PreparedCorpus,
    controls: Controls,
    name: str = "",
) -> Measurement:
    """Pass over the batches once for each control, each a stage of the run, and put the sums together.

    ``name`` tells the corpus from others of the same run.
    """
    found: list[Measurement] = []
    for control, statistics in controls.passes.items():
        batches, question, change = ready.corpus.batches, None, nullcontext()
        if control == "shuffled":
            assert controls.seed is not None
            batches, question = batches.shuffle(controls.seed), {"seed": str(controls.seed)}
        if control == "alike":
            assert controls.positions is not None
            change = equalise_positions(checkpoint.body, controls.positions.tables, controls.positions.at)
        restore = partial(
            Measurement.from_arrays, kinds={statistic.name: statistic.sums for statistic in statistics}
        )
        with change, open_meter(checkpoint, architecture, statistics) as meter:
            found.append(
                run.total(
                    STAGES[control] + (f", {name}" if name else ""),
                    batches,
                    meter.measurement,
                    restore,
                    workers=ready.workers,
                    thread_context=meter.thread_context,
                    question=question,
                )
            )
    return reduce(Measurement.beside, found)
