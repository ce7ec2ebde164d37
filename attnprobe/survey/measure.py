"""The loop: batches to attention blocks to statistics to sums, once for each control."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Layout
from attnprobe.attention.observed import UNEMBEDDING
from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.capture import capture_attention
from attnprobe.model.reading.routing import Piece
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.observations import find_output_factors, find_output_weights, find_unembedding
from attnprobe.model.verifying.parameters import find_head_parameters
from attnprobe.run.memory import Halving
from attnprobe.run.passes import Run
from attnprobe.run.preparation import PreparedCorpus
from attnprobe.statistics.statistic import CONTROLS, Control, Statistic, evaluate_parameters
from attnprobe.sums.base import Constant, Measurement, Sum
from attnprobe.sums.link_counts import LinkCounts
from attnprobe.survey.output_recorder import OutputRecorder
from attnprobe.survey.recorder import Recorders, Values
from attnprobe.survey.tables import place_heads
from attnprobe.table.naming import join_names

#: What the passes are called: the stage that a person is told and a state knows.
STAGES: Mapping[Control, str] = {
    "": "measuring",
    "shuffled": "measuring, tokens shuffled",
}
#: From which orders and random tokens are drawn, where nobody says otherwise.
SEED = 42


def measure_parameters(
    checkpoint: Checkpoint, architecture: Architecture, statistics: Sequence[Statistic]
) -> Mapping[str, Constant]:
    """Ask the statistics that are about weights, (layer, head); NaN where the weights can't be told."""
    asking = [statistic for statistic in statistics if statistic.scope == "parameters"]
    if not asking:
        return {}
    found = {one.name: np.full((architecture.layers, architecture.heads), np.nan) for one in asking}
    for layer, parameters in enumerate(find_head_parameters(checkpoint, architecture)):
        if isinstance(parameters, str):
            continue
        for statistic in asking:
            values = evaluate_parameters(statistic, parameters)[None].double()
            if architecture.present:
                standing = np.flatnonzero(architecture.standing[layer]).tolist()
                present = architecture.present[layer]
                values = place_heads(values, "head", present, standing, architecture.heads)
            found[statistic.name][layer] = values[0].cpu().numpy()
    return {name: Constant.of(values) for name, values in found.items()}


def explain_empty(
    checkpoint: Checkpoint,
    architecture: Architecture,
    statistics: Sequence[Statistic],
    measurement: Measurement,
) -> list[str]:
    """Say why statistics about weights are empty, if they are: a sentence for each reason."""
    asked = [statistic.name for statistic in statistics if statistic.scope == "parameters"]
    empty = [name for name in asked if np.isnan(measurement.sums[name].average).any()]
    if not empty:
        return []
    layers: dict[str, list[int]] = {}
    for layer, parameters in enumerate(find_head_parameters(checkpoint, architecture)):
        if isinstance(parameters, str):
            layers.setdefault(parameters, []).append(layer)
    sentences = []
    for reason, some in layers.items():
        every = len(some) == architecture.layers
        named = "all layers" if every else join_names([str(architecture.places[layer]) for layer in some])
        verb = "is" if len(empty) == 1 else "are"
        sentences.append(f"{join_names(empty)} {verb} empty for {named}: {reason}.")
    return sentences


#: Numbers of a statistic that are summed up at a time, so that sums need little memory beside them.
CHUNK = 1 << 18


@dataclass(frozen=True)
class Meter:
    """A model that is ready to be measured.

    Attributes:
        part: Runs a batch that fits the memory, and gives each statistic of each of its sequences.
        maps: Gives the maps of that batch to the thread that ran it, if they are kept.
        thread_context: What another thread enters before it calls ``part``.
        statistics: What is measured.
        constants: What some of them say of the weights.
        halving: Parts a batch that does not fit the memory.
        outputs: Gives what the heads gave to that batch, like ``maps``.
    """

    part: Callable[[Batch], Values]
    maps: Callable[[], Mapping[Kind, tuple[Tensor, Layout]]]
    thread_context: Callable[[], AbstractContextManager[object]]
    statistics: Sequence[Statistic]
    constants: Mapping[str, Constant]
    halving: Halving
    outputs: Callable[[], Mapping[Kind, tuple[Tensor, Layout]]]

    def values(self, batch: Batch) -> Values:
        """Run a batch, in parts where it does not fit the memory."""
        return join_parts(self.halving.run(batch, self.part))

    def measurement(self, batch: Batch) -> Measurement:
        """Run a batch, and sum up what the statistics say; values are let go as soon as they are added."""
        values = self.values(batch)
        sums: dict[str, Any] = {}
        parts = [] if batch.strata is None else list(batch.strata.parts())
        strata: dict[str, dict[str, Any]] = {name: {} for name, _ in parts}
        for one in self.statistics:
            if (constant := self.constants.get(one.name)) is not None:
                sums[one.name] = constant
                for own in strata.values():
                    own[one.name] = constant
                continue
            found = values.pop(one.name)
            for name, some in parts:
                its = take_stratum(found, name, some)
                strata[name][one.name] = sum_sequences(one.sums, its, batch, some)
            sums[one.name] = sum_sequences(one.sums, join_strata(found) if parts else found, batch)
        size = batch.size // len(batch)  # sequences of a batch are equally long
        apart = {name: Measurement(strata[name], len(some), len(some) * size) for name, some in parts}
        return Measurement(sums, len(batch), batch.size, apart)


def sum_sequences(
    sums: Any,
    values: NDArray[np.floating[Any]] | Sum,
    batch: Batch,
    stratum: NDArray[np.intp] | None = None,
) -> Any:
    """Sum up what was found in each sequence of a batch, (sequence, ...).

    With ``stratum``, the values are those of these sequences, which are all of one group.
    """
    if isinstance(values, Sum):
        return values
    clusters, documents = batch.clusters, batch.members if batch.names is None else batch.names
    if stratum is not None:
        assert batch.strata is not None
        documents, clusters = documents[stratum], batch.strata.clusters[stratum]
    rows = max(1, CHUNK // max(1, values[0].size))

    def sum_rows(start: int) -> Any:
        some = slice(start, start + rows)
        return sums.of(
            values[some].astype(np.float64), None if clusters is None else clusters[some], documents[some]
        )

    return reduce(add, map(sum_rows, range(0, len(values), rows)))


def join_strata(found: Any) -> Any:
    """Give what was found in all groups, of counts that were made apart."""
    return found.join_strata() if isinstance(found, LinkCounts) else found


def take_stratum(found: Any, name: str, some: NDArray[np.intp]) -> Any:
    """Give what was found in some sequences, those of a batch that are of a group."""
    return found.take_stratum(name) if isinstance(found, LinkCounts) else found[some]


def join_parts(parts: Sequence[Values]) -> Values:
    """Put what was found in the parts of a batch together."""

    def join(values: list[Any]) -> Any:
        return reduce(add, values) if isinstance(values[0], Sum) else np.concatenate(values)

    return parts[0] if len(parts) == 1 else {name: join([part[name] for part in parts]) for name in parts[0]}


def check_finite(checkpoint: Checkpoint, hidden: Tensor) -> None:
    """Refuse hidden states that are not numbers."""
    if not bool(torch.isfinite(hidden).all()):
        raise AttnprobeError(
            f"{checkpoint.name} produced NaN or infinite hidden states; "
            "try --dtype float32, or look at its weights."
        )


@contextmanager
def open_meter(
    checkpoint: Checkpoint,
    architecture: Architecture,
    statistics: Sequence[Statistic],
    *,
    keep: bool = False,
    keep_outputs: bool = False,
) -> Iterator[Meter]:
    """Make a model ready to be measured, batch by batch, in as many threads as there are.

    With ``keep``, all maps of a batch are kept until the next; with ``keep_outputs``, what its heads give.
    """
    needs = frozenset[str]().union(*(statistic.needs for statistic in statistics))
    read = frozenset[str]().union(*(statistic.reads for statistic in statistics))
    projections = find_output_weights(checkpoint) if "projection" in read else ()
    by_norm = any(statistic.weights == "norm" for statistic in statistics)
    factors = find_output_factors(checkpoint) if by_norm else ()
    standing = architecture.standing if architecture.present else None
    of_weights = measure_parameters(checkpoint, architecture, statistics)
    of_text = [statistic for statistic in statistics if statistic.name not in of_weights]
    kinds = range(architecture.layers) if architecture.layer_heads else architecture.kinds
    unembedding = find_unembedding(checkpoint) if UNEMBEDDING in needs else None
    if isinstance(unembedding, str):
        raise AttnprobeError(f"What heads do to logits can't be measured: {unembedding}.")
    recorder = Recorders(
        of_text, factors, kinds, architecture.heads, projections, standing, unembedding=unembedding, keep=keep
    )

    keeper = OutputRecorder(architecture.kinds)

    def observe_piece(piece: Piece) -> None:
        recorder(piece)
        keeper(piece)

    beyond = [statistic.name for statistic in of_text if statistic.beyond_baseline]

    def record(part: Batch) -> Values:
        found: list[Values] = []
        # First without what is looked for: the maps that are kept are those of the batch itself.
        for batch in ([part.baseline] if part.baseline is not None and beyond else []) + [part]:
            recorder.begin(batch, baseline=batch is not part)
            keeper.begin(batch)
            hidden = checkpoint.forward(batch.inputs)
            check_finite(checkpoint, hidden)
            with torch.inference_mode():
                found.append(recorder.finish())
        *without, whole_batch = found
        for name, there in (entry for values in without for entry in values.items()):
            here = whole_batch[name]
            assert not isinstance(here, Sum)
            assert not isinstance(there, Sum)  # which has answers, and no numbers to subtract
            whole_batch[name] = here - there
        return whole_batch

    observe = needs - {"projection", UNEMBEDDING} | ({"outputs"} if keep_outputs else set())
    observer = observe_piece if keep_outputs else recorder
    with capture_attention(checkpoint.body, observer, architecture.way, observe) as capture:
        context, halving = capture.thread_context, Halving()
        yield Meter(record, recorder.maps, context, statistics, of_weights, halving, keeper.outputs)


@dataclass(frozen=True)
class Controls:
    """Statistics, some of them under a control, and the seed of shuffled orders."""

    statistics: Sequence[Statistic]
    seed: int | None = None

    @classmethod
    def of(cls, statistics: Sequence[Statistic], seed: int) -> "Controls":
        return cls(statistics, seed if any(one.control == "shuffled" for one in statistics) else None)

    @classmethod
    def join(cls, several: Sequence["Controls"]) -> "Controls":
        """Give what several tables need of one corpus, each statistic once."""
        every = {statistic.name: statistic for one in several for statistic in one.statistics}
        seeds = {one.seed for one in several} - {None}
        if len(seeds) > 1:
            raise ValueError("tables that share a pass have one seed")
        return cls(list(every.values()), next(iter(seeds), None))

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
        batches, question = ready.corpus.batches, None
        if control == "shuffled":
            assert controls.seed is not None
            batches, question = batches.shuffle(controls.seed), {"seed": str(controls.seed)}
        restore = partial(
            Measurement.from_arrays, kinds={statistic.name: statistic.sums for statistic in statistics}
        )
        with open_meter(checkpoint, architecture, statistics) as meter:
            stage = STAGES[control] + (f", {name}" if name else "")
            found.append(
                run.total(
                    stage,
                    batches,
                    meter.measurement,
                    restore,
                    workers=ready.workers,
                    thread_context=meter.thread_context,
                    question=question,
                )
            )
    return reduce(Measurement.join_pass, found)
