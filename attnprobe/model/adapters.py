"""Adapters of peft: read with their base and merged into it, so that the model asked is the whole one."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel

from attnprobe.errors import AttnprobeError, first_line
from attnprobe.model.folders import ADAPTER, DEMO, read_object
from attnprobe.model.quantisation import Quantisation
from attnprobe.model.refusals import BadCheckpointError
from attnprobe.model.task_heads import (
    CAUSAL_LM,
    CLASSIFICATION,
    QUESTION_ANSWERING,
    SEQ2SEQ,
    TASK_HEADS,
    TOKEN_CLASSIFICATION,
    TaskHead,
    Weights,
    lacks_encoder,
    read_model,
)
from attnprobe.table.cells import clean

#: What peft calls the tasks of an adapter.
_TASKS = {
    "SEQ_CLS": CLASSIFICATION,
    "TOKEN_CLS": TOKEN_CLASSIFICATION,
    "QUESTION_ANS": QUESTION_ANSWERING,
    "CAUSAL_LM": CAUSAL_LM,
    "SEQ_2_SEQ_LM": SEQ2SEQ,
}
#: How peft names the model inside its own.
_INSIDE = "base_model.model."


@dataclass(frozen=True)
class Adapter:
    """An adapter without its weights: its method, such as "LORA", and what it was trained on and with."""

    folder: Path
    kind: str
    base: str
    revision: str | None = None
    head: TaskHead | None = None


def find_adapter(folder: Path, name: str, base: str | None, *, hub: bool) -> Adapter | None:
    """Read the description of an adapter; None for a folder that holds a whole model.

    ``base`` is what the user names as its base, None for what the adapter names. An adapter of the ``hub``
    may name a folder of somebody else's machine.
    """
    described = read_object(folder / ADAPTER)
    if not described or (folder / "config.json").is_file():
        return None
    named = base or described.get("base_model_name_or_path")
    if not isinstance(named, str) or not named:
        raise BadCheckpointError(f"The adapter {name} names no base model; name it with --base.")
    local = Path(named).expanduser()
    is_path = local.is_absolute() or named.startswith((".", "~")) or named.count("/") > 1
    if base is None and named != DEMO and is_path and (hub or not local.is_dir()):
        raise BadCheckpointError(
            f"The adapter {name} was trained on {clean(named)}, which is a folder of "
            f"{'another machine' if hub else 'its own machine, and not here'}; name its base with --base."
        )
    revision = described.get("revision") if base is None else None
    return Adapter(
        folder,
        clean(str(described.get("peft_type"))),
        named,
        revision if isinstance(revision, str) else None,
        _find_stated_head(described),
    )


def _find_stated_head(described: dict[str, Any]) -> TaskHead | None:
    """Find the head that an adapter names by its task, or by the class that it was trained in."""
    trained_in = described.get("auto_mapping")
    stated = str(trained_in.get("base_model_class")) if isinstance(trained_in, dict) else ""
    by_class = next((head for head in TASK_HEADS if stated.endswith(head.endings)), None)
    return _TASKS.get(str(described.get("task_type")), by_class)


def read_with_adapter(
    adapter: Adapter,
    folder: Path,
    name: str,
    config: PreTrainedConfig,
    wanted: tuple[TaskHead, ...] = (),
    *,
    force: bool = False,
    **options: Any,
) -> Weights:
    """Read a base and merge an adapter into it; the arguments are those of ``read_weights``, for the base.

    The base is read in the class in which the adapter was trained: one where every module that the adapter
    changes is there. A head is never made up. The number of labels in ``config`` becomes that of the adapter.
    """
    import peft

    try:
        tensors = peft.load_peft_weights(str(adapter.folder), device="cpu")
    except Exception as error:
        raise BadCheckpointError(
            f"The weights of the adapter {name} can't be loaded: {first_line(error)}."
        ) from error
    saved = {key.removeprefix(_INSIDE): tensor for key, tensor in tensors.items()}
    for head in dict.fromkeys((adapter.head, *wanted, None, *TASK_HEADS)):
        skeleton = _build_skeleton(config, head)
        if skeleton is not None and _has_place(skeleton, saved):
            break
    else:
        raise _misfit_error(name, adapter)
    shapes = {key: weight.shape for key, weight in skeleton.named_parameters()}
    labels = {len(one) for key, one in saved.items() if key in shapes and one.shape != shapes[key]}
    if len(labels) == 1:
        config.num_labels = labels.pop()
    found = read_model(folder, adapter.base, config, head, **options)
    if found is None or lacks_encoder(found):
        raise BadCheckpointError(
            f"The base {clean(adapter.base)} of the adapter {name} lacks weights of its encoder; numbers "
            "from freshly initialised weights would mean nothing."
        )
    if Quantisation.of(found.model) is not None:
        raise BadCheckpointError(
            f"The base {clean(adapter.base)} of {name} is quantised, and an adapter can't be merged into it; "
            "name its base in full precision with --base."
        )
    missing = tuple(key for key in found.missing if key not in saved)
    usable = head if head in wanted and not missing else None
    if force and usable is None:
        raise AttnprobeError(
            f"{name} is an adapter that was trained without that head, and none can be made up for it; leave "
            "out --force-head."
        )
    return Weights(_merge(adapter, name, found.model, tensors), usable, missing, found.unused)


def _build_skeleton(config: PreTrainedConfig, head: TaskHead | None) -> PreTrainedModel | None:
    """Build a model without weights; None where its type has no such head."""
    auto = getattr(transformers, head.auto if head else "AutoModel")
    try:
        with torch.device("meta"):
            return auto.from_config(config)
    except Exception:
        return None


def _has_place(model: PreTrainedModel, saved: dict[str, Any]) -> bool:
    """Tell whether a model has every module that an adapter changes."""
    modules = {name for name, _ in model.named_modules()}
    return all(any(part in modules for part in _list_parents(key)) for key in saved)


def _list_parents(key: str) -> list[str]:
    """List the modules that a weight may lie in; a list of layers alone is none.

    >>> _list_parents("bert.layer.0.query.lora_A.weight")
    ['bert.layer.0.query.lora_A', 'bert.layer.0.query']
    """
    parts = key.split(".")
    return [".".join(parts[:end]) for end in range(len(parts) - 1, max(len(parts) - 4, 0), -1)][:2]


def _merge(adapter: Adapter, name: str, model: PreTrainedModel, tensors: dict[str, Any]) -> Any:
    import peft

    try:
        with warnings.catch_warnings(), torch.random.fork_rng():
            warnings.simplefilter("ignore")  # of what is compared below
            adapted = peft.PeftModel.from_pretrained(model, str(adapter.folder), is_trainable=False)
            placed = peft.get_peft_model_state_dict(adapted, save_embedding_layers=False)
            merged = adapted.merge_and_unload()
    except Exception as error:
        raise BadCheckpointError(
            f"The adapter {name} can't be merged into {clean(adapter.base)}: {first_line(error)}."
        ) from error
    if placed.keys() - tensors.keys() or any(
        key in placed and placed[key].shape != tensor.shape for key, tensor in tensors.items()
    ):
        raise _misfit_error(name, adapter)
    return merged


def _misfit_error(name: str, adapter: Adapter) -> BadCheckpointError:
    return BadCheckpointError(
        f"The adapter {name} changes modules that {clean(adapter.base)} does not have; name the base that it "
        "was trained on with --base."
    )
