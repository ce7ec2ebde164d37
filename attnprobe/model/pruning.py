"""Pruned checkpoints on disk: ours, with a record of what was removed, and those of transformers 4.

Layers with different numbers of heads are in no configuration: a physically smaller model takes the shapes of
the stored weights (ours), or those that ``pruned_heads`` tells (transformers 4), as soon as it is built.
"""

import contextlib
import copy
import json
import re
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from attnprobe.errors import AttnprobeError, ModelError, UsageError
from attnprobe.files import name_unfinished
from attnprobe.model.configuration import read_config, weights_error
from attnprobe.model.folders import RECORD, check_free, read_object, write_error
from attnprobe.model.private import Conv1D, find_auto_class
from attnprobe.model.quirks import FUSED, REMOVABLE, list_stored_layers

Shape = tuple[int, ...]
#: The floating-point types that safetensors names, the widest first.
_DTYPES = {"F64": torch.float64, "F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
_MOST_HEADS = 10_000


def list_computed_heads(kept: NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
    """List the numbers of the heads that each layer of a physically smaller model computes.

    A layer that lost all its heads computes its first, which nobody reads.
    """
    return tuple(tuple(map(int, np.flatnonzero(row))) or (0,) for row in kept)


def is_physical(folder: Path) -> bool:
    """Tell whether a folder is marked as a physically smaller checkpoint of ours."""
    return read_object(folder / RECORD).get("physical") is True


def read_kept_heads(folder: Path, name: str, config: Any) -> NDArray[np.bool_] | None:
    """Read which heads the weights of a checkpoint have, (layer, head); None where they have all.

    Raises:
        ModelError: When the record contradicts itself, or heads of this type are not read back.
    """
    if is_physical(folder):
        record: Any = read_object(folder / RECORD)
        with contextlib.suppress(IndexError, KeyError, TypeError, ValueError):  # whatever a file may say
            counts, removed = record["kept_per_layer"], record["removed"]
            heads = counts[0] + sum(layer == 0 for layer, _ in removed)
            if heads <= _MOST_HEADS:
                kept = np.ones((len(counts), heads), bool)
                for layer, head in removed:
                    kept[layer, head] = False
                if kept.sum(1).tolist() == counts:
                    return kept
        raise ModelError(
            f"The {RECORD} of {name} contradicts itself about which heads are removed; write it anew."
        )
    if not getattr(config, "pruned_heads", None):
        return None
    heads, layers = range(config.num_attention_heads), list_stored_layers(config)
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        gone = _read_gone(config)
        fits = gone.keys() <= {*layers} and all(lost <= {*heads} for lost in gone.values())
        if fits and config.model_type in REMOVABLE:
            return np.array([[head not in gone.get(layer, ()) for head in heads] for layer in layers])
    raise ModelError(
        f"The config.json of {name} states pruned_heads, which are read of {', '.join(REMOVABLE)}, "
        "with a list of heads for each layer; give the checkpoint from before its heads were removed."
    )


def _read_gone(config: Any) -> dict[int, set[int]]:
    """Read the heads that transformers 4 removed of each stored layer."""
    return {int(layer): {*lost} for layer, lost in config.pruned_heads.items()}


def load_pruned(folder: Path | str, dtype: torch.dtype | None = None) -> PreTrainedModel:
    """Load a pruned checkpoint with the task head it was saved with, in evaluation mode, on the CPU.

    The weights are of the ``dtype``, by default the one in which they are stored.

    Raises:
        AttnprobeError: When the folder holds no pruned checkpoint, or its files contradict each other.
    """
    folder = Path(folder).expanduser()
    if not (folder / RECORD).is_file():
        raise ModelError(
            f"{folder} holds no {RECORD}, so it is no pruned checkpoint; load it with transformers."
        )
    with silence_transformers():
        return load_stored(folder, str(folder), dtype)


@contextlib.contextmanager
def silence_transformers() -> Iterator[None]:
    """Keep transformers from printing progress and tables; errors are still raised."""
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


def load_stored(folder: Path, name: str, dtype: torch.dtype | None) -> PreTrainedModel:
    """Load the class that the configuration names, with Linears of the stored shapes if need be."""
    if not _list_weight_files(folder):
        raise ModelError(f"{name} holds no weights (model.safetensors).")
    config = read_config(folder, name)
    if (architecture := find_class(config)) is None:
        raise ModelError(f"The config.json of {name} names no model class of transformers.")
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
    try:
        if is_physical(folder):
            stored = {key: shape for key, (_, shape) in _read_headers(folder).items()}
            architecture = _derive_smaller(architecture, partial(_resize, stored=stored, name=name))
        model, info = architecture.from_pretrained(
            folder, config=config, dtype=dtype or "auto", output_loading_info=True, **options
        )
    except AttnprobeError:
        raise
    except Exception as error:
        raise weights_error(folder, name, error) from error
    for what, keys in (("lacks", info["missing_keys"]), ("has no place for", info["unexpected_keys"])):
        if keys:
            raise ModelError(f"The model of {name} {what} {len(keys)} weights (such as {min(keys)}).")
    return model.eval()


def find_class(config: PreTrainedConfig) -> Any:
    """Find the class of transformers that a checkpoint says it was saved from; None for any other."""
    named = config.architectures or [None]
    kind = getattr(transformers, str(named[0]), None)
    fits = isinstance(kind, type) and issubclass(kind, PreTrainedModel)
    return kind if fits and isinstance(config, getattr(kind, "config_class", None) or ()) else None


def _list_weight_files(folder: Path) -> list[Path]:
    """List the files that transformers reads: the one whole, or else its parts."""
    whole = folder / "model.safetensors"
    return [whole] if whole.is_file() else sorted(folder.glob("model-*-of-*.safetensors"))


def _read_headers(folder: Path) -> dict[str, tuple[str, Shape]]:
    """Read the type and the shape of each stored weight, by its name."""
    headers = {}
    for file in _list_weight_files(folder):
        with safe_open(file, framework="pt") as weights:
            slices = {name: weights.get_slice(name) for name in weights.keys()}  # noqa: SIM118 - no mapping
            headers |= {name: (one.get_dtype(), tuple(one.get_shape())) for name, one in slices.items()}
    return headers


def _derive_smaller(architecture: Any, resize: Callable[[Any], None]) -> Any:
    """Derive the architecture with projections that have other shapes as soon as it is built."""

    class Smaller(architecture):
        __module__ = architecture.__module__  # whose source transformers reads

        def __init__(self, config: Any, *arguments: Any, **options: Any) -> None:
            super().__init__(config, *arguments, **options)
            resize(self)

    Smaller.__name__ = architecture.__name__  # by which it is saved
    return Smaller


def _resize(model: PreTrainedModel, stored: Mapping[str, Shape], name: str) -> None:
    for path, module in list(model.named_modules()):
        shape = stored.get(f"{path}.weight", ())
        if isinstance(module, nn.Linear) and len(shape) == 2 and shape != module.weight.shape:
            model.set_submodule(path, nn.Linear(shape[1], shape[0], bias=module.bias is not None))
    for path, parameter in model.named_parameters():
        if stored.get(path, parameter.shape) != parameter.shape:
            raise ModelError(
                f"The weight {path} of {name} ({'x'.join(map(str, stored[path]))}) contradicts its "
                "config.json: only a Linear that lost heads may differ from it."
            )


def load_removed(kind: Any, folder: Path, config: Any, **options: Any) -> tuple[Any, Any]:
    """Load a checkpoint whose heads transformers 4 removed, and what transformers says of its weights.

    A layer that lost all its heads gets a first one of zeros, as in a physically smaller checkpoint.
    """
    smaller = _derive_smaller(find_auto_class(kind, config), partial(_remove_projections, config=config))
    weights: dict[str, Tensor] = {}
    for file in _list_weight_files(folder):
        weights |= load_file(file)
    for file in () if weights else sorted(folder.glob("pytorch_model*.bin")):
        weights |= torch.load(file, map_location="cpu", weights_only=True)
    width = config.hidden_size // config.num_attention_heads
    for name, weight in weights.items():
        if not weight.numel():
            size = 3 * width if FUSED in name else width
            weights[name] = weight.new_zeros([length or size for length in weight.shape])
    return smaller.from_pretrained(
        None, config=config, state_dict=weights, output_loading_info=True, **options
    )


def _remove_projections(model: nn.Module, config: Any) -> None:
    """Put smaller projections in the place of those whose heads are removed."""
    gone, width = _read_gone(config), config.hidden_size // config.num_attention_heads
    for path, module in list(model.named_modules()):
        match = re.search(REMOVABLE[config.model_type], path)
        if match is None:
            continue
        linear: Any = module
        layer, output = int(match["layer"]), match["output"]
        size = max(config.num_attention_heads - len(gone.get(layer, ())), 1) * width
        if isinstance(linear, Conv1D):
            inside, outside = linear.weight.shape
            smaller: Any = Conv1D(outside, size) if output else Conv1D(3 * size, inside)
            attention: Any = model.get_submodule(path.rpartition(".")[0])
            attention.split_size = size
        elif output:
            smaller = nn.Linear(size, linear.out_features)
        else:
            smaller = nn.Linear(linear.in_features, size, bias=linear.bias is not None)
        model.set_submodule(path, smaller)


def save_pruned(
    checkpoint: Any,
    original: Any,
    keep: NDArray[np.bool_],
    folder: Path,
    *,
    physical: bool,
    record: Mapping[str, Any],
    overwrite: bool = False,
    lacking: Collection[tuple[int, int]] = (),
) -> None:
    """Write what ``remove_heads`` made of a checkpoint, with tokenizer and record, whole or not at all.

    Of a model of sentence-transformers, what is beside the transformer is copied. Weights are stored in the
    type in which the original's are, unless that would round them. What was written is read back and compared
    before it gets its name. ``keep`` says which heads stayed (layer, head), and ``lacking`` those that there
    never were; ``record`` is what else the record is to say, in JSON's terms.
    """
    target = check_free(folder, overwrite=overwrite)
    facts = {
        "physical": physical,
        "removed": [head for head in np.argwhere(~keep).tolist() if tuple(head) not in lacking],
        "kept_per_layer": keep.sum(1).tolist(),
    }
    text = json.dumps(facts | dict(record) | facts, indent=2, allow_nan=False) + "\n"
    kinds = {kind for kind, _ in _read_headers(original.folder).values()} if original.folder else set()
    stored = next((dtype for kind, dtype in _DTYPES.items() if kind in kinds), checkpoint.model.dtype)
    model: Any = copy.deepcopy(checkpoint.model)
    weights = [weight for weight in model.state_dict().values() if weight.is_floating_point()]
    if all(torch.equal(weight.to(stored).to(weight.dtype), weight) for weight in weights):
        model.to(stored)
    preparing = checkpoint.processor.inner if checkpoint.processor else checkpoint.tokenizer
    try:
        with silence_transformers(), _stage_folder(target) as staged:
            # Names as in the module, so that the loader finds the Linear of each stored shape.
            model.save_pretrained(staged, save_original_format=not physical)
            preparing.save_pretrained(staged)
            if checkpoint.target_tokenizer is not None:
                checkpoint.target_tokenizer.save_pretrained(staged / "target_tokenizer")
            if original.sentences is not None:
                original.sentences.copy_modules(staged)
            (staged / RECORD).write_text(text, encoding="utf-8")
            mode = stat.S_IMODE((staged / RECORD).stat().st_mode)
            for path in staged.rglob("*"):
                if path.is_file():  # safetensors writes for the owner alone
                    path.chmod(mode)
            back = load_stored(staged, str(folder), model.dtype).state_dict()
            given = model.state_dict()
            equal = (torch.equal(back[key], weight.cpu()) for key, weight in given.items() if key in back)
            if back.keys() != given.keys() or not all(equal):
                raise UsageError(
                    f"{folder} was not written, since transformers reads other weights back than were given "
                    "it; please report this."
                )
    except (OSError, SafetensorError) as error:
        raise write_error(folder, error) from error


@contextlib.contextmanager
def _stage_folder(target: Path) -> Iterator[Path]:
    """Make a folder that takes the target's place once it is whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = name_unfinished(target)
    staged.mkdir()
    try:
        yield staged
        if not target.exists():
            staged.rename(target)
            return
        before = target.rename(staged.with_suffix(".old"))
        try:
            staged.rename(target)
        except BaseException:
            before.rename(target)
            raise
        shutil.rmtree(before, ignore_errors=True)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
