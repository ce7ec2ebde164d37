"""Writing pruned checkpoints, whole or not at all, and reading them back as a check."""

import contextlib
import copy
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from transformers import PreTrainedModel

from attnprobe.errors import AttnprobeError, first_line
from attnprobe.files import held, tidy, unfinished
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.folders import RECORD
from attnprobe.model.loading.pruned import load_plainly, quiet, read_record, stored_dtype
from attnprobe.model.removing.free import check_free, unwritable


def save_pruned(
    checkpoint: Checkpoint,
    original: Checkpoint,
    keep: NDArray[np.bool_],
    folder: Path,
    *,
    physical: bool,
    record: Mapping[str, Any],
    overwrite: bool = False,
) -> None:
    """Write a pruned checkpoint with its tokenizer and a record of what was removed.

    Weights are stored in the type in which the original's are, unless that would round them. What was
    written is read back and compared before it gets its name.

    Args:
        checkpoint: What ``bake`` or ``shrink`` gave.
        original: The checkpoint it was made from.
        keep: Which heads stayed (layer, head).
        folder: Where to; its parents are made.
        physical: Whether it is physically smaller.
        record: What else the record is to say, in JSON's terms.
        overwrite: Whether a pruned checkpoint that lies there may be replaced.

    Raises:
        AttnprobeError: When the folder is not free or can't be written, or what was written does not
            read back as it was.
    """
    target = check_free(folder, overwrite=overwrite)
    own = {
        "physical": physical,
        "removed": np.argwhere(~keep).tolist(),
        "kept_per_layer": keep.sum(1).tolist(),
    }
    text = json.dumps(own | dict(record) | own, indent=2, allow_nan=False) + "\n"
    dtype = _lossless_dtype(checkpoint, original)
    model: Any = copy.deepcopy(checkpoint.model)
    model.to(dtype)
    tokenizer: Any = checkpoint.tokenizer
    targets: Any = checkpoint.target_tokenizer
    try:
        with quiet(), _staged(target) as staged:
            # Names as in the module, so that the loader finds the Linear of each stored shape.
            model.save_pretrained(staged, save_original_format=not physical)
            for spells in (tokenizer,) if checkpoint.processor is None else (checkpoint.processor.own,):
                spells.save_pretrained(staged)
            if targets is not None:
                targets.save_pretrained(staged / "target_tokenizer")
            (staged / RECORD).write_text(text, encoding="utf-8")
            _check_read_back(staged, model, folder)
    except OSError as error:
        raise unwritable(folder, error) from error
    except SafetensorError as error:  # such as a full disk
        raise AttnprobeError(f"{folder} can't be written: {first_line(error)}.") from error


@contextlib.contextmanager
def _staged(target: Path) -> Iterator[Path]:
    """Give a folder beside the target that takes its place in the end, or goes away."""
    target.parent.mkdir(parents=True, exist_ok=True)
    tidy(target.parent)
    staged = unfinished(target)
    staged.mkdir()
    try:
        with held(staged):
            yield staged
            _take_place(staged, target, staged.with_suffix(".old"))
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _take_place(staged: Path, target: Path, aside: Path) -> None:
    if not target.exists():
        staged.rename(target)
        return
    target.rename(aside)
    try:
        staged.rename(target)
    except BaseException:
        aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _lossless_dtype(checkpoint: Checkpoint, original: Checkpoint) -> torch.dtype:
    """Find the type in which the original is stored; the model's own if that would round weights."""
    own = checkpoint.model.dtype
    stored = None if original.folder is None else stored_dtype(original.folder)
    weights = checkpoint.model.state_dict().values()
    if stored is None or not all(
        torch.equal(weight.to(stored).to(weight.dtype), weight)
        for weight in weights
        if weight.is_floating_point()
    ):
        return own
    return stored


def _check_read_back(staged: Path, model: PreTrainedModel, folder: Path) -> None:
    physical = read_record(staged).physical
    found = load_plainly(staged, str(folder), physical=physical, dtype=model.dtype).state_dict()
    expected = model.state_dict()
    if found.keys() != expected.keys() or not all(
        torch.equal(found[name], weight.cpu()) for name, weight in expected.items()
    ):
        raise AttnprobeError(
            f"{folder} was not written, since transformers reads other weights back than were given it; "
            "please report this."
        )
