"""How much goes to boundary tokens, and to punctuation."""

from attnprobe.statistics.family import Family

FAMILY = Family("special", "attention to special tokens", 2)
