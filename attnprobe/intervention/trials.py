"""What a model predicts with heads off: the same examples under every mask of heads."""

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.errors import UsageError
from attnprobe.intervention.metrics.score import Predictions, Values
from attnprobe.intervention.objectives.embeddings import RelatedTexts
from attnprobe.intervention.objectives.objective import Answer, check_finite
from attnprobe.intervention.replacing import Replacing
from attnprobe.intervention.task import TaskData
from attnprobe.model.reading.replay import BatchReplay
from attnprobe.run.passes import Halving
from attnprobe.sums.base import Arrays, Sum, compute_digest

#: Which heads are on (layer, head).
HeadMask = NDArray[np.bool_]
_MEMBERS = "members"
_WHOLE = -1  # the number of the trial with all heads on


@dataclass(frozen=True)
class MaskedAnswers(Sum):
    """Numbers of the answers to examples: for each batch its members, and (trial, example, ...) by name."""

    parts: tuple[Arrays, ...]

    @classmethod
    def of(cls, members: NDArray[np.int64], answers: Sequence[Answer], names: Sequence[str]) -> Self:
        """Keep the named numbers of the answers to a batch, one answer for each trial."""
        values = {name: np.stack([answer.value(name) for answer in answers]) for name in names}
        return cls(({_MEMBERS: members, **values},))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Join the batches."""
        return {
            name: np.concatenate([part[name] for part in self.parts], 0 if name == _MEMBERS else 1)
            for name in self.parts[0]
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays, **known: Any) -> Self:
        return cls((arrays,))

    def iterate_trials(self) -> Generator[dict[str, Values]]:
        """Yield the numbers of all examples, in the order of sequences, trial by trial."""
        names = [name for name in self.parts[0] if name != _MEMBERS]
        order = np.argsort(np.concatenate([part[_MEMBERS] for part in self.parts]))
        for trial in range(len(self.parts[0][names[0]])):
            yield {name: np.concatenate([part[name][trial] for part in self.parts])[order] for name in names}


@dataclass(frozen=True)
class AblationRun:
    """The predictions for all examples: ``untouched`` with all heads on, ``draws`` by draw and mask."""

    untouched: Predictions
    draws: Sequence[Sequence[Predictions]]

    @property
    def masked(self) -> Sequence[Predictions]:
        """The predictions under each mask of a run of one draw."""
        (masked,) = self.draws
        return masked


def mask_each_head(layers: int, heads: int) -> list[HeadMask]:
    """List, head by head, the mask that switches this head off alone."""
    return [*~np.eye(layers * heads, dtype=bool).reshape(-1, layers, heads)]


def keep_each_head(layers: int, heads: int) -> list[HeadMask]:
    """List, head by head, the mask that leaves this head on alone in its layer, and other layers whole."""
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
    """Predict the numbers that a metric ``needs`` of all examples, with all heads on and under every mask.

    ``replacing`` is what takes the place of heads that are off; None for zero. Where the predictions of the
    ``untouched`` model are given, no pass with all heads on is made, unless the objective compares answers
    with those.
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
    """Yield the numbers to be ``kept`` of all answers, first with all heads on, then trial by trial.

    A trial is a mask; where heads are replaced in several draws, a mask in one draw, all masks of the first
    draw first. A mask changes nothing before the first layer in which it differs from the one before it, so
    its pass resumes there. Embeddings take much memory, so trials come in groups that fit into ``_HELD``
    bytes. Without ``with_whole``, there is no pass with all heads on.
    """
    model, objective, halving = data.model, data.objective, Halving()
    device, resumable = model.checkpoint.device, model.gating.replays and objective.resumable
    question = {"masks of heads": compute_digest(*masks), "numbers that are kept": " ".join(kept)}
    if replacing is not None:
        question["what heads are replaced by"] = replacing.key
    trials = range(len(masks) * (1 if replacing is None else replacing.draws))
    # Sorted as words whose letters are layers: neighbours share as many of the first layers as can be.
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
                if objective.resumable:
                    check_finite(answers[_WHOLE].loss, model.checkpoint, f"{objective.name} losses")
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
            return halving.total(batch, partial(answer_part, group=group))

        for place, group in enumerate(_group_trials(data, len(trials))):
            with replay.watch(model.architecture.sites):
                answers = data.total(
                    name,
                    partial(answer_batch, group=group),
                    MaskedAnswers.from_arrays,
                    thread_context=gates.thread_context,
                    question=question,
                    shift=place,
                )
            yield from answers.iterate_trials()


#: Bytes of embeddings that are held at once, unless those of one trial are more.
_HELD = 1 << 30
#: Bytes of embeddings that are refused: those of one trial, or of all trials where a state keeps them.
_TOO_MANY = 1 << 33


def _group_trials(data: TaskData, trials: int) -> list[range]:
    """Divide the trials into groups whose embeddings fit the memory, or refuse too many texts."""
    if not isinstance(data.objective, RelatedTexts):
        return [range(trials)]
    texts = len(data.corpus.batches.members)
    width = getattr(data.model.checkpoint.model.config.get_text_config(), "hidden_size", None) or 1024
    size = 4 * width * texts
    held = size * (2 if data.run.state.path is None else trials + 1)
    if held > _TOO_MANY:
        raise UsageError(
            f"The embeddings of {texts:,} texts take {held / (1 << 30):,.0f} GiB of memory; choose fewer "
            "with --limit or --sample, a smaller corpus, or leave out --resume, which keeps them all."
        )
    most = max(1, _HELD // size - 1)
    return [range(start, min(start + most, trials)) for start in range(0, max(1, trials), most)]


def close_gates(mask: HeadMask, device: torch.device) -> dict[int, Tensor]:
    """Make the gates (1, head) of each layer in which a mask has a head off."""
    closed = np.flatnonzero(~mask.all(-1))
    return {int(layer): torch.from_numpy(mask[layer]).float()[None].to(device) for layer in closed}
