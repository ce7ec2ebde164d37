"""Pooling, and what sentence-transformers applies after it: from the states of a text to one vector."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from attnprobe.errors import UsageError, first_line
from attnprobe.model.folders import PICKLED, WEIGHTS
from attnprobe.table.cells import clean

#: Kinds of pooling, and the switch of each in folders of before version 6, in the order of their vectors.
_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
#: Activations of torch that need no setting, by the names of their classes. They are called by their
#: functions, whose names the rules of relevance go by.
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "Identity": lambda values: values,
    "Tanh": torch.tanh,
    "Sigmoid": torch.sigmoid,
    "ReLU": functional.relu,
    "ReLU6": functional.relu6,
    "LeakyReLU": functional.leaky_relu,
    "GELU": functional.gelu,
    "SiLU": functional.silu,
    "Mish": functional.mish,
    "ELU": functional.elu,
    "SELU": functional.selu,
    "CELU": functional.celu,
    "Hardtanh": functional.hardtanh,
    "Hardswish": functional.hardswish,
    "Hardsigmoid": functional.hardsigmoid,
    "Softplus": functional.softplus,
    "Softsign": functional.softsign,
    "Tanhshrink": functional.tanhshrink,
    "LogSigmoid": functional.logsigmoid,
}
_ACTIVATION = re.compile(r"torch\.nn\.modules\.(?:activation|linear)\.(\w+)")
#: Modules that are followed, beside Dropout, which does nothing.
_KINDS = {"Pooling", "Normalize", "Dense"}
#: What modules after the first read and write.
_STATE = "sentence_embedding"

Config = Mapping[str, Any]
#: A step after pooling: (batch, width) to (batch, width).
Step = Callable[[Tensor], Tensor]


class UnreadError(Exception):
    """A module, or a setting of one, that is not followed, in words."""


@dataclass(frozen=True)
class Pooling:
    """One vector of the states of a text: the vectors of some kinds of pooling, one behind the other.

    Attributes:
        modes: The kinds, as sentence-transformers names them.
        include_prompt: Whether the tokens of a prompt, and what frames it, are pooled too.
    """

    modes: tuple[str, ...] = ("mean",)
    include_prompt: bool = True

    def __call__(self, states: Tensor, skipped: int = 0) -> Tensor:
        """Pool the states of texts (batch, position, width) to (batch, width x modes).

        ``skipped`` tokens of a prompt are left out, where it is not included. There are no others to leave
        out, as sequences are never padded.
        """
        first = 0 if self.include_prompt else min(skipped, states.shape[1])
        return torch.cat([_POOLS[mode](states, first) for mode in self.modes], -1)


def _pool_first(states: Tensor, first: int) -> Tensor:
    return states[:, first if first < states.shape[1] else 0]


def _pool_last(states: Tensor, first: int) -> Tensor:
    return states[:, -1] if first < states.shape[1] else torch.zeros_like(states[:, 0])


def _pool_mean(states: Tensor, first: int, power: float = 1.0) -> Tensor:
    return states[:, first:].sum(1) / max(states.shape[1] - first, 1) ** power


def _pool_weighted(states: Tensor, first: int) -> Tensor:
    """Weigh each token by its place, from 1, so that later ones count for more."""
    weights = torch.arange(first + 1, states.shape[1] + 1, device=states.device, dtype=states.dtype)
    return (states[:, first:] * weights[:, None]).sum(1) / weights.sum().clamp_min(1e-9)


_POOLS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "cls": _pool_first,
    "max": lambda states, first: states[:, first:].amax(1),
    "mean": _pool_mean,
    "mean_sqrt_len_tokens": partial(_pool_mean, power=0.5),
    "weightedmean": _pool_weighted,
    "lasttoken": _pool_last,
}


@dataclass(frozen=True)
class Dense:
    """A linear map and an activation: f(W x + b), and x or R x beside it where there is a residual."""

    weight: Tensor
    bias: Tensor | None
    activation: str
    residual: Tensor | None = None

    def __call__(self, state: Tensor) -> Tensor:
        wanted, given = self.weight.shape[1], state.shape[-1]
        if wanted != given:
            raise UsageError(
                f"The Dense of this model takes vectors of {wanted} numbers, and is given {given}; take all "
                "of its modules from one place."
            )
        bias = None if self.bias is None else self.bias.to(state)
        found = _ACTIVATIONS[self.activation](functional.linear(state, self.weight.to(state), bias))
        return found if self.residual is None else found + functional.linear(state, self.residual.to(state))

    def __str__(self) -> str:
        rows, columns = self.weight.shape
        return f"Dense {columns} to {rows} with {self.activation}"


class Normalize:
    """To length 1."""

    def __call__(self, state: Tensor) -> Tensor:
        return functional.normalize(state, dim=-1)

    def __str__(self) -> str:
        return "Normalize"


@dataclass(frozen=True)
class FirstNumbers:
    """The first numbers of a vector, which some models are trained to do with."""

    width: int

    def __call__(self, state: Tensor) -> Tensor:
        return state[:, : self.width]

    def __str__(self) -> str:
        return f"the first {self.width} numbers"


def read_modules(
    modules: Sequence[tuple[str, Config]], read_weights: Callable[[int], dict[str, Tensor]]
) -> tuple[Pooling, list[Step]]:
    """Read pooling and what comes after it, by the kinds of modules and what describes each."""
    pooling, steps = None, list[Step]()
    for number, (kind, config) in enumerate(modules):
        if kind == "Dropout":
            continue
        if kind not in _KINDS:
            raise UnreadError(f"attnprobe does not read its module {clean(kind)}")
        if (kind == "Pooling") == (pooling is not None):
            raise UnreadError(f"its module {clean(kind)} stands where attnprobe does not read it")
        if kind == "Pooling":
            pooling = Pooling(_find_modes(config), config.get("include_prompt") is not False)
        elif kind == "Normalize":
            _check_place(kind, config)
            steps.append(Normalize())
        else:
            _check_place(kind, config)
            steps.append(_build_dense(config, read_weights(number)))
    if pooling is None:
        raise UnreadError("it has no Pooling")
    return pooling, steps


def _check_place(kind: str, config: Config) -> None:
    for name in ("module_input_name", "module_output_name"):
        if config.get(name) not in (None, _STATE):
            raise UnreadError(f"its {kind} works on {clean(str(config[name]))}")


def _find_modes(config: Config) -> tuple[str, ...]:
    """Find the kinds of pooling: names, or a switch for each in old folders."""
    stated = config.get("pooling_mode")
    modes: list[Any] = stated if isinstance(stated, list) else [stated]
    if stated is None:
        modes = [mode for name, mode in _SWITCHES.items() if config.get(name) is True] or ["mean"]
    for mode in modes:
        if not isinstance(mode, str) or mode not in _POOLS:
            raise UnreadError(f"attnprobe does not pool by {clean(str(mode))[:80]}")
    if not config or not modes:
        raise UnreadError("its Pooling says nothing of how")
    return tuple(modes)


def _build_dense(config: Config, weights: Mapping[str, Tensor]) -> Dense:
    named = config.get("activation_function", "torch.nn.modules.activation.Tanh")
    match = _ACTIVATION.fullmatch(str(named).removesuffix("()"))
    if match is None or match[1] not in _ACTIVATIONS:
        raise UnreadError(f"attnprobe does not know the activation {clean(str(named))[:80]} of its Dense")
    weight, bias = weights.get("linear.weight"), weights.get("linear.bias")
    residual = weights.get("residual.weight")
    if config.get("use_residual") is True and residual is None and weight is not None:
        residual = torch.eye(*weight.shape)
    parts = [part for part in (weight, bias, residual) if part is not None]
    if (
        weight is None
        or weight.ndim != 2
        or (bias is not None and bias.shape != weight.shape[:1])
        or (residual is not None and residual.shape != weight.shape)
        or not all(part.is_floating_point() and bool(torch.isfinite(part).all()) for part in parts)
    ):
        raise UnreadError("the weights of its Dense are not those of a linear map")
    return Dense(weight, bias, match[1], residual)


def read_module_weights(folder: Path, place: str, *, allow_bin: bool) -> dict[str, Tensor]:
    """Read the weights of a module; those that are pickled only if that is allowed."""
    try:
        if (path := folder / WEIGHTS).is_file():
            return load_file(path)
        if not (path := folder / PICKLED).is_file():
            raise UnreadError(f"its {clean(place)} holds no weights ({WEIGHTS})")
        if not allow_bin:
            raise UnreadError(
                f"its {clean(place)} holds only pickled weights, which can run code when they are loaded "
                "(pass --allow-bin if you trust them)"
            )
        return torch.load(path, map_location="cpu", weights_only=True)
    except UnreadError:
        raise
    except (OSError, SafetensorError, ValueError, RuntimeError, EOFError) as error:
        raise UnreadError(f"the weights of its {clean(place)} can't be read ({first_line(error)})") from error
    except Exception as error:  # whatever a pickle has in it
        raise UnreadError(f"the weights of its {clean(place)} can't be read") from error
