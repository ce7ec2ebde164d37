"""What a model is asked to do while its heads are switched."""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from attnprobe.cli.options.panels import LABEL_COLUMN, TASK


@dataclass(frozen=True)
class TaskOptions:
    """What the model is asked to do while its heads are switched."""

    objective: Annotated[
        Literal[
            "classification",
            "multi-label",
            "regression",
            "token-classification",
            "question-answering",
            "seq2seq",
            "masked-lm",
            "causal-lm",
            "representation",
        ]
        | None,
        typer.Option(
            help="What the model is asked to do. Default: chosen from its trained head and the labels.",
            rich_help_panel=TASK,
        ),
    ] = None
    label_column: Annotated[
        str | None,
        typer.Option(
            *LABEL_COLUMN,
            help="Column that holds the class, the number or the target text; a list of labels (names, "
            "numbers, 0 and 1 for each, or one string parted by | or ,); a label for each word of a column "
            "of words; or SQuAD's answers. Of CoNLL-U: upos, xpos or deprel. Default: label, labels, class "
            "or target; of tokens or words ner_tags, tags, pos_tags, upos, labels or label; of question and "
            "context, answers.",
            rich_help_panel=TASK,
        ),
    ] = None
    force_head: Annotated[
        bool,
        typer.Option(
            "--force-head",
            help="Make up a head that the checkpoint was not trained with; its numbers mean little.",
            rich_help_panel=TASK,
        ),
    ] = False


@dataclass(frozen=True)
class MetricOptions:
    """What an answer is scored by."""

    metric: Annotated[
        Literal[
            "accuracy",
            "mcc",
            "f1",
            "f1_micro",
            "f1_macro",
            "exact_match",
            "pearson",
            "spearman",
            "mse",
            "loss",
            "similarity",
            "bleu",
        ]
        | None,
        typer.Option(
            help="classification: accuracy, mcc, f1, loss; multi-label: f1_micro, f1_macro, accuracy (all "
            "labels right), loss; regression: pearson, spearman, mse; token-classification: f1 (by seqeval, "
            "where labels are of entities), accuracy (of words), loss; question-answering: f1, exact_match, "
            "loss; masked-lm: accuracy, loss; causal-lm: loss, accuracy; seq2seq: loss, accuracy, bleu; "
            "representation: similarity. Default: the first.",
            rich_help_panel=TASK,
        ),
    ] = None


#: Of a command whose measure may be importance.
ImportanceMethod = Annotated[
    Literal["gradient", "lrp", "confidence"],
    typer.Option(help="With --measure importance: as for `attnprobe importance`.", rich_help_panel=TASK),
]
