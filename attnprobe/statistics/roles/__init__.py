"""Roles: one word a head, with its evidence."""

from attnprobe.statistics.statistic import Family

FAMILY = Family("roles", "roles of heads", 8, commands=("roles",))
