"""Writing a checkpoint without its least important heads."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from attnprobe.errors import AttnprobeError, ModelError, UsageError
from attnprobe.intervention.pruning.orders import Order, mask_heads, order_at_random
from attnprobe.intervention.task import TaskModel, TaskSession
from attnprobe.intervention.trials import HeadMask
from attnprobe.model.checkpoint import Checkpoint, list_devices
from attnprobe.model.pruning import save_pruned
from attnprobe.model.removing import remove_heads
from attnprobe.run.process_group import Ranks
from attnprobe.table.table import HeadTable


@dataclass(frozen=True)
class Pruning:
    """The result of ``prune``: its table, the order of heads, and how many can go ``within`` the margin."""

    table: HeadTable
    model: TaskModel
    order: Order
    within: int


@dataclass(frozen=True)
class Saving:
    """How to write a pruned checkpoint.

    Attributes:
        share: The share of heads to remove; None for as many as can go within the margin.
        physical: Whether to cut the weights of the heads out, and not only to zero them.
    """

    folder: Path
    share: float | None
    physical: bool = False
    overwrite: bool = False

    def count(self, model: TaskModel, within: int) -> int:
        """Count the heads to remove, one left at least; refuse a share of no head or of all."""
        heads = int(model.architecture.kept.sum())
        if self.share is None:
            return min(within, heads - 1)
        removed = round(self.share * heads)
        if not 0 < removed < heads:
            number = "all of them" if removed else "not one of them"
            raise UsageError(f"A --share of {self.share:g} of {heads} heads is {number}.")
        return removed

    def check(self, model: TaskModel) -> None:
        """Refuse a checkpoint that can't be written without heads, before the curve is measured."""
        checkpoint = model.checkpoint
        if list_devices(checkpoint.model):
            raise UsageError(
                f"{checkpoint.name} is spread over several devices, and can't be written without heads; "
                "leave out --save, or --device-map."
            )
        if "adapters" in checkpoint.origin:
            raise ModelError(
                f"{checkpoint.name} can't be written without heads while an adapter is in it; merge "
                "it first (merge_and_unload), or leave out --save."
            )
        if model.architecture.removed and not self.physical:
            raise ModelError(
                f"{checkpoint.name} is physically pruned already, and can only be written smaller still; add "
                "--physical."
            )
        self._remove(model, order_at_random(model.architecture.kept, 0), 1)

    def _remove(self, model: TaskModel, order: Order, within: int) -> tuple[Checkpoint, HeadMask]:
        keep = mask_heads(model.shape, order, self.count(model, within)) & model.architecture.kept
        return remove_heads(model.checkpoint, keep, physical=self.physical), keep

    def write(self, pruned: Pruning, session: TaskSession) -> HeadTable:
        """Write the checkpoint, in the first process alone; return the curve's table with notes on that.

        Raises:
            AttnprobeError: When it can't be written; its ``table`` is that of the curve, which took hours.
        """
        table, model = pruned.table, pruned.model
        if not Ranks.detect().first:
            return table
        session.progress.stage("removing heads", None)
        try:
            if not self.count(model, pruned.within):
                raise UsageError(
                    "No step lies within --margin, so nothing is written; take more examples, a wider margin "
                    "or --share."
                )
            smaller, keep = self._remove(model, pruned.order, pruned.within)
            heads, kept = int(model.architecture.kept.sum()), int(keep.sum())
            notes = [
                f"{heads - kept} of {heads} heads removed, written to {self.folder}.",
                *self._explain_loading(model.checkpoint),
            ]
            record = {"command": session.facts["command"], "criterion": str(table["criterion"][0])}
            save_pruned(
                smaller,
                model.checkpoint,
                keep,
                self.folder,
                physical=self.physical,
                record=record | {"notes": notes},
                overwrite=self.overwrite,
                absent=model.architecture.absent,
            )
        except AttnprobeError as error:
            error.table = table
            raise
        return replace(table, notes=[*table.notes, *notes])

    def _explain_loading(self, original: Checkpoint) -> Iterator[str]:
        """Explain how sentence-transformers loads a pruned embedding model or cross-encoder."""
        if original.embedding is None and not original.scores_pairs:
            return
        kind = "CrossEncoder" if original.scores_pairs else "SentenceTransformer"
        if original.sentences is None:
            yield (
                "Only the transformer was written, since the model came loaded; name its folder to have its "
                "other modules copied."
            )
        elif self.physical:
            yield (
                f"{kind} has no layers of different sizes: load the whole model with it, and set "
                f"model[0].model = attnprobe.load_pruned({str(self.folder)!r})."
            )
        else:
            yield f"{kind}({str(self.folder)!r}) loads it."
