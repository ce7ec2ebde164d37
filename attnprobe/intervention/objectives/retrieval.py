"""Retrieval: whether a query finds the passages that answer it, among all passages."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.sources.document import Uses
from attnprobe.intervention.metrics import ranking
from attnprobe.intervention.metrics.score import Values
from attnprobe.intervention.objectives.objective import mean_by_example
from attnprobe.intervention.objectives.related import (
    RelatedTexts,
    normalise,
    remark_left_out,
    round_cosines,
)

#: What cosines are multiplied by in the loss.
SCALE = 20.0
#: The logit of what can't be answered with; infinity has no gradient where all are so.
_NEVER = -1e9
#: Cosines of queries and passages that are held at once.
_CELLS = 1 << 22

Ints = NDArray[np.int64]


class Retrieval(RelatedTexts):
    """Which passages answer a query, by the cosine of their embeddings with the query's.

    With s = 20 times the cosine, the loss of a query is the mean over the passages p that answer it of

        - ln( e^s(p) / (e^s(p) + sum over passages n that do not answer it of e^s(n)) ),

    in nats (InfoNCE): with one answer a query, sentence-transformers' MultipleNegativesRankingLoss with all
    passages in the batch. The passage that has the name of the query is the query itself, and left out.

    Attributes:
        queries: The sequence of each query, (query,).
        passages: The sequence of each passage, last names first, (passage,).
        itself: For each query the place of the passage that is the query itself, -1 for none, (query,).
        row: The query of each passage that answers one, ascending (pair,).
        column: The place of that passage, (pair,).
        grades: How relevant it is, more than 0 (pair,).

    References:
        Thakur et al. (2021), BEIR; van den Oord, Li and Vinyals (2018), Representation learning with
        contrastive predictive coding; Henderson et al. (2017), Efficient natural language response
        suggestion.
    """

    name = "retrieval"
    about = "Retrieval: cross-entropy of the passages that answer a query, among those that don't."
    nouns = "query", "queries"
    by_example = ("numbers", "queries", "itself")

    def read_uses(self, texts: Mapping[int, Uses]) -> None:
        queries = {
            use.example: (member, text.name, use)
            for member, text in texts.items()
            for use in text.uses
            if not use.place
        }
        self._queries = frozenset(member for member, _, _ in queries.values())
        passages = sorted(
            ((text.name, member) for member, text in texts.items() if member not in self._queries),
            reverse=True,
        )
        self.passages: Ints = np.array([member for _, member in passages], np.int64)
        places = {name: place for place, (name, _) in enumerate(passages)}
        pairs = sorted(
            (use.example, place, use.number)
            for place, (_, member) in enumerate(passages)
            for use in texts[member].uses
            if use.example in queries
        )
        answered = dict.fromkeys(example for example, _, _ in pairs)
        rows = {example: row for row, example in enumerate(answered)}
        kept = [queries[example] for example in answered]
        self.numbers = np.array([use.document for _, _, use in kept], np.int64)
        self.queries: Ints = np.array([member for member, _, _ in kept], np.int64)
        self.itself: Ints = np.array([places.get(name, -1) for _, name, _ in kept], np.int64)
        self.row: Ints = np.array([rows[example] for example, _, _ in pairs], np.int64)
        self.column: Ints = np.array([place for _, place, _ in pairs], np.int64)
        self.grades = np.array([grade for _, _, grade in pairs], np.float64)
        lost = sum(int(use.number) for _, _, use in kept) - len(pairs)
        self.remarks = [
            *remark_left_out(self.nouns, len(queries) - len(kept), "no answer among the passages"),
            *remark_left_out(("answer", "answers"), lost, "not among the passages"),
        ]

    def select(self, kept: NDArray[np.bool_]) -> Self:
        part, rows, pairs = super().select(kept), np.cumsum(kept) - 1, kept[self.row]
        part.row = rows[self.row[pairs]]
        part.column, part.grades = self.column[pairs], self.grades[pairs]
        return part

    def list_roles(self, members: Ints) -> list[str]:
        return ["query" if member in self._queries else "document" for member in members.tolist()]

    def list_texts(self) -> Ints:
        return np.concatenate([self.queries, self.passages])

    def score(self, states: Tensor, needs: Sequence[str]) -> dict[str, Values]:
        scores: dict[str, Values] = {}
        if "loss" in needs:
            scores["loss"] = self.compute_losses(states).numpy()
        measures = [name for name in needs if name != "loss"]
        if measures:
            ranks = self.find_ranks(states)
            for name in measures:
                measure = getattr(ranking, name)
                scores[name] = measure(ranks, self.row, self.grades, len(self.queries))
        return scores

    def find_ranks(self, states: Tensor) -> Ints:
        """Rank the passages that are looked for, (pair,)."""
        ranks = []
        for cosines, queries, pairs in self._iterate_cosines(states):
            scores = round_cosines(cosines).numpy().astype(np.float32)
            row = self.row[pairs] - queries.start
            ranks.append(ranking.find_ranks(scores, self.itself[queries], row, self.column[pairs]))
        return np.concatenate(ranks)

    def compute_losses(self, states: Tensor) -> Tensor:
        losses = []
        for cosines, queries, pairs in self._iterate_cosines(states):
            scores = SCALE * cosines
            row, column = (torch.from_numpy(one[pairs]) for one in (self.row, self.column))
            row = row - queries.start
            itself = torch.from_numpy(self.itself[queries])
            no_negative = torch.zeros(scores.shape, dtype=torch.bool)  # its answers, and the query itself
            no_negative[row, column] = True
            no_negative[itself >= 0, itself[itself >= 0]] = True
            right, others = scores[row, column], scores.masked_fill(no_negative, _NEVER)
            lost = torch.logaddexp(right, others.logsumexp(-1)[row]) - right
            losses.append(mean_by_example(row, len(scores))(lost))
        return torch.cat(losses)

    def _iterate_cosines(self, states: Tensor) -> Iterator[tuple[Tensor, slice, slice]]:
        """Compute the cosines of some queries at a time with all passages, (query, passage).

        Yields:
            The cosines, which queries they are of, and which pairs.
        """
        queries, passages = (
            normalise(states[torch.from_numpy(side)]) for side in (self.queries, self.passages)
        )
        step = max(1, _CELLS // len(self.passages))
        for start in range(0, len(self.queries), step):
            part = slice(start, min(start + step, len(self.queries)))
            pairs = slice(*np.searchsorted(self.row, [part.start, part.stop]).tolist())
            yield queries[part] @ passages.T, part, pairs
