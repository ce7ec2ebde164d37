"""Heads removed for good, and checkpoints written without them."""
