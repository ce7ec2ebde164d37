"""Writing a checkpoint without the heads that can go, and measuring what that gains."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from attnprobe.corpus.batch import Batch
from attnprobe.intervention.pruning.curve import Pruning
from attnprobe.intervention.pruning.ranking import mask_heads
from attnprobe.intervention.task import Bench
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.refusals import UnsupportedModelError
from attnprobe.model.removing import bake, save_pruned, shrink
from attnprobe.run.progress import Progress
from attnprobe.table.head_table import HeadTable

#: Tokens that the throughput is measured on, and how often.
TOKENS = 4096
REPEATS = 5


def remove_heads(
    found: Pruning,
    bench: Bench,
    folder: Path,
    *,
    physical: bool,
    overwrite: bool,
    record: Mapping[str, Any],
    progress: Progress,
) -> HeadTable:
    """Write the checkpoint without some of its heads, and note that and its throughput in the curve's table.

    With ``physical`` the weights are cut out instead of set to zero. Throughput is measured on the examples
    of ``bench``; ``record`` is added to the record in the folder.

    References:
        Michel, Levy and Neubig (2019), section 4.3 and table 4.
    """
    original, shape = found.subject.checkpoint, found.subject.shape
    standing = found.subject.architecture.standing
    keep = mask_heads(shape, found.order, found.removed) & standing
    lacking = found.subject.architecture.lacking
    progress.stage("removing heads", None)
    pruned = (shrink if physical else bake)(original, keep)
    notes = [
        f"{int((standing & ~keep).sum())} of {int(standing.sum())} heads removed, written to {folder}.",
        _compare_speeds(original, pruned, keep, bench, physical=physical),
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


def _compare_speeds(
    original: Checkpoint, pruned: Checkpoint, keep: np.ndarray, bench: Bench, *, physical: bool
) -> str:
    """Compare the throughput of the whole, the baked and the smaller checkpoint on the same text."""
    baked = bake(original, keep) if physical else pruned
    made = {"whole": original, "with the heads' weights at zero": baked}
    with suppress(UnsupportedModelError):  # nobody asked for a smaller one
        made["physically smaller"] = pruned if physical else shrink(original, keep)
    batches = _sample_batches(bench)
    runs = {name: partial(_run_batches, checkpoint, batches) for name, checkpoint in made.items()}
    speeds = measure_throughput(runs, batches)
    named = [f"{name} {speed:,.0f} ({speed / speeds['whole']:.2f} x)" for name, speed in speeds.items()]
    return f"Tokens a second in the model: {', '.join(named)}."


def measure_throughput(runs: Mapping[str, Callable[[], None]], batches: list[Batch]) -> dict[str, float]:
    """Time runs over the same batches in turns, in tokens a second."""
    tokens = sum(batch.size for batch in batches)
    spent: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(REPEATS + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if turn:  # the first warms up
                spent[name].append(time.perf_counter() - start)
    return {name: tokens / median(seconds) for name, seconds in spent.items()}


def _sample_batches(bench: Bench) -> list[Batch]:
    """Take batches from all over the corpus, about so many tokens."""
    batches = bench.corpus.batches
    size = max(1, batches.tokens // len(batches))
    return list(islice(batches, 0, None, max(1, len(batches) * size // TOKENS)))


def _run_batches(checkpoint: Checkpoint, batches: list[Batch]) -> None:
    for batch in batches:
        checkpoint.forward(batch.inputs)
    if checkpoint.device.type == "cuda":
        import torch

        torch.cuda.synchronize()
