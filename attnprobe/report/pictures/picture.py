"""A picture: a chart that shows itself in a notebook, and goes into files."""

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from attnprobe.errors import AttnprobeError
from attnprobe.files import write_together
from attnprobe.report.pictures import rendering
from attnprobe.report.pictures.theme import Theme
from attnprobe.spelling import speaks_python
from attnprobe.table.destination import resolved


@dataclass(frozen=True)
class Picture:
    """A picture of a table.

    Attributes:
        kind: Which kind of picture, such as ``"heatmap"``.
        title: What stands above it.
        chart: The chart, an object of altair, to be changed with its grammar; without the theme.
        theme: Colours and sizes.
    """

    kind: str
    title: str
    chart: Any = field(repr=False)
    theme: Theme = field(repr=False)

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The chart as Vega-Lite: a dict of plain values, with its data and its theme."""
        return {**self.chart.to_dict(), "config": self.theme.config()}

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
        settled = check_picture(Path(path), overwrite)
        write_together({settled: self.rendered(format_of(settled))})
        return settled

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


def format_of(path: Path) -> str:
    """Tell the format of a picture from the name of its file.

    Raises:
        AttnprobeError: When it is none.
    """
    ending = path.suffix.lower().removeprefix(".")
    if ending not in rendering.FORMATS:
        endings = ", ".join(f".{known}" for known in rendering.FORMATS)
        raise AttnprobeError(f"can't tell the format of the picture {path}: end its name in {endings}")
    return ending


def check_picture(path: Path, overwrite: bool = False) -> Path:
    """Settle the file of a picture, early, so that no work ends in a refusal.

    Raises:
        AttnprobeError: In one sentence that says what to do instead.
    """
    format_of(path)
    found = resolved(path)
    if not found.parent.is_dir():
        raise AttnprobeError(f"can't write {path}: the folder {found.parent} does not exist; make it first")
    if not os.access(found.parent, os.W_OK | os.X_OK):
        raise AttnprobeError(f"can't write {path}: you have no permission to write in {found.parent}")
    if found.is_dir():
        raise AttnprobeError(f"{path} is a folder: name a file in it, such as {path / 'heads.svg'}")
    if found.exists() and not found.is_file():
        raise AttnprobeError(f"{path} is not an ordinary file: name another file")
    if found.exists() and not overwrite:
        raise AttnprobeError(f"{path} already exists: choose another name, or add --overwrite to replace it")
    return found
