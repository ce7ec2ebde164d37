"""The report of a checkpoint: it shows itself in a notebook, and goes into a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from attnprobe.reports.page import frame_page
from attnprobe.reports.report.contents import Contents
from attnprobe.table.destination import Saveable
from attnprobe.table.table import HeadTable


@dataclass(frozen=True, repr=False)
class Report(Saveable):
    """One page about a checkpoint, in one file that needs no network."""

    endings: ClassVar[Sequence[str]] = ("html",)

    contents: Contents = field(repr=False)

    @property
    def tables(self) -> Mapping[str, HeadTable]:
        """The tables of the report, by name; ``tables["census"].to_pandas()`` is a DataFrame."""
        return self.contents.every

    @cached_property
    def html(self) -> str:
        """The page."""
        from attnprobe.reports.report.page import write_page

        return write_page(self.contents)

    def rendered(self, format: str) -> bytes:
        """Give the page as bytes."""
        return self.html.encode()

    def _repr_html_(self) -> str:
        return frame_page(self.html, "Report of a checkpoint", 800)

    def __repr__(self) -> str:
        return f"Report({self.contents.model!r}: {', '.join(self.tables)})"
