"""How much goes to tokens that frame a text, and to punctuation."""

from attnprobe.statistics.family import Family

FAMILY = Family("special", "attention to special tokens", 2)
