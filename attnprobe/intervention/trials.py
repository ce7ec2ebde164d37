"""Trials: what every example gives with some heads off, over the same examples every time."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batches.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.metric import CLUSTER, Outcome
from attnprobe.intervention.objectives.objective import Answer, Objective
from attnprobe.intervention.outcomes import Outcomes
from attnprobe.intervention.task import Bench
from attnprobe.model.switching.gates import gated_attention
from attnprobe.model.switching.replay import Replay
from attnprobe.run.halving import Halving
from attnprobe.sums.protocol import digest_of

#: With fewer batches than this for each process, processes share the cuts of a batch too.
ENOUGH = 8


@dataclass(frozen=True)
class Trials:
    """The outcome of every example, with all heads on and under every cut.

    Attributes:
        untouched: With all heads on.
        cuts: One outcome for each cut, in their order.
    """

    untouched: Outcome
    cuts: list[Outcome]


def single_heads(layers: int, heads: int) -> list[NDArray[np.bool_]]:
    """List the cuts that switch one head off: each (layer, head), True where a head is on."""
    return [_all_but(layers, heads, layer, [head]) for layer in range(layers) for head in range(heads)]


def single_survivors(layers: int, heads: int) -> list[NDArray[np.bool_]]:
    """List the cuts that leave one head of a layer on, and every other layer whole."""
    others = [[other for other in range(heads) if other != head] for head in range(heads)]
    return [_all_but(layers, heads, layer, off) for layer in range(layers) for off in others]


def _all_but(layers: int, heads: int, layer: int, off: Sequence[int]) -> NDArray[np.bool_]:
    cut = np.ones((layers, heads), bool)
    cut[layer, off] = False
    return cut


def run_trials(
    bench: Bench, cuts: Sequence[NDArray[np.bool_]], needs: Sequence[str], name: str = "ablating"
) -> Trials:
    """Score all examples with all heads on, and under every cut.

    A cut changes nothing before its first layer, so its pass resumes there, with what the layers
    before gave to the whole model. Processes share the batches; of few batches, the cuts too.

    Args:
        bench: Checkpoint, task and examples.
        cuts: Each (layer, head), True where a head is on.
        needs: The numbers to keep of every answer.
        name: Which pass it is.
    """
    subject, objective = bench.subject, bench.objective
    known = {kept: objective.known[kept] for kept in needs if kept in objective.known}
    asked = [kept for kept in needs if kept not in known]
    rounds = _rounds(len(cuts), len(bench.corpus.batches), bench.run.meeting.ranks.size)
    architecture, halving = subject.architecture, Halving()
    resumable = subject.gating.replays and objective.resumable
    way, sites, present = architecture.way, architecture.sites, architecture.present
    with gated_attention(subject.checkpoint.body, way, sites, present) as gates:
        replay = Replay(subject.checkpoint.body, gates, skip_projections=subject.gating.skips_projections)

        def scored(part: Batch, some: slice) -> Outcomes:
            gates.open()
            with replay.recorded() if resumable else nullcontext():
                whole = objective.answer(part)
            _check(whole, objective, subject.checkpoint.name)
            answers = [whole]
            for cut in cuts[some]:
                gates.rows = closed = _rows(cut, subject.checkpoint.device)
                first = min(closed, default=0) if resumable else None
                answers.append(_answer(objective, part, whole, replay, first))
            numbers = [0, *(1 + place for place in range(*some.indices(len(cuts))))]
            return Outcomes.of(part.members, numbers, answers, asked)

        def outcomes_of(batch: Batch, some: slice) -> Outcomes:
            with torch.inference_mode():
                first, *others = halving.run(batch, lambda part: scored(part, some))
            for other in others:
                first = first + other
            return first

        question = {"cuts": digest_of(*cuts), "numbers that are kept": " ".join(asked)}
        found: Outcomes | None = None
        with replay.watching(architecture.sites):
            for turn, some in enumerate(rounds):
                mine = bench.share(
                    name,
                    lambda batch, some=some: outcomes_of(batch, some),
                    Outcomes.from_arrays,
                    joined=gates.joined,
                    question=question,
                    turn=turn,
                )
                found = mine if found is None else found if mine is None else found + mine
        whole = bench.run.added(found, Outcomes.from_arrays)
    members = bench.corpus.batches.members
    beside = {kept: values[members] for kept, values in known.items()}
    beside[CLUSTER] = bench.corpus.batches.clusters[members]
    untouched, *under = ({**beside, **whole.under(number, members)} for number in range(1 + len(cuts)))
    return Trials(untouched, list(under))


def _rounds(cuts: int, batches: int, processes: int) -> list[slice]:
    """Cut the cuts up for as many rounds as it takes to keep every process busy."""
    if processes == 1 or batches >= ENOUGH * processes:
        return [slice(0, cuts)]
    rounds = min(cuts, processes * -(-ENOUGH // max(1, batches)))
    return [slice(*ends) for ends in pairwise(cuts * place // rounds for place in range(rounds + 1))]


def _answer(objective: Objective, batch: Batch, whole: Answer, replay: Replay, first: int | None) -> Answer:
    if first is None:
        return objective.answer(batch, whole)
    with replay.resumed_at(first):
        return objective.answer(batch, whole)


def _rows(cut: NDArray[np.bool_], device: torch.device) -> dict[int, Tensor]:
    """Turn a cut into the gates of the layers it touches."""
    closed = np.flatnonzero(~cut.all(-1))
    return {int(layer): torch.from_numpy(cut[layer]).float()[None].to(device) for layer in closed}


def _check(answer: Answer, objective: Objective, name: str) -> None:
    if answer.texts is None and not bool(torch.isfinite(answer.loss).all()):
        raise AttnprobeError(
            f"{name} gives a NaN or infinite {objective.name} loss; try --dtype float32, or look at "
            "its weights."
        )
