"""Whether a model takes a pad token that a text spells out for padding, where nobody says otherwise."""

from dataclasses import replace
from typing import Any

from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.inputs import parameters_of
from attnprobe.model.reading.adapters import full_attention
from attnprobe.model.reading.routing import evaluating
from attnprobe.model.verifying.probing import TOLERANCE, probe_inputs, relative_difference

#: What is said of a model that is given a mask of ones.
SAID = "it would take pad tokens in a text for padding, so it is given a mask of ones, as a tokenizer gives"


def unguessing(checkpoint: Checkpoint) -> Checkpoint:
    """Let a model that guesses its mask from pad ids be given a mask of ones.

    A tokenizer gives a mask of ones for an unpadded text, whatever the text spells out. XLM, FlauBERT and
    T5Gemma that are given none look for pad ids instead, and hide them.

    Returns:
        The checkpoint, whose ``masked`` says whether its model needs the mask.
    """
    return replace(checkpoint, masked=any(_guesses(checkpoint, pad) for pad in _pads(checkpoint)))


def _pads(checkpoint: Checkpoint) -> list[int]:
    """List the ids that a model may take for padding; none where its tokenizer gives no mask."""
    takes = parameters_of(type(checkpoint.body))
    named = checkpoint.tokenizer.model_input_names if checkpoint.processor is None else ()
    if "attention_mask" not in takes or "attention_mask" not in named:
        return []
    config: Any = checkpoint.body.config.get_text_config()
    stated = (
        getattr(config, "pad_token_id", None),
        getattr(config, "pad_index", None),
        getattr(checkpoint.tokenizer, "pad_token_id", None),
    )
    known = checkpoint.embeddings
    return sorted({pad for pad in stated if isinstance(pad, int) and pad >= 0 and (not known or pad < known)})


def _guesses(checkpoint: Checkpoint, pad: int) -> bool:
    """Tell whether a mask of ones changes what becomes of sequences in which every other token is a pad."""
    body = checkpoint.body
    try:
        with full_attention(body), evaluating(body):
            inputs = probe_inputs(checkpoint)
            inputs["input_ids"] = inputs["input_ids"].clone()
            inputs["input_ids"][:, 1::2] = pad
            alone, masked = (replace(checkpoint, masked=masked).forward(inputs) for masked in (False, True))
    except Exception:  # that it does not run at all is found and said elsewhere
        return False
    return not relative_difference(masked, alone) <= TOLERANCE[body.dtype.itemsize]
