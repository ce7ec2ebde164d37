"""A table on a terminal: heat maps, curves, lists."""
