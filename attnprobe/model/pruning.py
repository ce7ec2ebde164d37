"""Pruned checkpoints on disk: ours, with a record of what was removed, and those of transformers 4.

No configuration describes layers with different numbers of heads. When a physically smaller model is built,
it takes the shapes of the stored weights (ours), or those that follow from ``pruned_heads`` (transformers 4).
"""

import contextlib
import copy
import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from attnprobe.errors import ModelError, UsageError
from attnprobe.files import name_unfinished
from attnprobe.model.folders import RECORD, check_free, read_object, weights_error, write_error
from attnprobe.model.private import Conv1D, find_auto_class
from attnprobe.model.quirks import PROJECTION, REMOVABLE, list_stored_layers

_MOST_HEADS = 10_000


def list_computed_heads(kept: NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
    """List the heads that each layer of a physically smaller model computes; after losing all, the first."""
    return tuple(tuple(map(int, np.flatnonzero(row))) or (0,) for row in kept)


def read_kept_heads(folder: Path, name: str, config: Any) -> NDArray[np.bool_] | None:
    """Read which heads the weights of a checkpoint have, (layer, head); None where they have all."""
    record: Any = read_object(folder / RECORD)
    if record.get("physical") is True:
        with contextlib.suppress(IndexError, KeyError, TypeError, ValueError, OverflowError):
            counts, removed = record["kept_per_layer"], record["removed"]
            heads = counts[0] + sum(layer == 0 for layer, _ in removed)
            if heads <= _MOST_HEADS:
                kept = np.ones((len(counts), heads), bool)
                kept[tuple(np.array(removed, int).reshape(-1, 2).T)] = False
                if kept.sum(1).tolist() == counts:
                    return kept
        wrong = "contradicts itself about which heads are removed; write it anew"
        raise ModelError(f"The {RECORD} of {name} {wrong}.")
    if not getattr(config, "pruned_heads", None):
        return None
    heads, layers = range(config.num_attention_heads), list_stored_layers(config)
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        gone = _read_gone(config)
        fits = gone.keys() <= {*layers} and all(lost < {*heads} for lost in gone.values())
        if fits and config.model_type in REMOVABLE:
            return np.array([[head not in gone.get(layer, ()) for head in heads] for layer in layers])
    raise ModelError(
        f"The config.json of {name} states pruned_heads, which are read for {', '.join(REMOVABLE)}, as lists "
        "of some heads by layer; give the checkpoint from before its heads were removed."
    )


def _read_gone(config: Any) -> dict[int, set[int]]:
    return {int(layer): {*lost} for layer, lost in config.pruned_heads.items()}


def load_pruned(folder: Path | str, dtype: torch.dtype | None = None) -> PreTrainedModel:
    """Load a pruned checkpoint with its task head, in evaluation mode, on the CPU.

    Weights have the type ``dtype``, by default the stored one.

    Raises:
        AttnprobeError: If the folder has no checkpoint, or its files contradict each other.
    """
    folder = Path(folder).expanduser()
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        config = transformers.AutoConfig.from_pretrained(folder, **options)
        if (architecture := find_class(config)) is None:
            raise ValueError("it names no class of transformers")
        options |= {"dtype": dtype or "auto", "use_safetensors": True}
        model, info = read_pretrained(architecture, folder, config, **options)
        if others := {*info["missing_keys"], *info["unexpected_keys"]}:
            raise ValueError(f"{min(others)} is not there, or has no place")
    except Exception as error:
        raise weights_error(folder, str(folder), error) from error
    return model.eval()


def find_class(config: PreTrainedConfig) -> Any:
    """Find the class of transformers that a configuration names; None for any other class."""
    kind = getattr(transformers, str((config.architectures or [None])[0]), None)
    return kind if isinstance(kind, type) and issubclass(kind, PreTrainedModel) else None


def read_pretrained(kind: Any, folder: Path, config: Any, **options: Any) -> tuple[Any, Any]:
    """Read a model with projections of the stored sizes, and transformers' report on its weights."""
    physical = read_object(folder / RECORD).get("physical") is True
    if physical or getattr(config, "pruned_heads", None):
        architecture: Any = find_auto_class(kind, config)

        class Smaller(architecture):
            __module__ = architecture.__module__  # the source of which transformers reads

            def __init__(self, config: Any, *arguments: Any, **options: Any) -> None:
                super().__init__(config, *arguments, **options)
                _take_stored_shapes(self, folder) if physical else _remove_projections(self, config)

        Smaller.__name__ = architecture.__name__  # by which it is saved
        kind = Smaller
    return kind.from_pretrained(folder, config=config, output_loading_info=True, **options)


def _take_stored_shapes(model: PreTrainedModel, folder: Path) -> None:
    """Replace each Linear by a new one of its stored shape; refuse other weights whose shapes differ."""
    prefix, stored = f"{model.base_model_prefix}.", dict[str, tuple[int, ...]]()
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="pt") as weights:
            for name in weights.keys():  # noqa: SIM118 - no mapping
                stored[name.removeprefix(prefix)] = tuple(weights.get_slice(name).get_shape())
    for path, module in list(model.named_modules()):
        shape = stored.get(f"{path.removeprefix(prefix)}.weight", ())
        if isinstance(module, nn.Linear) and len(shape) == 2 and shape != module.weight.shape:
            model.set_submodule(path, nn.Linear(shape[1], shape[0], bias=module.bias is not None))
    for path, parameter in model.named_parameters():
        shape = stored.get(path.removeprefix(prefix), parameter.shape)
        if shape != parameter.shape:  # refused before memory is taken for it
            raise ValueError(f"{path} is {'x'.join(map(str, shape))} there")


def _remove_projections(model: nn.Module, config: Any) -> None:
    """Replace projections by smaller ones, with new weights, where transformers 4 removed heads."""
    gone, heads = _read_gone(config), config.num_attention_heads
    for path, module in list(model.named_modules()):
        if (match := PROJECTION.search(path)) is None:
            continue
        linear: Any = module
        outside, inside = linear.weight.T.shape if isinstance(linear, Conv1D) else linear.weight.shape
        size = config.hidden_size // heads * (heads - len(gone.get(int(match["layer"]), ())))
        # A projection may give queries, keys and values, three times as wide.
        inside, outside = (size, outside) if match["output"] else (inside, size * (outside // inside))
        if isinstance(linear, Conv1D):
            attention: Any = model.get_submodule(path.rpartition(".")[0])
            attention.split_size = size
            model.set_submodule(path, Conv1D(outside, inside))
        else:
            model.set_submodule(path, nn.Linear(inside, outside, bias=linear.bias is not None))


def save_pruned(
    checkpoint: Any,
    original: Any,
    keep: NDArray[np.bool_],
    folder: Path,
    *,
    physical: bool,
    record: Mapping[str, Any],
    overwrite: bool = False,
    absent: Collection[tuple[int, int]] = (),
) -> None:
    """Write a checkpoint of ``remove_heads`` with its tokenizer and record, whole or not at all.

    Weights are stored in the shortest type that holds them exactly, read back and compared. ``keep`` marks
    the heads that stayed (layer, head); ``absent`` lists those that there never were; ``record`` is recorded
    too; ``original`` is the checkpoint before, whose modules of sentence-transformers are copied.
    """
    target = check_free(folder, overwrite=overwrite)
    facts = {
        "physical": physical,
        "removed": [head for head in np.argwhere(~keep).tolist() if tuple(head) not in absent],
        "kept_per_layer": keep.sum(1).tolist(),
    }
    text = json.dumps(facts | dict(record) | facts, indent=2, allow_nan=False) + "\n"
    model: Any = copy.deepcopy(checkpoint.model)
    weights = [weight for weight in model.state_dict().values() if weight.is_floating_point()]
    for kind in (torch.bfloat16, torch.float16, torch.float32):
        if all(torch.equal(weight.to(kind).to(weight.dtype), weight) for weight in weights):
            model.to(kind)
            break
    preparing = checkpoint.processor.inner if checkpoint.processor else checkpoint.tokenizer
    try:
        with _stage_folder(target) as staged:
            # With the names of modules, by which the loader finds the Linear of each stored shape.
            model.save_pretrained(staged, save_original_format=not physical)
            preparing.save_pretrained(staged)
            if checkpoint.target_tokenizer is not None:
                checkpoint.target_tokenizer.save_pretrained(staged / "target_tokenizer")
            if original.sentences is not None:
                original.sentences.copy_modules(staged)
            (staged / RECORD).write_text(text, encoding="utf-8")
            back = load_pruned(staged, model.dtype).state_dict()
            given = model.state_dict()
            equal = (torch.equal(back[key], weight.cpu()) for key, weight in given.items() if key in back)
            if back.keys() != given.keys() or not all(equal):
                wrong = "since transformers reads other weights back than it was given; please report this"
                raise UsageError(f"{folder} was not written, {wrong}.")
    except (OSError, SafetensorError) as error:
        raise write_error(folder, error) from error


@contextlib.contextmanager
def _stage_folder(target: Path) -> Iterator[Path]:
    """Make a folder that replaces the target once it is whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = name_unfinished(target)
    staged.mkdir()
    try:
        yield staged
        before = staged.with_suffix(".old")
        with contextlib.ExitStack() as undo:
            if target.exists():
                undo.callback(target.rename(before).rename, target)
            staged.rename(target)
            undo.pop_all()
        shutil.rmtree(before, ignore_errors=True)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
