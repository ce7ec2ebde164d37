"""All undocumented names of transformers, torch, accelerate and huggingface_hub that are used here."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

# Before its parts: it is imported leanly, see ``attnprobe.model.lean``.
from transformers import PreTrainedConfig, PreTrainedModel

from attnprobe.errors import ModelError, first_line

try:  # imported from here by other files
    from transformers.integrations.sdpa_attention import sdpa_attention_forward  # noqa: F401
    from transformers.masking_utils import sdpa_mask  # noqa: F401
    from transformers.pytorch_utils import Conv1D  # noqa: F401
except ImportError as error:
    raise ModelError(
        f"attnprobe does not work with transformers {version('transformers')} ({first_line(error)}); "
        "install one that it was tried with: pip install 'transformers==5.23.*'."
    ) from error


def get_attn_implementation(model: PreTrainedModel) -> str | None:
    """Get the name of a model's attention function, as ``set_attn_implementation`` takes it."""
    return model.config._attn_implementation


def find_auto_class(kind: Any, config: PreTrainedConfig) -> Any:
    """Find the class of models that an auto class stands for; other classes stand for themselves."""
    return kind._model_mapping[type(config)] if hasattr(kind, "_model_mapping") else kind


def find_compressor(model: nn.Module) -> Any:
    """Find what unpacks the weights of a compressed-tensors model on its first pass; None for others."""
    waiting = getattr(model, "ct_decompress_hook", None) is not None
    return getattr(getattr(model, "hf_quantizer", None), "compressor", None) if waiting else None


def list_tied_weights(model: PreTrainedModel) -> set[str]:
    """List the weights that are tied to one another, which are stored once, under either name."""
    return {path for pair in model.all_tied_weights_keys.items() for path in pair}


def list_execution_devices(module: nn.Module) -> Iterator[torch.device]:
    """List the devices that hooks of accelerate name for a module, not for its parts; empty without hooks."""
    hook: Any = getattr(module, "_hf_hook", None)
    devices = (getattr(part, "execution_device", None) for part in getattr(hook, "hooks", (hook,)))
    yield from (torch.device(device) for device in devices if device is not None)


@contextmanager
def unwrap_forward(model: nn.Module) -> Iterator[None]:
    """Take off, inside, the mixed precision that accelerate, and so a Trainer, puts around ``forward``."""
    attributes = vars(model)
    wrapped, plain = attributes.get("forward"), attributes.get("_original_forward")
    if wrapped is None or plain is None:
        yield
        return
    attributes["forward"] = plain
    try:
        yield
    finally:
        attributes["forward"] = wrapped


def unwrap_compiled(module: nn.Module) -> nn.Module | None:
    """Get the module that ``torch.compile`` wrapped; None for any other."""
    return vars(module).get("_modules", {}).get("_orig_mod")


def keep_children(module: nn.Module) -> Callable[[], None]:
    """Save the submodules of a module; returns a function that puts them back."""
    return partial(module._modules.update, dict(module._modules))


def count_writes(tensor: Tensor) -> int | None:
    """Count the writes to a tensor; None for one made in inference mode, which has no count."""
    return None if tensor.is_inference() else tensor._version


def build_processor(config: PreTrainedConfig, parts: dict[str, Any], folder: Path) -> Any:
    """Build the processor of a type from the given parts; ``from_pretrained`` needs all, and torchvision."""
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

    kind: Any = PROCESSOR_MAPPING[type(config)]

    class Partial(kind):
        def check_argument_for_proper_class(self, name: str, argument: Any) -> Any:
            return None if argument is None else super().check_argument_for_proper_class(name, argument)

        @classmethod
        def get_attributes(cls) -> list[str]:
            return kind.get_attributes()

    stated, _ = kind.get_processor_dict(folder)
    return Partial.from_args_and_dict([parts.get(name) for name in kind.get_attributes()], stated)
