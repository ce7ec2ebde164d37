"""Heads switched by gates, and passes that resume behind a switched layer."""
