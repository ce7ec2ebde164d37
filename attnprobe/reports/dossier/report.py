"""The report of a checkpoint: shows itself in a notebook, and goes into a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from attnprobe.errors import AttnprobeError
from attnprobe.reports.dossier.contents import Contents
from attnprobe.table.head_table import HeadTable
from attnprobe.table.saving import written
from attnprobe.wording import speaks_python

#: What a report can be saved as, by the ending of its file.
FORMATS = ("html",)


@dataclass(frozen=True, repr=False)
class Report:
    """One page about a checkpoint, in one file that needs no network.

    Attributes:
        contents: What the page shows.
        unsaved: Why tables could not be saved, in a sentence; empty where they were, or were not to be.
    """

    contents: Contents = field(repr=False)
    unsaved: str = ""

    @property
    def tables(self) -> Mapping[str, HeadTable]:
        """The tables of the report, by name; ``tables["census"].to_pandas()`` is a DataFrame."""
        return self.contents.every

    @cached_property
    def html(self) -> str:
        """The page."""
        from attnprobe.reports.dossier.page import page

        return page(self.contents)

    @speaks_python
    def save(self, path: Path | str, *, overwrite: bool = False) -> Path:
        """Write the page; the name ends in .html. The file appears whole or not at all.

        Args:
            path: The file.
            overwrite: Whether a file that exists is replaced.

        Returns:
            The file.

        Raises:
            AttnprobeError: When the file can't be written.
        """
        return written(Path(path), FORMATS, lambda _: self.html.encode(), overwrite=overwrite)

    def _repr_html_(self) -> str:
        """Show the page in a notebook."""
        from attnprobe.reports.page.document import framed

        return framed(self.html, "Report of a checkpoint", 800)

    def __repr__(self) -> str:
        """Say what it is about, in a line."""
        return f"Report({self.contents.model!r}: {', '.join(self.tables)})"


def check_tables_folder(folder: Path, names: list[str], *, overwrite: bool) -> None:
    """Refuse a folder in which tables can't be written, before anything is measured.

    Raises:
        AttnprobeError: In one sentence that says what to do instead.
    """
    from attnprobe.table.destination import check_file

    if folder.exists() and not folder.is_dir():
        raise AttnprobeError(f"{folder} is not a folder; name another one for the tables.")
    if not folder.parent.is_dir():
        raise AttnprobeError(
            f"can't make {folder}: the folder {folder.parent} does not exist; make it first."
        )
    if folder.is_dir():
        for name in names:
            check_file(folder / f"{name}.csv", overwrite)
