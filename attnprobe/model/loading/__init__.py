"""Checkpoints from the package, a folder or the hub, and what guards against files of strangers."""
