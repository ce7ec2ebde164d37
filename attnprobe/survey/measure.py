"""The loop: batches to attention blocks to statistics to sums, once as the tokens are, once shuffled.

With ``--until``, documents are read in a random order until columns are precise enough. Looks are at 128,
256, 512, ... documents, and at all there are, so a resumed run ends at the same look.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, count, islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.attention.kinds import UNEMBEDDING
from attnprobe.corpus.batch import Batch
from attnprobe.corpus.media import MediaFolder
from attnprobe.corpus.source import Order
from attnprobe.corpus.store import arrange, arrange_media, select
from attnprobe.errors import ModelError, UsageError
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.check.projections import (
    find_head_parameters,
    find_output_factors,
    find_output_weights,
    find_unembedding,
)
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.capture import capture_attention
from attnprobe.run.examples import Documents
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Halving
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.base import Constant, Measurement, Sum
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.clustered import MOST
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.inference import half_width
from attnprobe.sums.links import LinkCounts
from attnprobe.survey.recorder import Recorder, Values, list_computed, place_heads
from attnprobe.table.naming import join_names
from attnprobe.table.numbers import format_number
from attnprobe.table.table import HeadTable

Ints = NDArray[np.integer[Any]]
#: Documents at the first look; at each further one there are twice as many.
FIRST = 128


@dataclass(frozen=True)
class Evaluator:
    """A model that is ready to be measured, batch by batch."""

    checkpoint: Checkpoint
    recorder: Recorder
    statistics: Sequence[Statistic]
    constants: Mapping[str, Constant]  # what some of the statistics say of the weights
    thread_context: Callable[[], AbstractContextManager[object]]  # another thread enters it first
    halving: Halving = field(default_factory=Halving)

    def evaluate(self, part: Batch) -> Values:
        """Run a batch that fits the memory: each statistic of each sequence, less that of its baseline."""
        values: Values = {}
        batches = [part]
        if part.baseline is not None and any(one.beyond_baseline for one in self.statistics):
            # First without what is looked for: the maps that are kept are those of the batch itself.
            batches.insert(0, part.baseline)
        for batch in batches:
            baseline = values
            self.recorder.begin(batch, baseline=batch is not part)
            if not bool(torch.isfinite(self.checkpoint.forward(batch.inputs)).all()):
                raise ModelError(
                    f"{self.checkpoint.name} produced NaN or infinite hidden states; "
                    "try --dtype float32, or look at its weights."
                )
            with torch.inference_mode():
                values = self.recorder.finish()
            values |= {name: values[name] - without for name, without in baseline.items()}  # type: ignore[operator]
        return values

    def measurement(self, batch: Batch) -> Measurement:
        """Run a batch, in parts where it does not fit the memory, and sum up what the statistics say."""
        return self.halving.total(batch, self._measure_part)

    def _measure_part(self, part: Batch) -> Measurement:
        kinds = {one.name: one.sums for one in self.statistics if one.name not in self.constants}
        return sum_values(self.evaluate(part), kinds, self.constants, part)


def sum_values(
    values: Values, kinds: Mapping[str, Any], constants: Mapping[str, Sum], batch: Batch
) -> Measurement:
    """Sum up the values of a batch, (sequence, ...), over all sequences and over each group of documents."""
    documents, by_group = batch.names, batch.groups

    def sum_up(members: Ints, clusters: Ints | None, group: str | None = None) -> Measurement:
        sums: dict[str, Any] = dict(constants)
        for name, kind in kinds.items():
            cells = values[name]
            if isinstance(cells, LinkCounts):
                if by_group is not None:
                    cells = cells.join_groups() if group is None else cells.take_group(group)
            elif not isinstance(cells, Sum):
                cells = kind.of(cells[members].astype(np.float64), clusters, documents[members])
            sums[name] = cells
        # Sequences of a batch are equally long.
        return Measurement(sums, len(members), batch.size // len(batch) * len(members))

    whole = sum_up(np.arange(len(batch)), batch.clusters)
    if by_group is None:
        return whole
    groups = {name: sum_up(part, by_group.clusters[part], name) for name, part in by_group.parts()}
    return replace(whole, groups=groups)


def measure_parameters(
    checkpoint: Checkpoint, architecture: Architecture, statistics: Sequence[Statistic]
) -> dict[str, Constant]:
    """Evaluate the statistics of weights, (layer, head); NaN where the weights can't be told."""
    asking = [one for one in statistics if one.scope == "parameters"]
    values = {one.name: np.full(architecture.kept.shape, np.nan) for one in asking}
    computed = list_computed(architecture.kept)
    for layer, parameters in enumerate(find_head_parameters(checkpoint, architecture) if asking else ()):
        for statistic in asking if not isinstance(parameters, str) else ():
            cells = statistic.evaluate(parameters)[None].double()
            placed = place_heads(cells, "head", computed[layer], architecture.heads)
            values[statistic.name][layer] = placed[0].cpu().numpy()
    return {name: Constant.of(cells) for name, cells in values.items()}


@contextmanager
def open_evaluator(
    checkpoint: Checkpoint,
    architecture: Architecture,
    statistics: Sequence[Statistic],
    *,
    keep: bool = False,
    keep_outputs: bool = False,
) -> Iterator[Evaluator]:
    """Make a model ready to be measured, batch by batch, in as many threads as there are.

    With ``keep``, all maps of a batch are kept until the next; with ``keep_outputs``, what its heads give.
    """
    needs = frozenset[str]().union(*(one.needs for one in statistics))
    reads = frozenset[str]().union(*(one.reads for one in statistics))
    constants = measure_parameters(checkpoint, architecture, statistics)
    unembedding = find_unembedding(checkpoint) if UNEMBEDDING in needs else None
    if isinstance(unembedding, str):
        raise ModelError(f"What heads do to logits can't be measured: {unembedding}.")
    recorder = Recorder(
        [one for one in statistics if one.name not in constants],
        range(architecture.layers) if architecture.layer_heads else architecture.kinds,
        architecture.kept,
        projections=find_output_weights(checkpoint) if "projection" in reads else (),
        factors=find_output_factors(checkpoint) if any(one.weights == "norm" for one in statistics) else (),
        unembedding=unembedding,
        keep=keep,
        keep_outputs=keep_outputs,
    )
    observe = needs - {"projection", UNEMBEDDING} | ({"outputs"} if keep_outputs else set())
    with capture_attention(checkpoint.body, recorder, architecture.way, observe) as capture:
        yield Evaluator(checkpoint, recorder, statistics, constants, capture.thread_context)


# As much as it takes: documents in a random order, until columns are precise enough


@dataclass
class SequentialRun:
    """Looks at a table of ever more documents, until each of its columns is as precise as was asked."""

    order: Order
    targets: Mapping[str, float]  # the half width of each column; without a name, of all that have an error
    statistics: Sequence[Statistic]
    looks: list[dict[str, Any]] = field(default_factory=list)  # documents, half the widest 95 % intervals

    def look(self, table: HeadTable, corpus: Mapping[str, Any]) -> bool:
        """Add the interval widths of a table to ``looks``, and tell whether they are as narrow as asked."""
        self.columns, documents, most = find_targets(table, self.targets), corpus["clusters"], None
        if any(issubclass(one.sums, Blocked) for one in self.statistics):
            most = BLOCKS
        elif documents < corpus["sequences"]:
            most = MOST
        widths = {name: measure_width(table, name, documents, most) for name in self.columns}
        self.looks.append({"documents": documents, "half_widths": widths})
        self.reached = all(widths[name] <= target for name, target in self.columns.items())
        return self.reached

    @property
    def record(self) -> dict[str, Any]:
        return {
            "targets": self.targets,
            "seed": self.order.seed,
            "documents": self.looks[-1]["documents"],
            "of": self.order.total,
            "reached": self.reached,
            "looks": self.looks,
        }

    @property
    def note(self) -> str:
        documents, widths = self.looks[-1].values()
        total = "" if self.order.total is None else f" of {self.order.total:,}"
        widest = max(self.columns, key=lambda name: widths[name] / self.columns[name])
        width, target = (format_number(one[widest], digits=2) for one in (widths, self.columns))
        return (
            f"{documents:,}{total} documents were read in a random order, which is "
            f"{'' if self.reached else 'not '}enough: the widest 95 % interval of {widest} is ± {width} "
            f"(asked: ± {target})."
        )


def find_targets(table: HeadTable, targets: Mapping[str, float]) -> dict[str, float]:
    """Give the target of each column, or refuse it; one without a name is for all that have an error."""
    errors = [one.name.removesuffix("_se") for one in table.columns if one.role == "error"]
    if not errors:
        raise UsageError("No column of this table has an error; leave out --until.")
    if unknown := next((name for name in targets if name and name not in errors), None):
        raise UsageError(f"--until takes a column that has an error, not {unknown!r}: {join_names(errors)}.")
    return {name: targets.get(name, targets.get("", 0.0)) for name in errors if {name, ""} & {*targets}}


def measure_width(table: HeadTable, name: str, documents: int, most: int | None = None) -> float:
    """Give half the width of the widest 95 % interval of a column: t(.975, n - 1) times its standard error.

    n is the number of documents, or as many as the row counts, where that is fewer, at most ``most``. Rows
    without a number have no width; it is infinite where there is no row, or no error.
    """
    read = [name, f"{name}_se", *({"n", f"{name}_n"} & {*table.data})]
    values, errors, *observed = (np.array(table.data[one], np.float64) for one in read)
    fewest = np.min([np.full(len(table), min(documents, most or documents)), *observed], 0)
    widths = half_width(errors, fewest, together=1)
    widths[~np.isfinite(widths)] = np.inf
    return float(widths[~np.isnan(values)].max(initial=0.0)) if len(table) else np.inf


def split_rounds(documents: Documents, options: CorpusOptions, order: Order) -> Iterator[Documents]:
    """Yield documents in a random order, in parts that end at 128, 256, 512, ...; read each in turn."""
    parts: Iterator[Any]
    chosen = select(documents, options.limit, None, order.seed)
    if isinstance(chosen, MediaFolder):
        folder = arrange_media(chosen, order)
        parts = islice(folder.items, options.sample)
    else:
        folder, parts = None, islice(arrange(chosen, order), options.sample)
    for size in chain([FIRST], (FIRST << number for number in count())):
        if (first := next(parts, None)) is None:
            return
        part = chain([first], islice(parts, size - 1))
        yield chain.from_iterable(part) if folder is None else replace(folder, items=tuple(part))
