"""A picture: a chart that shows itself in a notebook, and goes into files."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from attnprobe.errors import AttnprobeError
from attnprobe.reports.pictures import rendering
from attnprobe.reports.pictures.announcing import announced
from attnprobe.reports.pictures.theme import Theme
from attnprobe.table.head_table import HeadTable
from attnprobe.table.saving import written
from attnprobe.wording import speaks_python


@dataclass(frozen=True)
class Picture:
    """A picture of a table.

    Attributes:
        kind: Which kind of picture, such as ``"heatmap"``.
        title: What stands above it.
        chart: The chart, an object of altair, to be changed with its grammar; without the theme.
        theme: Colours and sizes.
        clustered: What tabulates the clusters of a tree of heads.
    """

    kind: str
    title: str
    chart: Any = field(repr=False)
    theme: Theme = field(repr=False)
    clustered: Callable[[], HeadTable] | None = field(default=None, repr=False)

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The chart as Vega-Lite: a dict of plain values, with its data and its theme."""
        return {**announced(self.chart.to_dict(validate=False)), "config": self.theme.config()}

    @cached_property
    def clusters(self) -> HeadTable:
        """Which head is in which cluster, as a table: of a tree of heads.

        Raises:
            AttnprobeError: When this picture is none.
        """
        if self.clustered is None:
            raise AttnprobeError(
                f"a picture of kind {self.kind} has no clusters; kind='dendrogram' of a table of distance "
                "between all pairs of heads has"
            )
        return self.clustered()

    @speaks_python
    def save(self, path: Path | str, *, overwrite: bool = False) -> Path:
        """Write the picture; the name ends in .svg, .png, .pdf or .html. A file appears whole or not at all.

        Args:
            path: The file.
            overwrite: Whether a file that exists is replaced.

        Returns:
            The file.

        Raises:
            AttnprobeError: When the file can't be written.
        """
        return written(Path(path), list(rendering.FORMATS), self.rendered, overwrite=overwrite)

    def rendered(self, format: str) -> bytes:
        """Give the picture as bytes of a format: svg, png, pdf or html."""
        return rendering.FORMATS[format](self.spec)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Show the picture in a notebook: svg, small and complete; png where svg is not trusted."""
        import base64

        return {
            "image/svg+xml": self.rendered("svg").decode(),
            "image/png": base64.b64encode(self.rendered("png")).decode(),
            "text/plain": repr(self),
        }
