"""A call of a command: its model, its texts, its progress and what goes on record."""
