"""Whether a head looks at rare tokens."""

from attnprobe.statistics.family import Family

FAMILY = Family("rare", "attention to rare tokens", 3)
