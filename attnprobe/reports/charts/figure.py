"""What a picture of a kind of table is: a template, and what it takes from the table."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from attnprobe.reports.columns import Column, DrawingRequest
from attnprobe.table.table import HeadTable

#: Pixels of a page, 9 inches: no picture is taller.
TALLEST = 864


@dataclass(frozen=True)
class Drawing:
    """A chart of altair, without a title."""

    chart: Any
    caption: Sequence[str] = ()  # what marks are, a phrase each, in at most 30 words
    #: Pixels that it took of the room and the height that it had, where these are less.
    room: float = math.inf
    high: float = math.inf


@dataclass(frozen=True, kw_only=True)
class Figure(ABC):
    """What a kind of picture looks like.

    Templates give fields names of their own, such as ``value`` and ``label``: names of a table's columns may
    hold anything, and would become parts of Vega's expressions.
    """

    #: Whether a table can be drawn so, beyond being of a kind that is.
    fits: Callable[[HeadTable], object] = field(default=bool, repr=False)
    #: Whether it draws the same columns of every table, so that none can be named.
    fixed: bool = False
    #: The column that its finding is about; by default the only column that is drawn, if it is one. None
    #: where no head stands out.
    states: str | None = ""
    caption: Sequence[str] = ()

    @abstractmethod
    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        """Draw a table in about ``request.room`` by ``request.high`` pixels, without what stands beside."""

    def columns(self, table: HeadTable, request: DrawingRequest) -> list[Column]:
        """List the measures that are drawn; nothing where they are not for a reader to choose."""
        return []
