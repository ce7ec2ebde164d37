"""Writing pruned checkpoints, whole or not at all, and reading them back as a check."""

import contextlib
import copy
import json
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from transformers import PreTrainedModel

from attnprobe.errors import AttnprobeError, first_line
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.pruned import RECORD, load_plainly, quiet, read_record, weight_files

#: The floating-point types that safetensors names.
_DTYPES = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}


def check_free(folder: Path, *, overwrite: bool) -> Path:
    """Refuse a folder that is not free, before anything is computed for it.

    Args:
        folder: Where a pruned checkpoint is to go.
        overwrite: Whether a pruned checkpoint that lies there may be replaced.

    Returns:
        The folder, behind links.

    Raises:
        AttnprobeError: When something else is there, or it may not be replaced.
    """
    try:
        found = folder.expanduser().resolve()
        if not found.exists():
            _check_writable(folder, next(parent for parent in found.parents if parent.exists()))
            return found
        if not found.is_dir():
            raise AttnprobeError(f"{folder} is a file; name a folder for the pruned checkpoint.")
        if not any(found.iterdir()):
            return found
    except (OSError, RuntimeError) as error:
        raise _unwritable(folder, error) from error
    if not overwrite:
        raise AttnprobeError(f"{folder} exists; choose another folder or pass --overwrite.")
    if not (found / RECORD).is_file():  # nobody meant to lose anything else
        raise AttnprobeError(
            f"{folder} holds no {RECORD}, so it is no pruned checkpoint and is not replaced; "
            "choose another folder."
        )
    return found


def _check_writable(folder: Path, parent: Path) -> None:
    if not parent.is_dir():
        raise AttnprobeError(f"{folder} can't be made: {parent} is a file.")
    try:
        tempfile.TemporaryFile(dir=parent).close()
    except OSError as error:
        raise _unwritable(folder, error) from error


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
        raise _unwritable(folder, error) from error
    except SafetensorError as error:  # such as a full disk
        raise AttnprobeError(f"{folder} can't be written: {first_line(error)}.") from error


def _unwritable(folder: Path, error: OSError | RuntimeError) -> AttnprobeError:
    reason = (getattr(error, "strerror", None) or first_line(error)).lower()
    return AttnprobeError(f"{folder} can't be written ({reason}); choose another folder.")


@contextlib.contextmanager
def _staged(target: Path) -> Iterator[Path]:
    """Give a folder beside the target that takes its place in the end, or goes away."""
    target.parent.mkdir(parents=True, exist_ok=True)
    mark = secrets.token_hex(8)
    staged = target.with_name(f".attnprobe-{mark}.tmp")
    staged.mkdir()
    try:
        yield staged
        _take_place(staged, target, target.with_name(f".attnprobe-{mark}.old"))
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
    stored = None if original.folder is None else _stored_dtype(original.folder)
    weights = checkpoint.model.state_dict().values()
    if stored is None or not all(
        torch.equal(weight.to(stored).to(weight.dtype), weight)
        for weight in weights
        if weight.is_floating_point()
    ):
        return own
    return stored


def _stored_dtype(folder: Path) -> torch.dtype | None:
    """Find the widest floating-point type of a folder's weights, or None without safetensors."""
    widest = None
    for file in weight_files(folder):
        with safe_open(file, framework="pt") as weights:
            for name in weights.keys():  # noqa: SIM118 - it is no mapping
                dtype = _DTYPES.get(weights.get_slice(name).get_dtype())
                if dtype is not None:
                    widest = dtype if widest is None else torch.promote_types(widest, dtype)
    return widest


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
