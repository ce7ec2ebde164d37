"""Pruned checkpoints on disk: written whole or not at all, read back before they are believed.

A baked one is an ordinary checkpoint. A physically smaller one has layers with different numbers of
heads, which no configuration can say; its shapes are read from the weights themselves.
"""

import contextlib
import copy
import json
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel

from attnprobe.errors import AttnprobeError, first_line
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.support import BadCheckpointError

#: What marks a folder as a pruned checkpoint, and says which heads are gone.
RECORD = "attnprobe.json"
#: The floating-point types that safetensors names.
_DTYPES = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class PruningRecord:
    """What the record of a pruned checkpoint says.

    Attributes:
        physical: Whether the removed heads' weights are gone, or only zeroed.
        removed: The removed heads, as layer and head.
        kept_per_layer: How many heads each layer keeps; a physical layer of none has one, silent.
    """

    physical: bool
    removed: tuple[tuple[int, int], ...]
    kept_per_layer: tuple[int, ...]


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
        with _quiet(), _staged(target) as staged:
            # Names as in the module, so that the loader finds the Linear of each stored shape.
            model.save_pretrained(staged, save_original_format=not physical)
            tokenizer.save_pretrained(staged)
            if targets is not None:
                targets.save_pretrained(staged / "target_tokenizer")
            (staged / RECORD).write_text(text, encoding="utf-8")
            _check_read_back(staged, model, folder)
    except OSError as error:
        raise _unwritable(folder, error) from error
    except SafetensorError as error:  # such as a full disk
        raise AttnprobeError(f"{folder} can't be written: {first_line(error)}.") from error


def load_pruned(folder: Path | str, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Load a pruned checkpoint, physically smaller or not.

    Args:
        folder: Where it lies.
        dtype: Of the weights.

    Returns:
        The model with the task head it was saved with, in evaluation mode, on the CPU.

    Raises:
        AttnprobeError: When the folder holds no pruned checkpoint, or its files contradict each other.
    """
    folder = Path(folder).expanduser()
    record = read_record(folder)
    with _quiet():
        return _load(folder, str(folder), physical=record.physical, dtype=dtype)


def read_record(folder: Path) -> PruningRecord:
    """Read what was removed from a pruned checkpoint.

    Raises:
        BadCheckpointError: When there is no record, or it is not one.
    """
    if not (folder / RECORD).is_file():
        raise BadCheckpointError(
            f"{folder} holds no {RECORD}, so it is no pruned checkpoint; load it with transformers."
        )
    found = _read_json(folder / RECORD)
    physical, removed = found.get("physical"), found.get("removed")
    kept: Any = found.get("kept_per_layer")
    if (
        isinstance(physical, bool)
        and _is_counts(kept)
        and isinstance(removed, list)
        and all(_is_counts(pair) and len(pair) == 2 for pair in removed)
    ):
        pairs = tuple((layer, head) for layer, head in removed)
        return PruningRecord(physical, pairs, tuple(kept))
    raise BadCheckpointError(f"The {RECORD} of {folder} says nothing of removed heads; write it anew.")


def refuse_physical(folder: Path, name: str) -> None:
    """Refuse a folder that only ``load_pruned`` loads.

    Raises:
        BadCheckpointError: When the folder is marked as a physically smaller checkpoint.
    """
    if _read_json(folder / RECORD).get("physical") is True:
        raise BadCheckpointError(
            f"{name} is physically pruned, and its layers have different numbers of heads; load it in Python "
            "with attnprobe.load_pruned."
        )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_counts(found: Any) -> bool:
    return isinstance(found, list) and all(type(count) is int and count >= 0 for count in found)


def _unwritable(folder: Path, error: OSError | RuntimeError) -> AttnprobeError:
    reason = (getattr(error, "strerror", None) or first_line(error)).lower()
    return AttnprobeError(f"{folder} can't be written ({reason}); choose another folder.")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from reporting progress and tables; what goes wrong is raised."""
    logging: Any = transformers.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


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
    for file in _weight_files(folder):
        with safe_open(file, framework="pt") as weights:
            for name in weights.keys():  # noqa: SIM118 - it is no mapping
                dtype = _DTYPES.get(weights.get_slice(name).get_dtype())
                if dtype is not None:
                    widest = dtype if widest is None else torch.promote_types(widest, dtype)
    return widest


def _weight_files(folder: Path) -> list[Path]:
    """List the files that transformers reads: the one whole, or else its parts."""
    whole = folder / "model.safetensors"
    return [whole] if whole.is_file() else sorted(folder.glob("model-*-of-*.safetensors"))


def _check_read_back(staged: Path, model: PreTrainedModel, folder: Path) -> None:
    physical = read_record(staged).physical
    found = _load(staged, str(folder), physical=physical, dtype=model.dtype).state_dict()
    expected = model.state_dict()
    if found.keys() != expected.keys() or not all(
        torch.equal(found[name], weight.cpu()) for name, weight in expected.items()
    ):
        raise AttnprobeError(
            f"{folder} was not written, since transformers reads other weights back than were given it; "
            "please report this."
        )


def _load(folder: Path, name: str, *, physical: bool, dtype: torch.dtype) -> PreTrainedModel:
    """Load the class that the configuration names, with Linears of the stored shapes if need be."""
    if not _weight_files(folder):
        raise BadCheckpointError(f"{name} holds no weights (model.safetensors).")
    local = {"local_files_only": True, "trust_remote_code": False}
    try:
        config = AutoConfig.from_pretrained(folder, **local)
    except Exception as error:
        raise BadCheckpointError(f"The config.json of {name} can't be used: {first_line(error)}.") from error
    architecture = _model_class(config, name)
    try:
        shapes = _stored_shapes(folder)
        loader = _resizing(architecture, shapes, name) if physical else architecture
        model, info = loader.from_pretrained(
            folder, config=config, dtype=dtype, use_safetensors=True, output_loading_info=True, **local
        )
    except AttnprobeError:
        raise
    except Exception as error:
        raise BadCheckpointError(f"The weights of {name} can't be loaded: {first_line(error)}.") from error
    model.__class__ = architecture
    _check_complete(sorted(info["missing_keys"]), name)
    if unexpected := sorted(info["unexpected_keys"]):
        raise BadCheckpointError(
            f"{name} holds {len(unexpected)} weights that its model has no place for (such as "
            f"{unexpected[0]})."
        )
    if physical:
        _check_runs(model, name)
    return model.eval()


def _check_complete(missing: list[str], name: str) -> None:
    if missing:
        raise BadCheckpointError(f"{name} lacks {len(missing)} of its weights (such as {missing[0]}).")


def _model_class(config: PreTrainedConfig, name: str) -> Any:
    """Look up the class that the configuration names, among those of transformers."""
    named = config.architectures
    found = named[0] if isinstance(named, list) and len(named) == 1 else None
    kind = getattr(transformers, found, None) if isinstance(found, str) else None
    if (
        isinstance(kind, type)
        and issubclass(kind, PreTrainedModel)
        and kind.config_class is not None
        and isinstance(config, kind.config_class)
    ):
        return kind
    raise BadCheckpointError(
        f"The config.json of {name} names no model class of transformers ({str(named)[:80]!r})."
    )


def _stored_shapes(folder: Path) -> Shapes:
    shapes = {}
    for file in _weight_files(folder):
        with safe_open(file, framework="pt") as weights:
            shapes |= {name: tuple(weights.get_slice(name).get_shape()) for name in weights.keys()}  # noqa: SIM118
    return shapes


def _resizing(architecture: Any, shapes: Shapes, name: str) -> Any:
    """Derive a class whose Linears take the stored shapes as soon as it is built.

    So transformers loads it as it loads any model: weights that are tied, buffers that are not
    stored, and all. It is built without memory, so that shapes are compared before any is taken.
    """

    def build(self: Any, config: PreTrainedConfig, *arguments: Any, **options: Any) -> None:
        architecture.__init__(self, config, *arguments, **options)
        _resize(self, shapes, name)

    # transformers reads the source of the module that a class says it comes from.
    members = {"__init__": build, "__module__": architecture.__module__}
    return type(architecture.__name__, (architecture,), members)


def _resize(model: PreTrainedModel, shapes: Shapes, name: str) -> None:
    # Tied weights are stored once, under one of their names.
    tied = {path for pair in model.all_tied_weights_keys.items() for path in pair}
    _check_complete([path for path, _ in model.named_parameters() if path not in shapes.keys() | tied], name)
    for path, module in list(model.named_modules()):
        stored = shapes.get(f"{path}.weight")
        if isinstance(module, nn.Linear) and stored is not None and stored != tuple(module.weight.shape):
            if not _is_cut(stored, tuple(module.weight.shape)):
                raise _contradiction(name, f"{path}.weight", stored)
            smaller = nn.Linear(stored[1], stored[0], bias=module.bias is not None)
            smaller.requires_grad_(module.weight.requires_grad)
            model.set_submodule(path, smaller)
    for path, parameter in model.named_parameters():
        if shapes.get(path, tuple(parameter.shape)) != tuple(parameter.shape):
            raise _contradiction(name, path, shapes[path])


def _is_cut(stored: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Tell whether a weight lost rows or lost columns, as one does whose heads are removed."""
    if len(stored) != 2 or min(stored) == 0:
        return False
    (rows, columns), (all_rows, all_columns) = stored, whole
    return (rows < all_rows and columns == all_columns) or (rows == all_rows and columns < all_columns)


def _contradiction(name: str, path: str, shape: tuple[int, ...]) -> BadCheckpointError:
    found = "x".join(map(str, shape))
    return BadCheckpointError(
        f"The weight {path} of {name} ({found}) contradicts its config.json: only a Linear that lost rows or "
        "columns may differ from it."
    )


def _check_runs(model: PreTrainedModel, name: str) -> None:
    """Run one token: shapes may each be possible, and still not go together."""
    body: Any = model.base_model
    body = body.get_encoder() if model.config.is_encoder_decoder else body
    try:
        with torch.inference_mode():
            body.eval()(input_ids=torch.ones(1, 2, dtype=torch.long))
    except Exception as error:
        raise BadCheckpointError(f"The weights of {name} do not go together: {first_line(error)}.") from error
