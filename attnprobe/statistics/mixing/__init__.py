"""Whether heads of a layer repeat each other, and whether what they give adds up or cancels."""

from attnprobe.statistics.family import Family

FAMILY = Family("mixing", "how heads of a layer mix", 10, commands=("mixing",))
