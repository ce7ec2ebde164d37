"""Trials: what every example gives with some heads off, over the same examples every time."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.score import Predictions
from attnprobe.intervention.objectives.objective import Answer, Objective, Values
from attnprobe.intervention.objectives.related import RelatedTexts
from attnprobe.intervention.replacing import Replacing
from attnprobe.intervention.task import Bench
from attnprobe.model.gates import BatchReplay, Gates, gate_attention
from attnprobe.run.memory import Halving
from attnprobe.sums.base import Arrays, add_prefix, compute_digest, select_prefix


@dataclass(frozen=True)
class _Part:
    """What some examples gave under some cuts, 0 for none: values (cut, example, ...) by name."""

    members: NDArray[np.int64]
    cuts: NDArray[np.int64]
    values: dict[str, Values]


@dataclass(frozen=True)
class Outcomes:
    """What examples gave under cuts. Two add up to one of more examples, or cuts."""

    parts: tuple[_Part, ...]

    @classmethod
    def of(
        cls,
        members: NDArray[np.int64],
        cuts: Sequence[int],
        answers: Sequence[Answer],
        names: Sequence[str],
    ) -> "Outcomes":
        """Keep some numbers of the answers to a batch, one answer for each cut."""
        values = {name: np.stack([answer.value(name) for answer in answers]) for name in names}
        for name, kept in values.items():
            if kept.dtype == object:  # text, which a file can't hold without code
                values[name] = kept.astype(str)
        return cls((_Part(members, np.array(cuts), values),))

    def __add__(self, other: "Outcomes") -> "Outcomes":
        return Outcomes((*self.parts, *other.parts))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name the arrays of all parts; those of the same cuts are joined."""
        together: dict[bytes, list[_Part]] = {}
        for part in self.parts:
            together.setdefault(part.cuts.tobytes(), []).append(part)
        found: dict[str, NDArray[Any]] = {}
        for number, parts in enumerate(together.values()):
            values = {
                name: np.concatenate([part.values[name] for part in parts], 1) for name in parts[0].values
            }
            whole = {"members": np.concatenate([part.members for part in parts]), "cuts": parts[0].cuts}
            found |= add_prefix(str(number), {**whole, **add_prefix("values", values)})
        return found

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Outcomes":
        numbers = dict.fromkeys(name.partition("/")[0] for name in arrays)
        parts = (select_prefix(arrays, number) for number in numbers)
        return cls(tuple(_Part(one["members"], one["cuts"], select_prefix(one, "values")) for one in parts))

    def select_cut(self, cut: int, members: NDArray[np.int64]) -> dict[str, Values]:
        """Select what each of some examples, in ascending order, gave under a cut."""
        found: dict[str, Values] = {}
        for part in self.parts:
            rows = np.flatnonzero(part.cuts == cut)
            if not len(rows):
                continue
            at = np.searchsorted(members, part.members)
            for name, values in part.values.items():
                kind = object if values.dtype.kind == "U" else values.dtype
                whole = found.setdefault(name, np.empty((len(members), *values.shape[2:]), kind))
                whole[at] = values[rows[0]]
        return found


@dataclass(frozen=True)
class Trials:
    """The outcomes of all examples: with all heads on, and under each cut, in their order.

    Attributes:
        draws: How many times heads were replaced anew; the outcomes under all cuts come once for each.
    """

    untouched: Predictions
    cuts: list[Predictions]
    draws: int = 1

    @property
    def by_cut(self) -> list[list[Predictions]]:
        """For each cut, its outcomes in all draws."""
        number = len(self.cuts) // self.draws
        return [self.cuts[cut::number] for cut in range(number)]


def cut_single_heads(layers: int, heads: int) -> list[NDArray[np.bool_]]:
    """List the cuts that switch one head off: each (layer, head), True where a head is on."""
    return [_cut_heads(layers, heads, layer, [head]) for layer in range(layers) for head in range(heads)]


def keep_single_heads(layers: int, heads: int) -> list[NDArray[np.bool_]]:
    """List the cuts that leave one head of a layer on, and every other layer whole."""
    others = [[other for other in range(heads) if other != head] for head in range(heads)]
    return [_cut_heads(layers, heads, layer, off) for layer in range(layers) for off in others]


def _cut_heads(layers: int, heads: int, layer: int, off: Sequence[int]) -> NDArray[np.bool_]:
    cut = np.ones((layers, heads), bool)
    cut[layer, off] = False
    return cut


def run_trials(
    bench: Bench,
    cuts: Sequence[NDArray[np.bool_]],
    needs: Sequence[str],
    name: str = "ablating",
    replacing: Replacing | None = None,
    untouched: Predictions | None = None,
) -> Trials:
    """Score all examples with all heads on, and under every cut.

    A cut changes nothing before its first layer, so its pass resumes there, with what the layers
    before gave to the whole model; and where it begins as the cut before it does, with what they gave under
    that. Processes share the batches.

    A cut is (layer, head), True where a head is on; ``needs`` are the numbers that a metric needs of every
    example; ``replacing`` says what takes the place of heads that are off, if it is not zero. Where it is
    known what the ``untouched`` model gives, no pass is made with all heads on, unless the answers under a
    cut are compared with its own.
    """
    batches, kept = bench.corpus.batches, bench.objective.list_kept(needs)
    alone = untouched is not None and replacing is None and not bench.objective.compares
    outcomes = [
        bench.objective.complete(answers, batches, needs)
        for answers in collect_answers(bench, cuts, kept, name, replacing, with_whole=not alone)
    ]
    if untouched is not None and alone:
        return Trials(untouched, outcomes)
    return Trials(outcomes[0], outcomes[1:], 1 if replacing is None else replacing.draws)


def collect_answers(
    bench: Bench,
    cuts: Sequence[NDArray[Any]],
    asked: Sequence[str],
    name: str,
    replacing: Replacing | None = None,
    *,
    with_whole: bool = True,
) -> Generator[dict[str, Values]]:
    """Collect numbers of all answers, with all heads on and then under every cut, in the order of sequences.

    A cut (layer, head) is True where a head is on. Where heads are replaced anew in several draws, all cuts
    come once for each. Not ``with_whole``, no pass is made with all heads on, and those under cuts are whole
    passes.

    Embeddings take much memory: of them, no more cuts are collected at a time than fit into ``_HELD`` bytes.

    Raises:
        AttnprobeError: When an answer is no number, or those under one cut alone do not fit the memory.
    """
    subject, objective, halving = bench.subject, bench.objective, Halving()
    members, architecture = bench.corpus.batches.members, subject.architecture
    resumable = subject.gating.replays and objective.resumable
    way, sites, present = architecture.way, architecture.sites, architecture.present
    question = {"cuts": compute_digest(*cuts), "numbers that are kept": " ".join(asked)}
    single, order = max(1, len(cuts)), _order_cuts(cuts)
    if replacing is not None:
        question["what heads are replaced by"] = replacing.key
        order = [draw * single + place for draw in range(replacing.draws) for place in order]
        cuts = [*cuts] * replacing.draws
    with gate_attention(subject.checkpoint.body, way, sites, present) as gates:
        replay = BatchReplay(subject.checkpoint.body, gates)

        def score_part(part: Batch, some: slice) -> Outcomes:
            gates.open()
            if not with_whole:
                return _score_alone(bench, gates, part, cuts, some, asked)
            with replay.record() if resumable else nullcontext():
                whole = objective.answer(part)
            _check_loss(whole, objective, subject.checkpoint.name)
            found, before, drawn = {0: whole}, np.ones(subject.shape), None
            placed: Mapping[int, Tensor] = {}
            for place in order:
                if not some.start <= place < some.stop:
                    continue
                cut = cuts[place]
                anew = replacing is not None and drawn != place // single
                if replacing is not None and anew:
                    drawn = place // single
                    gates.open()
                    placed = replacing.place(part, drawn, gates)
                first = _find_change(before, cut, anew=anew)
                before = cut
                gates.rows = closed = _close_gates(cut, subject.checkpoint.device)
                gates.replacements = {layer: placed[layer] for layer in closed if layer in placed}
                with replay.resume_at(first, record=True) if resumable else nullcontext():
                    found[1 + place] = objective.answer(part, whole)
            numbers = sorted(found)
            return Outcomes.of(part.members, numbers, [found[number] for number in numbers], asked)

        def score(batch: Batch, some: slice) -> Outcomes:
            with torch.inference_mode():
                return reduce(add, halving.run(batch, lambda part: score_part(part, some)))

        for turn, group in enumerate(_group_cuts(bench, len(cuts))):
            with replay.watch(architecture.sites):
                found = bench.share(
                    name,
                    lambda batch, group=group: score(batch, group),
                    Outcomes.from_arrays,
                    thread_context=gates.thread_context,
                    question=question,
                    turn=turn,
                )
            whole = bench.run.add_up(found, Outcomes.from_arrays)
            if not group.start and with_whole:
                yield whole.select_cut(0, members)
            for number in range(group.start, group.stop):
                yield whole.select_cut(1 + number, members)


def _score_alone(
    bench: Bench,
    gates: Gates,
    part: Batch,
    cuts: Sequence[NDArray[Any]],
    some: slice,
    asked: Sequence[str],
) -> Outcomes:
    answers = []
    for cut in cuts[some]:
        gates.rows = _close_gates(cut, bench.subject.checkpoint.device)
        answers.append(bench.objective.answer(part))
    return Outcomes.of(part.members, range(1 + some.start, 1 + some.stop), answers, asked)


#: Bytes of embeddings that are held at once, unless those under one cut are more.
_HELD = 1 << 30
#: Bytes of them that are too much for one cut; and for all together, where a state keeps them.
_TOO_MANY = 1 << 33


def _group_cuts(bench: Bench, cuts: int) -> list[slice]:
    """Divide the cuts into groups whose embeddings fit the memory; other answers are small."""
    objective, texts = bench.objective, len(bench.corpus.batches.members)
    width = getattr(bench.subject.checkpoint.model.config.get_text_config(), "hidden_size", None) or 1024
    size = 4 * width * texts if isinstance(objective, RelatedTexts) else 0
    kept = size * (cuts + 1) if bench.run.state.path is not None else 2 * size
    if kept > _TOO_MANY:
        without = ", or leave out --resume" if 2 * size <= _TOO_MANY else ""
        raise AttnprobeError(
            f"The embeddings of {texts:,} texts take {kept / (1 << 30):,.0f} GiB of memory; choose fewer "
            f"with --limit or --sample, or a smaller corpus{without}."
        )
    most = max(1, _HELD // size - 1) if size else max(1, cuts)
    return [slice(start, min(start + most, cuts)) for start in range(0, max(1, cuts), most)]


def _order_cuts(cuts: Sequence[NDArray[Any]]) -> list[int]:
    """Order cuts so that each has as many first layers as can be in common with the one before it.

    They are sorted as words whose letters are layers.
    """
    return sorted(range(len(cuts)), key=lambda place: tuple(-cuts[place].ravel().astype(np.float64)))


def _find_change(before: NDArray[Any], cut: NDArray[Any], *, anew: bool = False) -> int:
    """Find the first layer at which a cut differs from the one before it; the last where none does.

    Where heads are replaced ``anew``, that is the first layer at which either has a head off.
    """
    changed = ((before != 1) | (cut != 1) if anew else before != cut).any(-1)
    return int(changed.argmax()) if changed.any() else len(cut) - 1


def _close_gates(cut: NDArray[Any], device: torch.device) -> dict[int, Tensor]:
    closed = np.flatnonzero((cut != 1).any(-1))
    return {int(layer): torch.from_numpy(cut[layer]).float()[None].to(device) for layer in closed}


def _check_loss(answer: Answer, objective: Objective, name: str) -> None:
    if answer.texts is None and not bool(torch.isfinite(answer.loss).all()):
        raise AttnprobeError(
            f"{name} gives a NaN or infinite {objective.name} loss; try --dtype float32, or look at "
            "its weights."
        )
