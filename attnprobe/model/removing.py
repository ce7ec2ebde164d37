"""Writing pruned checkpoints, whole or not at all, and reading them back as a check."""

import contextlib
import copy
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import PreTrainedModel

from attnprobe.errors import UsageError, first_line
from attnprobe.files import held, name_unfinished, tidy
from attnprobe.model.check.projections import Projections, UnprunableModelError, find_projections
from attnprobe.model.check.trace import TOLERANCE, draw_probe_inputs, relative_difference
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.folders import RECORD, check_free, copy_modules, write_error
from attnprobe.model.private import Conv1D
from attnprobe.model.pruned import (
    find_stored_dtype,
    list_computed_heads,
    load_stored,
    read_record,
    silence_transformers,
)
from attnprobe.model.reading.gates import gate_attention
from attnprobe.model.reading.ways import evaluation_mode

#: A head is removed as exactly as sums in another order allow.
_STRICTER = 100


def bake(checkpoint: Checkpoint, keep: NDArray[np.bool_]) -> Checkpoint:
    """Copy a checkpoint and zero what the output projections read from the removed heads.

    The copy has the shapes of the original, so it loads anywhere, and is as slow. Its outputs are those under
    gates. ``keep`` says which heads stay (layer, head).

    Raises:
        UnsupportedModelError: When the output projections can't be found, or the copy is not exact.
    """
    projections = _locate_projections(checkpoint, keep)
    pruned = replace(checkpoint, model=copy.deepcopy(checkpoint.model))
    for found, stays in zip(projections, _select_computed(checkpoint, keep, projections), strict=True):
        _zero_inputs(pruned.body.get_submodule(found.output), ~_expand_heads(stays, found.width))
    apart = _compare_with_gates(pruned, checkpoint, keep, projections)
    if not apart <= _find_tolerance(checkpoint):
        raise UnprunableModelError(
            checkpoint.model_type, f"with its projections zeroed it differs from the head mask by {apart:.1e}"
        )
    return pruned


def shrink(checkpoint: Checkpoint, keep: NDArray[np.bool_]) -> Checkpoint:
    """Copy a checkpoint without the rows and columns that belong to the removed heads.

    The copy is smaller and faster, and only attnprobe loads it. Its outputs are those under gates. A layer
    can't do without any head: one that loses all keeps its first, which nobody reads. ``keep`` is as for
    ``bake``.

    Raises:
        UnsupportedModelError: When the copy is not exact, or does not run.
    """
    projections = _locate_projections(checkpoint, keep)
    if checkpoint.pruning is None and len({found.heads for found in projections}) > 1:
        raise _shrink_error(checkpoint, "its layers have different numbers of heads")
    if any(found.fused is None and len(found.inputs) != 3 for found in projections):
        raise _shrink_error(checkpoint, "its heads share projections of queries, keys or values")
    pruned = replace(checkpoint, model=copy.deepcopy(checkpoint.model))
    for found, stays in zip(projections, _select_computed(checkpoint, keep, projections), strict=True):
        _shrink_layer(checkpoint, pruned.body, found, stays)
    try:
        apart = _compare_with_gates(pruned, checkpoint, keep, projections)
    except Exception as error:  # whatever a model does with fewer heads than it counts on
        raise _shrink_error(checkpoint, first_line(error)) from error
    if not apart <= _find_tolerance(checkpoint):
        raise _shrink_error(checkpoint, f"it differs from the head mask by {apart:.1e}")
    return pruned


def _locate_projections(checkpoint: Checkpoint, keep: NDArray[np.bool_]) -> tuple[Projections, ...]:
    if (found := checkpoint.quantisation) is not None:
        raise UnprunableModelError(
            checkpoint.model_type,
            f"its weights are quantised ({found.name}); save the checkpoint that it was made from, and "
            "quantise what is written",
        )
    projections = find_projections(checkpoint)
    pruning = checkpoint.pruning
    shape = (len(projections), pruning.heads if pruning else max(found.heads for found in projections))
    if keep.dtype != np.bool_ or keep.shape != shape:
        raise UsageError(
            f"{checkpoint.name} has {shape[0]} layers of {shape[1]} heads; say of each whether it stays."
        )
    return projections


def _select_computed(
    checkpoint: Checkpoint, keep: NDArray[np.bool_], projections: Sequence[Projections]
) -> list[NDArray[np.bool_]]:
    present = _list_present(checkpoint, projections)
    return [row[list(numbers)] for row, numbers in zip(keep, present, strict=True)]


def _list_present(checkpoint: Checkpoint, projections: Sequence[Projections]) -> list[Sequence[int]]:
    if checkpoint.pruning is not None:
        return list(list_computed_heads(checkpoint.pruning.standing))
    return [range(found.heads) for found in projections]


def _expand_heads(stays: NDArray[np.bool_], width: int) -> Tensor:
    return torch.from_numpy(stays).repeat_interleave(width)


@torch.no_grad()
def _zero_inputs(projection: nn.Module, inputs: Tensor) -> None:
    weight: Any = projection.weight
    rows = weight if isinstance(projection, Conv1D) else weight.T  # (in, out)
    rows[inputs.to(weight.device)] = 0


def _shrink_layer(
    checkpoint: Checkpoint, encoder: nn.Module, found: Projections, stays: NDArray[np.bool_]
) -> None:
    output = encoder.get_submodule(found.output)
    if not isinstance(output, nn.Linear):
        raise _shrink_error(checkpoint, f"its {found.output} is a {type(output).__name__}")
    if not stays.any():
        _zero_inputs(output, torch.ones(output.in_features, dtype=torch.bool))
        stays = np.arange(found.heads) == 0
    rows = _expand_heads(stays, found.width)
    _cut_linear(output, lambda weight: weight[:, rows.to(weight.device)])
    for name in found.inputs:
        _cut_linear(encoder.get_submodule(name), lambda weight: weight[rows.to(weight.device)])
    if found.fused is not None:  # queries, keys, values, one after the other
        thrice = rows.repeat(3)
        _cut_linear(encoder.get_submodule(found.fused), lambda weight: weight[thrice.to(weight.device)])


@torch.no_grad()
def _cut_linear(linear: Any, cut: Callable[[Tensor], Tensor]) -> None:
    rows, frozen = linear.out_features, not linear.weight.requires_grad
    linear.weight = nn.Parameter(cut(linear.weight).clone(), requires_grad=not frozen)
    linear.out_features, linear.in_features = linear.weight.shape
    if linear.bias is not None and linear.out_features != rows:
        linear.bias = nn.Parameter(cut(linear.bias).clone(), requires_grad=linear.bias.requires_grad)


def _compare_with_gates(
    pruned: Checkpoint, original: Checkpoint, keep: NDArray[np.bool_], projections: Sequence[Projections]
) -> float:
    pruned, original = _convert_to_single(pruned), _convert_to_single(original)
    inputs = draw_probe_inputs(original)
    gated = torch.from_numpy(keep).to(original.body.device, original.body.dtype)
    present = _list_present(original, projections)
    with gate_attention(original.body, present=present) as gates:
        gates.set(gated[None])
        expected = original.forward(inputs)
    with evaluation_mode(pruned.body):
        found = pruned.forward(inputs)
    return relative_difference(found, expected) if found.shape == expected.shape else inf


def _convert_to_single(checkpoint: Checkpoint) -> Checkpoint:
    """Convert half-precision weights to float32, where a mistake can be told from rounding."""
    if checkpoint.body.dtype.itemsize >= 4:
        return checkpoint
    model: Any = copy.deepcopy(checkpoint.model)
    return replace(checkpoint, model=model.float())


def _find_tolerance(checkpoint: Checkpoint) -> float:
    return TOLERANCE[max(checkpoint.body.dtype.itemsize, 4)] / _STRICTER


def _shrink_error(checkpoint: Checkpoint, reason: str) -> UnprunableModelError:
    return UnprunableModelError(
        checkpoint.model_type, f"it can't be made physically smaller exactly ({reason}); leave out --physical"
    )


def save_pruned(
    checkpoint: Checkpoint,
    original: Checkpoint,
    keep: NDArray[np.bool_],
    folder: Path,
    *,
    physical: bool,
    record: Mapping[str, Any],
    overwrite: bool = False,
    lacking: Collection[tuple[int, int]] = (),
) -> None:
    """Write a pruned checkpoint with its tokenizer and a record of what was removed.

    Of an embedding model or a cross-encoder, what is beside the transformer is copied, as
    sentence-transformers expects it.

    Weights are stored in the type in which the original's are, unless that would round them. What was
    written is read back and compared before it gets its name.

    Args:
        checkpoint: From ``bake`` or ``shrink``.
        original: The checkpoint it was made from.
        keep: Which heads stayed (layer, head).
        folder: Where to; its parents are made.
        physical: Whether it is physically smaller.
        record: What else the record is to say, in JSON's terms.
        overwrite: Whether a pruned checkpoint that lies there may be replaced.
        lacking: Heads that there never were, where layers have different numbers of them.
    """
    target = check_free(folder, overwrite=overwrite)
    own = {
        "physical": physical,
        "removed": [head for head in np.argwhere(~keep).tolist() if tuple(head) not in lacking],
        "kept_per_layer": keep.sum(1).tolist(),
    }
    text = json.dumps(own | dict(record) | own, indent=2, allow_nan=False) + "\n"
    model: Any = copy.deepcopy(checkpoint.model)
    model.to(_find_lossless_dtype(checkpoint, original))
    preparing: Any = checkpoint.processor.own if checkpoint.processor else checkpoint.tokenizer
    targets: Any = checkpoint.target_tokenizer
    try:
        with silence_transformers(), _stage_folder(target) as staged:
            # Names as in the module, so that the loader finds the Linear of each stored shape.
            model.save_pretrained(staged, save_original_format=not physical)
            preparing.save_pretrained(staged)
            if targets is not None:
                targets.save_pretrained(staged / "target_tokenizer")
            if (beside := original.sentences) is not None:
                copy_modules(beside, staged)
            (staged / RECORD).write_text(text, encoding="utf-8")
            _share_mode(staged, (staged / RECORD).stat().st_mode)
            _check_read_back(staged, model, folder)
    except OSError as error:
        raise write_error(folder, error) from error
    except SafetensorError as error:  # such as a full disk, which it names by a number
        if (code := re.search(r"\(os error (\d+)\)", str(error))) is None:
            raise UsageError(f"{folder} can't be written: {first_line(error)}.") from error
        number = int(code[1])
        raise write_error(folder, OSError(number, os.strerror(number))) from error


def _share_mode(folder: Path, mode: int) -> None:
    """Give the files of a folder the mode of one that we opened; safetensors writes for the owner alone."""
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(stat.S_IMODE(mode))


@contextlib.contextmanager
def _stage_folder(target: Path) -> Iterator[Path]:
    target.parent.mkdir(parents=True, exist_ok=True)
    tidy(target.parent)
    staged = name_unfinished(target)
    staged.mkdir()
    try:
        with held(staged):
            yield staged
            _replace_folder(staged, target, staged.with_suffix(".old"))
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _replace_folder(staged: Path, target: Path, aside: Path) -> None:
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


def _find_lossless_dtype(checkpoint: Checkpoint, original: Checkpoint) -> torch.dtype:
    """Find the type in which the original is stored; the model's own if that would round weights."""
    stored = None if original.folder is None else find_stored_dtype(original.folder)
    weights = checkpoint.model.state_dict().values()
    if stored is not None and all(
        torch.equal(weight.to(stored).to(weight.dtype), weight)
        for weight in weights
        if weight.is_floating_point()
    ):
        return stored
    return checkpoint.model.dtype


def _check_read_back(staged: Path, model: PreTrainedModel, folder: Path) -> None:
    physical = read_record(staged).physical
    found = load_stored(staged, str(folder), physical=physical, dtype=model.dtype).state_dict()
    expected = model.state_dict()
    if found.keys() != expected.keys() or not all(
        torch.equal(found[name], weight.cpu()) for name, weight in expected.items()
    ):
        raise UsageError(
            f"{folder} was not written, since transformers reads other weights back than were given it; "
            "please report this."
        )
