"""From what a user names to batches: sources, tokens, batches. This room knows no model."""
