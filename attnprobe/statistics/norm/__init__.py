"""How much a head carries to the residual stream, and from which tokens."""

from attnprobe.statistics.family import Family

FAMILY = Family("norm", "what heads carry, by length", 5)
