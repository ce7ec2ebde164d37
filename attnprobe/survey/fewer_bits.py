"""What fewer bits gain here: how much faster a census is with other types of weights, and what they move."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import ceil, sqrt
from operator import add
from pathlib import Path
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.dry_run import examine
from attnprobe.run.passes import Workers
from attnprobe.run.preparation import PreparedCorpus
from attnprobe.statistics.registry import census_statistics
from attnprobe.statistics.tabulation import HEADS, read_measure
from attnprobe.sums.base import Measurement
from attnprobe.survey.diagnosis import Finding
from attnprobe.survey.measure import open_meter
from attnprobe.table.builder import Labels
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import join_names

Floats = NDArray[np.float64]

#: Flags of /proc/cpuinfo, one of which a processor has that multiplies numbers of a type: x86, or Arm.
FLAGS = {
    "bfloat16": ("avx512_bf16", "amx_bf16", "bf16"),
    "float16": ("avx512_fp16", "amx_fp16"),
}
_CPUINFO = Path("/proc/cpuinfo")
#: So many tokens are read in each pass, of batches from all over the corpus; so often is each type timed.
_TOKENS, _ROUNDS = 8192, 3
#: What is gained below this may be chance.
_WORTH = 1.05


@dataclass(frozen=True)
class _Side:
    """A checkpoint in one type of weights."""

    checkpoint: Checkpoint
    architecture: Architecture

    def measure(self, batches: Sequence[Batch], workers: Workers) -> tuple[Measurement, float]:
        """Take a census of some batches, and the seconds that it takes."""
        with open_meter(self.checkpoint, self.architecture, census_statistics()) as meter:
            start = time.perf_counter()
            found = reduce(add, workers.map_in_order(meter.measurement, batches, meter.thread_context))
            return found, time.perf_counter() - start

    def tabulate(self, measurement: Measurement) -> HeadTable:
        labels = Labels(
            self.checkpoint.name, "", {}, self.architecture.places, self.architecture.patches,
            self.architecture.removed, (), self.architecture.lacking,
        )  # fmt: skip
        return HEADS.table("", measurement, census_statistics(), labels)


@dataclass(frozen=True)
class Trial:
    """A type of weights beside float32, over the same batches.

    Attributes:
        dtype: Its name.
        gain: How many times as fast it is, the median of passes.
        shifts: For each column, |x - x_32| / se_32 of each number x that has an error; infinite where one of
            them is a number in one of both only.
        where: The number that moves farthest.
        offsets: In how many heads the usual offset, a whole number without an error, is another.
        documents: Of how many documents the numbers are.
        corpus: How many the corpus has.
    """

    dtype: str
    gain: float
    shifts: Mapping[str, Floats]
    where: str
    offsets: int
    documents: int
    corpus: int

    @property
    def scale(self) -> float:
        """How much smaller errors are over the whole corpus: the root of documents. Shifts stay."""
        return sqrt(max(self.corpus, self.documents) / self.documents)

    @property
    def largest(self) -> float:
        return max(float(some.max()) for some in self.shifts.values())

    @property
    def columns(self) -> list[str]:
        """The columns in which a number moves by its error over the whole corpus, or more."""
        return [name for name, some in self.shifts.items() if some.max() * self.scale >= 1]

    @property
    def agrees(self) -> bool:
        """Whether every number moves by less than its error over the whole corpus."""
        return bool(self.shifts) and not self.columns

    def describe(self) -> Finding:
        """Say how fast and how exact it is."""
        over = f"over {self.documents:,} document{'s' if self.documents > 1 else ''}"
        if not self.shifts:
            moved = f"no number has an error to compare with {over}"
        else:
            moved = (
                f"numbers move by at most {self.largest:.2g} of their standard error ({self.where}) {over}"
            )
        if self.shifts and self.corpus > self.documents:
            moved += f", {self.largest * self.scale:.2g} over all {self.corpus:,}"
        if self.columns:
            moved += f"; by as much as their error or more in {join_names(self.columns)}"
        if self.offsets:
            moved += f"; offset is another in {self.offsets} head{'s' if self.offsets > 1 else ''}"
        status = "ok" if self.agrees else "warning"
        return Finding(self.dtype, status, f"{self.gain:.2f} times as fast as float32; {moved}")


def compare_dtypes(
    checkpoint: Checkpoint,
    architecture: Architecture,
    ready: PreparedCorpus,
    load: Callable[[str], Checkpoint],
) -> Iterator[Finding]:
    """Try the types of weights that this machine multiplies, and recommend the fastest that agrees.

    Args:
        checkpoint: The checkpoint in float32.
        architecture: How its attention is reached.
        ready: The corpus.
        load: Loads the checkpoint in a type.
    """
    if checkpoint.quantisation is not None:
        yield Finding("fastest", "ok", "the weights are quantised, and stay as they are")
        return
    dtypes = list_dtypes(checkpoint.device)
    if not dtypes:
        flags = ", ".join(flag for some in FLAGS.values() for flag in some)
        lacking = f"the processor multiplies neither bfloat16 nor float16 (none of {flags})"
        yield Finding("fastest", "ok", f"--dtype float32: {lacking}")
        return
    batches = _draw_batches(ready)
    precise, trials = _Side(checkpoint, architecture), []
    for dtype in dtypes:
        try:
            side = _Side(*examine(load(dtype)))
            trials.append(_try(dtype, precise, side, batches, ready))
        except AttnprobeError as error:
            yield Finding(dtype, "warning", str(error))
        else:
            yield trials[-1].describe()
    yield _recommend(trials)


def list_dtypes(device: torch.device) -> list[str]:
    """List the types with fewer bits that a device multiplies itself; torch would emulate others."""
    if device.type == "cuda":
        return ["bfloat16", "float16"] if torch.cuda.is_bf16_supported() else ["float16"]
    if device.type != "cpu":
        return [*FLAGS]
    try:
        words = set(_CPUINFO.read_text(encoding="utf-8").split())
    except OSError:
        return []
    return [dtype for dtype, flags in FLAGS.items() if words.intersection(flags)]


def _draw_batches(ready: PreparedCorpus) -> list[Batch]:
    """Read batches from all over the corpus, short and long ones."""
    batches = ready.corpus.batches
    every = max(1, len(batches) // ceil(_TOKENS * len(batches) / batches.tokens))
    return list(batches.take_share(0, every))


def _try(dtype: str, precise: _Side, side: _Side, batches: Sequence[Batch], ready: PreparedCorpus) -> Trial:
    workers = ready.workers
    # The first passes, which warm up, give the numbers; the others are timed in turn.
    expected, found = (one.measure(batches, workers)[0] for one in (precise, side))
    ratios = [
        precise.measure(batches, workers)[1] / side.measure(batches, workers)[1] for _ in range(_ROUNDS)
    ]
    before, after = precise.tabulate(expected), side.tabulate(found)
    before, after = precise.tabulate(expected), side.tabulate(found)
    offsets = np.array(before.data["offset"], float), np.array(after.data["offset"], float)
    moved = int((~np.isclose(*offsets, equal_nan=True)).sum())
    found_shifts = measure_shifts(before, after)
    return Trial(dtype, median(ratios), *found_shifts, moved, expected.documents, ready.corpus.documents)


def measure_shifts(expected: HeadTable, found: HeadTable) -> tuple[dict[str, Floats], str]:
    """Measure how far numbers move, in their standard errors, by column; and name the farthest.

    Numbers without an error, or with one of 0, are the same for every text, and are left out.
    """
    shifts, farthest, where = {}, -1.0, ""
    for name in (column.name for column in expected.columns if f"{column.name}_se" in expected.data):
        (before, errors), (after, _) = read_measure(expected, name), read_measure(found, name)
        kept = np.flatnonzero(errors > 0)
        if not len(kept):
            continue
        some = np.abs(after[kept] - before[kept]) / errors[kept]
        shifts[name] = np.where(np.isnan(some), np.inf, some)
        if shifts[name].max() > farthest:
            farthest, row = float(shifts[name].max()), int(kept[shifts[name].argmax()])
            where = f"{name} of head {expected.data['head'][row]} of layer {expected.data['layer'][row]}"
    return shifts, where


def _recommend(trials: Sequence[Trial]) -> Finding:
    worth = [one for one in trials if one.agrees and one.gain >= _WORTH]
    if worth:
        best = max(worth, key=lambda one: one.gain)
        gain = f"{best.gain:.2f} times as fast as float32"
        return Finding("fastest", "ok", f"--dtype {best.dtype}: {gain}, and its numbers agree")
    if not any(one.gain >= _WORTH for one in trials):
        return Finding("fastest", "ok", "--dtype float32: nothing else is faster here")
    if not any(one.shifts for one in trials):
        unknown = "nothing tells whether others agree; give more documents"
        return Finding("fastest", "ok", f"--dtype float32: {unknown}")
    return Finding("fastest", "ok", "--dtype float32: what is faster moves numbers by more than their error")
