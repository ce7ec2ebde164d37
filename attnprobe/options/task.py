"""Options of the task: what is right, what the model is asked to do, and what an answer is scored by."""

from typing import TYPE_CHECKING, Annotated, Literal

from attnprobe.option import Group, Option
from attnprobe.options.text import LABEL_COLUMN
from attnprobe.tasks import METRICS, OBJECTIVES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from attnprobe.corpus.sources.document import Label

#: They stand with the command's own options in ``--help``.
TASK = None


class Labels(Group):
    """What is right for each text, which the command line reads from a column."""

    labels: Annotated[
        "Iterable[Label] | None",
        Option(
            doc="Where texts come one by one, what is right for each: its class, number or target text; a "
            "list of labels; for a text that is a list of words, a label for each word; for a pair of "
            "question and context, answers as SQuAD has them; for a pair that is compared, its score; for "
            "an anchor and a positive, the negative. Of a file or a table, name label_column."
        ),
    ] = None


class Task(Group, panel=TASK):
    """What the model is asked to do while its heads are switched."""

    objective: Annotated[
        Literal[*OBJECTIVES]  # pyright: ignore[reportInvalidTypeForm]
        | None,
        Option(
            "Task of the model. Default: as its head and the labels say.",
            doc="What the model is asked to do: " + ", ".join(OBJECTIVES) + ". Default: chosen from its "
            "trained head and the labels.",
            metavar="TASK",
        ),
    ] = None  # fmt: skip
    label_column: Annotated[
        str | None,
        Option(
            "Column of what is right: class, number, labels, tags, text. Default: one of a usual name.",
            doc="Column that holds the class, the number or the target text; a list of labels (names, "
            "numbers, 0 and 1 for each, or one string parted by | or ,); a label for each word of a column "
            "of words; SQuAD's answers; the score of a pair, or the negative of a triplet. Of CoNLL-U: "
            "upos, xpos or deprel. Default: label, labels, class or target; of tokens or words ner_tags, "
            "tags, pos_tags, upos, labels or label; of question and context, answers.",
            flags=LABEL_COLUMN,
            metavar="NAME",
        ),
    ] = None
    force_head: Annotated[
        bool,
        Option(
            "Make up a head that the checkpoint was not trained with; its numbers mean little.", hidden=True
        ),
    ] = False


class Metric(Group, panel=TASK):
    """What an answer is scored by."""

    metric: Annotated[
        Literal[*METRICS]  # pyright: ignore[reportInvalidTypeForm]
        | None,
        Option(
            "What an answer is scored by. Default: what is usual for the task.",
            doc="; ".join(f"{name}: {one.scores}" for name, one in OBJECTIVES.items())
            + ". Default: the first.",
            metavar="NAME",
        ),
    ] = None  # fmt: skip
