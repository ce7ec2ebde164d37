"""A model that comes loaded: taken out of its wrappers, refused where they hide what it reads, and named."""

from typing import Any

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from transformers import PreTrainedModel

from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.peft_adapters import reads_beside

#: Where torch's wrappers of training hold the model.
_TRAINING = (DataParallel, DistributedDataParallel)


def take(model: nn.Module, tokenizer: Tokenizer) -> Checkpoint:
    """Make a checkpoint of a model that comes loaded, without what wraps it.

    Of a PeftModel, the base with its adapter in place is asked; its name ends in those of the active
    adapters, as in "bert-base-uncased + lora default".

    Raises:
        AttnprobeError: When the model is none of transformers, or its adapter acts outside of its modules.
    """
    model, adapters = _unwrapped(model)
    config: Any = getattr(model, "config", None)
    if config is None or not hasattr(config, "model_type"):
        inner = next((part for part in model.modules() if isinstance(part, PreTrainedModel)), None)
        there = f"; give the {type(inner).__name__} inside it" if inner is not None else ""
        raise AttnprobeError(f"The loaded {type(model).__name__} is no model of transformers{there}.")
    base = getattr(config, "name_or_path", "") or type(model).__name__
    loaded = {"loaded": type(model).__name__} | ({"adapters": adapters} if adapters else {})
    return Checkpoint(" + ".join([base, *adapters]), model, tokenizer, loaded)  # type: ignore[arg-type]


def _unwrapped(model: nn.Module) -> tuple[Any, list[str]]:
    """Take a model out of its wrappers, and name the adapters that are active in it."""
    found: Any = model
    while True:
        compiled = vars(found).get("_modules", {}).get("_orig_mod")
        if isinstance(found, _TRAINING):
            found = found.module
        elif compiled is not None:
            found = compiled
        elif not getattr(found, "peft_config", None):
            return found, []
        elif hasattr(found, "get_base_model"):
            return found.get_base_model(), _active(found)
        else:  # transformers put the adapter on
            return found, _active(found)


def _active(model: Any) -> list[str]:
    """Name the active adapters of a model.

    Raises:
        AttnprobeError: When one of them is no part of the base's modules.
    """
    known, stated = model.peft_config, model.active_adapters
    active: Any = stated() if callable(stated) else stated
    for name in active:
        config = known[name]
        if reads_beside(config):
            raise AttnprobeError(
                f"The adapter {name} ({_kind(config)}) adds virtual tokens or other parts outside of the "
                "base model's layers, which attnprobe does not read; give model.get_base_model() to ask the "
                "base without it."
            )
    switched = [part.disable_adapters for part in model.modules() if hasattr(part, "disable_adapters")]
    return [] if switched and all(switched) else [f"{_kind(known[name]).lower()} {name}" for name in active]


def _kind(config: Any) -> str:
    """Name the kind of an adapter, such as LORA."""
    kind: Any = config.peft_type
    return str(getattr(kind, "value", kind))
