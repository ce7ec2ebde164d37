"""Embeddings: one vector of each text, as the checkpoint makes it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.intervention.objectives.objective import upcast
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
