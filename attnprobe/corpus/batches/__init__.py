"""Batches of equally long sequences, never padded."""
