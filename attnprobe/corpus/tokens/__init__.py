"""Sequences of tokens, and what is known about each token."""
