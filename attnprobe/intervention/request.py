"""The task that a command asks for, checked before a model is loaded."""

from collections.abc import Iterable, Iterator, Sequence
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

#: Where to give each kind of label.
WHERE = {
    Gold.CLASS: "name their column with --label-column",
    Gold.SEVERAL: "name their column with --label-column",
    Gold.WORDS: "a CoNLL file (.conll), CoNLL-U, or columns of lists such as tokens and ner_tags",
    Gold.ANSWERS: "columns question, context and answers, as SQuAD has them",
    Gold.PAIRS: "name their columns with --text-column, --text-pair-column and --label-column",
    Gold.TRIPLETS: "columns anchor, positive and negative, or others named as those of pairs are",
    Gold.RELEVANCE: "a folder with corpus.jsonl, queries.jsonl and qrels, or columns query and positive",
}
#: The number of documents in which a label is looked for.
PEEKED = 1000

Documents = Iterable[Document] | MediaFolder


@dataclass(frozen=True)
class TaskOptions:
    """The options of a task; ``labels_named`` says that the user named a column, which must be used then."""

    objective: str | None = None
    metric: str | None = None
    seed: int = 42
    force_head: bool = False
    labels_named: bool = False

    def __post_init__(self) -> None:
        if self.objective is None:
            if self.force_head:
                raise UsageError("--force-head needs to know which head: pass --objective too.")
            return
        if self.metric is not None:
            check_metric(self.metric, self.objective)


def check_metric(name: str | None, objective: str, known: Sequence[str] = ()) -> str:
    """Check the name of a metric, if any, against the ``known`` ones, or choose the first of these."""
    known = known or OBJECTIVES[objective].metrics
    if name is None:
        return known[0]
    if name not in known:
        raise UsageError(f"The objective {objective} has no metric {name!r}; choose {' or '.join(known)}.")
    return name


def check_gold(objective: str | None, labelled: Gold, data: str = "the text") -> None:
    """Refuse an objective that needs other labels than the data have."""
    gold = OBJECTIVES[objective].gold if objective else ()
    if gold and labelled not in gold:
        raise UsageError(
            f"--objective {objective} needs {gold[0]}, and {data} has {labelled or 'no labels'}; "
            f"{WHERE[gold[0]]}."
        )


def peek_first(documents: Iterable[Document]) -> tuple[list[Document], Iterator[Document]]:
    """Read the first documents; return them, and all documents."""
    rest = iter(documents)
    first = list(islice(rest, PEEKED))
    return first, chain(first, rest)


def peek(documents: Documents) -> tuple[Gold, Documents]:
    """Find the kind of label that the first documents have; return it, and all documents."""
    if isinstance(documents, MediaFolder):
        return Gold.CLASS if documents.labelled.items else Gold.NONE, documents
    first, documents = peek_first(documents)
    kinds = (find_gold(document.label) for document in first)
    return next((kind for kind in kinds if kind), Gold.NONE), documents


def find_shared_gold(kinds: Sequence[Gold]) -> Gold:
    """Find the kind of label that all sets of examples share; none where one of them has no labels."""
    if not all(kinds):
        return Gold.NONE
    different = set(kinds)
    if different == {Gold.CLASS, Gold.SEVERAL}:  # a list of one may be written without brackets
        return Gold.SEVERAL
    if len(different) > 1:
        raise UsageError(f"The data have {' and '.join(kinds)}; a task needs labels of one kind.")
    return different.pop()
