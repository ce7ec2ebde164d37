"""What a kind of picture is: a template that draws, and what it takes from a table."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from attnprobe.reports.columns import Column, DrawingRequest, read_numbers
from attnprobe.reports.scales import read_intervals
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.table import HeadTable

#: Pixels of a page, 9 inches: no picture is taller.
TALLEST = 864
#: The mark of what is only compared with: a tick across the line.
TICK = "M0,-1L0,1"


class Drawing(NamedTuple):
    """A chart of altair without a title, and phrases that explain its marks, of at most 30 words together."""

    chart: Any
    caption: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Figure(ABC):
    """What a kind of picture looks like.

    Templates give fields names of their own, such as ``value`` and ``label``: names of a table's columns may
    hold anything, and would become parts of Vega's expressions.
    """

    #: Whether the numbers of a table allow this picture; its kind does, see ``kinds``.
    fits: Callable[[HeadTable], object] = field(default=bool, repr=False)
    #: Whether it draws the same columns of every table, so that none can be named.
    fixed: bool = False
    #: Lists the measures that are drawn, where a reader may choose them.
    choose: Callable[[HeadTable, DrawingRequest], list[Column]] = lambda table, request: []
    #: The column whose finding is stated below the title: "" for the one that is drawn, if it is the only
    #: one, and None for none.
    states: str | None = ""
    caption: Sequence[str] = ()

    @abstractmethod
    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        """Draw a table in about ``request.room`` by ``request.high`` pixels, with its labels and legends."""

    def list_stated(self, table: HeadTable, request: DrawingRequest) -> list[Column]:
        """List the measures that a finding may be about."""
        if self.states is None:
            return []
        return [table.column(self.states)] if self.states else self.choose(table, request)


@dataclass(frozen=True)
class Point:
    """A number of each row."""

    column: str
    name: str  # in the legend
    shape: str = "circle"
    colour: int = 0  # which of the theme's
    tested: bool = False  # whether it is filled where it differs significantly, and hollow otherwise
    interval: bool = False
    ends: Sequence[str] = ()  # how the columns of the ends of its interval end; else from its error

    def describe(self, *, sure: bool) -> str:
        if not self.tested:
            return self.name
        return f"{self.name}: adjusted p < {SIGNIFICANT}" if sure else f"{self.name}: not significant"

    def read(self, table: HeadTable) -> tuple[Sequence[float | None], ...]:
        """Read the number of each row, then the low and high ends of its interval, None where it has none."""
        values = read_numbers(table, self.column)
        if self.ends:
            return values, *(read_numbers(table, f"{self.column}{end}") for end in self.ends)
        return values, *(read_intervals(table, self.column) if self.interval else [[None] * len(table)] * 2)


@dataclass(frozen=True)
class Axis:
    """Numbers on one scale."""

    title: str | Callable[[HeadTable], str]
    points: Sequence[Point]
    domain: Sequence[float] = ()  # by default, all numbers and their intervals
    reference: float | None = None  # where there is no effect


@dataclass(frozen=True)
class Words:
    """What is written beside each row."""

    heading: str
    write: Callable[[HeadTable], Sequence[str]]
    wide: bool = False  # whether a narrow picture has no room for it
