"""Embeddings of texts, and the tasks that compare them: similarity, triplets and retrieval."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cosine_similarity

from attnprobe.corpus.batch import Batch, BatchReader
from attnprobe.corpus.document import Uses
from attnprobe.errors import DataError, ModelError
from attnprobe.intervention.metrics import ranking
from attnprobe.intervention.metrics.score import (
    CLUSTER,
    NUMBER_METRICS,
    Predictions,
    Values,
    mean_score,
    spearman,
)
from attnprobe.intervention.objectives.objective import Answer, Objective, mean_by_example, upcast
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.task_heads import CLASSIFICATION, find_head
from attnprobe.run.corpus import Corpus
from attnprobe.sums.documents import in_second_half, name_documents

Ints = NDArray[np.int64]
#: The least length by which a vector is divided.
_NOTHING = 1e-12
#: Decimals that cosines are rounded to before they are ranked: embeddings of identical texts differ in their
#: last bits where their batches differ in size.
DECIMALS = 6
#: How much larger the cosine of the positive has to be for a triplet to have no loss.
MARGIN = 0.5
#: What cosines are multiplied by in the loss of retrieval.
SCALE = 20.0
#: The logit of a passage that is left out; infinity would have no gradient where all are left out.
_NEVER = -1e9
#: Cosines of queries and passages that are held at once.
_CELLS = 1 << 22


def embed(checkpoint: Checkpoint, batch: Batch, roles: Sequence[str] = ()) -> Tensor:
    """Make one vector of each text of a batch, with gradients if they are enabled: (batch, width).

    The vector of an embedding model is that of ``SentenceTransformer.encode``: its pooling, which may leave
    the tokens of a prompt out, then its further modules (Dense, Normalize). That of any other model is the
    mean of the last hidden states over all tokens. ``roles`` tells queries from documents, whose prompts
    differ.
    """
    states = upcast(checkpoint.body(**checkpoint.inputs(batch.inputs))[0])
    if checkpoint.embedding is None:
        # A pyramid gives (batch, width, row, column).
        return states.mean((2, 3)) if states.ndim == 4 else states.mean(1)
    return checkpoint.embedding(states, roles)


class Representation(Objective):
    """Representation: the embedding of a text, for checkpoints without a task.

    The loss is v . h for the embedding h and a random unit vector v of each example, so that the absolute
    derivative by a gate measures how far the head moves the state in an arbitrary direction. The score of an
    ablation is the cosine of h with that of the untouched encoder.
    """

    name = "representation"
    compares = True
    explains = "the state in a random direction, v . h, so that only the size of a relevance has a meaning"
    positive = ""

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        state = embed(self.checkpoint, batch)
        direction = torch.from_numpy(self.draw_directions(batch, state.shape[-1])).to(state)
        like = state if untouched is None or untouched.state is None else untouched.state
        similarity = cosine_similarity(state, like, dim=-1).clamp(-1, 1)  # rounding goes beyond
        along = (state * direction).sum(-1)
        return Answer(along, {"similarity": similarity}, state=state, margin=lambda: along)

    def draw_directions(self, batch: Batch, width: int) -> np.ndarray:
        """Draw a random unit vector for each example, the same in every run: (batch, width)."""
        seeds = [(self.seed, int(member)) for member in batch.members]
        drawn = np.stack([np.random.default_rng(seed).standard_normal(width) for seed in seeds])
        return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


class RelatedTexts(Objective):
    """An objective whose examples are relations among texts, scored by the embeddings of these texts.

    Each text is embedded once, and derivatives are taken text by text: with h_t the embedding of text t of T,
    and L the mean loss of the examples, the loss of the text is

        L_t = T dL/dh_t . h_t

    where dL/dh_t, at the embeddings with the same heads on, is held fixed. The derivative of L_t by a gate is
    the effect of the head in this text on L; its mean over texts is the derivative of L by a gate that all
    texts share.

    Attributes:
        noun: What examples are called in sentences.
        loss: The name of the number that is the loss of an example.
        by_example: The names of the attributes that are arrays over examples.
        numbers: The document of each example.
    """

    noun: ClassVar[str]
    loss: ClassVar[str] = "loss"
    by_example: ClassVar[tuple[str, ...]]

    def read_labels(self, corpus: Corpus) -> None:
        self.numbers: Ints = np.zeros(0, np.int64)
        self._slopes: Tensor | None = None
        labels = corpus.batches.labels
        self.read_uses({member: label for member, label in labels.items() if isinstance(label, Uses)})
        if not len(self.numbers):
            raise DataError(f"There are no {self.noun} that could be scored; give others.")

    @abstractmethod
    def read_uses(self, texts: Mapping[int, Uses]) -> None:
        """Collect the examples from the uses of the texts, by the number of their sequence."""

    @abstractmethod
    def list_texts(self) -> Ints:
        """List the sequences that are part of an example."""

    @abstractmethod
    def measure_examples(self, states: Tensor, needs: Sequence[str]) -> dict[str, Tensor]:
        """Compute the numbers that metrics need of each example (example,) from embeddings (text, width)."""

    def list_roles(self, members: Ints) -> list[str]:
        """List whether each sequence is a query or a document; nothing where an objective has neither."""
        return []

    def half(self, batches: BatchReader, *, second: bool) -> tuple[Objective, BatchReader]:
        """Keep one half of the examples, and the texts that are part of them."""
        part, kept = copy(self), in_second_half(self.numbers) == second
        for name in self.by_example:
            setattr(part, name, getattr(self, name)[kept])
        texts = part.list_texts()
        plan = [members[np.isin(members, texts)] for members in batches.plan]
        return part, batches.follow([members for members in plan if len(members)])

    def list_documents(self, batches: BatchReader) -> Ints:
        return self.numbers

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Embed each text; its loss is L_t where slopes are bound, see ``find_slopes``."""
        state = embed(self.checkpoint, batch, self.list_roles(batch.members))
        if self._slopes is None:  # no loss yet; the norm shows whether the embedding is finite
            return Answer(state.norm(dim=-1), {"state": state}, state=state)
        share = (self._slopes[batch.members].to(state) * state).sum(-1)
        return Answer(share, {"state": state}, state=state)

    def list_kept(self, needs: Sequence[str]) -> list[str]:
        return ["state"]

    def complete(
        self, answers: Mapping[str, Values], batches: BatchReader, needs: Sequence[str]
    ) -> Predictions:
        """Compute the numbers of each example from the embeddings of all texts, and name its document."""
        with torch.inference_mode():
            scores = self.measure_examples(_place_states(answers["state"], batches), needs)
        shared = np.bincount(self.numbers)[self.numbers] > 1
        names = name_documents(self.numbers.astype(np.uint64))
        return {CLUSTER: np.where(shared, names, -1), **{name: scores[name].numpy() for name in scores}}

    def find_slopes(self, states: Values, batches: BatchReader) -> Self:
        """Copy the objective with its slopes T dL/dh_t, computed from the embeddings (text, width)."""
        with torch.inference_mode(mode=False), torch.enable_grad():
            leaf = _place_states(states, batches).requires_grad_()
            (slopes,) = torch.autograd.grad(self.measure_examples(leaf, [self.loss])[self.loss].mean(), leaf)
        bound = copy(self)
        bound._slopes = (slopes * len(states)).detach()
        return bound

    def remark_left_out(self, left_out: int, among: int, noun: str, reason: str) -> None:
        if left_out:
            self.remarks = [*self.remarks, f"{left_out:,} of {among:,} {noun} left out: {reason}."]


def _place_states(states: Values, batches: BatchReader) -> Tensor:
    """Place embeddings (text, width) at their sequences (sequence, width), in float64; 0 elsewhere."""
    placed = torch.zeros(len(batches.lengths), states.shape[1], dtype=torch.float64)
    placed[torch.from_numpy(batches.members)] = torch.from_numpy(np.asarray(states, np.float64))
    return placed


def _gather(states: Tensor, members: Ints) -> Tensor:
    """Gather the embeddings of sequences, scaled to unit length; a vector of zeros stays one."""
    vectors = states[torch.from_numpy(members)]
    return vectors / vectors.norm(dim=-1, keepdim=True).clamp_min(_NOTHING)


class Tuples(RelatedTexts):
    """Examples of ``width`` sequences each, ``members`` (example, place), with a ``given`` number each."""

    width: ClassVar[int]
    by_example = ("numbers", "members", "given")

    def read_uses(self, texts: Mapping[int, Uses]) -> None:
        uses = [(use, member) for member, text in texts.items() for use in text.uses]
        count = 1 + max((use.example for use, _ in uses), default=-1)
        members = np.full((count, self.width), -1)
        numbers, given = np.zeros(count, np.int64), np.zeros(count)
        for (example, number, place, score), member in uses:
            members[example, place], numbers[example], given[example] = member, number, score
        whole = (members >= 0).all(-1)
        self.numbers, self.members, self.given = numbers[whole], members[whole], given[whole]
        self.remark_left_out(int((~whole).sum()), count, self.noun, "a text gives no token")

    def list_texts(self) -> Ints:
        return np.unique(self.members)


class Similarity(Tuples):
    """Similarity: the squared error of the cosine of two texts' embeddings, against a score people gave.

    The loss of a pair is (cosine - score) ** 2, as sentence-transformers' CosineSimilarityLoss has it. Scores
    beyond -1 to 1 are moved and scaled, so that the lowest of the data is 0 and the highest 1: ``targets``.

    References:
        Cer et al. (2017), SemEval-2017 task 1; Reimers and Gurevych (2019), Sentence-BERT.
    """

    name = "similarity"
    noun = "pairs"
    builders = NUMBER_METRICS | {"spearman": partial(spearman, DECIMALS)}
    loss = "mse"
    width = 2
    by_example = (*Tuples.by_example, "targets")

    def read_uses(self, texts: Mapping[int, Uses]) -> None:
        super().read_uses(texts)
        self.targets = self.given
        low, high = self.given.min(initial=np.inf), self.given.max(initial=-np.inf)
        if len(self.given) and (low < -1 or high > 1):
            self.targets = (self.given - low) / (high - low or 1)
            remark = f"Scores go from {low:g} to {high:g}; for the loss they are scaled to 0 to 1."
            self.remarks = [*self.remarks, remark]

    def list_gold(self, examples: Ints) -> Values:
        return self.given

    def measure_examples(self, states: Tensor, needs: Sequence[str]) -> dict[str, Tensor]:
        first, second = _gather(states, self.members).unbind(1)
        cosines = (first * second).sum(-1)
        given, targets = torch.from_numpy(self.given), torch.from_numpy(self.targets)
        return {"label": given, "prediction": cosines, "mse": (cosines - targets).square()}


class Triplets(Tuples):
    """Triplets: by how much, within a margin of 0.5, an anchor's cosine with a negative is too large.

    With c the cosine of embeddings, the loss of a triplet is max(0, c(anchor, negative) - c(anchor, positive)
    + 0.5), in cosine. A triplet is right if c(anchor, positive) > c(anchor, negative).

    References:
        Schroff, Kalenichenko and Philbin (2015), FaceNet; Reimers and Gurevych (2019), Sentence-BERT.
    """

    name = "triplet"
    noun = "triplets"
    builders = MappingProxyType({"loss": partial(mean_score, "loss", "cosine", higher_is_better=False)})
    width = 3

    def measure_examples(self, states: Tensor, needs: Sequence[str]) -> dict[str, Tensor]:
        anchor, positive, negative = _gather(states, self.members).unbind(1)
        lead = (anchor * (positive - negative)).sum(-1)
        right = lead.round(decimals=DECIMALS) > 0
        return {"accuracy": right.double(), "loss": (MARGIN - lead).clamp_min(0)}


class Retrieval(RelatedTexts):
    """Retrieval: cross-entropy of the passages that answer a query, among those that don't.

    With s = 20 times the cosine, the loss of a query is the mean over the passages p that answer it of

        - ln( e^s(p) / (e^s(p) + sum over passages n that do not answer it of e^s(n)) ),

    in nats (InfoNCE): with one answer a query, sentence-transformers' MultipleNegativesRankingLoss with all
    passages in the batch. The passage that has the name of the query is the query itself, and left out.

    ``queries`` and ``passages`` are sequences, passages in descending order of their names. For each query,
    ``itself`` is the place of the passage that it is, -1 for none, and ``answers`` has the places and grades
    of the passages that answer it.

    References:
        Thakur et al. (2021), BEIR; van den Oord, Li and Vinyals (2018), Contrastive predictive coding.
    """

    name = "retrieval"
    noun = "queries"
    by_example = ("numbers", "queries", "itself", "answers")

    @classmethod
    def check(cls, checkpoint: Checkpoint) -> None:
        config = checkpoint.model.config
        names = (type(checkpoint.model).__name__, *(config.architectures or ()))
        head = next(filter(None, map(find_head, names)), None)
        if checkpoint.scores_pairs or (head is CLASSIFICATION and config.num_labels == 1):
            raise ModelError(
                f"{checkpoint.name} is a cross-encoder, which scores two texts together and embeds none; "
                "give pairs of texts with a number (--text-column, --text-pair-column, --label-column) and "
                "--objective regression."
            )

    def read_uses(self, texts: Mapping[int, Uses]) -> None:
        uses = [(use, member) for member, text in texts.items() for use in text.uses]
        queries = {use.example: (use, member) for use, member in uses if not use.place}
        self._queries = frozenset(member for _, member in queries.values())
        passages = sorted(
            ((text.name, member) for member, text in texts.items() if member not in self._queries),
            reverse=True,
        )
        names = {name: place for place, (name, _) in enumerate(passages)}
        places = {member: place for place, (_, member) in enumerate(passages)}
        answers: dict[int, list[tuple[int, float]]] = {example: [] for example in sorted(queries)}
        for use, member in uses:
            if use.place and use.example in answers:
                answers[use.example].append((places[member], use.number))
        kept = [(*queries[example], sorted(pairs)) for example, pairs in answers.items() if pairs]
        self.passages: Ints = np.array([member for _, member in passages], np.int64)
        self.queries: Ints = np.array([member for _, member, _ in kept], np.int64)
        self.itself = np.array([names.get(texts[member].name, -1) for member in self.queries], np.int64)
        self.numbers = np.array([use.document for use, *_ in kept], np.int64)
        self.answers = np.fromiter((np.array(pairs) for *_, pairs in kept), object, len(kept))
        wanted = sum(int(use.number) for use, *_ in kept)
        there = sum(len(pairs) for *_, pairs in kept)
        self.remark_left_out(
            len(queries) - len(kept), len(queries), self.noun, "no answer among the passages"
        )
        self.remark_left_out(wanted - there, wanted, "answers", "not among the passages")

    def list_roles(self, members: Ints) -> list[str]:
        return ["query" if member in self._queries else "document" for member in members.tolist()]

    def list_texts(self) -> Ints:
        return np.concatenate([self.queries, self.passages])

    def measure_examples(self, states: Tensor, needs: Sequence[str]) -> dict[str, Tensor]:
        losses, ranks = [], []
        measures = [name for name in needs if name != "loss"]
        for cosines, row, column in self._iterate_cosines(states):
            if measures:
                rounded = cosines.detach().round(decimals=DECIMALS).numpy().astype(np.float32)
                ranks.append(ranking.find_ranks(rounded, row, column))
            if "loss" in needs:
                losses.append(_contrast(SCALE * cosines, torch.from_numpy(row), torch.from_numpy(column)))
        row, _, grades = _list_pairs(self.answers)
        scores = {"loss": torch.cat(losses)} if losses else {}
        for name in measures:
            measure = getattr(ranking, name)
            scores[name] = torch.from_numpy(measure(np.concatenate(ranks), row, grades, len(self.queries)))
        return scores

    def _iterate_cosines(self, states: Tensor) -> Iterator[tuple[Tensor, Ints, Ints]]:
        """Yield cosines (query, passage) of a few queries, -1e9 with itself, and the cells of answers."""
        queries, passages = _gather(states, self.queries), _gather(states, self.passages)
        step, places = max(1, _CELLS // len(passages)), torch.arange(len(passages))
        for start in range(0, len(queries), step):
            part = slice(start, start + step)
            itself = torch.from_numpy(self.itself[part])[:, None] == places
            row, column, _ = _list_pairs(self.answers[part])
            yield (queries[part] @ passages.T).masked_fill(itself, _NEVER), row, column


def _contrast(scores: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """Average the loss of each query over the passages (row, column) that answer it, (query,)."""
    right = scores[row, column]
    others = scores.index_put((row, column), scores.new_tensor(_NEVER)).logsumexp(-1)[row]
    return mean_by_example(row, len(scores))(torch.logaddexp(right, others) - right)


def _list_pairs(answers: NDArray[np.object_]) -> tuple[Ints, Ints, Values]:
    """List, for all answers, the query (ascending), the place of the passage and the grade, (pair,) each."""
    row = np.repeat(np.arange(len(answers)), [*map(len, answers)])
    place, grade = np.concatenate(answers).T
    return row, place.astype(np.int64), grade
