"""Representation: what the encoder says about a text, for checkpoints without a task."""

import numpy as np
import torch
from torch.nn.functional import cosine_similarity

from attnprobe.corpus.batch import Batch
from attnprobe.intervention.objectives.embedding import embed
from attnprobe.intervention.objectives.objective import Answer, Objective
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.preparation import Corpus


class Representation(Objective):
    """The pooled final state h: what an embedding model makes of a text, else the mean of its states.

    The loss is v . h for a random unit vector v of each example, so that the absolute derivative by a
    gate measures how far the head moves the state in an arbitrary direction. The score of an ablation
    is the cosine of h with that of the untouched encoder.
    """

    name = "representation"
    about = "Representation: what the encoder says about a text, for checkpoints without a task."
    head = None
    compares = True
    explains = "the state in a random direction, v . h, so that only the size of a relevance has a meaning"
    positive = ""

    def __init__(self, checkpoint: Checkpoint, seed: int) -> None:
        super().__init__(checkpoint)
        self._seed = seed

    @classmethod
    def bind(cls, checkpoint: Checkpoint, corpus: Corpus, *, seed: int, generate: bool) -> Objective:
        return cls(checkpoint, seed)

    def answer(self, batch: Batch, untouched: Answer | None = None) -> Answer:
        """Compute v . h of each example, and the cosine of h with the untouched h."""
        state = embed(self.checkpoint, batch)
        direction = torch.from_numpy(self.directions(batch, state.shape[-1])).to(state)
        like = state if untouched is None or untouched.state is None else untouched.state
        similarity = cosine_similarity(state, like, dim=-1).clamp(-1, 1)  # rounding goes beyond
        along = (state * direction).sum(-1)
        return Answer(along, {"similarity": similarity}, state=state, margin=lambda: along)

    def directions(self, batch: Batch, width: int) -> np.ndarray:
        """Draw a unit vector for each example, the same in every run: (batch, width)."""
        seeds = [(self._seed, int(member)) for member in batch.members]
        drawn = np.stack([np.random.default_rng(seed).standard_normal(width) for seed in seeds])
        return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)
