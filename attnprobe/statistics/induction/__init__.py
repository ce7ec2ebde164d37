"""What a head does where tokens come a second time."""

from attnprobe.statistics.family import Family

FAMILY = Family("induction", "heads on random tokens, repeated", 6, commands=("induction",))
