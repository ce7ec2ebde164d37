"""Families of statistics: what one command asks, and one table answers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """A family.

    Attributes:
        name: The command whose table its statistics make up, and the folder they lie in.
        title: What that table shows, in a few words.
        order: Its place among the columns of the census, or behind them.
        in_census: Whether its statistics are columns of the census.
    """

    name: str
    title: str
    order: int
    in_census: bool = True


#: Statistics that come from outside of this package.
OTHER = Family("other", "statistics of heads", 99)
#: The title of a table of several families.
CENSUS = "census of heads"
