"""Families of statistics: what one command asks, and one table answers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """A family.

    Attributes:
        name: The command whose table its statistics make up, and the folder they lie in.
        title: What that table shows, in a few words.
        order: Its place among the columns of the census, or behind them.
        commands: The commands that measure its statistics, if the census does not.
    """

    name: str
    title: str
    order: int
    commands: tuple[str, ...] = ()

    @property
    def in_census(self) -> bool:
        """Whether its statistics are columns of the census."""
        return not self.commands


#: Statistics that come from outside of this package.
OTHER = Family("other", "statistics of heads", 99)
#: The title of a table of several families.
CENSUS = "census of heads"
