"""From a source to the batches that a checkpoint takes."""
