"""How many heads can go: orders, curves, and checkpoints without them."""
