"""Pruned checkpoints on disk, and loading them again.

A baked one is an ordinary checkpoint. A physically smaller one has layers with different numbers of
heads, which no configuration can say; its shapes are read from the weights themselves.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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

from attnprobe.errors import AttnprobeError, ModelError, first_line
from attnprobe.model.configuration import read_config, weights_error
from attnprobe.model.folders import RECORD, read_object
from attnprobe.model.private import Conv1D, list_tied_weights
from attnprobe.model.quirks import REMOVABLE

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

    @property
    def heads(self) -> int:
        """How many heads each layer had."""
        return max(kept + gone for kept, gone in zip(self.kept_per_layer, self._gone, strict=True))

    @property
    def standing(self) -> NDArray[np.bool_]:
        """Which heads are there, (layer, head)."""
        found = np.ones((len(self.kept_per_layer), self.heads), bool)
        for head in self.removed:
            found[head] = False
        return found

    @property
    def consistent(self) -> bool:
        """Whether it says of every head of layers of one width, once, whether it is gone."""
        layers = len(self.kept_per_layer)
        return (
            layers > 0
            and all(layer < layers and head < self.heads for layer, head in self.removed)
            and len(set(self.removed)) == len(self.removed)
            and len({kept + gone for kept, gone in zip(self.kept_per_layer, self._gone, strict=True)}) == 1
        )

    @property
    def _gone(self) -> list[int]:
        return [sum(at == layer for at, _ in self.removed) for layer in range(len(self.kept_per_layer))]


def list_computed_heads(standing: NDArray[np.bool_]) -> tuple[tuple[int, ...], ...]:
    """List the numbers of the heads that each layer of a physically smaller model computes.

    A layer that lost all its heads computes its first, which nobody reads.
    """
    return tuple(tuple(map(int, np.flatnonzero(row))) or (0,) for row in standing)


def load_pruned(folder: Path | str, dtype: torch.dtype | None = None) -> PreTrainedModel:
    """Load a pruned checkpoint, physically smaller or not.

    Args:
        folder: Where it lies.
        dtype: Of the weights; by default the one in which they are stored.

    Returns:
        The model with the task head it was saved with, in evaluation mode, on the CPU.

    Raises:
        AttnprobeError: When the folder holds no pruned checkpoint, or its files contradict each other.
    """
    folder = Path(folder).expanduser()
    record = read_record(folder)
    with silence_transformers():
        kind = dtype or find_stored_dtype(folder) or torch.float32
        return load_stored(folder, str(folder), physical=record.physical, dtype=kind)


def read_record(folder: Path) -> PruningRecord:
    """Read what was removed from a pruned checkpoint."""
    if not (folder / RECORD).is_file():
        raise ModelError(
            f"{folder} holds no {RECORD}, so it is no pruned checkpoint; load it with transformers."
        )
    found = read_object(folder / RECORD)
    physical, removed = found.get("physical"), found.get("removed")
    kept: Any = found.get("kept_per_layer")
    if (
        isinstance(physical, bool)
        and _is_list_of_counts(kept)
        and isinstance(removed, list)
        and all(_is_list_of_counts(pair) and len(pair) == 2 for pair in removed)
    ):
        pairs = tuple((layer, head) for layer, head in removed)
        return PruningRecord(physical, pairs, tuple(kept))
    raise ModelError(f"The {RECORD} of {folder} says nothing of removed heads; write it anew.")


def read_physical_record(folder: Path, name: str) -> PruningRecord | None:
    """Read what was removed from a folder that is marked as physically smaller; None for any other."""
    if read_object(folder / RECORD).get("physical") is not True:
        return None
    record = read_record(folder)
    if not record.consistent:
        raise ModelError(
            f"The {RECORD} of {name} contradicts itself about which heads are removed; write it anew."
        )
    return record


def read_removed_heads(config: Any, name: str) -> PruningRecord | None:
    """Read which heads transformers 4 removed from a checkpoint; None where it removed none.

    Raises:
        ModelError: When heads can't be removed from a model of this type.
    """
    stated = getattr(config, "pruned_heads", None)
    if not stated:
        return None
    heads, inner = config.num_attention_heads, getattr(config, "inner_group_num", 1)
    layers = config.num_hidden_layers * inner
    groups = getattr(config, "num_hidden_groups", config.num_hidden_layers)
    gone = _find_gone(config) if isinstance(stated, dict) else None
    if config.model_type not in REMOVABLE or gone is None or not gone.keys() <= {*range(groups * inner)}:
        raise ModelError(
            f"The config.json of {name} states pruned_heads, which are read of {', '.join(REMOVABLE)}, "
            "with a list of heads for each layer; give the checkpoint from before its heads were removed."
        )
    # Layers of ALBERT share the weights of their group.
    places = [
        layer // inner * groups // config.num_hidden_layers * inner + layer % inner for layer in range(layers)
    ]
    removed = tuple((layer, head) for layer, at in enumerate(places) for head in sorted(gone.get(at, ())))
    kept = tuple(heads - len(gone.get(at, ())) for at in places)
    return PruningRecord(True, removed, kept)


def _find_gone(config: Any) -> dict[int, set[int]] | None:
    """Find the heads that each layer of a configuration lost; None where that is no list of its heads."""
    found: dict[int, set[int]] = {}
    for layer, gone in config.pruned_heads.items():
        if not str(layer).isdecimal() or not _is_list_of_counts(gone):
            return None
        if any(head >= config.num_attention_heads for head in gone):
            return None
        found[int(layer)] = {*gone}
    return found


def load_cut(kind: Any, folder: Path, config: Any, **options: Any) -> tuple[Any, Any]:
    """Load a checkpoint whose heads transformers 4 removed, as a class of models or one for all types.

    A layer that lost all its heads gets a first one of zeros, as in a physically smaller checkpoint.

    Returns:
        The model, and what transformers says of its weights.
    """
    architecture = kind._model_mapping[type(config)] if hasattr(kind, "_model_mapping") else kind
    cut = _derive_resizing_class(architecture, lambda model: _cut_heads(model, config))
    source: Any = folder
    if any(len(gone) == config.num_attention_heads for gone in (_find_gone(config) or {}).values()):
        options["state_dict"], source = _read_filled(folder, config), None
    model, info = cut.from_pretrained(source, config=config, output_loading_info=True, **options)
    model.__class__ = architecture
    return model, info


def _cut_heads(model: nn.Module, config: Any) -> None:
    """Put smaller projections in the place of those whose heads are removed."""
    gone, width = _find_gone(config) or {}, config.hidden_size // config.num_attention_heads
    for path, module in list(model.named_modules()):
        match = re.search(REMOVABLE[config.model_type], path)
        if match is None:
            continue
        place = match.groupdict()
        layer = int(place.get("group") or 0) * getattr(config, "inner_group_num", 1) + int(place["layer"])
        size = max(config.num_attention_heads - len(gone.get(layer, ())), 1) * width
        linear: Any = module
        if isinstance(linear, Conv1D):
            inside, outside = linear.weight.shape
            smaller: Any = Conv1D(outside, size) if place["output"] else Conv1D(3 * size, inside)
            attention: Any = model.get_submodule(path.rpartition(".")[0])
            attention.split_size = size
        elif place["output"]:
            smaller = nn.Linear(size, linear.out_features)
        else:
            smaller = nn.Linear(linear.in_features, size, bias=linear.bias is not None)
        model.set_submodule(path, smaller)


def _read_filled(folder: Path, config: Any) -> dict[str, Tensor]:
    """Read weights; those of layers without heads become zeros of one head."""
    found: dict[str, Tensor] = {}
    for file in list_weight_files(folder):
        found |= load_file(file)
    for file in () if found else sorted(folder.glob("pytorch_model*.bin")):
        found |= torch.load(file, map_location="cpu", weights_only=True)
    width = config.hidden_size // config.num_attention_heads
    for name, weight in found.items():
        if not weight.numel():
            size = 3 * width if "c_attn" in name else width
            found[name] = weight.new_zeros([one or size for one in weight.shape])
    return found


def _is_list_of_counts(found: Any) -> bool:
    return isinstance(found, list) and all(type(count) is int and count >= 0 for count in found)


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


def list_weight_files(folder: Path) -> list[Path]:
    """List the files that transformers reads: the one whole, or else its parts."""
    whole = folder / "model.safetensors"
    return [whole] if whole.is_file() else sorted(folder.glob("model-*-of-*.safetensors"))


#: The floating-point types that safetensors names.
_DTYPES = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}


def find_stored_dtype(folder: Path) -> torch.dtype | None:
    """Find the widest floating-point type of a folder's weights, or None without safetensors."""
    widest = None
    for file in list_weight_files(folder):
        try:
            with safe_open(file, framework="pt") as weights:
                for name in weights.keys():  # noqa: SIM118 - it is no mapping
                    dtype = _DTYPES.get(weights.get_slice(name).get_dtype())
                    if dtype is not None:
                        widest = dtype if widest is None else torch.promote_types(widest, dtype)
        except SafetensorError:  # said where the weights are loaded
            return None
    return widest


def load_stored(folder: Path, name: str, *, physical: bool, dtype: torch.dtype) -> PreTrainedModel:
    """Load the class that the configuration names, with Linears of the stored shapes if need be."""
    if not list_weight_files(folder):
        raise ModelError(f"{name} holds no weights (model.safetensors).")
    local = {"local_files_only": True, "trust_remote_code": False}
    config = read_config(folder, name)
    architecture = _find_model_class(config, name)
    try:
        loader = (
            _derive_resizing_class(architecture, partial(_resize, shapes=_read_shapes(folder), name=name))
            if physical
            else architecture
        )
        model, info = loader.from_pretrained(
            folder, config=config, dtype=dtype, use_safetensors=True, output_loading_info=True, **local
        )
    except AttnprobeError:
        raise
    except Exception as error:
        raise weights_error(folder, name, error) from error
    model.__class__ = architecture
    _check_complete(sorted(info["missing_keys"]), name)
    if unexpected := sorted(info["unexpected_keys"]):
        raise ModelError(
            f"{name} holds {len(unexpected)} weights that its model has no place for (such as "
            f"{unexpected[0]})."
        )
    if physical:
        _check_runs(model, name)
    return model.eval()


def _check_complete(missing: list[str], name: str) -> None:
    if missing:
        raise ModelError(f"{name} lacks {len(missing)} of its weights (such as {missing[0]}).")


def _find_model_class(config: PreTrainedConfig, name: str) -> Any:
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
    raise ModelError(f"The config.json of {name} names no model class of transformers ({str(named)[:80]!r}).")


def _read_shapes(folder: Path) -> Shapes:
    shapes = {}
    for file in list_weight_files(folder):
        with safe_open(file, framework="pt") as weights:
            shapes |= {name: tuple(weights.get_slice(name).get_shape()) for name in weights.keys()}  # noqa: SIM118
    return shapes


def _derive_resizing_class(architecture: Any, resize: Callable[[Any], None]) -> Any:
    """Derive a class whose projections take the stored shapes as soon as it is built."""

    def build(self: Any, config: PreTrainedConfig, *arguments: Any, **options: Any) -> None:
        architecture.__init__(self, config, *arguments, **options)
        resize(self)

    # transformers reads the source of the module that a class says it comes from.
    members = {"__init__": build, "__module__": architecture.__module__}
    return type(architecture.__name__, (architecture,), members)


def _resize(model: PreTrainedModel, shapes: Shapes, name: str) -> None:
    known = shapes.keys() | list_tied_weights(model)
    _check_complete([path for path, _ in model.named_parameters() if path not in known], name)
    for path, module in list(model.named_modules()):
        stored = shapes.get(f"{path}.weight")
        if isinstance(module, nn.Linear) and stored is not None and stored != tuple(module.weight.shape):
            if not _is_cut(stored, tuple(module.weight.shape)):
                raise _shape_error(name, f"{path}.weight", stored)
            smaller = nn.Linear(stored[1], stored[0], bias=module.bias is not None)
            smaller.requires_grad_(module.weight.requires_grad)
            model.set_submodule(path, smaller)
    for path, parameter in model.named_parameters():
        if shapes.get(path, tuple(parameter.shape)) != tuple(parameter.shape):
            raise _shape_error(name, path, shapes[path])


def _is_cut(stored: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    if len(stored) != 2 or min(stored) == 0:
        return False
    (rows, columns), (all_rows, all_columns) = stored, whole
    return (rows < all_rows and columns == all_columns) or (rows == all_rows and columns < all_columns)


def _shape_error(name: str, path: str, shape: tuple[int, ...]) -> ModelError:
    found = "x".join(map(str, shape))
    return ModelError(
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
        raise ModelError(f"The weights of {name} do not go together: {first_line(error)}.") from error
