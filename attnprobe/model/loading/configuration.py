"""What is wrong with a configuration, where transformers or torch stumble over it."""

import json
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from attnprobe.errors import AttnprobeWarning, first_line
from attnprobe.model.loading.support import BadCheckpointError

#: Numbers of a configuration that count something there must be at least one of.
_COUNTS = re.compile(
    r"(num|n)_(\w+_)?(heads?|layers?|embd|positions)|(\w+_)?(attention_heads|layers)|d_model|dim|vocab_size"
    r"|(hidden|intermediate|embedding)_size|max_position_embeddings"
)
_TYPES = ("dtype", "torch_dtype")
#: From so many extra special tokens on, transformers, which compares each with all others, takes minutes.
_MANY = 10_000


def unusable_config(folder: Path, name: str, error: Exception) -> BadCheckpointError:
    """Say why a configuration can't be used, and what to do.

    Args:
        folder: Of the checkpoint.
        name: What errors call it.
        error: What transformers raised.
    """
    said = next(_impossible(folder), None) or first_line(error)
    return BadCheckpointError(
        f"The config.json of {name} can't be used: {said}. Take the config.json that was saved with "
        "the weights."
    )


def unusable_weights(folder: Path, name: str, error: Exception) -> BadCheckpointError:
    """Say why weights can't be loaded: where the configuration is impossible, that is why."""
    if (said := next(_impossible(folder), None)) is not None:
        return unusable_config(folder, name, ValueError(said))
    return BadCheckpointError(f"The weights of {name} can't be loaded: {first_line(error)}.")


def say_many_tokens(folder: Path, name: str) -> None:
    """Warn of a tokenizer that takes long to load, before it is loaded."""
    try:
        said = json.loads((folder / "tokenizer_config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return
    some = (
        [said.get(f"{kind}_special_tokens") for kind in ("additional", "extra")]
        if isinstance(said, dict)
        else []
    )
    number = max((len(one) for one in some if isinstance(one, list | dict)), default=0)
    if number > _MANY:
        warnings.warn(
            f"The tokenizer of {name} has {number:,} extra special tokens, and transformers takes minutes to "
            "load so many.",
            AttnprobeWarning,
            stacklevel=2,
        )


def _impossible(folder: Path) -> Iterator[str]:
    """List what no configuration can say."""
    try:
        said = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return
    for key, value in said.items() if isinstance(said, Mapping) else ():
        if key in _TYPES and value is not None and not _is_type(value):
            yield f"{key} is {value!r}, which is no floating-point type of torch"
        elif _COUNTS.fullmatch(key) and isinstance(value, str | float | int) and not _is_count(value):
            yield f"{key} is {value!r}, and must be a whole number of at least 1"


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value > 0


def _is_type(value: Any) -> bool:
    name = value.removeprefix("torch.") if isinstance(value, str) else ""
    return name == "auto" or isinstance(getattr(torch, name, None), torch.dtype)
