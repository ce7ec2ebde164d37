"""How differently heads look at the same text."""

from attnprobe.statistics.family import Family

FAMILY = Family("distance", "distance between heads", 4)
