"""Which objective a checkpoint is scored on, by what it holds and what the data say."""

from collections.abc import Callable
from functools import cache
from importlib import import_module

from attnprobe.errors import AttnprobeError
from attnprobe.intervention.objectives.classification import (
    Classification,
    MultiLabel,
    Prediction,
    Regression,
    find_prediction,
)
from attnprobe.intervention.objectives.language_modelling import CausalLanguageModel, MaskedLanguageModel
from attnprobe.intervention.objectives.objective import Objective
from attnprobe.intervention.objectives.question_answering import QuestionAnswering
from attnprobe.intervention.objectives.representation import Representation
from attnprobe.intervention.objectives.retrieval import Retrieval
from attnprobe.intervention.objectives.tagging import TokenClassification
from attnprobe.intervention.request import WHERE, TaskOptions, check_labelled
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.task_heads import CLASSIFICATION, TaskHead, find_stated_head, infer_head
from attnprobe.tasks import OBJECTIVES, Gold

#: What a sequence classification head is scored on.
_PREDICTING = {
    Prediction.CLASS: Classification.name,
    Prediction.LABELS: MultiLabel.name,
    Prediction.NUMBER: Regression.name,
}
#: Loads a checkpoint with the first of some heads that it holds, makes the first up if forced, for text,
#: images or sound: (heads, force, modality).
Loader = Callable[..., Checkpoint]


@cache
def import_objective(name: str) -> type[Objective]:
    """Import the class of an objective."""
    module, _, kind = OBJECTIVES[name].implementation.partition(":")
    return getattr(import_module(f"{__package__}.{module}"), kind)


def load_with_head(
    load: Loader, options: TaskOptions, modality: str, *, labelled: Gold
) -> tuple[Checkpoint, str]:
    """Load the checkpoint with the head of the task, and name the objective.

    Without ``options.objective``: what the labels are for, if there are some and the checkpoint holds such a
    head, else masked or causal language modelling if it holds that head, else representation.
    """
    find = _load_chosen if options.objective is None else _load_requested
    return find(load, options, modality, labelled=labelled)


def remark_unused_head(checkpoint: Checkpoint, objective: str, labelled: Gold) -> str | None:
    """Remark that a checkpoint was trained to label words, or to answer, and the data don't ask for it."""
    stated = find_stated_head(checkpoint.model.config)
    for kind in (TokenClassification, QuestionAnswering):
        needed = OBJECTIVES[kind.name].gold[0]
        if stated is not None and kind.head is stated and objective != kind.name and labelled is not needed:
            given = f"the data have {labelled}" if labelled else "the data have no labels"
            return (
                f"{checkpoint.name} was trained for {stated.name}, which needs {needed} "
                f"({WHERE[needed]}), but {given}."
            )
    return None


def _load_requested(
    load: Loader, options: TaskOptions, modality: str, *, labelled: Gold
) -> tuple[Checkpoint, str]:
    name = str(options.objective)
    check_labelled(options, labelled)
    kind = import_objective(name)
    head = _find_head(kind, modality)
    if head is None and kind.head is not None:
        raise AttnprobeError(f"--objective {name} is not one for {modality}; leave it out.")
    if name == Retrieval.name:
        return _load_for_search(load, modality)
    checkpoint = load((head,) if head else (), options.force_head, modality)
    if head is not None and checkpoint.head != head:
        raise AttnprobeError(
            f"{checkpoint.name} holds no trained {head.name} head, and numbers from a made-up one would mean "
            "nothing; choose another --objective, or pass --force-head."
        )
    if name == MaskedLanguageModel.name and checkpoint.model.config.is_encoder_decoder:
        raise AttnprobeError(
            f"{checkpoint.name} fills masks with its decoder; choose --objective seq2seq or representation."
        )
    return checkpoint, name


def _load_chosen(
    load: Loader, options: TaskOptions, modality: str, *, labelled: Gold
) -> tuple[Checkpoint, str]:
    ranked = [*map(import_objective, _rank_for(labelled))]
    if Retrieval in ranked:
        return _load_for_search(load, modality)
    if ranked and ranked[0].related:  # which needs no head
        return load((), False, modality), ranked[0].name
    ranked += [MaskedLanguageModel, CausalLanguageModel]
    heads = {kind: head for kind in ranked if (head := _find_head(kind, modality)) is not None}
    checkpoint = load(tuple(dict.fromkeys(heads.values())), False, modality)
    objective = next((k.name for k, head in heads.items() if checkpoint.head == head), Representation.name)
    if objective == Classification.name:
        objective = _PREDICTING[find_prediction(checkpoint)]
    if objective == MaskedLanguageModel.name and (
        checkpoint.model.config.is_encoder_decoder
        or getattr(checkpoint.tokenizer, "mask_token_id", None) is None
    ):
        objective = Representation.name
    if options.labels_named and not OBJECTIVES[objective].gold:
        usual = _rank_for(labelled or Gold.CLASS)[0]
        unused = remark_unused_head(checkpoint, objective, labelled)
        raise AttnprobeError(
            unused
            or f"{checkpoint.name} holds no trained head that could use the labels; leave out "
            f"--label-column, or pass --objective {usual} --force-head."
        )
    return checkpoint, objective


def _load_for_search(load: Loader, modality: str) -> tuple[Checkpoint, str]:
    """Load a checkpoint that is to find passages by what it embeds.

    Raises:
        AttnprobeError: When it is a cross-encoder, which embeds no text.
    """
    checkpoint = load((), False, modality)
    config = checkpoint.model.config
    head = infer_head(checkpoint.model) or find_stated_head(config)
    if checkpoint.scoring or (head is CLASSIFICATION and config.num_labels == 1):
        raise AttnprobeError(
            f"{checkpoint.name} is a cross-encoder, which scores two texts together and embeds none; give "
            "pairs of texts with a number (--text-column, --text-pair-column, --label-column) and "
            "--objective regression."
        )
    return checkpoint, Retrieval.name


def _rank_for(labelled: Gold) -> list[str]:
    """List the objectives that are looked for where there are labels, the usual one first."""
    return [name for name, spec in OBJECTIVES.items() if spec.gold[:1] == (labelled,)]


def _find_head(kind: type[Objective], modality: str) -> TaskHead | None:
    return kind.head if modality == "text" else kind.other_heads.get(modality)
