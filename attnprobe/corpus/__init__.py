"""From what a user names to batches: sources, tokens, batches. Knows no model."""
