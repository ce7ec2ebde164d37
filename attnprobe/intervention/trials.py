"""Ablations: what every example gives with some heads off, over the same examples every time."""

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
from attnprobe.intervention.metrics.score import Predictions, Values
from attnprobe.intervention.objectives.objective import Answer, Objective
from attnprobe.intervention.objectives.related import RelatedTexts
from attnprobe.intervention.replacing import Replacing
from attnprobe.intervention.task import TaskData
from attnprobe.model.gates import BatchReplay
from attnprobe.run.memory import Halving
from attnprobe.sums.base import Arrays, compute_digest

#: Which heads are on (layer, head).
HeadMask = NDArray[np.bool_]
_MEMBERS = "members"


@dataclass(frozen=True)
class MaskedAnswers:
    """What examples gave under some masks. Two add up to one of more examples.

    ``parts`` hold the examples of a batch, and what they gave (mask, example, ...) by name.
    """

    parts: tuple[Arrays, ...]

    @classmethod
    def of(
        cls, members: NDArray[np.int64], answers: Sequence[Answer], names: Sequence[str]
    ) -> "MaskedAnswers":
        """Keep some numbers of the answers to a batch, one answer for each mask."""
        values = {name: np.stack([answer.value(name) for answer in answers]) for name in names}
        for name, kept in values.items():
            if kept.dtype == object:  # text, which a file can't hold without code
                values[name] = kept.astype(str)
        return cls(({_MEMBERS: members, **values},))

    def __add__(self, other: "MaskedAnswers") -> "MaskedAnswers":
        return MaskedAnswers((*self.parts, *other.parts))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Join the parts."""
        return {
            name: np.concatenate([part[name] for part in self.parts], 0 if name == _MEMBERS else 1)
            for name in self.parts[0]
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "MaskedAnswers":
        return cls((arrays,))

    def iterate_masks(self) -> Generator[dict[str, Values]]:
        """Give what was kept of all examples, in their order, mask by mask."""
        names = [name for name in self.parts[0] if name != _MEMBERS]
        order = np.argsort(np.concatenate([part[_MEMBERS] for part in self.parts]))
        for mask in range(len(self.parts[0][names[0]])):
            rows = {name: np.concatenate([part[name][mask] for part in self.parts])[order] for name in names}
            yield {name: row.astype(object) if row.dtype.kind == "U" else row for name, row in rows.items()}


@dataclass(frozen=True)
class AblationRun:
    """What a model predicts for all examples: with all heads on, and under masks, in their order.

    Attributes:
        untouched: With all heads on.
        draws: Under each mask, once for each time that heads were replaced anew.
    """

    untouched: Predictions
    draws: Sequence[Sequence[Predictions]]

    @property
    def masked(self) -> Sequence[Predictions]:
        """The predictions under each mask, where heads are replaced once."""
        (masked,) = self.draws
        return masked


def cut_single_heads(layers: int, heads: int) -> list[HeadMask]:
    """List the masks that switch one head off."""
    return [_switch_off(layers, heads, layer, [head]) for layer in range(layers) for head in range(heads)]


def keep_single_heads(layers: int, heads: int) -> list[HeadMask]:
    """List the masks that leave one head of a layer on, and every other layer whole."""
    others = [[other for other in range(heads) if other != head] for head in range(heads)]
    return [_switch_off(layers, heads, layer, off) for layer in range(layers) for off in others]


def _switch_off(layers: int, heads: int, layer: int, off: Sequence[int]) -> HeadMask:
    mask = np.ones((layers, heads), bool)
    mask[layer, off] = False
    return mask


def run_trials(
    data: TaskData,
    masks: Sequence[HeadMask],
    needs: Sequence[str],
    name: str = "ablating",
    replacing: Replacing | None = None,
    untouched: Predictions | None = None,
) -> AblationRun:
    """Predict all examples with all heads on, and under every mask.

    A mask changes nothing before its first layer, so its pass resumes there, with what the layers
    before gave to the whole model; and where it begins as the mask before it does, with what they gave under
    that. Processes share the batches.

    ``needs`` are the numbers that a metric needs of every example; ``replacing`` says what takes the place of
    heads that are off, if it is not zero. Where it is known what the ``untouched`` model gives, no pass is
    made with all heads on, unless the answers under a mask are compared with its own.
    """
    objective, batches = data.objective, data.corpus.batches
    alone = untouched is not None and replacing is None and not objective.compares
    answers = collect_answers(data, masks, objective.list_kept(needs), name, replacing, with_whole=not alone)
    predictions = [objective.complete(kept, batches, needs) for kept in answers]
    if untouched is None or not alone:
        untouched = predictions.pop(0)
    draws = 1 if replacing is None else replacing.draws
    return AblationRun(
        untouched, [predictions[draw * len(masks) : (draw + 1) * len(masks)] for draw in range(draws)]
    )


def collect_answers(
    data: TaskData,
    masks: Sequence[NDArray[Any]],
    kept: Sequence[str],
    name: str,
    replacing: Replacing | None = None,
    *,
    with_whole: bool = True,
) -> Generator[dict[str, Values]]:
    """Collect numbers of all answers, with all heads on and then under every mask, in the order of sequences.

    Where heads are replaced anew in several draws, all masks come once for each. Not ``with_whole``, no pass
    is made with all heads on, and those under masks are whole passes.

    Embeddings take much memory: of them, no more masks are collected at a time than fit into ``_HELD`` bytes.

    Raises:
        AttnprobeError: When an answer is no number, or those under one mask alone do not fit the memory.
    """
    model, objective, halving = data.model, data.objective, Halving()
    architecture, device = model.architecture, model.checkpoint.device
    resumable = model.gating.replays and objective.resumable
    question = {"cuts": compute_digest(*masks), "numbers that are kept": " ".join(kept)}
    if replacing is not None:
        question["what heads are replaced by"] = replacing.key
    trials = _order_trials(masks, 1 if replacing is None else replacing.draws)
    with model.gate() as gates:
        replay = BatchReplay(model.checkpoint.body, gates)

        def answer_alone(part: Batch, group: range) -> list[Answer]:
            answers = []
            for number in group:
                gates.rows = _close_gates(masks[number], device)
                answers.append(objective.answer(part))
            return answers

        def answer_all(part: Batch, group: range) -> list[Answer]:
            with replay.record() if resumable else nullcontext():
                whole = objective.answer(part)
            _check_loss(whole, objective, model.checkpoint.name)
            answers, before, drawn = dict[int, Answer](), np.ones(model.shape), None
            placed: Mapping[int, Tensor] = {}
            for draw, place in trials:
                number = draw * len(masks) + place
                if number not in group:
                    continue
                anew = replacing is not None and drawn != draw
                if replacing is not None and anew:
                    drawn = draw
                    gates.open()
                    placed = replacing.place(part, draw, gates)
                first, before = _find_change(before, masks[place], anew=anew), masks[place]
                gates.rows = closed = _close_gates(masks[place], device)
                gates.replacements = {layer: placed[layer] for layer in closed if layer in placed}
                with replay.resume_at(first, record=True) if resumable else nullcontext():
                    answers[number] = objective.answer(part, whole)
            every = [answers[number] for number in group]
            return every if group.start else [whole, *every]

        def answer_part(part: Batch, group: range) -> MaskedAnswers:
            gates.open()
            answers = answer_all(part, group) if with_whole else answer_alone(part, group)
            return MaskedAnswers.of(part.members, answers, kept)

        def answer_batch(batch: Batch, group: range) -> MaskedAnswers:
            with torch.inference_mode():
                return reduce(add, halving.run(batch, lambda part: answer_part(part, group)))

        for place, group in enumerate(_group_masks(data, len(trials))):
            with replay.watch(architecture.sites):
                mine = data.share(
                    name,
                    lambda batch, group=group: answer_batch(batch, group),
                    MaskedAnswers.from_arrays,
                    thread_context=gates.thread_context,
                    question=question,
                    turn=place,
                )
            yield from data.run.add_up(mine, MaskedAnswers.from_arrays).iterate_masks()


#: Bytes of embeddings that are held at once, unless those under one mask are more.
_HELD = 1 << 30
#: Bytes of them that are too much for one mask; and for all together, where a state keeps them.
_TOO_MANY = 1 << 33


def _group_masks(data: TaskData, masks: int) -> list[range]:
    """Divide the masks into groups whose embeddings fit the memory; other answers are small."""
    objective, texts = data.objective, len(data.corpus.batches.members)
    width = getattr(data.model.checkpoint.model.config.get_text_config(), "hidden_size", None) or 1024
    size = 4 * width * texts if isinstance(objective, RelatedTexts) else 0
    kept = size * (masks + 1) if data.run.state.path is not None else 2 * size
    if kept > _TOO_MANY:
        without = ", or leave out --resume" if 2 * size <= _TOO_MANY else ""
        raise AttnprobeError(
            f"The embeddings of {texts:,} texts take {kept / (1 << 30):,.0f} GiB of memory; choose fewer "
            f"with --limit or --sample, or a smaller corpus{without}."
        )
    most = max(1, _HELD // size - 1) if size else max(1, masks)
    return [range(start, min(start + most, masks)) for start in range(0, max(1, masks), most)]


def _order_trials(masks: Sequence[NDArray[Any]], draws: int) -> list[tuple[int, int]]:
    """Order masks so that each has as many first layers as can be in common with the one before it.

    They are sorted as words whose letters are layers.

    Returns:
        The draw, and the place of the mask.
    """
    order = sorted(range(len(masks)), key=lambda place: tuple(-masks[place].ravel().astype(np.float64)))
    return [(draw, place) for draw in range(draws) for place in order]


def _find_change(before: NDArray[Any], mask: NDArray[Any], *, anew: bool = False) -> int:
    """Find the first layer at which a mask differs from the one before it; the last where none does.

    Where heads are replaced ``anew``, that is the first layer at which either has a head off.
    """
    changed = ((before != 1) | (mask != 1) if anew else before != mask).any(-1)
    return int(changed.argmax()) if changed.any() else len(mask) - 1


def _close_gates(mask: NDArray[Any], device: torch.device) -> dict[int, Tensor]:
    closed = np.flatnonzero((mask != 1).any(-1))
    return {int(layer): torch.from_numpy(mask[layer]).float()[None].to(device) for layer in closed}


def _check_loss(answer: Answer, objective: Objective, name: str) -> None:
    if answer.texts is None and not bool(torch.isfinite(answer.loss).all()):
        raise AttnprobeError(
            f"{name} gives a NaN or infinite {objective.name} loss; try --dtype float32, or look at "
            "its weights."
        )
