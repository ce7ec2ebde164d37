"""The task that a command asks for, and the criterion of pruning, checked before a model is loaded."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from attnprobe.corpus.document import Document, find_gold
from attnprobe.corpus.media import MediaFolder
from attnprobe.errors import DataError, UsageError
from attnprobe.tasks import OBJECTIVES, Gold

if TYPE_CHECKING:
    from attnprobe.findings.sides import TableSide

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
#: The criteria that are measured. Any other criterion is a column of a table, FILE:COLUMN.
CRITERIA = ("gradient", "gradient-normed", "fisher", "ig", "lrp", "ablation")
#: Columns with a sign, which heads are not to be ordered by; a criterion and a column to take instead.
SIGNED = {
    "gradient_signed": ("gradient", "importance"),
    "relevance": ("lrp", "relevance_abs"),
    "ig": ("ig", "ig_abs"),
    "delta": ("ablation", "moved"),
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
    """Return a metric if it is ``known`` (or of the objective), else refuse it; of None, the first."""
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
    """Find the kind of label that all sets share, or refuse two kinds; ``NONE`` if a set has no labels."""
    if not all(kinds):
        return Gold.NONE
    different = set(kinds)
    if different == {Gold.CLASS, Gold.SEVERAL}:  # a list of one may be written without brackets
        return Gold.SEVERAL
    if len(different) > 1:
        raise UsageError(f"The data have {' and '.join(kinds)}; a task needs labels of one kind.")
    return different.pop()


@dataclass(frozen=True)
class Criterion:
    """A criterion that is measured, or ``side``, a column of the table in the file ``path``."""

    name: str
    side: "TableSide | None" = None
    highest_first: bool = False
    path: Path | None = None

    @classmethod
    def parse(cls, spec: str, *, highest_first: bool = False) -> "Criterion":
        """Parse a criterion, or read the table of ``FILE:COLUMN``; refuse others and a column with a sign."""
        if spec in CRITERIA:
            if highest_first:
                raise UsageError(f"--highest-first is for tables; {spec} has its own order.")
            return cls(spec)
        path, _, column = spec.rpartition(":")
        if (signed := column.lower().replace("-", "_")) in SIGNED:
            criterion, size = SIGNED[signed]
            raise UsageError(
                f"{column} has a sign: heads that help some examples and harm others have a mean near 0, and "
                "would go first however much they do. Order by a size instead: "
                f"{f'{path}:{size}' if path else criterion}."
            )
        if not path or not column:
            raise UsageError(
                f"There is no criterion {spec!r}; choose one of {', '.join(CRITERIA)}, or FILE:COLUMN."
            )
        from attnprobe.findings.sides import TableSide  # takes a while
        from attnprobe.table.table import HeadTable

        side = TableSide.from_table(HeadTable.read(path), path, column)
        if len(set(side.values.tolist())) < 2:
            raise DataError(f"All heads have the same {column} in {path}, which orders none of them.")
        name = f"{Path(path).name}:{column}{' (highest first)' if highest_first else ''}"
        return cls(name, side, highest_first, Path(path))

    def check_measured(self, option: str) -> None:
        """Refuse an option about ranking where the order comes from a table."""
        if self.side is not None:
            raise UsageError(f"{option} has nothing to rank, as {self.name} is an order; leave it out.")
