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
    PAIRS = "pairs of texts with a number"
    TRIPLETS = "texts with one that is alike and one that is not"
    RELEVANCE = "queries with the passages that answer them"


#: The kinds that are about several texts, each of which is read alone.
RELATIONS = (Gold.PAIRS, Gold.TRIPLETS, Gold.RELEVANCE)


@dataclass(frozen=True)
class ObjectiveSpec:
    """What is known of an objective before its class is imported.

    Attributes:
        implementation: Its class, ``module:Class`` in ``attnprobe.intervention.objectives``.
        scores: Its metrics, the usual one first; in brackets what a metric is here.
        gold: The kinds of labels that it takes what is right from, the usual one first.
        columns: Of a table of ``RELATIONS``: the usual names of the columns of the text, of the text beside
            it and of what is said of both; in any letter case.
    """

    implementation: str
    scores: str
    gold: tuple[Gold, ...] = ()
    columns: tuple[tuple[str, ...], ...] = ()

    @property
    def relation(self) -> Gold:
        """The kind of relation among texts that it is about; none is falsy."""
        return next((kind for kind in self.gold if kind in RELATIONS), Gold.NONE)

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
        "classification:TokenClassification",
        "f1 (by seqeval, where labels are of entities), accuracy (of words), loss",
        (Gold.WORDS,),
    ),
    "question-answering": ObjectiveSpec(
        "question_answering:QuestionAnswering", "f1, exact_match, loss", (Gold.ANSWERS,)
    ),
    "seq2seq": ObjectiveSpec("language_modelling:SequenceToSequence", "loss, accuracy, bleu", (Gold.CLASS,)),
    "masked-lm": ObjectiveSpec("language_modelling:MaskedLanguageModel", "accuracy, loss"),
    "causal-lm": ObjectiveSpec("language_modelling:CausalLanguageModel", "loss, accuracy"),
    "representation": ObjectiveSpec("embeddings:Representation", "similarity"),
    "similarity": ObjectiveSpec(
        "embeddings:Similarity",
        "spearman (of the cosine of two texts), pearson, mse",
        (Gold.PAIRS,),
        (
            ("sentence1", "sentence_1", "text1", "text_1", "sentence_a"),
            ("sentence2", "sentence_2", "text2", "text_2", "sentence_b"),
            ("score", "similarity_score", "similarity", "relatedness_score", "label", "labels"),
        ),
    ),
    "triplet": ObjectiveSpec(
        "embeddings:Triplets",
        "accuracy (the positive is nearer than the negative), loss",
        (Gold.TRIPLETS,),
        (("anchor", "query", "question"), ("positive", "pos"), ("negative", "neg")),
    ),
    "retrieval": ObjectiveSpec(
        "embeddings:Retrieval",
        "ndcg (of the first 10), mrr (of the first 10), recall (of the first 10), loss",
        (Gold.RELEVANCE,),
        (
            ("query", "question", "anchor"),
            ("positive", "pos", "passage", "answer", "document", "context"),
            ("negative", "neg"),
        ),
    ),
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
    "ndcg": MetricSpec(),
    "mrr": MetricSpec(),
    "recall": MetricSpec(),
}
