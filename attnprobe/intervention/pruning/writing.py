"""Writing a checkpoint without the heads that can go."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnprobe.intervention.pruning.curve import Pruning
from attnprobe.intervention.pruning.ranking import mask_heads
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.removing import bake, save_pruned, shrink
from attnprobe.run.progress import Progress
from attnprobe.table.head_table import HeadTable


def remove_heads(
    found: Pruning,
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
    original, shape = found.subject.checkpoint, found.subject.shape
    standing = found.subject.architecture.standing
    keep = mask_heads(shape, found.order, found.removed) & standing
    lacking = found.subject.architecture.lacking
    progress.stage("removing heads", None)
    pruned = (shrink if physical else bake)(original, keep)
    notes = [
        f"{int((standing & ~keep).sum())} of {int(standing.sum())} heads removed, written to {folder}.",
        *_explain_loading(original, folder, physical=physical),
    ]
    written = dict(record) | {"criterion": str(found.table["criterion"][0]), "notes": notes}
    how = {"physical": physical, "record": written, "overwrite": overwrite, "lacking": lacking}
    save_pruned(pruned, original, keep, folder, **how)
    return replace(found.table, notes=[*found.table.notes, *notes])


def _explain_loading(original: Checkpoint, folder: Path, *, physical: bool) -> Iterator[str]:
    """Say how sentence-transformers loads what was written of an embedding model, or a cross-encoder."""
    found = original.embedding or original.scoring
    if found is None:
        return
    kind = "SentenceTransformer" if original.embedding else "CrossEncoder"
    if found.folder is None:
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
