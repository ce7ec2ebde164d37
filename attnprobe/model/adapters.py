"""Adapters of peft: read with their base and merged into it, so that the model asked is the whole one."""

import warnings
from collections.abc import Mapping
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig

from attnprobe.errors import ModelError, UsageError, first_line
from attnprobe.model import task_heads
from attnprobe.model.locate import CheckpointFiles
from attnprobe.model.quantisation import describe_quantisation
from attnprobe.model.task_heads import TaskHead, Weights, find_head, read_model
from attnprobe.table.cells import clean

#: What peft calls the tasks of an adapter.
_TASKS = {
    "SEQ_CLS": task_heads.CLASSIFICATION,
    "TOKEN_CLS": task_heads.TOKEN_CLASSIFICATION,
    "QUESTION_ANS": task_heads.QUESTION_ANSWERING,
    "CAUSAL_LM": task_heads.CAUSAL_LM,
    "SEQ_2_SEQ_LM": task_heads.SEQ2SEQ,
}
#: How peft names the model inside its own.
_INSIDE = "base_model.model."


def read_with_adapter(
    files: CheckpointFiles,
    config: PreTrainedConfig,
    wanted: tuple[TaskHead, ...] = (),
    *,
    force: bool = False,
    **options: Any,
) -> Weights:
    """Read a base and merge an adapter into it; the other arguments are those of ``read_weights``.

    The base is read in the class in which the adapter was trained, and a head is never made up. The number of
    labels in ``config`` becomes that of the adapter.
    """
    import peft

    base = files.base
    assert base is not None  # or there would be no adapter
    name, trained_on, kind = files.label, clean(base.name), clean(str(files.adapter.get("peft_type")))
    if kind not in peft.PeftType.__members__:
        raise ModelError(f"This peft knows no adapters of the kind {kind}, as {name} is; update peft.")
    try:
        tensors = peft.load_peft_weights(str(files.folder), device="cpu")
    except Exception as error:
        reason = first_line(error)
        raise ModelError(f"The weights of the adapter {name} can't be loaded: {reason}.") from error
    saved = {key.removeprefix(_INSIDE): tensor for key, tensor in tensors.items()}
    head = _find_trained_head(files.adapter)
    if head is not None:
        _take_labels(config, head, saved)
    weights = read_model(base.folder, base.name, config, head, **options)
    if weights is None or weights.needed:
        raise ModelError(
            f"The base {trained_on} of the adapter {name} lacks weights of its encoder; numbers from freshly "
            "initialised weights would mean nothing."
        )
    if describe_quantisation(weights.model):
        raise ModelError(
            f"The base {trained_on} of {name} is quantised, and an adapter can't be merged into it; name its "
            "base in full precision with --base."
        )
    missing = tuple(key for key in weights.missing if key not in saved)
    usable = head if head in wanted and not missing else None
    if force and usable is None:
        raise UsageError(
            f"{name} is an adapter that was trained without that head, and none can be made up for it; leave "
            "out --force-head."
        )
    try:
        with warnings.catch_warnings(action="ignore"), torch.random.fork_rng():
            # With no memory for what the description says and the file does not hold.
            model: Any = weights.model
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


def _find_trained_head(described: Mapping[str, Any]) -> TaskHead | None:
    """Find the head with which an adapter was trained: by its task, or by the class of its base."""
    trained_in = described.get("auto_mapping")
    name = str(trained_in.get("base_model_class")) if isinstance(trained_in, dict) else ""
    return _TASKS.get(str(described.get("task_type")), find_head(name))


def _take_labels(config: PreTrainedConfig, head: TaskHead, saved: dict[str, Any]) -> None:
    """Set the number of labels to that of the weights which the adapter holds of a head."""
    try:
        with torch.device("meta"):
            weights = dict(getattr(transformers, head.auto).from_config(config).named_parameters())
    except Exception:  # which reading the base, after this, says the reason of
        return
    both = weights.keys() & saved.keys()
    labels = {len(saved[key]) for key in both if saved[key].shape != weights[key].shape}
    if len(labels) == 1:
        config.num_labels = labels.pop()
