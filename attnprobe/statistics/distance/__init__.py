"""How differently heads look at the same text."""
