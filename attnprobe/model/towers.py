"""Which part of a model reads text, images or sound."""

from transformers import PreTrainedModel

from attnprobe.model.support import UnsupportedModelError

TEXT = "text"
#: What transformers calls sound.
_OWN_NAMES = {"sound": "audio"}


def find_tower(name: str, model: PreTrainedModel, modality: str) -> str:
    """Name the submodule that reads something: "" where the whole model does.

    Args:
        name: What the user calls the checkpoint.
        model: The model.
        modality: "text", "image" or "sound".

    Raises:
        UnsupportedModelError: When no part of it reads that, and only that.
    """
    wanted, base = _OWN_NAMES.get(modality, modality), model.base_model
    reads = _reads(base)
    if reads == {wanted} or (wanted in reads and model.config.is_encoder_decoder):
        return ""
    if len(reads) == 1 and not hasattr(base, "config"):  # code that comes with a checkpoint
        return ""
    towers = [
        path
        for path, part in base.named_modules()
        if path and isinstance(part, PreTrainedModel) and _reads(part) == {wanted}
    ]
    if towers and wanted in reads:
        return towers[0]
    read = " and ".join(sorted({"audio": "sound"}.get(known, known) for known in reads))
    hint = {
        "text": "give a file of text with -d",
        "image": "give a folder of images with -d",
        "audio": "give a folder of sound with -d",
    }
    advice = next((hint[known] for known in sorted(reads) if known in hint), "it can't be read")
    raise UnsupportedModelError(
        model.config.model_type, f"{name} reads {read}, not {modality} alone; {advice}"
    )


def _reads(model: object) -> set[str]:
    """Say what a model reads, as transformers has it."""
    stated = getattr(model, "input_modalities", TEXT)
    return {stated} if isinstance(stated, str) else set(stated)
