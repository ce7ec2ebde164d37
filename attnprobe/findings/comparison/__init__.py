"""From what two checkpoints gave over the same texts to tables: who is near whom, and what changed."""
