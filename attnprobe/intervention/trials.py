"""Ablations: what every example gives with some heads off, over the same examples every time."""

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.errors import ModelError, UsageError
from attnprobe.intervention.metrics.score import Predictions, Values
from attnprobe.intervention.objectives.embeddings import RelatedTexts
from attnprobe.intervention.objectives.objective import Answer
from attnprobe.intervention.replacing import Replacing
from attnprobe.intervention.task import TaskData
from attnprobe.model.reading.replay import BatchReplay
from attnprobe.run.passes import Halving
from attnprobe.sums.base import Arrays, Sum, compute_digest

#: Which heads are on (layer, head).
HeadMask = NDArray[np.bool_]
_MEMBERS = "members"
_WHOLE = -1  # stands for the mask that leaves all heads on


@dataclass(frozen=True)
class MaskedAnswers(Sum):
    """What examples gave under some masks: for each batch, its members, and (mask, example, ...) by name."""

    parts: tuple[Arrays, ...]

    @classmethod
    def of(cls, members: NDArray[np.int64], answers: Sequence[Answer], names: Sequence[str]) -> Self:
        """Keep some numbers of the answers to a batch, one answer for each mask."""
        values = {name: np.stack([answer.value(name) for answer in answers]) for name in names}
        return cls(({_MEMBERS: members, **values},))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Join the parts."""
        return {
            name: np.concatenate([part[name] for part in self.parts], 0 if name == _MEMBERS else 1)
            for name in self.parts[0]
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays, **known: Any) -> Self:
        return cls((arrays,))

    def iterate_masks(self) -> Generator[dict[str, Values]]:
        """Give what was kept of all examples, in their order, mask by mask."""
        names = [name for name in self.parts[0] if name != _MEMBERS]
        order = np.argsort(np.concatenate([part[_MEMBERS] for part in self.parts]))
        for mask in range(len(self.parts[0][names[0]])):
            yield {name: np.concatenate([part[name][mask] for part in self.parts])[order] for name in names}


@dataclass(frozen=True)
class AblationRun:
    """What a model predicts for all examples: with all heads on, and in each draw under each mask."""

    untouched: Predictions
    draws: Sequence[Sequence[Predictions]]

    @property
    def masked(self) -> Sequence[Predictions]:
        """The predictions under each mask, where heads are replaced once."""
        (masked,) = self.draws
        return masked


def cut_single_heads(layers: int, heads: int) -> list[HeadMask]:
    """List the masks that switch one head off."""
    return [*~np.eye(layers * heads, dtype=bool).reshape(-1, layers, heads)]


def keep_single_heads(layers: int, heads: int) -> list[HeadMask]:
    """List the masks that leave one head of a layer on, and every other layer whole."""
    masks = np.ones((layers, heads, layers, heads), bool)
    masks[np.arange(layers), :, np.arange(layers)] = np.eye(heads, dtype=bool)
    return [*masks.reshape(-1, layers, heads)]


def run_trials(
    data: TaskData,
    masks: Sequence[HeadMask],
    needs: Sequence[str],
    name: str = "ablating",
    replacing: Replacing | None = None,
    untouched: Predictions | None = None,
) -> AblationRun:
    """Predict what a metric ``needs`` of all examples, with all heads on and under every mask.

    ``replacing`` takes the place of heads that are off, if it is not zero. Where it is known what the
    ``untouched`` model gives, no pass is made with all heads on, unless answers are compared with its own.
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
    masks: Sequence[HeadMask],
    kept: Sequence[str],
    name: str,
    replacing: Replacing | None = None,
    *,
    with_whole: bool = True,
) -> Generator[dict[str, Values]]:
    """Collect numbers of all answers, as a rule with all heads on and then under every mask, by sequence.

    A mask changes nothing before the first layer in which it differs from the one before it, so its pass
    resumes there. Where heads are replaced anew in several draws, all masks come once for each. Embeddings
    take much memory: of them, no more masks are collected at a time than fit into ``_HELD`` bytes.
    """
    model, objective, halving = data.model, data.objective, Halving()
    device, resumable = model.checkpoint.device, model.gating.replays and objective.resumable
    question = {"cuts": compute_digest(*masks), "numbers that are kept": " ".join(kept)}
    if replacing is not None:
        question["what heads are replaced by"] = replacing.key
    trials = range(len(masks) * (1 if replacing is None else replacing.draws))
    # Sorted as words whose letters are layers, as many first layers as can be are as in the mask before.
    order = sorted(trials, key=lambda trial: (trial // len(masks), (~masks[trial % len(masks)]).tobytes()))
    with model.gate() as gates:
        replay = BatchReplay(model.checkpoint.body, gates)

        def resume(first: int | None) -> AbstractContextManager[object]:
            if not resumable:
                return nullcontext()
            return replay.record() if first is None else replay.resume_at(first, record=True)

        @torch.inference_mode()
        def answer_part(part: Batch, group: range) -> MaskedAnswers:
            answers, placed, drawn = dict[int, Answer](), dict[int, Tensor](), None
            before, recorded = np.ones(model.shape, bool), with_whole
            gates.open()
            if with_whole:
                with resume(None):
                    answers[_WHOLE] = objective.answer(part)
                whole = answers[_WHOLE]
                if objective.resumable and not bool(torch.isfinite(whole.loss).all()):
                    raise ModelError(
                        f"{model.checkpoint.name} gives a NaN or infinite {objective.name} loss; try --dtype "
                        "float32, or look at its weights."
                    )
            for trial in order:
                if trial not in group:
                    continue
                draw, number = divmod(trial, len(masks))
                mask = masks[number]
                changed = before ^ mask
                if replacing is not None and drawn != draw:
                    gates.open()
                    placed, drawn = replacing.place(part, draw, gates), draw
                    changed = ~(before & mask)
                gates.rows = close_gates(mask, device)
                gates.replacements = {layer: placed[layer] for layer in gates.rows if layer in placed}
                first = int(changed.any(-1).argmax()) if changed.any() else len(mask) - 1
                with resume(first if recorded else None):
                    answers[trial] = objective.answer(part, answers.get(_WHOLE))
                before, recorded = mask, True
            wanted = [_WHOLE, *group] if with_whole and not group.start else group
            return MaskedAnswers.of(part.members, [answers[trial] for trial in wanted], kept)

        def answer_batch(batch: Batch, group: range) -> MaskedAnswers:
            return reduce(add, halving.run(batch, partial(answer_part, group=group)))

        for place, group in enumerate(_group_masks(data, len(trials))):
            with replay.watch(model.architecture.sites):
                mine = data.share(
                    name,
                    partial(answer_batch, group=group),
                    MaskedAnswers.from_arrays,
                    thread_context=gates.thread_context,
                    question=question,
                    shift=place,
                )
            yield from data.run.add_up(mine, MaskedAnswers.from_arrays).iterate_masks()


#: Bytes of embeddings that are held at once, unless those under one mask are more.
_HELD = 1 << 30
#: Bytes of them that are too much for one mask; and for all together, where a state keeps them.
_TOO_MANY = 1 << 33


def _group_masks(data: TaskData, masks: int) -> list[range]:
    """Divide the masks into groups whose embeddings fit the memory; other answers are small."""
    if not isinstance(data.objective, RelatedTexts):
        return [range(masks)]
    texts = len(data.corpus.batches.members)
    width = getattr(data.model.checkpoint.model.config.get_text_config(), "hidden_size", None) or 1024
    size = 4 * width * texts
    held = size * (2 if data.run.state.path is None else masks + 1)
    if held > _TOO_MANY:
        raise UsageError(
            f"The embeddings of {texts:,} texts take {held / (1 << 30):,.0f} GiB of memory; choose fewer "
            "with --limit or --sample, a smaller corpus, or leave out --resume, which keeps them all."
        )
    most = max(1, _HELD // size - 1)
    return [range(start, min(start + most, masks)) for start in range(0, max(1, masks), most)]


def close_gates(mask: HeadMask, device: torch.device) -> dict[int, Tensor]:
    """Give the gates (1, head) of each layer in which a mask has a head off."""
    closed = np.flatnonzero(~mask.all(-1))
    return {int(layer): torch.from_numpy(mask[layer]).float()[None].to(device) for layer in closed}
