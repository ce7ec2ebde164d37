"""What heads find: gold links between words, and how often a head's most attended word is their other end."""

from attnprobe.statistics.statistic import Family

FAMILY = Family("links", "what heads find", 7, commands=("syntax", "coreference", "links"))
