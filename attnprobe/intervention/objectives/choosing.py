"""The choice of an objective, by the heads of the checkpoint and the labels of the data."""

from collections.abc import Callable
from functools import cache
from importlib import import_module

from attnprobe.errors import ModelError, UsageError
from attnprobe.intervention.objectives.classification import Classification, find_prediction
from attnprobe.intervention.objectives.language_modelling import MaskedLanguageModel, fills_masks
from attnprobe.intervention.objectives.objective import Objective
from attnprobe.intervention.request import TaskOptions, check_gold
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.task_heads import TaskHead
from attnprobe.run.progress import Progress
from attnprobe.tasks import OBJECTIVES, Gold

#: Loads a checkpoint with the first of the heads that it holds; forced, it makes the first one up:
#: (heads, force, modality).
Loader = Callable[..., Checkpoint]
_REPRESENTATION = "representation"
#: The objectives that are tried where there are no labels, or no head for them.
_LANGUAGE = "masked-lm", "causal-lm"


@cache
def import_objective(name: str) -> type[Objective]:
    """Import the class of an objective."""
    module, _, kind = OBJECTIVES[name].implementation.partition(":")
    return getattr(import_module(f"{__package__}.{module}"), kind)


def choose_task(
    load: Loader, options: TaskOptions, modality: str, labelled: Gold, progress: Progress
) -> tuple[Checkpoint, str]:
    """Load the checkpoint with a head for the task, and tell the user the objective, or refuse the task.

    Without --objective, it is the usual objective of the labels if the checkpoint holds its head, else masked
    or causal language modelling if it holds that head, else representation.
    """
    if options.objective is not None:
        check_gold(options.objective, labelled)
    checkpoint, name = _load(load, options, modality, labelled)
    if options.labels_named and not options.objective and not OBJECTIVES[name].gold:
        usual = _list_objectives(labelled or Gold.CLASS)[0]
        raise ModelError(
            f"{checkpoint.name} holds no trained head that could use the labels; leave out "
            f"--label-column, or pass --objective {usual} --force-head."
        )
    kind = import_objective(name)
    kind.check(checkpoint)
    how = "by the pooled final state; no trained head is used"
    if OBJECTIVES[name].relation:
        how = "by the cosine of embeddings"
    elif kind.head and checkpoint.head:
        how = f"by the checkpoint's {checkpoint.head.name} head"
    progress.say(f"the objective is {name}, {how}.")
    if checkpoint.head is not None and checkpoint.missing:
        progress.say(
            f"{checkpoint.name} holds no trained {checkpoint.head.name} head: {len(checkpoint.missing)} "
            "weights were made up, and the numbers mean little."
        )
    return checkpoint, name


def _load(load: Loader, options: TaskOptions, modality: str, labelled: Gold) -> tuple[Checkpoint, str]:
    """Load a checkpoint for the first objective that it has a head for, else representation; return both."""
    named = options.objective
    names = [named] if named else [*_list_objectives(labelled), *_LANGUAGE]
    kinds = [*map(import_objective, names)]
    heads = {} if kinds[0].head is None else {kind.name: _find_head(kind, modality) for kind in kinds}
    if named and heads == {named: None}:
        raise UsageError(f"--objective {named} is not one for {modality}; leave it out.")
    wanted = tuple(dict.fromkeys(head for head in heads.values() if head is not None))
    checkpoint = load(wanted, options.force_head, modality)
    name = names[0] if not heads else _REPRESENTATION
    if checkpoint.head is not None:
        name = next((name for name, head in heads.items() if head == checkpoint.head), name)
    if named and name != named:
        raise ModelError(
            f"{checkpoint.name} holds no trained {wanted[0].name} head, and numbers from a made-up one would "
            "mean nothing; choose another --objective, or pass --force-head."
        )
    if name == Classification.name and not named:
        name = find_prediction(checkpoint)
    if name == MaskedLanguageModel.name and not named and not fills_masks(checkpoint):
        name = _REPRESENTATION
    return checkpoint, name


def _list_objectives(labelled: Gold) -> list[str]:
    """List the objectives whose usual labels are of a kind."""
    return [name for name, spec in OBJECTIVES.items() if spec.gold[:1] == (labelled,)]


def _find_head(kind: type[Objective], modality: str) -> TaskHead | None:
    return kind.head if modality == "text" else kind.other_heads.get(modality)
