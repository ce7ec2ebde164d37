"""Token classification: cross-entropy of the label of each word, and entities that are found."""

import importlib.util
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics.score import Score
from attnprobe.intervention.metrics.scores import entity_f1, word_accuracy
from attnprobe.intervention.objectives.classification import Classes
from attnprobe.intervention.objectives.objective import (
    Answer,
    Objective,
    compute_margin,
    mean_by_example,
    upcast,
)
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.task_heads import TOKEN_CLASSIFICATION
from attnprobe.run.examples import join_words
from attnprobe.run.preparation import Corpus, Documents
from attnprobe.tasks import OBJECTIVES

#: How a label begins that is of an entity, in the schemes that seqeval reads: IOB1, IOB2, IOE, IOBES.
_BEGINNINGS = ("B", "I", "E", "S")
#: The label of a word that is of none.
_NONE = "O"


class TokenClassification(Objective):
    """Token classification: cross-entropy of the label of each word.

    A label is a part of speech, or part of an entity. A word is scored at its first token, as ``run_ner`` and
    its kin train taggers. The loss of an example is the mean over its words, in nats.

    Attributes:
        targets: For every example, the tokens that are scored and their right classes, (2, word).
    """

    name = "token-classification"
    head = TOKEN_CLASSIFICATION
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

    def build_metric(self, name: str, examples: NDArray[np.int64]) -> Score:
        if name == "loss":
            return super().build_metric(name, examples)
        if name == "accuracy":
            return word_accuracy()
        if importlib.util.find_spec("seqeval") is None:
            raise AttnprobeError(
                "F1 of entities needs seqeval: pip install seqeval, or pass --metric accuracy for the share "
                "of words."
            )
        gold = np.concatenate([self.targets[example][1] for example in examples])
        if not has_entities(self._names(gold)):
            raise AttnprobeError(
                "Not one entity is in the examples that are scored, which leaves f1 undefined; take data "
                "with entities, or --metric accuracy."
            )
        return entity_f1()

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Compute the mean cross-entropy over each example's words.

        Its scores are ``words``: how many are right, and how many there are, (batch, 2); and ``entities``:
        how many are right, predicted, and there, (batch, 3).
        """
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
        ends = np.cumsum(sizes.numpy())[:-1]
        ours, gold = (np.split(part.cpu().numpy(), ends) for part in (prediction, right))
        pairs = zip(map(self._names, ours), map(self._names, gold), strict=True)
        return torch.tensor([count_entities(*pair) for pair in pairs])

    def _names(self, classes: NDArray[np.int64]) -> Sequence[str]:
        return [self._classes.names[number] for number in classes.tolist()]


def has_entities(names: Iterable[str]) -> bool:
    """Tell whether some label is of an entity, such as B-PER; NOUN is of the word itself."""
    return any(_in_scheme(name) != _NONE for name in names)


def count_entities(predicted: Sequence[str], gold: Sequence[str]) -> tuple[int, int, int]:
    """Count the entities of a text that are right (first word, last word and type), predicted, and there.

    Labels of no known scheme, such as a padding label, are of no entity.

    References:
        Nakayama (2018), seqeval; Tjong Kim Sang and Buchholz (2000), conlleval.
    """
    from seqeval.metrics.sequence_labeling import get_entities  # takes a second: it imports scikit-learn

    ours, theirs = (
        set(get_entities([_in_scheme(label) for label in labels])) for labels in (predicted, gold)
    )
    return len(ours & theirs), len(ours), len(theirs)


def _in_scheme(label: str) -> str:
    return label if label[:1] in _BEGINNINGS and label[1:2] in {"", "-"} else _NONE
