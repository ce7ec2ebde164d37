"""Quantised weights: how they are packed, the plain weights behind them, and what their projections round."""

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import Tensor, nn

from attnprobe.errors import AttnprobeError
from attnprobe.model.lean import silence_loggers
from attnprobe.model.refusals import BadCheckpointError, find_packing
from attnprobe.model.transformers_private import Conv1D, find_compressor
from attnprobe.table.cells import clean

#: For each method that a config.json names, the packages that read its weights.
_PACKAGES = {
    "torchao": ("torchao",),
    "bitsandbytes": ("bitsandbytes", "accelerate"),
    "compressed-tensors": ("compressed-tensors",),
    "gptq": ("optimum", "gptqmodel"),
    "awq": ("gptqmodel", "accelerate"),
    "quanto": ("optimum-quanto", "accelerate"),
    "hqq": ("hqq",),
}
#: Those of them that take a GPU where there is one, whatever was asked for.
_PLACED = {"bitsandbytes", "gptq", "awq"}
#: What compressed-tensors leaves beside the weights that it unpacks.
_BESIDE = {f"weight_{part}" for part in ("scale", "shape", "zero_point", "packed", "g_idx", "global_scale")}
#: From this difference on, relative to the largest number, a projection rounds what it is given; by bytes
#: per number.
_ROUNDED = {8: 1e-3, 4: 1e-3, 2: 0.02}
#: Furthest that a derivative of it may be from its weight. Rounding explains less, and a lost one is 1 off.
_SLOPE = 0.1


def find_method(config: Any) -> str:
    """Find the method by which a configuration says that weights are quantised, such as torchao; or ""."""
    stated = getattr(config, "quantization_config", None)
    found = stated.get("quant_method") if isinstance(stated, dict) else getattr(stated, "quant_method", None)
    return clean(str(getattr(found, "value", found))) if stated and found else ""


def check_packages(config: Any, name: str) -> None:
    """Refuse a quantised checkpoint whose packages are not there."""
    method = find_method(config)
    missing = [package for package in _PACKAGES.get(method, ()) if not _is_installed(package)]
    if missing:
        raise BadCheckpointError(
            f"{name} is quantised ({method}), and needs {' and '.join(missing)}: pip install "
            f"{' '.join(missing)}."
        )


def place_weights(config: Any, device: torch.device) -> dict[str, Any]:
    """Build the options of ``from_pretrained`` for packages that choose a device by themselves."""
    return {"device_map": {"": str(device)}} if find_method(config) in _PLACED else {}


def _is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


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


def is_packed(module: nn.Module) -> bool:
    """Tell whether a module is a projection whose weight is no plain matrix."""
    if _find_sizes(module) is None or next(module.children(), None) is not None:  # adapters are around one
        return False
    weight = getattr(module, "weight", None)
    return not isinstance(weight, Tensor) or bool(find_packing(weight))


def count_parameters(model: nn.Module) -> int:
    """Count the numbers of a model, each weight that is packed as those that it stands for."""
    counts: dict[int, int] = {}
    for module in model.modules():
        sizes = _find_sizes(module) if is_packed(module) else None
        own = dict(module.named_parameters(recurse=False))
        if sizes is not None:
            counts[id(module)] = sizes[0] * sizes[1]
            own = {name: weight for name, weight in own.items() if name == "bias"}
        counts |= {id(weight): weight.numel() for name, weight in own.items() if name not in _BESIDE}
    return sum(counts.values())


def describe_packing(module: nn.Module) -> str:
    """Name how the weight of a projection is packed."""
    weight = getattr(module, "weight", None)
    return find_packing(weight) if isinstance(weight, Tensor) else type(module).__name__


def is_projection(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear | Conv1D) or is_packed(module)


def _find_sizes(module: nn.Module) -> tuple[int, int] | None:
    """Find how wide what a projection gives and what it is given are."""
    sizes: Any = tuple(getattr(module, f"{side}_features", None) for side in ("out", "in"))
    return sizes if all(type(size) is int for size in sizes) else None


def read_weight(module: Any) -> Tensor | None:
    """Read the plain weight of a projection, (out, in), dequantised where it is packed.

    None where nobody can tell. A packing that is not known by name is asked for the rows of the identity.
    """
    weight = getattr(module, "weight", None)
    if isinstance(weight, Tensor) and not find_packing(weight):
        return weight.detach().T if isinstance(module, Conv1D) else weight.detach()
    try:
        with torch.no_grad():
            found = _dequantise(module, weight)
    except Exception:  # whatever a package does with a weight of its own
        return None
    return found.detach() if found.shape == _find_sizes(module) and not find_packing(found) else None


def _dequantise(module: Any, weight: Any) -> Tensor:
    kind = type(weight).__name__
    if kind in {"Params4bit", "Int8Params"}:
        from bitsandbytes import functional  # type: ignore[import-not-found]

        if kind == "Params4bit":
            return functional.dequantize_4bit(weight.data, weight.quant_state)
        scales = module.state.SCB if module.state.SCB is not None else weight.SCB
        return functional.int8_vectorwise_dequant(weight.data, scales)
    if getattr(type(weight), "dequantize", Tensor.dequantize) is not Tensor.dequantize:
        return weight.dequantize()
    held = next(iter((*module.parameters(), *module.buffers())))
    bias = getattr(module, "bias", None)
    kind = bias.dtype if isinstance(bias, Tensor) else torch.get_default_dtype()
    given = module(torch.eye(module.in_features, dtype=kind, device=held.device))
    return (given if bias is None else given - bias).T


@dataclass(frozen=True)
class Quantisation:
    """What is known of a model whose weights are quantised.

    Attributes:
        method: What its configuration names, such as torchao; "" where it names none.
        packing: How its weights are packed now, such as Int8Tensor; "" where loading unpacked them.
        coarse: Whether its projections round what they are given, so that float noise grows to a rounding
            step, as in half precision.
        lossy: The first of its projections that passes no gradient on to what it is given; "" where all do.
        readable: Whether the weights behind the packing can be had.
    """

    method: str
    packing: str
    coarse: bool
    lossy: str
    readable: bool

    @classmethod
    def of(cls, model: nn.Module) -> "Quantisation | None":
        """Look into a model; None for one of plain weights."""
        method = find_method(getattr(model, "config", None))
        found: dict[Any, tuple[str, nn.Module]] = {}  # one of each name within its layer, and packing
        kinds = set[str]()
        for name, module in model.named_modules():
            kind = describe_packing(module) if is_packed(module) else ""
            kinds |= {kind} - {""}
            if kind or (method and isinstance(module, nn.Linear)):
                how = kind or getattr(module, "quantization_scheme", None) is not None
                found.setdefault((name.rpartition(".")[2], how), (name, module))
        if not method and not kinds:
            return None
        tried = {name: _try_projection(module) for name, module in found.values()}
        coarse = any(rounds for rounds, _ in tried.values())
        lossy = next((name for name, (_, apart) in tried.items() if not apart <= _SLOPE), "")
        readable = all(read_weight(module) is not None for _, module in found.values())
        return cls(method, ", ".join(sorted(kinds)), coarse, lossy, readable)

    @property
    def name(self) -> str:
        return ", ".join(filter(None, (self.method, self.packing)))

    def describe(self) -> str:
        """Say in a sentence what is read of it."""
        how = (
            "dequantised" if self.readable else "by nobody else, so that what needs them is empty or refused"
        )
        lost = " and it gives no gradients (of importance and lrp)" if self.lossy else ""
        return (
            f"{self.name}: its attention is read as it runs, its weights are read {how}; its heads can't be "
            f"removed{lost}"
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        coarse = (
            "its projections round what they are given, in each pass anew, so that float noise grows to a "
            "rounding step: numbers hold to about two digits, and the dry run compares as in half precision"
        )
        return (coarse,) * self.coarse

    def check_gradients(self, model_type: str) -> None:
        """Refuse derivatives where a projection passes none on."""
        if self.lossy:
            raise AttnprobeError(
                f"The gradients of {model_type!r} can't be told: it is quantised ({self.name}), and its "
                f"{self.lossy} rounds what it is given and passes no gradient on; use ablate (in prune, "
                "--by ablation), which needs none."
            )


def _try_projection(module: Any) -> tuple[bool, float]:
    """Try a projection on two rows of noise: does it round them, and how far is its derivative off?"""
    weight, gave = read_weight(module), None
    if weight is None or weight.is_meta:  # that is on disk
        return False, float(weight is None)
    draw, bias = torch.Generator().manual_seed(0), getattr(module, "bias", None)
    kind = bias.dtype if isinstance(bias, Tensor) else weight.dtype
    given, along = (
        torch.randn(2, size, generator=draw).to(weight.device, kind) for size in weight.shape[::-1]
    )
    weight = weight.to(kind)
    expected = given @ weight.T + (0 if bias is None else bias.detach())
    try:
        with torch.inference_mode(False), torch.enable_grad():
            gave = module(given.requires_grad_())
            slope = torch.autograd.grad(gave, given, along)[0]
    except Exception:  # there is no derivative; or it does not run, which the dry run finds and says
        slope = torch.full_like(given, torch.nan)
    rounds = gave is not None and _measure(gave.detach(), expected) > _ROUNDED[kind.itemsize]
    return rounds, _measure(slope, along @ weight)


def _measure(found: Tensor, expected: Tensor) -> float:
    """Measure the largest difference over the largest expected number."""
    return float((found - expected).abs().max() / expected.abs().max().clamp_min(1e-12))
