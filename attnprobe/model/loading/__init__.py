"""Checkpoints from the package, a folder or the hub, with strangers' files in mind."""
