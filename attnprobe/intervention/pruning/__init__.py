"""Pruning: orders of heads, the curve of the score, and pruned checkpoints."""
