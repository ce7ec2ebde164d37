"""The loop: batches to attention blocks to statistics to sums, once as the tokens are, once shuffled."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attnprobe.attention.observed import UNEMBEDDING
from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.capture import capture_attention
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.observations import find_output_factors, find_output_weights, find_unembedding
from attnprobe.model.verifying.parameters import find_head_parameters
from attnprobe.run.memory import Halving
from attnprobe.run.passes import Run
from attnprobe.run.preparation import PreparedCorpus
from attnprobe.statistics.statistic import CONTROLS, Control, Statistic
from attnprobe.sums.base import Constant, Measurement, Sum
from attnprobe.sums.link_counts import LinkCounts
from attnprobe.survey.heads import list_computed, place_heads
from attnprobe.survey.recorder import Recorder, Values

#: What the passes are called: the stage that a person is told and a state knows.
STAGES: Mapping[Control, str] = {
    "": "measuring",
    "shuffled": "measuring, tokens shuffled",
}
#: From which orders and random tokens are drawn, where nobody says otherwise.
SEED = 42
#: Numbers of a statistic that are summed up at a time, so that sums need little memory beside them.
CHUNK = 1 << 18


@dataclass(frozen=True)
class Evaluator:
    """A model that is ready to be measured, batch by batch.

    Attributes:
        checkpoint: The model.
        recorder: Sees its attention.
        statistics: What is measured.
        constants: What some of them say of the weights.
        thread_context: What another thread enters before it measures.
        halving: Parts a batch that does not fit the memory.
    """

    checkpoint: Checkpoint
    recorder: Recorder
    statistics: Sequence[Statistic]
    constants: Mapping[str, Constant]
    thread_context: Callable[[], AbstractContextManager[object]]
    halving: Halving = field(default_factory=Halving)

    def evaluate_part(self, part: Batch) -> Values:
        """Run a batch that fits the memory, and give each statistic of each of its sequences."""
        values: Values = {}
        batches = [part]
        if part.baseline is not None and any(one.beyond_baseline for one in self.statistics):
            # First without what is looked for: the maps that are kept are those of the batch itself.
            batches.insert(0, part.baseline)
        for batch in batches:
            baseline = values
            self.recorder.begin(batch, baseline=batch is not part)
            check_finite(self.checkpoint, self.checkpoint.forward(batch.inputs))
            with torch.inference_mode():
                values = self.recorder.finish()
            values |= {name: values[name] - without for name, without in baseline.items()}  # type: ignore[operator]
        return values

    def values(self, batch: Batch) -> Values:
        """Run a batch, in parts where it does not fit the memory."""
        return join_parts(self.halving.run(batch, self.evaluate_part))

    def measurement(self, batch: Batch) -> Measurement:
        """Run a batch, and sum up what the statistics say; values are let go as soon as they are added."""
        values = self.values(batch)
        groups = [] if batch.strata is None else list(batch.strata.parts())
        sums: dict[str, Any] = {}
        by_group: dict[str, dict[str, Any]] = {name: {} for name, _ in groups}
        for statistic in self.statistics:
            name = statistic.name
            if (constant := self.constants.get(name)) is not None:
                for each in (sums, *by_group.values()):
                    each[name] = constant
                continue
            whole = values.pop(name)
            for group, members in groups:
                part = whole.take_stratum(group) if isinstance(whole, LinkCounts) else whole[members]  # type: ignore[index]
                by_group[group][name] = sum_sequences(statistic.sums, part, batch, members)
            if groups and isinstance(whole, LinkCounts):
                whole = whole.join_strata()
            sums[name] = sum_sequences(statistic.sums, whole, batch)
        size = batch.size // len(batch)  # sequences of a batch are equally long
        strata = {
            name: Measurement(by_group[name], len(members), len(members) * size) for name, members in groups
        }
        return Measurement(sums, len(batch), batch.size, strata)


def sum_sequences(
    sums: Any,
    values: NDArray[np.floating[Any]] | Sum,
    batch: Batch,
    members: NDArray[np.intp] | None = None,
) -> Any:
    """Sum up what was found in each sequence of a batch, (sequence, ...).

    With ``members``, the values are those of these sequences, which are all of one group.
    """
    if isinstance(values, Sum):
        return values
    clusters, documents = batch.clusters, batch.members if batch.names is None else batch.names
    if members is not None:
        assert batch.strata is not None
        documents, clusters = documents[members], batch.strata.clusters[members]
    rows = max(1, CHUNK // max(1, values[0].size))
    total = None
    for start in range(0, len(values), rows):
        span = slice(start, start + rows)
        part = sums.of(
            values[span].astype(np.float64), None if clusters is None else clusters[span], documents[span]
        )
        total = part if total is None else total + part
    return total


def join_parts(parts: Sequence[Values]) -> Values:
    """Put what was found in the parts of a batch together."""

    def join(values: list[Any]) -> Any:
        return reduce(add, values) if isinstance(values[0], Sum) else np.concatenate(values)

    return parts[0] if len(parts) == 1 else {name: join([part[name] for part in parts]) for name in parts[0]}


def check_finite(checkpoint: Checkpoint, hidden: torch.Tensor) -> None:
    """Refuse hidden states that are not numbers."""
    if not bool(torch.isfinite(hidden).all()):
        raise AttnprobeError(
            f"{checkpoint.name} produced NaN or infinite hidden states; "
            "try --dtype float32, or look at its weights."
        )


def measure_parameters(
    checkpoint: Checkpoint, architecture: Architecture, statistics: Sequence[Statistic]
) -> Mapping[str, Constant]:
    """Ask the statistics that are about weights, (layer, head); NaN where the weights can't be told."""
    asking = [statistic for statistic in statistics if statistic.scope == "parameters"]
    if not asking:
        return {}
    values = {one.name: np.full((architecture.layers, architecture.heads), np.nan) for one in asking}
    computed = list_computed(architecture.standing)
    for layer, parameters in enumerate(find_head_parameters(checkpoint, architecture)):
        if isinstance(parameters, str):
            continue
        for statistic in asking:
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
    needs = frozenset[str]().union(*(statistic.needs for statistic in statistics))
    reads = frozenset[str]().union(*(statistic.reads for statistic in statistics))
    by_norm = any(statistic.weights == "norm" for statistic in statistics)
    constants = measure_parameters(checkpoint, architecture, statistics)
    unembedding = find_unembedding(checkpoint) if UNEMBEDDING in needs else None
    if isinstance(unembedding, str):
        raise AttnprobeError(f"What heads do to logits can't be measured: {unembedding}.")
    recorder = Recorder(
        [statistic for statistic in statistics if statistic.name not in constants],
        range(architecture.layers) if architecture.layer_heads else architecture.kinds,
        architecture.heads,
        standing=architecture.standing,
        projections=find_output_weights(checkpoint) if "projection" in reads else (),
        factors=find_output_factors(checkpoint) if by_norm else (),
        unembedding=unembedding,
        keep=keep,
        keep_outputs=keep_outputs,
    )
    observe = needs - {"projection", UNEMBEDDING} | ({"outputs"} if keep_outputs else set())
    with capture_attention(checkpoint.body, recorder, architecture.way, observe) as capture:
        yield Evaluator(checkpoint, recorder, statistics, constants, capture.thread_context)


def measure_passes(
    run: Run,
    checkpoint: Checkpoint,
    architecture: Architecture,
    ready: PreparedCorpus,
    statistics: Sequence[Statistic],
    seed: int = SEED,
    name: str = "",
) -> Measurement:
    """Pass over the batches once for each control, each a stage of the run, and put the sums together.

    ``seed`` is that of shuffled orders; ``name`` tells the corpus from others of the same run.
    """
    passes: list[Measurement] = []
    for control in CONTROLS:
        measured = [statistic for statistic in statistics if statistic.control == control]
        if not measured:
            continue
        batches, question = ready.corpus.batches, None
        if control == "shuffled":
            batches, question = batches.shuffle(seed), {"seed": str(seed)}
        restore = partial(Measurement.from_arrays, kinds={one.name: one.sums for one in measured})
        with open_evaluator(checkpoint, architecture, measured) as evaluator:
            total = run.total(
                STAGES[control] + (f", {name}" if name else ""),
                batches,
                evaluator.measurement,
                restore,
                workers=ready.workers,
                thread_context=evaluator.thread_context,
                question=question,
            )
        passes.append(total)
    return reduce(Measurement.join_pass, passes)
