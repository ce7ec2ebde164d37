"""What is asked of a model while its heads are switched, as far as it can be refused before one is loaded."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal

from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.folder import MediaFolder
from attnprobe.errors import AttnprobeError

#: How importance is measured.
Method = Literal["gradient", "confidence"]
#: What two datasets are compared by.
Measure = Literal["gradient", "ablation"]

#: The metrics of each objective, the usual one first.
METRICS = {
    "classification": ("accuracy", "mcc", "f1", "loss"),
    "seq2seq": ("loss", "accuracy", "bleu"),
    "masked-lm": ("accuracy", "loss"),
    "causal-lm": ("loss", "accuracy"),
    "representation": ("similarity",),
}
#: Objectives that take what is right from the labels.
LABELLED = ("classification", "seq2seq")
#: Documents in which a label is looked for.
PEEKED = 1000

Documents = Iterable[Document] | MediaFolder


@dataclass(frozen=True)
class TaskOptions:
    """Which task; the fields are the options of the command line.

    Attributes:
        objective: Name of the objective, or None to choose.
        metric: What an ablation is scored by, or None for the usual one.
        seed: Of masks, directions and random orders.
        force_head: Use a head that the checkpoint was not trained with.
        labels_named: Whether the user named a column of labels, and so means them to be used.
    """

    objective: str | None = None
    metric: str | None = None
    seed: int = 42
    force_head: bool = False
    labels_named: bool = False

    def __post_init__(self) -> None:
        """Refuse what no model can be asked."""
        if self.seed < 0:
            raise AttnprobeError(f"--seed must be at least 0, not {self.seed}.")
        if self.objective is None:
            if self.force_head:
                raise AttnprobeError("--force-head needs to know which head: pass --objective too.")
            return
        if self.objective not in METRICS:
            raise AttnprobeError(
                f"There is no objective {self.objective!r}; choose one of {', '.join(METRICS)}."
            )
        if self.metric is not None:
            check_metric(self.metric, self.objective)


def check_metric(name: str | None, objective: str) -> str:
    """Settle the name of the metric: what was asked for, or the usual one of the objective."""
    if name is None:
        return METRICS[objective][0]
    if name not in METRICS[objective]:
        listed = ", ".join(METRICS[objective])
        raise AttnprobeError(f"The objective {objective} has no metric {name!r}; choose one of {listed}.")
    return name


def check_labelled(options: TaskOptions, *, labelled: bool) -> None:
    """Refuse an objective that needs labels where there are none."""
    if options.objective in LABELLED and not labelled:
        raise AttnprobeError(
            f"--objective {options.objective} needs labels; name their column with --label-column."
        )


def check_method(method: Method, task: TaskOptions, *, content_only: bool = False) -> None:
    """Refuse options that a method has no use for."""
    if method == "confidence" and (task.objective or task.force_head or task.labels_named):
        raise AttnprobeError("--method confidence needs no task; leave out its options.")
    if method != "confidence" and content_only:
        raise AttnprobeError(
            "--content-only is for --method confidence; a gradient has no tokens to leave out."
        )


def peek(documents: Documents) -> tuple[bool, Documents]:
    """Tell whether one of the first documents has a label, without losing them."""
    if isinstance(documents, MediaFolder):
        return bool(documents.labelled.items), documents
    documents = iter(documents)
    first = list(islice(documents, PEEKED))
    return any(document.label is not None for document in first), chain(first, documents)
