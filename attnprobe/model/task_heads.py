"""Task heads, and loading a model with the first whose weights the checkpoint holds in full."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel

from attnprobe.errors import ModelError
from attnprobe.model.configuration import weights_error
from attnprobe.model.private import list_tied_weights
from attnprobe.model.pruning import find_class, load_removed
from attnprobe.model.quantisation import find_method, place_weights, silence_packages, unpack_model
from attnprobe.model.quirks import LONE_ENCODERS, MASKED_CLASSES, TRANSLATION_CLASSES
from attnprobe.table.cells import clean

#: Seed of heads that are made up on demand.
_SEED = 0
#: Weights of the base model that no attention depends on and many checkpoints lack.
_OPTIONAL_WEIGHTS = ("pooler",)


@dataclass(frozen=True)
class TaskHead:
    """A kind of head: the class of transformers that loads it, and how the names of such models end."""

    name: str
    auto: str
    endings: tuple[str, ...]


_LM = ("ForMaskedLM", *MASKED_CLASSES)
_SEQ2SEQ = ("ForConditionalGeneration", *TRANSLATION_CLASSES, "ForSeq2SeqLM")
_QA = ("ForQuestionAnswering", "ForQuestionAnsweringSimple")
_AUDIO = ("ForAudioClassification", "ForSequenceClassification")

MASKED_LM = TaskHead("masked language model", "AutoModelForMaskedLM", _LM)
CAUSAL_LM = TaskHead("causal language model", "AutoModelForCausalLM", ("ForCausalLM", "LMHeadModel"))
CLASSIFICATION = TaskHead(
    "sequence classification", "AutoModelForSequenceClassification", ("ForSequenceClassification",)
)
TOKEN_CLASSIFICATION = TaskHead(
    "token classification", "AutoModelForTokenClassification", ("ForTokenClassification",)
)
QUESTION_ANSWERING = TaskHead("question answering", "AutoModelForQuestionAnswering", _QA)
SEQ2SEQ = TaskHead("sequence to sequence", "AutoModelForSeq2SeqLM", _SEQ2SEQ)
IMAGE_CLASSIFICATION = TaskHead(
    "image classification", "AutoModelForImageClassification", ("ForImageClassification",)
)
SOUND_CLASSIFICATION = TaskHead("sound classification", "AutoModelForAudioClassification", _AUDIO)
IMAGE_TEXT = TaskHead("image and text to text", "AutoModelForImageTextToText", ("ForConditionalGeneration",))
SPEECH = TaskHead(
    "speech to text", "AutoModelForSpeechSeq2Seq", ("ForConditionalGeneration", "ForSpeechToText")
)
TASK_HEADS = (
    *(MASKED_LM, CAUSAL_LM, CLASSIFICATION, TOKEN_CLASSIFICATION, QUESTION_ANSWERING, SEQ2SEQ),
    *(IMAGE_CLASSIFICATION, SOUND_CLASSIFICATION, SPEECH, IMAGE_TEXT),
)


@dataclass(frozen=True)
class Weights:
    """A model and its task head, None for the encoder alone.

    Weights that the checkpoint lacks are ``missing``, and those that the model has no place for ``unused``.
    """

    model: PreTrainedModel
    head: TaskHead | None
    missing: tuple[str, ...]
    unused: tuple[str, ...]


def read_weights(
    folder: Path,
    name: str,
    config: PreTrainedConfig,
    wanted: tuple[TaskHead, ...] = (),
    *,
    force: bool = False,
    **options: Any,
) -> Weights:
    """Read a model with the first of the wanted heads that its checkpoint holds every weight of.

    Loading is the only honest test: transformers makes up a head that the checkpoint lacks without a word.
    The encoder alone is read if there is none of them. With ``force``, a first head that is not there is made
    up, from a fixed seed. ``options`` are those of ``from_pretrained``.
    """
    for head in wanted:
        if not force and _has_another_head(config, head):
            continue
        found = read_model(folder, name, config, head, **options)
        if found is not None and (not found.missing or (force and not lacks_encoder(found))):
            return found
    base = read_model(folder, name, config, None, **options)
    assert base is not None  # without a head, what goes wrong is raised
    needed = [key for key in base.missing if not any(part in key for part in _OPTIONAL_WEIGHTS)]
    if needed and (untrained := _find_untrained(base.model, needed)):
        reseeded = read_model(folder, name, config, None, seed=_SEED + 1, **options)
        needed = [key for key in needed if key not in untrained or not _is_computed(key, base, reseeded)]
    if needed and (tied := _read_tied(folder, name, config, base, needed, **options)):
        return tied
    if needed:
        noun = "weight" if len(needed) == 1 else "weights"
        raise ModelError(
            f"{name} lacks {len(needed)} {noun} of its encoder (such as {needed[0]}), and numbers from "
            f"freshly initialised weights would mean nothing{_describe_stored(needed, base)}."
        )
    return base


def _describe_stored(needed: Sequence[str], found: Weights) -> str:
    """Name what is stored in place of a missing weight: the same behind a prefix, if there is such."""
    for key in needed:
        if stored := next((one for one in found.unused if one.endswith(f".{key}")), None):
            prefix = stored.removesuffix(key).removesuffix(f"{found.model.base_model_prefix}.")
            return f"; {key} is stored as {clean(stored)}: save the weights without {clean(prefix)} before it"
    return f"; its files hold others, such as {clean(found.unused[0])}" if found.unused else ""


def _read_tied(
    folder: Path, name: str, config: PreTrainedConfig, base: Weights, needed: Sequence[str], **options: Any
) -> Weights | None:
    for head in dict.fromkeys((*_list_stated(config), CAUSAL_LM, MASKED_LM, SEQ2SEQ)):
        found = read_model(folder, name, config, head, **options)
        if found is None or lacks_encoder(found):
            continue
        tied, prefix = list_tied_weights(found.model), found.model.base_model_prefix
        if tied & {*base.unused} and all({key, f"{prefix}.{key}"} & tied for key in needed):
            body: Any = found.model.base_model
            return Weights(body, None, (), found.unused)
    return None


def _find_untrained(model: PreTrainedModel, keys: Collection[str]) -> set[str]:
    """Tell which of some weights a model makes so that training leaves them alone; loading forgets it."""
    with torch.device("meta"):
        new = type(model)(model.config)
    return {key for key, weight in new.named_parameters() if key in keys and not weight.requires_grad}


def _is_computed(key: str, found: Weights, reseeded: Weights | None) -> bool:
    """Tell whether a weight is what the model computes, such as sinusoids: another seed gives the same.

    Zeros and ones are not: they are what training begins with.
    """
    one = found.model.get_parameter(key)
    same = reseeded is not None and torch.equal(one, reseeded.model.get_parameter(key))
    return same and bool((one != one.flatten()[0]).any())


def _has_another_head(config: PreTrainedConfig, head: TaskHead) -> bool:
    """Whether a checkpoint says that it was trained with another head: the weights may look alike."""
    known = _list_stated(config)
    return bool(known) and head not in known


def find_stated_head(config: Any) -> TaskHead | None:
    """Find the head that a checkpoint says it was trained with, if it is one that is known here."""
    return next(iter(_list_stated(config)), None)


def _list_stated(config: Any) -> list[TaskHead]:
    stated = getattr(config, "architectures", None) or ()
    return [head for name in stated for head in TASK_HEADS if str(name).endswith(head.endings)]


def lacks_encoder(found: Weights) -> bool:
    """Tell whether weights are missing that are not the head's."""
    prefix = f"{found.model.base_model_prefix}." if found.head else ""
    return any(
        key.startswith(prefix) and not any(part in key for part in _OPTIONAL_WEIGHTS) for key in found.missing
    )


def read_model(
    folder: Path,
    name: str,
    config: PreTrainedConfig,
    head: TaskHead | None,
    *,
    seed: int = _SEED,
    **options: Any,
) -> Weights | None:
    """Read a model in the class of one head, whatever weights it lacks; None where there is no such class."""
    auto = getattr(transformers, head.auto if head else _name_body(config))
    if head is None and find_method(config):  # what is said of modules goes by their names in that class
        auto = find_class(config) or auto
    try:
        with torch.random.fork_rng(), silence_packages(config):
            torch.manual_seed(seed)
            if getattr(config, "pruned_heads", None):
                model, info = load_removed(auto, folder, config, **options)
            else:
                model, info = auto.from_pretrained(folder, config=config, output_loading_info=True, **options)
            unpack_model(model)
    except Exception as error:
        if head is not None:  # no such head for this architecture, or shapes that do not fit
            return None
        raise weights_error(folder, name, error) from error
    missing = {*info["missing_keys"], *(str(key) for key in info["mismatched_keys"])}
    return Weights(model, head, tuple(sorted(missing)), tuple(sorted(info["unexpected_keys"])))


def _name_body(config: Any) -> str:
    """Name the class that loads a model without a head: of an encoder that was saved without its decoder."""
    stated = getattr(config, "architectures", None) or ("",)
    return "AutoModelForTextEncoding" if str(stated[0]) in LONE_ENCODERS else "AutoModel"


def find_trained_heads(folder: Path | None) -> list[str]:
    """List the heads for which a checkpoint holds every weight; none for a model that was handed over."""
    if folder is None:
        return []
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        config = transformers.AutoConfig.from_pretrained(folder, **options)
    except Exception:
        return []
    options |= place_weights(config, torch.device("cpu"))
    possible = [head for head in TASK_HEADS if not _has_another_head(config, head)]
    found = ((head, read_model(folder, folder.name, config, head, **options)) for head in possible)
    return [head.name for head, weights in found if weights is not None and not weights.missing]


def infer_head(model: PreTrainedModel) -> TaskHead | None:
    """Infer the head of a model from the name of its class."""
    return next((head for head in TASK_HEADS if type(model).__name__.endswith(head.endings)), None)
