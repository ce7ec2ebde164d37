"""Classification of texts (one class, several labels, or a number) and of their words."""

import math
import re
from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from attnprobe.corpus.batch import Batch
from attnprobe.corpus.document import Label
from attnprobe.errors import DataError, ModelError
from attnprobe.intervention.metrics import score
from attnprobe.intervention.objectives.objective import (
    Answer,
    Objective,
    compute_margin,
    list_labels,
    mean_by_example,
    upcast,
)
from attnprobe.model import task_heads
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.corpus import Corpus
from attnprobe.run.examples import Documents, join_words
from attnprobe.tasks import OBJECTIVES

#: How many classes an error message names.
_NAMED = 8
#: What a sequence classification head predicts, by the objective that scores it.
_PREDICTED = {"classification": "one class", "multi-label": "several labels", "regression": "a number"}
#: What separates labels that are written into one string.
_SEPARATOR = re.compile(r"[|,]")
_BITS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1}
#: How a label begins that is of an entity, in the schemes that seqeval reads: IOB1, IOB2, IOE, IOBES.
_BEGINNINGS = ("B", "I", "E", "S")
#: The label of a word that is of none.
_NONE = "O"


def find_prediction(checkpoint: Checkpoint) -> str:
    """Find the objective of a sequence classification head, by its ``problem_type`` and number of labels."""
    config: Any = checkpoint.model.config
    if config.num_labels < 2 or config.problem_type == "regression":
        return "regression"
    return "multi-label" if config.problem_type == "multi_label_classification" else "classification"


class Classes:
    """The classes that a checkpoint predicts: their ``count``, and their ``names`` by number."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        config: Any = checkpoint.model.config
        self._owner = checkpoint.name
        self.names: dict[int, str] = {int(key): str(name) for key, name in config.id2label.items()}
        self.count: int = config.num_labels
        spelled = [(name, number) for number, name in reversed(self.names.items())]
        self._numbers = {name.casefold(): number for name, number in spelled} | dict(spelled)

    def number(self, label: Any) -> int:
        """Find the number of the class that a label names, or refuse the label."""
        number = self.find(label)
        if number is not None:
            return number
        known = ", ".join(map(self.spell, range(min(self.count, _NAMED))))
        more = ", ..." if self.count > _NAMED else ""
        if _read_float(str(label)) == -1:
            more += " (-1 marks texts whose label is kept secret; take another split)"
        raise DataError(
            f"The label {str(label).strip()[:60]!r} is not one that {self._owner} knows: {known}{more}."
        )

    def find(self, label: Any) -> int | None:
        """Find the number of the class that a label names or numbers; None where there is none."""
        spelled, number = str(label).strip(), _read_float(str(label))
        # A column of whole numbers with a gap is read as 1.0, 2.0, ...
        whole = str(int(number)) if number.is_integer() else spelled
        for name in (spelled, spelled.casefold(), whole):
            if name in self._numbers:
                return self._numbers[name]
        if number in range(self.count):
            return int(number)
        return {"false": 0, "true": 1}.get(spelled.casefold()) if self.count == 2 else None

    def spell(self, number: int) -> str:
        name = self.names.get(number, "")
        return str(number) if not name or name == f"LABEL_{number}" else f"{number} ({name})"


def _read_float(label: Any) -> float:
    try:
        return float(label)
    except (TypeError, ValueError, OverflowError):
        return math.nan


class Prediction(Objective):
    """An objective of sequence classification heads; ``predicted`` lists what a head may predict for it."""

    head = task_heads.CLASSIFICATION
    other_heads: ClassVar = {
        "image": task_heads.IMAGE_CLASSIFICATION,
        "sound": task_heads.SOUND_CLASSIFICATION,
    }
    predicted: ClassVar[tuple[str, ...]]

    @classmethod
    def check(cls, checkpoint: Checkpoint) -> None:
        predicted = find_prediction(checkpoint)
        if predicted not in cls.predicted:
            raise ModelError(
                f"{checkpoint.name} predicts {_PREDICTED[predicted]}, not {_PREDICTED[cls.name]}; use "
                f"--objective {predicted}."
            )


class Classification(Prediction):
    """Sequence classification: cross-entropy of the right class."""

    name = "classification"
    predicted = ("classification",)
    explains = "the logit of the predicted class less that of the runner-up"

    def read_labels(self, corpus: Corpus) -> None:
        known = Classes(self.checkpoint)
        self.builders = {name: partial(build, known.count) for name, build in score.CLASS_METRICS.items()}
        self.gold = np.array([known.number(label) for label in list_labels(corpus)], np.int64)
        if len(np.unique(self.gold)) == 1:
            alike = known.spell(int(self.gold[0]))
            self.remarks = [f"Every example has the label {alike}, so accuracy and loss say little here."]

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        logits = upcast(self.ask(batch).logits)
        right = torch.from_numpy(self.gold[batch.members]).to(logits.device)
        prediction = logits.argmax(-1)
        return Answer(
            cross_entropy(logits, right, reduction="none"),
            {"prediction": prediction, "accuracy": prediction == right},
            margin=lambda: compute_margin(logits),
        )


class MultiLabel(Prediction):
    """Multi-label classification: for each label, whether a text has it.

    The label of an example is a list of names or numbers; a string of them, separated by ``|`` or ``,``; or,
    where every example has one, a row of 0 and 1 for each label that the model knows. The loss is the mean
    over labels of the binary cross entropy; a label is predicted where its probability is more than a half.
    """

    name = "multi-label"
    predicted = ("multi-label", "classification")
    builders = score.LABEL_METRICS
    explains = "the mean over labels of |logit|, how far what is predicted is ahead of the opposite"

    def read_labels(self, corpus: Corpus) -> None:
        self.gold = _mark_labels(Classes(self.checkpoint), list_labels(corpus))

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        logits = upcast(self.ask(batch).logits)
        right = torch.from_numpy(self.gold[batch.members]).to(logits)
        loss = binary_cross_entropy_with_logits(logits, right, reduction="none").mean(-1)
        prediction = (logits > 0).to(logits.dtype)
        scores = {"prediction": prediction, "accuracy": (prediction == right).all(-1)}
        return Answer(loss, scores, margin=lambda: logits.abs().mean(-1))


def _mark_labels(known: Classes, labels: Sequence[Label]) -> NDArray[np.float64]:
    """Mark which labels each example has by 1, others by 0, (example, label), or refuse a label."""
    listed = [_split_labels(known, label) for label in labels]
    rows = [[_BITS.get(str(name).strip()) for name in names] for names in listed]
    if all(len(row) == known.count and None not in row for row in rows):
        return np.array(rows, np.float64)
    marks = np.zeros((len(listed), known.count))
    for row, names in zip(marks, listed, strict=True):
        row[[known.number(name) for name in names]] = 1
    return marks


def _split_labels(known: Classes, label: Label) -> list[Any]:
    """List the labels of one example; a string that names a label as a whole is not split."""
    if isinstance(label, tuple):
        return list(label)
    if isinstance(label, str) and known.find(label) is None:
        return [part for part in _SEPARATOR.split(label) if part.strip()]
    return [label]


class Regression(Prediction):
    """Regression: the squared error of a number.

    The label is the number, such as how alike two sentences are; the loss is (prediction - label) ** 2.
    """

    name = "regression"
    predicted = ("regression",)
    builders = score.NUMBER_METRICS
    explains = "the predicted number"
    positive = "A head of positive relevance raises this number, one of negative relevance lowers it."

    @classmethod
    def check(cls, checkpoint: Checkpoint) -> None:
        super().check(checkpoint)
        count: Any = checkpoint.model.config.num_labels
        if count > 1:
            raise ModelError(
                f"{checkpoint.name} predicts {count} numbers at once, and attnprobe scores one; use "
                "--objective representation."
            )

    def read_labels(self, corpus: Corpus) -> None:
        labels = list_labels(corpus)
        self.gold = np.array([_read_float(label) for label in labels])
        if not np.isfinite(self.gold).all():
            first = str(labels[int(np.isfinite(self.gold).argmin())])[:60]
            raise DataError(f"The label {first!r} is not a number, which regression needs.")

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        prediction = upcast(self.ask(batch).logits).squeeze(-1)
        loss = (prediction - torch.from_numpy(self.gold[batch.members]).to(prediction)) ** 2
        return Answer(loss, {"prediction": prediction, "mse": loss}, margin=lambda: prediction)


class TokenClassification(Objective):
    """Token classification: cross-entropy of the label of each word.

    A label is a part of speech, or part of an entity. A word is scored at its first token, as ``run_ner``
    trains taggers. ``targets`` has, for each example, the positions of these tokens and their right classes,
    (2, word). The loss of an example is the mean over its words, in nats.
    """

    name = "token-classification"
    head = task_heads.TOKEN_CLASSIFICATION
    builders = score.WORD_METRICS
    explains = "the mean over words of the logit of the predicted label less that of the runner-up"

    def read_labels(self, corpus: Corpus) -> None:
        self._classes = Classes(self.checkpoint)
        number = cache(self._classes.number)
        self.targets: list[NDArray[np.int64]] = []
        for example in range(corpus.sequences):
            annotation = corpus.batches.annotation(example)
            assert annotation is not None
            tags = [(tag.position, number(tag.name)) for tag in annotation.tags]
            self.targets.append(np.array(tags, np.int64).T)

    @classmethod
    def read_examples(cls, documents: Documents) -> Documents:
        return join_words(documents)

    @classmethod
    def list_metrics(cls, checkpoint: Checkpoint) -> tuple[str, ...]:
        """List F1 of entities only where some label is of an entity."""
        entities = has_entities(Classes(checkpoint).names.values())
        return tuple(name for name in OBJECTIVES[cls.name].metrics if entities or name != "f1")

    def build_metric(self, name: str, examples: NDArray[np.int64]) -> score.Score:
        gold = np.concatenate([self.targets[example][1] for example in examples])
        if name == "f1" and not has_entities(self._names(gold)):
            raise DataError(
                "Not one entity is in the examples that are scored, which leaves f1 undefined; take data "
                "with entities, or --metric accuracy."
            )
        return super().build_metric(name, examples)

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Answer, with counts of right words and all (batch, 2), and of ``entities`` (batch, 3)."""
        logits = upcast(self.ask(batch).logits)
        targets = [self.targets[member] for member in batch.members]
        sizes = torch.tensor([target.shape[1] for target in targets])
        example = torch.arange(len(targets)).repeat_interleave(sizes).to(logits.device)
        place, right = torch.from_numpy(np.concatenate(targets, 1)).to(logits.device)
        chosen = logits[example, place]
        mean = mean_by_example(example, len(targets))
        loss = mean(cross_entropy(chosen, right, reduction="none"))
        prediction = chosen.detach().argmax(-1)
        correct = (prediction == right).to(loss.dtype)
        hits = loss.detach().new_zeros(len(targets)).index_add(0, example, correct)
        words = torch.stack([hits, sizes.to(hits)], -1)
        return Answer(
            loss,
            {"words": words, "entities": lambda: self._count_entities(prediction, right, sizes)},
            margin=lambda: mean(compute_margin(chosen)),
        )

    def _count_entities(self, prediction: Tensor, right: Tensor, sizes: Tensor) -> Tensor:
        """Count the right, predicted and gold entities of each example, (batch, 3), from classes (word,)."""
        ends = np.cumsum(sizes.numpy())[:-1]
        ours, gold = (np.split(part.cpu().numpy(), ends) for part in (prediction, right))
        pairs = zip(map(self._names, ours), map(self._names, gold), strict=True)
        return torch.tensor([count_entities(*pair) for pair in pairs])

    def _names(self, classes: NDArray[np.int64]) -> Sequence[str]:
        return [self._classes.names[number] for number in classes.tolist()]


def has_entities(names: Iterable[str]) -> bool:
    """Tell whether any label is of an entity, as B-PER is, and NOUN is not."""
    return any(_in_scheme(name) != _NONE for name in names)


def count_entities(predicted: Sequence[str], gold: Sequence[str]) -> tuple[int, int, int]:
    """Count the entities of a text: those predicted rightly (place and type), all predicted, all gold."""
    from seqeval.metrics.sequence_labeling import get_entities  # takes a second: it imports scikit-learn

    ours, theirs = (
        set(get_entities([_in_scheme(label) for label in labels])) for labels in (predicted, gold)
    )
    return len(ours & theirs), len(ours), len(theirs)


def _in_scheme(label: str) -> str:
    return label if label[:1] in _BEGINNINGS and label[1:2] in {"", "-"} else _NONE
