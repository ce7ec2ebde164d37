"""Which task a model is scored on while its heads are switched, checked before a model is loaded."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Literal

from attnprobe.corpus.document import Document, find_gold
from attnprobe.corpus.media import MediaFolder
from attnprobe.errors import UsageError
from attnprobe.tasks import OBJECTIVES, Gold

#: How importance is measured.
Method = Literal["gradient", "ig", "lrp", "confidence"]
#: What two datasets are compared by.
Measure = Literal["gradient", "ig", "lrp", "ablation"]
#: What takes the place of what a head gives.
ReplacedBy = Literal["zero", "mean", "resample"]

#: Where labels are found.
WHERE = {
    Gold.CLASS: "name their column with --label-column",
    Gold.SEVERAL: "name their column with --label-column",
    Gold.WORDS: "a CoNLL file (.conll), CoNLL-U, or columns of lists such as tokens and ner_tags",
    Gold.ANSWERS: "columns question, context and answers, as SQuAD has them",
    Gold.PAIRS: "name their columns with --text-column, --text-pair-column and --label-column",
    Gold.TRIPLETS: "columns anchor, positive and negative, or others named as those of pairs are",
    Gold.RELEVANCE: "a folder with corpus.jsonl, queries.jsonl and qrels, or columns query and positive",
}
#: Documents in which a label is looked for.
PEEKED = 1000

Documents = Iterable[Document] | MediaFolder


@dataclass(frozen=True)
class TaskOptions:
    """Which task; ``labels_named`` says that the user named a column of labels, which are to be used."""

    objective: str | None = None
    metric: str | None = None
    seed: int = 42
    force_head: bool = False
    labels_named: bool = False

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UsageError(f"--seed must be at least 0, not {self.seed}.")
        if self.objective is None:
            if self.force_head:
                raise UsageError("--force-head needs to know which head: pass --objective too.")
            return
        if self.objective not in OBJECTIVES:
            raise UsageError(
                f"There is no objective {self.objective!r}; choose one of {', '.join(OBJECTIVES)}."
            )
        if self.metric is not None:
            check_metric(self.metric, self.objective)


def check_metric(name: str | None, objective: str, known: Sequence[str] = ()) -> str:
    """Check the name of a metric, by those ``known`` of a checkpoint; without one, choose the usual one."""
    known = known or OBJECTIVES[objective].metrics
    if name is None:
        return known[0]
    if name not in known:
        raise UsageError(f"The objective {objective} has no metric {name!r}; choose {' or '.join(known)}.")
    return name


def check_gold(objective: str | None, labelled: Gold, data: str = "the text") -> None:
    """Refuse an objective that needs other labels than the data have, by the name of the data."""
    gold = OBJECTIVES[objective].gold if objective else ()
    if gold and labelled not in gold:
        raise UsageError(
            f"--objective {objective} needs {gold[0]}, and {data} has {labelled or 'no labels'}; "
            f"{WHERE[gold[0]]}."
        )


def peek(documents: Documents) -> tuple[Gold, Documents]:
    """Find which kind of label one of the first documents has, without losing them."""
    if isinstance(documents, MediaFolder):
        return Gold.CLASS if documents.labelled.items else Gold.NONE, documents
    documents = iter(documents)
    first = list(islice(documents, PEEKED))
    kinds = (find_gold(document.label) for document in first)
    return next((kind for kind in kinds if kind), Gold.NONE), chain(first, documents)


def find_shared_gold(kinds: Sequence[Gold]) -> Gold:
    """Find the kind of label that several sets of examples have; none where one of them has none."""
    if not all(kinds):
        return Gold.NONE
    different = set(kinds)
    if different == {Gold.CLASS, Gold.SEVERAL}:  # a list of one may be written without brackets
        return Gold.SEVERAL
    if len(different) > 1:
        raise UsageError(f"The data have {' and '.join(kinds)}; a task needs labels of one kind.")
    return different.pop()
