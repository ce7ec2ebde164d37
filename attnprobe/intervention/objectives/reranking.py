"""Reranking: whether a cross-encoder puts the passages that answer a query before the others."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import binary_cross_entropy_with_logits

from attnprobe.corpus.batch import Batch
from attnprobe.corpus.batches import BatchReader
from attnprobe.corpus.sources.document import Uses
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.metrics import ranking
from attnprobe.intervention.metrics.metric import CLUSTER, Outcome, Values
from attnprobe.intervention.objectives.objective import Answer, upcast
from attnprobe.intervention.objectives.related import Relations, require_examples
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.task_heads import CLASSIFICATION

Ints = NDArray[np.int64]


class Reranking(Relations):
    """Which of its candidates answer a query, by the score that a cross-encoder gives to both together.

    The loss of a query is the mean over its candidates of the binary cross-entropy of their logits, 1 for a
    passage that answers it, in nats: sentence-transformers' BinaryCrossEntropyLoss, each query with the same
    weight. A derivative is taken pair by pair: of N pairs and Q queries, the loss of a pair of a query with C
    candidates counts N / (Q C) times, so that the mean over pairs is the mean loss of the queries.

    Attributes:
        queries: How many queries there are is how long ``numbers`` is.
        members: The sequence of each pair, those of a query together, last names first, (pair,).
        row: The query of each pair, ascending (pair,).
        grades: How relevant its passage is, 0 where it does not answer (pair,).

    References:
        Nogueira and Cho (2019), Passage re-ranking with BERT.
    """

    name = "reranking"
    about = "Reranking: binary cross-entropy of whether a passage answers, for cross-encoders."
    head = CLASSIFICATION
    nouns = "query", "queries"
    parts = "pairs"
    explains = "the logit of a query with a passage"
    positive = "A head of positive relevance raises this logit, one of negative relevance lowers it."

    def __init__(self, checkpoint: Checkpoint, texts: Mapping[int, Uses]) -> None:
        super().__init__(checkpoint, texts)
        scoring = checkpoint.find_scoring()
        if scoring is None or scoring.unread:
            raise AttnprobeError(explain_unscored(checkpoint))
        self._scoring = scoring
        every = [(*text.uses[0], text.name, member) for member, text in texts.items()]
        pairs = sorted(sorted(every, key=lambda one: one[4], reverse=True), key=lambda one: one[0])
        examples, self.row = np.unique(np.array([one[0] for one in pairs], np.int64), return_inverse=True)
        numbers = {example: number for example, number, *_ in pairs}
        self.numbers = np.array([numbers[example] for example in examples.tolist()], np.int64)
        self.members: Ints = np.array([one[5] for one in pairs], np.int64)
        self.grades = np.array([one[3] for one in pairs], np.float64)
        require_examples(self.nouns, len(self.numbers))
        self._weigh()
        self.remarks = [
            f"{len(self.numbers):,} {self.nouns[len(self.numbers) > 1]} with {len(pairs):,} candidates; the "
            f"score of a pair is the {scoring.activation} of its logit."
        ]
        self.facts = {"activation": scoring.activation, "pairs": len(pairs)}

    def _weigh(self) -> None:
        """Note of each sequence whether its passage answers, and how much its loss counts."""
        size = 1 + int(self.members.max(initial=-1))
        self._answers, self._weights = np.zeros(size), np.zeros(size)
        self._answers[self.members] = self.grades > 0
        counts = np.bincount(self.row, minlength=len(self.numbers))
        self._weights[self.members] = len(self.row) / (len(self.numbers) * counts[self.row])

    def select(self, some: NDArray[np.bool_]) -> Self:
        found, kept = copy(self), some[self.row]
        found.numbers = self.numbers[some]
        found.row = (np.cumsum(some) - 1)[self.row[kept]]
        found.members, found.grades = self.members[kept], self.grades[kept]
        found._weigh()
        return found

    def list_texts(self) -> Ints:
        return self.members

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Score each pair, and compute its loss."""
        logits = upcast(self.ask(batch).logits).squeeze(-1)
        right, weights = (
            torch.from_numpy(one[batch.members]).to(logits) for one in (self._answers, self._weights)
        )
        losses = binary_cross_entropy_with_logits(logits, right, reduction="none")
        scores = {"score": self._scoring(logits), "entropy": losses}
        return Answer(weights * losses, scores, margin=lambda: logits)

    def list_kept(self, needs: Sequence[str]) -> list[str]:
        return ["entropy" if name == "loss" else "score" for name in sorted(set(needs), key="loss".__eq__)]

    def complete(self, answers: Mapping[str, Values], batches: BatchReader, needs: Sequence[str]) -> Outcome:
        places = np.searchsorted(batches.members, self.members)
        queries, found = len(self.numbers), dict[str, Values]()
        if "loss" in needs:
            entropies = answers["entropy"][places].astype(np.float64)
            found["loss"] = np.bincount(self.row, entropies) / np.bincount(self.row)
        measures = [name for name in needs if name != "loss"]
        if measures:
            scores = answers["score"][places].astype(np.float32)
            # Ties go by the order of the pairs; scores are float32, as trec_eval keeps them.
            order = np.lexsort((np.arange(len(scores)), -scores, self.row))
            ranks = np.empty(len(scores), np.int64)
            starts = np.searchsorted(self.row, self.row)
            ranks[order] = 1 + np.arange(len(scores)) - starts
            there = self.grades > 0
            for name in measures:
                measure = getattr(ranking, name)
                found[name] = measure(ranks[there], self.row[there], self.grades[there], queries)
        return {**found, CLUSTER: self.find_clusters()}


def explain_unscored(checkpoint: Checkpoint) -> str:
    """Say why a checkpoint gives no score of two texts."""
    found = checkpoint.find_scoring()
    if found is None:
        return (
            f"{checkpoint.name} is no cross-encoder (a sequence classifier of one label); for an embedding "
            "model, take --objective retrieval."
        )
    return f"The score that {checkpoint.name} gives to two texts can't be made: {found.unread}."
