"""Which part of a model reads text, images or sound."""

import inspect

from transformers import PreTrainedModel

from attnprobe.model.checkpoint import headless
from attnprobe.model.support import UnsupportedModelError

TEXT = "text"
#: What is given to a model that reads something, as transformers names it.
_INPUTS = {TEXT: {"input_ids"}, "image": {"pixel_values"}, "sound": {"input_values", "input_features"}}
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
    if modality in reads:
        return ""
    read = " and ".join(reads) or "neither text nor images nor sound"
    advice = f"; give {_ADVICE[reads[0]]} with -d" if reads else ""
    raise UnsupportedModelError(model.config.model_type, f"{name} reads {read}{advice}")


def _reads(model: PreTrainedModel) -> list[str]:
    """List what a model can be given, by the names of its inputs."""
    takes = inspect.signature(model.forward).parameters
    return [modality for modality, names in _INPUTS.items() if names & takes.keys()]
