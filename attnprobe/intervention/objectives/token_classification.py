"""Token classification: cross-entropy of the label of each word."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from attnprobe.attention.annotation import TokenAnnotation
from attnprobe.corpus.batches.batch import Batch
from attnprobe.intervention.metrics.counts import count_entities, has_entities
from attnprobe.intervention.objectives.objective import (
    Answer,
    Classes,
    Objective,
    ahead,
    mean_by_example,
    precise,
)
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.task_heads import TOKEN_CLASSIFICATION


class TokenClassification(Objective):
    """What each word of a text is: a part of speech, part of an entity; needs a label for each word.

    A word is scored at its first token, as ``run_ner`` and its kin train taggers; its other tokens and
    special tokens don't count. The loss of an example is the mean over its own words, in nats.

    Attributes:
        targets: For every example, the tokens that are scored and their right classes, (2, word).
    """

    name = "token-classification"
    about = "Token classification: cross-entropy of the label of each word."
    head = TOKEN_CLASSIFICATION
    metrics = ("f1", "accuracy", "loss")
    explains = "the mean over words of the logit of the predicted label less that of the runner-up"

    def __init__(self, checkpoint: Checkpoint, annotations: Iterable[TokenAnnotation | None]) -> None:
        """Translate the labels of all examples into classes.

        Raises:
            AttnprobeError: For a label that the model does not know.
        """
        super().__init__(checkpoint)
        self._classes = Classes(checkpoint)
        self._numbers: dict[str | int, int] = {}
        self.targets = [self._target(one) for one in annotations]

    @classmethod
    def scored_by(cls, checkpoint: Checkpoint) -> tuple[str, ...]:
        """List F1 of entities first, where some label is of an entity; otherwise the share of words right."""
        if has_entities(Classes(checkpoint).names.values()):
            return cls.metrics
        return tuple(name for name in cls.metrics if name != "f1")

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Give the mean cross-entropy over each example's words.

        Its scores are ``words``: how many are right, and how many there are, (batch, 2); and ``entities``:
        how many are right, predicted, and there, (batch, 3).
        """
        logits = precise(self.ask(batch).logits)
        targets = [self.targets[member] for member in batch.members]
        sizes = torch.tensor([target.shape[1] for target in targets])
        example = torch.arange(len(targets)).repeat_interleave(sizes).to(logits.device)
        place, right = torch.from_numpy(np.concatenate(targets, 1)).to(logits.device)
        chosen = logits[example, place]
        mean = mean_by_example(example, len(targets))
        loss = mean(cross_entropy(chosen, right, reduction="none"))
        prediction = chosen.detach().argmax(-1)
        hits = (
            loss.detach().new_zeros(len(targets)).index_add(0, example, (prediction == right).to(loss.dtype))
        )
        words = torch.stack([hits, sizes.to(hits)], -1)
        return Answer(
            loss,
            {"words": words, "entities": lambda: self._entities(prediction, right, sizes)},
            margin=lambda: mean(ahead(chosen)),
        )

    def has_entities(self, examples: NDArray[np.int64]) -> bool:
        """Tell whether an entity is in some of the examples."""
        found = np.unique(np.concatenate([self.targets[example][1] for example in examples]))
        return has_entities(self._names(found))

    def _target(self, annotation: TokenAnnotation | None) -> NDArray[np.int64]:
        assert annotation is not None
        found = [(tag.position, self._number(tag.name)) for tag in annotation.tags]
        return np.array(found, np.int64).T

    def _number(self, name: str | int) -> int:
        if name not in self._numbers:
            self._numbers[name] = self._classes.number(name)
        return self._numbers[name]

    def _entities(self, prediction: Tensor, right: Tensor, sizes: Tensor) -> Tensor:
        """Count the entities of each example: right, predicted, there."""
        ends = np.cumsum(sizes.numpy())[:-1]
        ours, gold = (np.split(part.cpu().numpy(), ends) for part in (prediction, right))
        counts = [
            count_entities(self._names(one), self._names(other))
            for one, other in zip(ours, gold, strict=True)
        ]
        return torch.tensor(counts)

    def _names(self, classes: NDArray[np.int64]) -> Sequence[str]:
        return [self._classes.names[number] for number in classes.tolist()]
