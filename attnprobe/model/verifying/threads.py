"""Whether several threads may run a model at the same time: only if it keeps nothing from pass to pass."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from attnprobe.model.loading.checkpoint import Checkpoint

#: What torch and we put on modules, and take away again.
_OURS = ("_parameters", "_buffers", "_modules", "training", "forward")
#: Rotary embeddings that change with the length of what they are given.
_STRETCHED = {"dynamic", "longrope"}


def kept_by(model: nn.Module) -> dict[str, Any]:
    """Note everything that the modules of a model keep beside their weights.

    Two such notes are equal where nothing changed between them: no attribute was put in place of another, no
    buffer was written to, no list or dictionary grew. Rotary embeddings often keep their tables, and those of
    a longer sequence are wrong for a shorter one.
    """
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if key not in _OURS and not key.endswith("_hooks") and "hooks_" not in key:
                found[f"{name}.{key}"] = _note(value)
        for key, value in module.named_buffers(recurse=False):
            found[f"{name}.{key}"] = _note(value)
    return found


def _note(value: Any) -> Any:
    if isinstance(value, Tensor):
        return id(value), tuple(value.shape), None if value.is_inference() else value._version
    if isinstance(value, bool | int | float | str | tuple | None):
        return value if not isinstance(value, tuple) else tuple(map(_note, value))
    if isinstance(value, list | dict | set):
        return id(value), len(value)
    return id(value)


def keeps_nothing(checkpoint: Checkpoint, inputs: Mapping[str, Tensor]) -> bool:
    """Run a model on sequences of two lengths, and tell whether it comes out as it went in."""
    body = checkpoint.body
    if any(_STRETCHED & _rotaries(module) for module in body.modules()):
        return False
    before = kept_by(body)
    try:
        checkpoint.forward(inputs)
        if "input_ids" in inputs:
            checkpoint.forward({name: ids[:, : max(1, ids.shape[1] // 2)] for name, ids in inputs.items()})
    except Exception:  # what it does with short sequences is its own affair
        return False
    return kept_by(body) == before


def _rotaries(module: nn.Module) -> set[str]:
    """Name the kinds of rotary embedding that a module has: one, or one for each kind of layer."""
    kind: Any = getattr(module, "rope_type", None)
    return {str(one) for one in (kind.values() if isinstance(kind, dict) else [kind])}
