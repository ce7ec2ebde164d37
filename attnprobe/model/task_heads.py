"""Task heads, and reading the weights of a model with a head, or with an adapter merged."""

import contextlib
import sys
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel

from attnprobe.errors import ModelError, first_line
from attnprobe.model.folders import weights_error
from attnprobe.model.locate import CheckpointFiles
from attnprobe.model.private import list_tied_weights
from attnprobe.model.pruning import find_class, read_pretrained
from attnprobe.model.quantisation import describe_quantisation, find_method, unpack_model
from attnprobe.model.quirks import LONE_ENCODERS, MASKED_CLASSES, TRANSLATION_CLASSES
from attnprobe.table.cells import clean


@dataclass(frozen=True)
class TaskHead:
    """A kind of head."""

    name: str
    task: str  # its name in transformers
    others: tuple[str, ...] = ()  # further endings of the names of its classes

    @property
    def auto(self) -> str:
        """The class of transformers that loads it for all types of models."""
        return f"AutoModelFor{self.task}"

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings of the names of its classes."""
        return f"For{self.task}", *self.others


_GENERATION = "ForConditionalGeneration"
MASKED_LM = TaskHead("masked language model", "MaskedLM", MASKED_CLASSES)
CAUSAL_LM = TaskHead("causal language model", "CausalLM", ("LMHeadModel",))
CLASSIFICATION = TaskHead("sequence classification", "SequenceClassification")
TOKEN_CLASSIFICATION = TaskHead("token classification", "TokenClassification")
QUESTION_ANSWERING = TaskHead("question answering", "QuestionAnswering", ("ForQuestionAnsweringSimple",))
SEQ2SEQ = TaskHead("sequence to sequence", "Seq2SeqLM", (_GENERATION, *TRANSLATION_CLASSES))
IMAGE_CLASSIFICATION = TaskHead("image classification", "ImageClassification")
SOUND_CLASSIFICATION = TaskHead("sound classification", "AudioClassification", ("ForSequenceClassification",))
IMAGE_TEXT = TaskHead("image and text to text", "ImageTextToText", (_GENERATION,))
SPEECH = TaskHead("speech to text", "SpeechSeq2Seq", (_GENERATION, "ForSpeechToText"))
TASK_HEADS = (
    *(MASKED_LM, CAUSAL_LM, CLASSIFICATION, TOKEN_CLASSIFICATION, QUESTION_ANSWERING, SEQ2SEQ),
    *(IMAGE_CLASSIFICATION, SOUND_CLASSIFICATION, SPEECH, IMAGE_TEXT),
)


@dataclass(frozen=True)
class Weights:
    """A model that was read, and how its weights fit."""

    model: PreTrainedModel
    head: TaskHead | None  # None for the encoder alone
    missing: tuple[str, ...]  # weights that the files lack
    unused: tuple[str, ...]  # weights of the files without a place in the model

    @property
    def needed(self) -> list[str]:
        """The missing weights of the encoder, without those of the pooler, which no attention needs."""
        prefix = f"{self.model.base_model_prefix}." if self.head else ""
        return [key for key in self.missing if key.startswith(prefix) and "pooler" not in key]


def find_head(name: str) -> TaskHead | None:
    """Find the head of a class of transformers by its name."""
    return next((head for head in TASK_HEADS if name.endswith(head.endings)), None)


def list_stated_heads(config: Any) -> list[TaskHead]:
    """List the heads whose classes a configuration names; several heads may share a class."""
    stated = map(str, config.architectures or ())
    return [head for name in stated for head in TASK_HEADS if name.endswith(head.endings)]


def read_weights(
    folder: Path,
    name: str,
    config: PreTrainedConfig,
    wanted: tuple[TaskHead, ...] = (),
    *,
    force: bool = False,
    **options: Any,
) -> Weights:
    """Read a model with the first of the wanted heads whose weights are all there, or else the encoder alone.

    Only loading shows that, since transformers draws the weights that a checkpoint lacks without an error.
    With ``force``, the first head is read even if its weights are drawn, from a fixed seed. ``options`` are
    those of ``from_pretrained``.
    """
    read, stated = partial(read_model, folder, name, config, **options), list_stated_heads(config)
    for head in wanted if force or not stated else [head for head in wanted if head in stated]:
        weights = read(head)
        if weights is not None and (not weights.missing or (force and not weights.needed)):
            return weights
    base = read(None)
    assert base is not None  # without a head, errors are raised
    needed = base.needed
    if needed:
        with torch.device("meta"):  # to find what training leaves alone, such as sinusoids
            new = type(base.model)(base.model.config)
        fixed = {key for key, weight in new.named_parameters() if not weight.requires_grad}
        needed = [key for key in needed if key not in fixed or not base.model.get_parameter(key).std()]
    if not needed:
        return base
    for head in dict.fromkeys((*stated, CAUSAL_LM, MASKED_LM, SEQ2SEQ)):
        weights = read(head)
        if weights is not None and not weights.needed:
            encoder: Any = weights.model.base_model
            tied, prefix = list_tied_weights(weights.model), weights.model.base_model_prefix
            if all({key, f"{prefix}.{key}"} & tied for key in needed):  # stored under the head's name
                return Weights(encoder, None, (), weights.unused)
    raise ModelError(
        f"{name} lacks {len(needed)} weight{'s' * (len(needed) > 1)} of its encoder (such as {needed[0]}), "
        f"and numbers from freshly initialised weights would mean nothing."
    )


def read_model(
    folder: Path, name: str, config: PreTrainedConfig, head: TaskHead | None, **options: Any
) -> Weights | None:
    """Read a model in the class of a head, whatever weights it lacks; None where there is no such class."""
    stated = {*(config.architectures or ())}
    encoder = "AutoModelForTextEncoding" if stated & LONE_ENCODERS else "AutoModel"
    kind = getattr(transformers, head.auto if head else encoder)
    if head is None and find_method(config):  # quantised modules are listed by their names in that class
        kind = find_class(config) or kind
    try:
        with torch.random.fork_rng(), contextlib.redirect_stdout(sys.stderr):  # of packages that print
            torch.manual_seed(0)
            model, info = read_pretrained(kind, folder, config, **options)
            unpack_model(model)
    except Exception as error:
        if head is not None:  # the architecture has no such head, or shapes do not fit
            return None
        raise weights_error(folder, name, error) from error
    missing = {*info["missing_keys"], *(str(key) for key in info["mismatched_keys"])}
    return Weights(model, head, tuple(sorted(missing)), tuple(sorted(info["unexpected_keys"])))


# ---- adapters of peft

#: The heads of adapters by peft's names of their tasks.
_TASKS = {
    "SEQ_CLS": CLASSIFICATION,
    "TOKEN_CLS": TOKEN_CLASSIFICATION,
    "QUESTION_ANS": QUESTION_ANSWERING,
    "CAUSAL_LM": CAUSAL_LM,
    "SEQ_2_SEQ_LM": SEQ2SEQ,
}


def read_with_adapter(
    files: CheckpointFiles, config: PreTrainedConfig, wanted: tuple[TaskHead, ...] = (), **options: Any
) -> Weights:
    """Read the base of an adapter in the class in which it was trained, and merge the adapter.

    A head is never drawn at random. The number of labels in ``config`` becomes that of the adapter.
    """
    import peft

    base = files.base
    assert base is not None
    name, trained_on = files.label, clean(base.name)
    try:
        tensors = peft.load_peft_weights(str(files.folder), device="cpu")
    except Exception as error:
        reason = first_line(error)
        raise ModelError(f"The weights of the adapter {name} can't be loaded: {reason}.") from error
    saved = {key.removeprefix("base_model.model."): tensor for key, tensor in tensors.items()}
    trained_in = files.adapter.get("auto_mapping")
    class_name = str(trained_in.get("base_model_class")) if isinstance(trained_in, dict) else ""
    head = _TASKS.get(str(files.adapter.get("task_type")), find_head(class_name))
    if head is not None:
        with contextlib.suppress(Exception), torch.device("meta"):  # errors come on reading the base
            made = dict(getattr(transformers, head.auto).from_config(config).named_parameters())
            both = made.keys() & saved.keys()
            labels = {len(saved[key]) for key in both if saved[key].shape != made[key].shape}
            if len(labels) == 1:
                config.num_labels = labels.pop()
    weights = read_model(base.folder, base.name, config, head, **options)
    if weights is None or weights.needed:
        raise ModelError(f"The base {trained_on} of the adapter {name} lacks weights of its encoder.")
    if describe_quantisation(weights.model):
        raise ModelError(f"The base {trained_on} of {name} is quantised; name it in full precision, --base.")
    missing = tuple(key for key in weights.missing if key not in saved)
    usable = head if head in wanted and not missing else None
    try:
        with warnings.catch_warnings(action="ignore"), torch.random.fork_rng():
            model: Any = weights.model  # low_cpu_mem_usage takes no memory for what the file lacks
            adapted = peft.PeftModel.from_pretrained(model, str(files.folder), low_cpu_mem_usage=True)
            placed = peft.get_peft_model_state_dict(adapted, save_embedding_layers=False)
            if any(key not in tensors or tensors[key].shape != made.shape for key, made in placed.items()):
                raise ValueError("its weights have no place there")
            merged: Any = adapted.merge_and_unload()
    except Exception as error:
        raise ModelError(
            f"The adapter {name} can't be merged into {trained_on}: {first_line(error)}; name the base that "
            "it was trained on with --base."
        ) from error
    return Weights(merged, usable, missing, weights.unused)
