"""What attends to what: blocks of attention, the tokens on both sides, the kinds of attention."""
