"""Two models that are measured together, batch by batch."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from attnprobe.corpus.batch import Batch
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.base import Measurement, Sum
from attnprobe.sums.blocked import Jackknife
from attnprobe.survey.divergences import Divergences
from attnprobe.survey.head_outputs import OutputMoments
from attnprobe.survey.measure import Evaluator, join_parts, open_evaluator, sum_sequences
from attnprobe.survey.pairing import SAME, SecondReader
from attnprobe.survey.recorder import Values

#: What the sums of either model's statistics are called: its mark, a slash, and the statistic.
MARKS = ("a", "b")


@dataclass(frozen=True)
class PairMeter:
    """Two models that are ready to be compared, batch by batch, in as many threads as there are.

    Attributes:
        sides: The models.
        divergences: Compares the maps of their heads.
        beside: Gives what the second model reads.
        outputs: Compares what their heads give, if that is asked for.
    """

    sides: tuple[Evaluator, Evaluator]
    divergences: Divergences
    beside: SecondReader
    outputs: OutputMoments | None = None

    @cached_property
    def sums(self) -> dict[str, type[Sum]]:
        """What is kept of each of the numbers, by its name."""
        found: dict[str, type[Sum]] = {**self.divergences.sums}
        found |= {} if self.outputs is None else self.outputs.sums
        for mark, side in zip(MARKS, self.sides, strict=True):
            found |= {f"{mark}/{one.name}": one.sums for one in side.statistics}
        return found

    @cached_property
    def _constants(self) -> dict[str, Any]:
        sides = zip(MARKS, self.sides, strict=True)
        return {f"{mark}/{name}": one for mark, side in sides for name, one in side.constants.items()}

    def measurement(self, batch: Batch) -> Measurement:
        """Run a batch with both models, and sum up what is found."""
        found = join_parts(self.sides[0].halving.run(batch, self._part))
        sums = {
            name: self._constants.get(name) or sum_sequences(kind, found.pop(name), batch)
            for name, kind in self.sums.items()
        }
        return Measurement(sums, len(batch), batch.size)

    def _part(self, batch: Batch) -> Values:
        theirs = self.beside.batch(batch)
        one, other = self.sides
        first, ours = one.evaluate_part(batch), one.recorder.maps()
        given = one.recorder.outputs()
        if one is other:  # whose next maps take the place of these
            ours = {kind: (maps.clone(), layout) for kind, (maps, layout) in ours.items()}
        second, units = other.evaluate_part(theirs), self.beside.units(batch, theirs)
        found = self.divergences.compare(ours, other.recorder.maps(), units)
        found |= {} if self.outputs is None else self.outputs.compare(given, other.recorder.outputs(), units)
        for mark, values in zip(MARKS, (first, second), strict=True):
            found |= {f"{mark}/{name}": one for name, one in values.items()}
        return found

    @contextmanager
    def thread_context(self) -> Iterator[None]:
        with ExitStack() as stack:
            for joining in {id(side): side.thread_context for side in self.sides}.values():
                stack.enter_context(joining())
            yield


@contextmanager
def open_pair(
    checkpoints: tuple[Checkpoint, Checkpoint],
    architectures: tuple[Architecture, Architecture],
    statistics: Sequence[Statistic],
    divergences: Divergences,
    beside: SecondReader = SAME,
    outputs: OutputMoments | None = None,
) -> Iterator[PairMeter]:
    """Make two models ready; one that is compared with itself can be read by one reader only.

    Differences are of two means, with an error of their own kind, which blocks of documents give.
    """
    blocked = [replace(statistic, sums=Jackknife) for statistic in statistics]
    first, second = checkpoints
    kept = {"keep": True, "keep_outputs": outputs is not None}
    with open_evaluator(first, architectures[0], blocked, **kept) as one:
        if first.body is second.body:
            yield PairMeter((one, one), divergences, beside, outputs)
            return
        with open_evaluator(second, architectures[1], blocked, **kept) as other:
            yield PairMeter((one, other), divergences, beside, outputs)
