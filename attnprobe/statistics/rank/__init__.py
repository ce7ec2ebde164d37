"""Whether a head is too narrow for the sequence."""

from attnprobe.statistics.family import Family

FAMILY = Family("rank", "rank of heads", 9, commands=("rank",))
