"""Adapters of peft: read with their base and merged into it, so that the model asked is the whole one."""

import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel

from attnprobe.errors import ModelError, UsageError, first_line
from attnprobe.model.folders import ADAPTER, damage_error
from attnprobe.model.location import Adapter
from attnprobe.model.quantisation import Quantisation
from attnprobe.model.task_heads import (
    CAUSAL_LM,
    CLASSIFICATION,
    QUESTION_ANSWERING,
    SEQ2SEQ,
    TASK_HEADS,
    TOKEN_CLASSIFICATION,
    TaskHead,
    Weights,
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
#: By how many numbers an adapter may have more places than its file holds, as a head of more labels has.
_SPARE = 1 << 24


def _find_stated_head(adapter: Adapter) -> TaskHead | None:
    by_class = next((head for head in TASK_HEADS if adapter.trained_in.endswith(head.endings)), None)
    return _TASKS.get(adapter.task, by_class)


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

    if adapter.kind not in peft.PeftType.__members__:
        raise ModelError(
            f"{name} is an adapter of the kind {adapter.kind}, which peft {peft.__version__} does not know; "
            "update peft."
        )
    try:
        tensors = peft.load_peft_weights(str(adapter.folder), device="cpu")
    except Exception as error:
        raise ModelError(
            f"The weights of the adapter {name} can't be loaded: {first_line(error)}."
        ) from error
    saved = {key.removeprefix(_INSIDE): tensor for key, tensor in tensors.items()}
    for head in dict.fromkeys((_find_stated_head(adapter), *wanted, None)):
        skeleton = _build_skeleton(config, head)
        if skeleton is not None and _has_place(skeleton, saved):
            break
    else:
        raise _misfit_error(name, adapter)
    _check_size(adapter, name, skeleton, tensors)
    shapes = {key: weight.shape for key, weight in skeleton.named_parameters()}
    labels = {len(one) for key, one in saved.items() if key in shapes and one.shape != shapes[key]}
    if len(labels) == 1:
        config.num_labels = labels.pop()
    found = read_model(folder, adapter.base, config, head, **options)
    if found is None or found.needed:
        raise ModelError(
            f"The base {clean(adapter.base)} of the adapter {name} lacks weights of its encoder; numbers "
            "from freshly initialised weights would mean nothing."
        )
    if Quantisation.of(found.model) is not None:
        raise ModelError(
            f"The base {clean(adapter.base)} of {name} is quantised, and an adapter can't be merged into it; "
            "name its base in full precision with --base."
        )
    missing = tuple(key for key in found.missing if key not in saved)
    usable = head if head in wanted and not missing else None
    if force and usable is None:
        raise UsageError(
            f"{name} is an adapter that was trained without that head, and none can be made up for it; leave "
            "out --force-head."
        )
    return Weights(_merge(adapter, name, found.model, tensors), usable, missing, found.unused)


def _build_skeleton(config: PreTrainedConfig, head: TaskHead | None) -> PreTrainedModel | None:
    auto = getattr(transformers, head.auto if head else "AutoModel")
    try:
        with torch.device("meta"):
            return auto.from_config(config)
    except Exception:
        return None


def _has_place(model: PreTrainedModel, saved: dict[str, Any]) -> bool:
    modules = {name for name, _ in model.named_modules()}
    return all(any(part in modules for part in _list_parents(key)) for key in saved)


def _check_size(adapter: Adapter, name: str, skeleton: PreTrainedModel, tensors: dict[str, Any]) -> None:
    """Refuse an adapter whose description makes peft allocate far more than its file holds."""
    held = sum(map(torch.numel, tensors.values()))
    if _count_places(adapter, skeleton) > 2 * held + _SPARE:
        raise ModelError(
            f"The {ADAPTER} of {name} describes far more weights than its file holds ({held:,}); take both "
            "from where the adapter comes from."
        )


def _count_places(adapter: Adapter, skeleton: PreTrainedModel) -> int:
    """Count the weights that peft would make for an adapter; 0 where that needs the weights of the base."""
    import peft

    try:
        with warnings.catch_warnings(), torch.device("meta"):
            warnings.simplefilter("ignore")
            config: Any = peft.PeftConfig.from_pretrained(str(adapter.folder))
            if getattr(config, "init_lora_weights", None) is not None:
                config.init_lora_weights = True  # others decompose weights, which a skeleton has none of
            laid = peft.get_peft_model(deepcopy(skeleton), config)
            places = peft.get_peft_model_state_dict(laid, save_embedding_layers=False)
    except Exception:  # which merging, after this, says the reason of
        return 0
    return sum(map(torch.numel, places.values()))


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
    except (TypeError, AttributeError, RecursionError) as error:
        raise damage_error(adapter.folder / ADAPTER, name, error) from error
    except Exception as error:
        raise ModelError(
            f"The adapter {name} can't be merged into {clean(adapter.base)}: {first_line(error)}."
        ) from error
    if placed.keys() - tensors.keys() or any(
        key in placed and placed[key].shape != tensor.shape for key, tensor in tensors.items()
    ):
        raise _misfit_error(name, adapter)
    return merged


def _misfit_error(name: str, adapter: Adapter) -> ModelError:
    return ModelError(
        f"The adapter {name} changes modules that {clean(adapter.base)} does not have; name the base that it "
        "was trained on with --base."
    )
