"""Attention of one sentence: a page to look around in, or a picture."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError
from attnprobe.reports.page import frame_page
from attnprobe.reports.picture import render_pdf, render_png
from attnprobe.reports.theme import ThemeName
from attnprobe.reports.view.packing import Start
from attnprobe.reports.view.page import write_page
from attnprobe.table.destination import Saveable
from attnprobe.table.sequence import SequenceAttention

if TYPE_CHECKING:
    from attnprobe.table.table import HeadTable

#: What a picture can be saved as, by the ending of its file.
FORMATS = ("html", "svg", "png", "pdf")


def check_page_look(format: str, theme: str | None, width: int | None) -> None:
    """Refuse a theme or a width for a page, which has those of its reader's screen."""
    option = "--theme" if theme is not None else "--width" if width is not None else None
    if format == "html" and option is not None:
        raise AttnprobeError(
            f"A page is light or dark, and as wide, as its reader's screen; leave out {option}, or write an "
            ".svg, .png or .pdf."
        )


@dataclass(frozen=True, repr=False)
class View(Saveable):
    """The attention of one sequence, as a page to look around in, or as a graphic.

    Attributes:
        seen: The sequence and all its attention.
        start: What the page shows first, and what a graphic shows.
        chosen: Whether one head was asked for; a graphic of none shows all.
        theme: Of a graphic; light where nobody says.
        width: Of a graphic, about how many pixels.
        notes: Tables of the model's heads, such as a census, which a page shows beside each head.
    """

    endings: ClassVar[Sequence[str]] = FORMATS

    seen: SequenceAttention = field(repr=False)
    start: Start
    chosen: bool
    theme: ThemeName | None = None
    width: int | None = None
    notes: "Sequence[HeadTable]" = field(default=(), repr=False)

    @property
    def attention(self) -> dict[str, NDArray[Any]]:
        """Attention (layer, head, query, key) of each kind that the model has, in full precision."""
        return {maps.kind.value: maps.rows for maps in self.seen.maps}

    @property
    def tokens(self) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        """The tokens that attend and those that are attended to, for each kind of attention."""
        return {maps.kind.value: (maps.queries.labels, maps.keys.labels) for maps in self.seen.maps}

    @cached_property
    def html(self) -> str:
        """The page: one file that needs no network."""
        return write_page(self.seen, self.start, self.notes)

    @cached_property
    def svg(self) -> str:
        """The vector graphic: one head, or all heads small."""
        return self._draw(self.chosen)

    @property
    def png(self) -> bytes:
        """The graphic as PNG, 192 pixels to the inch."""
        return render_png(self.svg)

    @property
    def pdf(self) -> bytes:
        """The vector graphic as PDF, with its fonts inside."""
        return render_pdf(self.svg)

    def rendered(self, format: str) -> bytes:
        """Give the page or the graphic as bytes; raises AttnprobeError for the look of a page."""
        check_page_look(format, self.theme, self.width)
        content = getattr(self, format)
        return content.encode() if isinstance(content, str) else content

    def _draw(self, chosen: bool) -> str:
        from attnprobe.reports.view.graphic import draw_view

        return draw_view(self.seen, self.start, chosen=chosen, theme=self.theme or "light", width=self.width)

    def _repr_html_(self) -> str:
        page = write_page(self.seen, self.start, self.notes, self._draw(True))  # for where no script runs
        return frame_page(page, "Attention of one sequence", 720)

    def _repr_png_(self) -> bytes:
        """Show the head in a notebook that shows no HTML, such as one that is not trusted."""
        return render_png(self._draw(True))

    def __repr__(self) -> str:
        kinds = ", ".join(
            "{} {} x {} heads over {} tokens".format(maps.kind.value, *maps.rows.shape[:2], len(maps.keys))
            for maps in self.seen.maps
        )
        return f"View({self.seen.model!r}: {kinds})"
