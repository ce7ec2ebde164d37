"""Where a head looks, by position."""

from attnprobe.statistics.family import Family

FAMILY = Family("positional", "positions heads look at", 1)
