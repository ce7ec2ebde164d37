"""Two checkpoints over the same texts: their statistics side by side, and how far their heads are apart."""
