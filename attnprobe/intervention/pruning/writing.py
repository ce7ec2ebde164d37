"""Writing a checkpoint without the heads that can go."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.pruning.orders import mask_heads, order_at_random
from attnprobe.intervention.task import TaskModel
from attnprobe.model.checkpoint import Checkpoint, list_devices
from attnprobe.model.removing import bake, save_pruned, shrink
from attnprobe.run.progress import Progress
from attnprobe.table.table import HeadTable


@dataclass(frozen=True)
class Pruning:
    """A pruning curve and the order behind it.

    Attributes:
        order: The heads, numbered layer by layer, in the order in which the criterion removes them.
        removed: How many of them are to be removed in the end.
    """

    table: HeadTable
    model: TaskModel
    order: NDArray[np.int64]
    removed: int = 0


def check_writable(model: TaskModel, removed: int, *, physical: bool) -> None:
    """Refuse a checkpoint that can't be written without so many heads before its curve is measured."""
    checkpoint, kept = model.checkpoint, model.architecture.standing
    if list_devices(checkpoint.model):
        raise AttnprobeError(
            f"{checkpoint.name} is spread over several devices, and can't be written without heads; "
            "leave out --save, or --device-map."
        )
    if "adapters" in checkpoint.origin:
        raise AttnprobeError(
            f"{checkpoint.name} can't be written without heads while an adapter is in it; merge "
            "it first (merge_and_unload), or leave out --save."
        )
    if model.architecture.removed and not physical:
        raise AttnprobeError(
            f"{checkpoint.name} is physically pruned already, and can only be written smaller still; add "
            "--physical."
        )
    _remove(checkpoint, mask_heads(model.shape, order_at_random(kept, 0), removed) & kept, physical=physical)


def _remove(checkpoint: Checkpoint, keep: NDArray[np.bool_], *, physical: bool) -> Checkpoint:
    return shrink(checkpoint, keep) if physical else bake(checkpoint, keep)


def remove_heads(
    pruning: Pruning,
    folder: Path,
    *,
    physical: bool,
    overwrite: bool,
    record: Mapping[str, Any],
    progress: Progress,
) -> HeadTable:
    """Write the checkpoint without some of its heads, and note that in the curve's table.

    With ``physical`` the weights are cut out instead of set to zero. ``record`` is added to the
    record in the folder.
    """
    original, architecture, table = pruning.model.checkpoint, pruning.model.architecture, pruning.table
    kept = architecture.standing
    keep = mask_heads(pruning.model.shape, pruning.order, pruning.removed) & kept
    progress.stage("removing heads", None)
    pruned = _remove(original, keep, physical=physical)
    notes = [
        f"{int((kept & ~keep).sum())} of {int(kept.sum())} heads removed, written to {folder}.",
        *_explain_loading(original, folder, physical=physical),
    ]
    save_pruned(
        pruned,
        original,
        keep,
        folder,
        physical=physical,
        record={**record, "criterion": str(table["criterion"][0]), "notes": notes},
        overwrite=overwrite,
        lacking=architecture.lacking,
    )
    return replace(table, notes=[*table.notes, *notes])


def _explain_loading(original: Checkpoint, folder: Path, *, physical: bool) -> Iterator[str]:
    """Say how sentence-transformers loads what was written of an embedding model, or a cross-encoder."""
    loaded = original.embedding or original.scoring
    if loaded is None:
        return
    kind = "SentenceTransformer" if original.embedding else "CrossEncoder"
    if loaded.folder is None:
        yield (
            "Only the transformer was written, since the model came loaded; name its folder to have its "
            "other modules copied."
        )
    elif physical:
        yield (
            f"{kind} has no layers of different sizes: load the whole model with it, and set "
            f"model[0].model = attnprobe.load_pruned({str(folder)!r})."
        )
    else:
        yield f"{kind}({str(folder)!r}) loads it."
