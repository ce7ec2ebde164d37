"""The embedding of a text: what an embedding model makes of it."""

from torch import Tensor

from attnprobe.corpus.batches.batch import Batch
from attnprobe.intervention.objectives.objective import upcast
from attnprobe.model.checkpoint import Checkpoint


def embed(checkpoint: Checkpoint, batch: Batch) -> Tensor:
    """Embed each text of a batch, with gradients if they are enabled: (batch, width)."""
    hidden = checkpoint.body(**checkpoint.inputs(batch.inputs))[0]
    return upcast(hidden).mean(1)
