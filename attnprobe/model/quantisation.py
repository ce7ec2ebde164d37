"""Quantised weights: how they are packed, and the plain weights behind them."""

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnprobe.errors import UsageError
from attnprobe.model.lean import silence_loggers
from attnprobe.model.private import Conv1D, find_compressor
from attnprobe.table.cells import clean

#: What is said of weights that models compute with and nobody else can read.
PACKED = "its weights are quantised ({kind}) in a way that can't be undone, and only its attention is read"
#: What models of plain weights are stored and computed in.
_PLAIN = {"float64", "float32", "bfloat16", "float16"}
#: Methods whose packages take a GPU where there is one, whatever was asked for.
_PLACED = {"bitsandbytes", "gptq", "awq"}


def find_method(config: Any) -> str:
    """Find the method by which a configuration says that weights are quantised, such as torchao; or ""."""
    stated = getattr(config, "quantization_config", None)
    method = stated.get("quant_method") if isinstance(stated, dict) else getattr(stated, "quant_method", None)
    return clean(str(getattr(method, "value", method))) if method else ""


def place_weights(config: Any, device: torch.device) -> dict[str, Any]:
    """Build the options of ``from_pretrained`` for packages that choose a device by themselves."""
    return {"device_map": {"": str(device)}} if find_method(config) in _PLACED else {}


@contextlib.contextmanager
def silence_packages(config: Any) -> Iterator[None]:
    """Keep the packages that load quantised weights from printing bars, banners and what they miss."""
    if not find_method(config):
        yield
        return
    silence_loggers()
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        yield


def unpack_model(model: Any) -> None:
    """Unpack weights that stay compressed up to the first pass of the whole model, of which parts are run."""
    if (compressor := find_compressor(model)) is not None:
        compressor.decompress_model(model)


def find_packing(weight: Any) -> str:
    """Find how a quantised weight is packed, such as Int8Tensor or int8; "" where it is plain numbers."""
    kind = type(weight).__name__
    if kind not in {"Tensor", "Parameter"}:
        return kind
    stored = str(weight.dtype).removeprefix("torch.")
    return "" if stored in _PLAIN else stored


def is_packed(module: nn.Module) -> bool:
    """Tell whether a module is a projection whose weight is no plain matrix."""
    if next(module.children(), None) is not None:  # an adapter is around one
        return False
    sized = all(type(getattr(module, f"{side}_features", None)) is int for side in ("out", "in"))
    return sized and bool(describe_packing(module))


def describe_packing(module: nn.Module) -> str:
    """Name how the weight of a projection is packed."""
    weight = getattr(module, "weight", None)
    return find_packing(weight) if isinstance(weight, Tensor) else type(module).__name__


def is_projection(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear | Conv1D) or is_packed(module)


def read_weight(module: Any) -> Tensor | None:
    """Read the plain weight of a projection (out, in), dequantised if need be; None where it can't be."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor):
        return None
    if not find_packing(weight):
        return weight.detach().T if isinstance(module, Conv1D) else weight.detach()
    try:
        plain = weight.detach().dequantize()
    except Exception:  # whatever a package does with a weight of its own
        return None
    sizes = (module.out_features, module.in_features)
    return plain if plain.shape == sizes and not find_packing(plain) else None


@dataclass(frozen=True)
class Quantisation:
    """How the weights of a model are quantised: what its configuration names, and how they are packed now.

    Either may be "". Its projections may round what they are given, so that the dry run compares as in half
    precision.
    """

    method: str
    packing: str

    @classmethod
    def of(cls, model: nn.Module) -> "Quantisation | None":
        """Look into a model; None for one of plain weights."""
        method = find_method(getattr(model, "config", None))
        kinds = {describe_packing(module) for module in model.modules() if is_packed(module)}
        return cls(method, ", ".join(sorted(kinds))) if method or kinds else None

    @property
    def name(self) -> str:
        return ", ".join(filter(None, (self.method, self.packing)))

    def describe(self) -> str:
        """Say what is read of it."""
        return f"{self.name}: weights are read dequantised or not at all; no gradients, no heads removed"

    def check_gradients(self, model_type: str) -> None:
        """Refuse derivatives, which projections that round pass on wrongly or not at all."""
        raise UsageError(
            f"The gradients of {model_type!r} can't be told: it is quantised ({self.name}); use ablate (in "
            "prune, --by ablation), which needs none."
        )
