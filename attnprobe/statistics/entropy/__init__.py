"""How spread the attention of a head is."""

from attnprobe.statistics.family import Family

FAMILY = Family("entropy", "entropy of heads", 0)
