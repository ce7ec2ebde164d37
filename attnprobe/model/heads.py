"""Which trained heads a checkpoint holds beside its encoder."""

from pathlib import Path

import transformers

from attnprobe.model.checkpoint import Checkpoint

#: What a head is for, and the class that would load it.
_CLASSES = {
    "masked language model": "AutoModelForMaskedLM",
    "sequence classification": "AutoModelForSequenceClassification",
    "token classification": "AutoModelForTokenClassification",
    "question answering": "AutoModelForQuestionAnswering",
    "sequence to sequence": "AutoModelForSeq2SeqLM",
}


def trained_heads(checkpoint: Checkpoint, folder: Path | None) -> list[str]:
    """List the heads for which the checkpoint holds every weight.

    Loading is the only honest test: a head that the checkpoint lacks is made up without a word.

    Args:
        checkpoint: The loaded encoder.
        folder: Where it came from; None for a model that was handed over.
    """
    if folder is None or not checkpoint.unused:
        return []
    return [name for name, auto in _CLASSES.items() if _loads_whole(auto, checkpoint, folder)]


def _loads_whole(auto: str, checkpoint: Checkpoint, folder: Path) -> bool:
    try:
        _, info = getattr(transformers, auto).from_pretrained(
            folder, output_loading_info=True, local_files_only=True, trust_remote_code=False
        )
    except Exception:
        return False
    return not info["missing_keys"] and not info["mismatched_keys"]
