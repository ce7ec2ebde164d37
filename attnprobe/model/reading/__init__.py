"""Attention, read inside the model's own forward pass."""
