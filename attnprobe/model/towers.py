"""Which part of a model reads text, images or sound."""

import inspect
from typing import Any

from transformers import MODEL_MAPPING, PreTrainedConfig, PreTrainedModel

from attnprobe.model.checkpoint import headless
from attnprobe.model.support import UnsupportedModelError

TEXT = "text"
#: What is given to a model that reads something, as transformers names it.
_INPUTS = {TEXT: {"input_ids"}, "image": {"pixel_values"}, "sound": {"input_values", "input_features"}}
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
        UnsupportedModelError: When no part of it reads that.
    """
    base = headless(model)
    reads = _reads(base)
    if len(reads) > 1 and not model.config.is_encoder_decoder:
        for path, part in base.named_modules():
            if path and isinstance(part, PreTrainedModel) and _reads(part) == [modality]:
                return path
    _refuse_other(name, model.config.model_type, reads, modality)
    return ""


def check_modality(name: str, config: PreTrainedConfig, modality: str) -> None:
    """Refuse a checkpoint that does not read what it will be given, as far as its type tells.

    Raises:
        UnsupportedModelError: Saying what it does read.
    """
    try:
        kind = MODEL_MAPPING[type(config)]
    except KeyError:  # code that comes with the checkpoint
        return
    reads = _reads(kind[0] if isinstance(kind, tuple) else kind)
    if reads:
        _refuse_other(name, config.model_type, reads, modality)


def _refuse_other(name: str, model_type: str, reads: list[str], modality: str) -> None:
    if modality in reads:
        return
    read = " and ".join(_PLURAL[one] for one in reads) or "neither text nor images nor sound"
    advice = f"; give {_ADVICE[reads[0]]} with -d" if reads else ""
    raise UnsupportedModelError(model_type, f"{name} reads {read}{advice}")


def _reads(model: Any) -> list[str]:
    """List what a model, or a class of models, can be given, by the names of its inputs."""
    takes = inspect.signature(model.forward).parameters
    return [modality for modality, names in _INPUTS.items() if names & takes.keys()]
