"""Which part of a model reads text, images or sound."""

from typing import Any

from transformers import MODEL_MAPPING, PreTrainedConfig, PreTrainedModel

from attnprobe.errors import AttnprobeError
from attnprobe.model.loading.checkpoint import headless
from attnprobe.model.loading.inputs import reads
from attnprobe.model.loading.support import UnsupportedModelError

TEXT = "text"
_PLURAL = {TEXT: "text", "image": "images", "sound": "sound"}
_ADVICE = {TEXT: "a file of text", "image": "a folder of images", "sound": "a folder of sound"}


def find_tower(name: str, model: PreTrainedModel, modality: str) -> str:
    """Name the submodule that reads something, and only that: "" where the whole model is asked.

    Whether it really does is for the dry run to find out.

    Args:
        name: What the user calls the checkpoint.
        model: The model.
        modality: "text", "image" or "sound".

    Raises:
        AttnprobeError: When no part of it reads that.
    """
    base = headless(model)
    found = reads(type(base))
    if len(found) > 1 and not model.config.is_encoder_decoder:
        for path, part in base.named_modules():
            if path and isinstance(part, PreTrainedModel) and reads(type(part)) == [modality]:
                return path
    _refuse_other(name, model.config.model_type, found, modality)
    return ""


def check_modality(name: str, config: PreTrainedConfig, modality: str) -> None:
    """Refuse a checkpoint that does not read what it will be given, as far as its type tells.

    Raises:
        AttnprobeError: Saying what it does read.
    """
    try:
        kind: Any = MODEL_MAPPING[type(config)]
    except KeyError:  # code that comes with the checkpoint
        return
    found = reads(kind[0] if isinstance(kind, tuple) else kind) if kind is not None else []
    if found:
        _refuse_other(name, config.model_type, found, modality)


def _refuse_other(name: str, model_type: str, found: list[str], modality: str) -> None:
    if modality in found:
        return
    if not found:
        raise UnsupportedModelError(model_type, f"{name} reads neither text nor images nor sound")
    read = " and ".join(_PLURAL[one] for one in found)
    raise AttnprobeError(f"{name} reads {read}; give {_ADVICE[found[0]]} with -d.")
