"""Embeddings: one vector of each text, as the checkpoint makes it."""

from torch import Tensor

from attnprobe.corpus.batches.batch import Batch
from attnprobe.intervention.objectives.objective import upcast
from attnprobe.model.checkpoint import Checkpoint


def embed(checkpoint: Checkpoint, batch: Batch) -> Tensor:
    """Make one vector of each text of a batch, with gradients if they are enabled.

    Of an embedding model, the vector is that of ``SentenceTransformer.encode``: its pooling, which may leave
    the tokens of a prompt out, then what its further modules make of that (Dense, Normalize). Of any other
    model, it is the mean of the last hidden states over all tokens:

        h = 1/n sum_i x_i

    Returns:
        (batch, width), in float32 at least.

    Raises:
        AttnprobeError: When a module of an embedding model can't be read.
    """
    states = upcast(checkpoint.body(**checkpoint.inputs(batch.inputs))[0])
    return states.mean(1) if checkpoint.embedding is None else checkpoint.embedding(states)
