"""Patching: what carries the difference between two texts."""
