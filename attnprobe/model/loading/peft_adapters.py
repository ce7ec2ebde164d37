"""Adapters of peft: which of them attnprobe reads, and folders that hold one."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attnprobe.model.loading.support import BadCheckpointError

#: What describes an adapter in its folder.
ADAPTER = "adapter_config.json"
#: How the weights of an adapter begin, which are none of a whole model.
WEIGHTS = "adapter_model"
#: Kinds that add tokens which no tokenizer gives, and those that mix several models or layers of their own.
_PROMPTS = {"PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "CPT", "CARTRIDGE"}
_OTHERS = {"ADAPTION_PROMPT", "XLORA"}


def reads_beside(config: Any) -> bool:
    """Tell whether an adapter acts beside the layers of its base, so that the base is not the whole model."""
    kind = getattr(config.peft_type, "value", config.peft_type)
    return bool(getattr(config, "is_prompt_learning", False)) or kind in _PROMPTS | _OTHERS


def check_adapter(folder: Path, name: str, *, base: bool) -> None:
    """Refuse a folder with an adapter that would not be read.

    Args:
        folder: Of the checkpoint.
        name: What the user calls it.
        base: Whether it holds the weights of the base model too.

    Raises:
        BadCheckpointError: With the way out.
    """
    path = folder / ADAPTER
    if not path.is_file():
        return
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
        kind, of = str(described.get("peft_type")), described.get("base_model_name_or_path")
    except (ValueError, AttributeError, OSError) as error:
        raise BadCheckpointError(f"The {ADAPTER} of {name} can't be read as json.") from error
    of = of or "its base model"
    if kind in _PROMPTS | _OTHERS:
        raise BadCheckpointError(
            f"{name} holds an adapter ({kind}) that adds virtual tokens or other parts outside of the base "
            f"model's layers, which attnprobe does not read; give {of} to ask the base without it."
        )
    if not base:
        raise BadCheckpointError(
            f"{name} is an adapter ({kind}) of {of}, and no whole model; merge it first: load the base with "
            f"AutoModel...from_pretrained({of!r}), then PeftModel.from_pretrained(base, {name!r})"
            ".merge_and_unload().save_pretrained(FOLDER), and give FOLDER with the base's tokenizer."
        )
    if find_spec("peft") is None:
        raise BadCheckpointError(
            f"{name} holds an adapter ({kind}) beside the weights of its base, and without peft the base "
            f"would be read alone; pip install peft, or take {ADAPTER} away to ask the base."
        )
