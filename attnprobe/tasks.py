"""Tasks: kinds of labels, objectives and metrics by name; options, help and errors are read off them."""

import re
from dataclasses import dataclass
from enum import StrEnum


class Gold(StrEnum):
    """What kind of label a document has; none is falsy, and the others say what they are."""

    NONE = ""
    CLASS = "one label a text"
    SEVERAL = "a list of labels a text"
    WORDS = "a label for each word"
    ANSWERS = "questions with answers"


@dataclass(frozen=True)
class ObjectiveSpec:
    """What is known of an objective before its class is imported.

    Attributes:
        implementation: Its class, ``module:Class`` in ``attnprobe.intervention.objectives``.
        scores: Its metrics, the usual one first; in brackets what a metric is here.
        gold: The kinds of labels that it takes what is right from, the usual one first.
    """

    implementation: str
    scores: str
    gold: tuple[Gold, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of its metrics, the usual one first."""
        return tuple(re.findall(r"(\w+)(?: \([^)]*\))?(?:, |$)", self.scores))


@dataclass(frozen=True)
class MetricSpec:
    """What is known of a metric before it is imported; an objective builds it.

    Attributes:
        unit: What its values are in where it is a mean over examples; a share lies between 0 and 1.
        higher_is_better: Whether a good model has a high score.
    """

    unit: str = "share"
    higher_is_better: bool = True


OBJECTIVES = {
    "classification": ObjectiveSpec(
        "classification:Classification", "accuracy, mcc, f1, loss", (Gold.CLASS,)
    ),
    "multi-label": ObjectiveSpec(
        "classification:MultiLabel",
        "f1_micro, f1_macro, accuracy (all labels right), loss",
        (Gold.SEVERAL, Gold.CLASS),
    ),
    "regression": ObjectiveSpec("classification:Regression", "pearson, spearman, mse", (Gold.CLASS,)),
    "token-classification": ObjectiveSpec(
        "token_classification:TokenClassification",
        "f1 (by seqeval, where labels are of entities), accuracy (of words), loss",
        (Gold.WORDS,),
    ),
    "question-answering": ObjectiveSpec(
        "question_answering:QuestionAnswering", "f1, exact_match, loss", (Gold.ANSWERS,)
    ),
    "seq2seq": ObjectiveSpec("seq2seq:SequenceToSequence", "loss, accuracy, bleu", (Gold.CLASS,)),
    "masked-lm": ObjectiveSpec("language_modelling:MaskedLanguageModel", "accuracy, loss"),
    "causal-lm": ObjectiveSpec("language_modelling:CausalLanguageModel", "loss, accuracy"),
    "representation": ObjectiveSpec("representation:Representation", "similarity"),
}
METRICS = {
    "accuracy": MetricSpec(),
    "mcc": MetricSpec(""),
    "f1": MetricSpec(),
    "f1_micro": MetricSpec(""),
    "f1_macro": MetricSpec(""),
    "exact_match": MetricSpec(),
    "pearson": MetricSpec(""),
    "spearman": MetricSpec(""),
    "mse": MetricSpec("", higher_is_better=False),
    "loss": MetricSpec("nats", higher_is_better=False),
    "similarity": MetricSpec("cosine"),
    "bleu": MetricSpec("BLEU"),
}
