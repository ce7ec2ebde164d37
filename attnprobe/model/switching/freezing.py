"""Weights that ask for no gradient, so that only gates do."""

from collections.abc import Iterator
from contextlib import contextmanager

from attnprobe.model.loading.checkpoint import Checkpoint


@contextmanager
def frozen(checkpoint: Checkpoint) -> Iterator[None]:
    """Let no weight ask for a gradient: only gates do."""
    asking = [weight for weight in checkpoint.model.parameters() if weight.requires_grad]
    for weight in asking:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in asking:
            weight.requires_grad_(True)
