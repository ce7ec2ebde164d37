"""Representation: what the encoder says about a text, for checkpoints without a task."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from attnprobe.corpus.batch import Batch
from attnprobe.intervention.objectives.objective import Answer, Objective, upcast
from attnprobe.model.checkpoint import Checkpoint


def embed(checkpoint: Checkpoint, batch: Batch, roles: Sequence[str] = ()) -> Tensor:
    """Make one vector of each text of a batch, with gradients if they are enabled.

    Of an embedding model, the vector is that of ``SentenceTransformer.encode``: its pooling, which may leave
    the tokens of a prompt out, then what its further modules make of that (Dense, Normalize). Of any other
    model, it is the mean of the last hidden states over all tokens:

        h = 1/n sum_i x_i

    ``roles`` says of each text whether it is a query or what queries look for, whose prompts differ.

    Returns:
        (batch, width), in float32 at least.

    Raises:
        AttnprobeError: When a module of an embedding model can't be read.
    """
    states = upcast(checkpoint.body(**checkpoint.inputs(batch.inputs))[0])
    if checkpoint.embedding is None:
        # A pyramid gives (batch, width, row, column).
        return states.mean((2, 3)) if states.ndim == 4 else states.mean(1)
    if len(set(roles)) < 2 or checkpoint.embedding.pooling.include_prompt:
        return checkpoint.embedding(states, *roles[:1])
    alone = [checkpoint.embedding(one[None], role) for one, role in zip(states, roles, strict=True)]
    return torch.cat(alone)


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
        seeds = [(self.seed, int(member)) for member in batch.members]
        drawn = np.stack([np.random.default_rng(seed).standard_normal(width) for seed in seeds])
        return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)
