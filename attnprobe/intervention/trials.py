"""Trials: what every example gives with some heads off, over the same examples every time."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batches.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.metric import Outcome
from attnprobe.intervention.objectives.objective import Answer, Objective, Values
from attnprobe.intervention.task import Bench
from attnprobe.model.switching.gates import gated_attention
from attnprobe.model.switching.replay import Replay
from attnprobe.run.halving import Halving
from attnprobe.run.state import State, Unkept


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
    bench: Bench,
    cuts: Sequence[NDArray[np.bool_]],
    needs: Sequence[str],
    *,
    state: State | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Trials:
    """Score all examples with all heads on, and under every cut.

    A cut changes nothing before its first layer, so its pass resumes there, with what the layers
    before gave to the whole model.

    Args:
        bench: Checkpoint, task and examples.
        cuts: Each (layer, head), True where a head is on.
        needs: The numbers to keep of every answer.
        state: Where outcomes are kept, so that a run that was stopped can go on.
        progress: Called after each batch with its number of tokens.
    """
    subject, objective = bench.subject, bench.objective
    encoder = subject.checkpoint.body
    untouched, *ledgers = (_Ledger(bench, needs) for _ in range(1 + len(cuts)))
    rows = [_rows(cut, subject.checkpoint.device) for cut in cuts]
    state = state or Unkept()
    for place, ledger in enumerate((untouched, *ledgers)):
        ledger.restore(state.arrays, place)
    left = bench.corpus.batches.after(state.done)
    if state.done:
        progress(bench.corpus.batches.tokens - left.tokens)

    def snapshot() -> dict[str, Values]:
        kept = (ledger.arrays(place) for place, ledger in enumerate((untouched, *ledgers)))
        return {name: values for arrays in kept for name, values in arrays.items()}

    architecture, halving = subject.architecture, Halving()
    resumable = subject.gating.replays and objective.resumable
    with (
        gated_attention(encoder, architecture.way, architecture.sites) as gates,
        torch.inference_mode(),
        state.guarded(),
    ):
        replay = Replay(encoder, gates, skip_projections=subject.gating.skips_projections)

        def score(part: Batch) -> None:
            gates.open()
            with replay.recorded() if resumable else nullcontext():
                whole = objective.answer(part)
            untouched.enter(part, _checked(whole, objective, subject.checkpoint.name))
            for ledger, closed in zip(ledgers, rows, strict=True):
                gates.rows = closed
                first = min(closed, default=0) if resumable else None
                ledger.enter(part, _answer(objective, part, whole, replay, first))

        with replay.watching(architecture.sites):
            for batch in left:
                # What a batch that did not fit has entered before, its halves enter again.
                halving.run(batch, score)
                state.reached(snapshot)
                progress(batch.size)
    return Trials(untouched.outcome, [ledger.outcome for ledger in ledgers])


def _answer(objective: Objective, batch: Batch, whole: Answer, replay: Replay, first: int | None) -> Answer:
    if first is None:
        return objective.answer(batch, whole)
    with replay.resumed_at(first):
        return objective.answer(batch, whole)


def _rows(cut: NDArray[np.bool_], device: torch.device) -> dict[int, Tensor]:
    """Turn a cut into the gates of the layers it touches."""
    closed = np.flatnonzero(~cut.all(-1))
    return {int(layer): torch.from_numpy(cut[layer]).float()[None].to(device) for layer in closed}


def _checked(answer: Answer, objective: Objective, name: str) -> Answer:
    if answer.texts is None and not bool(torch.isfinite(answer.loss).all()):
        raise AttnprobeError(
            f"{name} gives a NaN or infinite {objective.name} loss; try --dtype float32, or look at "
            "its weights."
        )
    return answer


class _Ledger:
    """Writes the outcome of batches down in the order of the examples."""

    def __init__(self, bench: Bench, needs: Sequence[str]) -> None:
        known = bench.objective.known
        self._members = bench.corpus.batches.members
        self._needs = [name for name in needs if name not in known]
        self.outcome: dict[str, Values] = {
            name: known[name][self._members] for name in needs if name in known
        }

    def arrays(self, place: int) -> dict[str, Values]:
        return {f"{place}/{name}": self.outcome[name] for name in self._needs if name in self.outcome}

    def restore(self, arrays: Mapping[str, Values], place: int) -> None:
        self.outcome |= {
            name: arrays[f"{place}/{name}"] for name in self._needs if f"{place}/{name}" in arrays
        }

    def enter(self, batch: Batch, answer: Answer) -> None:
        for name in self._needs:
            values = answer.value(name)
            whole = self.outcome.setdefault(name, np.empty(len(self._members), values.dtype))
            whole[np.searchsorted(self._members, batch.members)] = values
