"""Quantised weights: how they are packed, and the plain weights behind them."""

from typing import Any

import torch
from torch import Tensor, nn

from attnprobe.errors import UsageError
from attnprobe.model.private import Conv1D, find_compressor
from attnprobe.table.cells import clean

#: The reason where weights can't be unpacked.
LOCKED = "its weights are quantised ({kind}) in a way that can't be undone, and only its attention is read"
#: The types of plain weights.
_PLAIN = {torch.float64, torch.float32, torch.bfloat16, torch.float16}
#: Methods whose packages take a GPU if there is one, whatever the device.
_PLACED = {"bitsandbytes", "gptq", "awq"}


def find_method(config: Any) -> str:
    """Find the method of quantisation that a configuration states, such as torchao; "" if it states none."""
    stated = getattr(config, "quantization_config", None)
    method = stated.get("quant_method") if isinstance(stated, dict) else getattr(stated, "quant_method", None)
    return clean(str(getattr(method, "value", method))) if method else ""


def place_weights(config: Any, device: torch.device) -> dict[str, Any]:
    """Build the options of ``from_pretrained`` for packages that choose a device by themselves."""
    return {"device_map": {"": str(device)}} if find_method(config) in _PLACED else {}


def unpack_model(model: Any) -> None:
    """Unpack weights that would stay compressed until the first pass of the whole model."""
    if (compressor := find_compressor(model)) is not None:
        compressor.decompress_model(model)


def find_packing(part: Any) -> str:
    """Find how a weight, or that of a projection, is packed, such as Int8Tensor; "" for plain numbers."""
    weight = part if isinstance(part, Tensor) else getattr(part, "weight", part)
    if type(weight) not in {Tensor, nn.Parameter}:
        return type(weight if isinstance(weight, Tensor) else part).__name__
    return "" if weight.dtype in _PLAIN else str(weight.dtype).removeprefix("torch.")


def is_packed(module: nn.Module) -> bool:
    """Tell whether a module is a projection whose weight is no plain matrix."""
    if next(module.children(), None) is not None:  # a projection with an adapter
        return False
    sized = all(type(getattr(module, f"{side}_features", None)) is int for side in ("out", "in"))
    return sized and bool(find_packing(module))


def is_projection(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear | Conv1D) or is_packed(module)


def read_weight(module: Any) -> Tensor | None:
    """Read the plain weight of a projection (out, in), dequantised if need be; None if that fails."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor):
        return None
    if not find_packing(weight):
        return weight.detach().T if isinstance(module, Conv1D) else weight.detach()
    try:
        plain = weight.detach().dequantize()
    except Exception:  # packages of quantised weights may raise anything
        return None
    sizes = (module.out_features, module.in_features)
    return plain if plain.shape == sizes and not find_packing(plain) else None


def describe_quantisation(model: nn.Module) -> str:
    """Name the method of quantisation and the packing of weights; "" for plain ones."""
    kinds = {find_packing(module) for module in model.modules() if is_packed(module)}
    return ", ".join(filter(None, (find_method(getattr(model, "config", None)), *sorted(kinds))))


def refuse_gradients(checkpoint: Any) -> None:
    """Refuse gradients through quantised projections, which pass them on wrongly or not at all."""
    if checkpoint.quantisation:
        raise UsageError(
            f"The gradients of {checkpoint.model_type!r} can't be told: it is quantised "
            f"({checkpoint.quantisation}); use ablate (in prune, --by ablation), which needs none."
        )
