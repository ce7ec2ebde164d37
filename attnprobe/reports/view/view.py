"""The picture of a sequence: shows itself in a notebook, and goes into files."""

from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from attnprobe.errors import AttnprobeError, first_line
from attnprobe.files import write_together
from attnprobe.spelling import speaks_python
from attnprobe.table.destination import check_free_file, format_of

if TYPE_CHECKING:
    from attnprobe.reports.view.page import Start
    from attnprobe.survey.viewing.seen import Seen

#: What a picture can be saved as, by the ending of its file.
FORMATS = ("html", "svg", "pdf")


@dataclass(frozen=True, repr=False)
class View:
    """The attention of one sequence, as a page to look around in, or as a vector graphic.

    Attributes:
        seen: The sequence and all its attention.
        start: What the page shows first, and what a graphic shows.
        chosen: Whether one head was asked for; a graphic of none shows all.
    """

    seen: "Seen" = field(repr=False)
    start: "Start"
    chosen: bool

    @property
    def attention(self) -> dict[str, NDArray[Any]]:
        """Attention (layer, head, query, key) of each kind that the model has, in full precision."""
        return {one.kind.value: one.rows for one in self.seen.maps}

    @property
    def tokens(self) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        """The tokens that attend and those that are attended to, for each kind of attention."""
        return {one.kind.value: (one.queries.labels, one.keys.labels) for one in self.seen.maps}

    @cached_property
    def html(self) -> str:
        """The page: one file that needs no network."""
        from attnprobe.reports.view.page import page

        return page(self.seen, self.start)

    @cached_property
    def svg(self) -> str:
        """The vector graphic: one head, or all heads small."""
        from attnprobe.reports.view.figure import figure

        return figure(self.seen, self.start, chosen=self.chosen)

    @property
    def pdf(self) -> bytes:
        """The vector graphic as PDF, with its fonts inside."""
        import vl_convert

        try:
            return vl_convert.svg_to_pdf(self.svg)
        except ValueError as error:
            raise AttnprobeError(f"the picture could not be drawn: {first_line(error)}.") from error

    @speaks_python
    def save(self, path: Path | str, *, overwrite: bool = False) -> Path:
        """Write the picture; the name ends in .html, .svg or .pdf. A file appears whole or not at all.

        Args:
            path: The file.
            overwrite: Whether a file that exists is replaced.

        Returns:
            The file.

        Raises:
            AttnprobeError: When the file can't be written.
        """
        settled = check_free_file(Path(path), FORMATS, overwrite)
        content = getattr(self, format_of(settled, FORMATS))
        write_together({settled: content.encode() if isinstance(content, str) else content})
        return settled

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame that keeps its script away from the notebook's own."""
        return (
            '<iframe title="Attention of one sequence" sandbox="allow-scripts allow-downloads" '
            f'style="width: 100%; height: 720px; border: 0" srcdoc="{escape(self.html)}"></iframe>'
        )

    def __repr__(self) -> str:
        """Say what it shows, in a line."""
        kinds = ", ".join(
            f"{one.kind.value} {one.rows.shape[0]} x {one.rows.shape[1]} heads over {len(one.keys)} tokens"
            for one in self.seen.maps
        )
        return f"View({self.seen.model!r}: {kinds})"
