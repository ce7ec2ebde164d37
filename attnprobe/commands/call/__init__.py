"""What a call does with its keywords before the work, and what goes on record of it."""
