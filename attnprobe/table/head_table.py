"""HeadTable: what every command returns, and reads again."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from attnprobe.table.destination import check_file
from attnprobe.table.joining import joined
from attnprobe.table.saving import rendered, saved
from attnprobe.table.table import Table
from attnprobe.wording import speaks_python

if TYPE_CHECKING:
    from attnprobe.reports.pictures.kinds import Kind, ThemeName
    from attnprobe.reports.pictures.picture import Picture

_PICTURE = "table.plot() draws it, and table.plot().save('heads.svg') writes a file"
_FRAME = "table.to_pandas() gives a DataFrame"
_FILE = "table.save('heads.csv') writes a file, whose extension picks the format"
#: What people look for in a table first, and where it is.
_GUESSES = {
    **dict.fromkeys(("heatmap", "show", "imshow", "hist", "boxplot"), _PICTURE),
    **dict.fromkeys(("frame", "df", "to_dataframe", "to_frame", "dataframe", "iloc", "loc"), _FRAME),
    **dict.fromkeys(("to_json", "to_parquet", "to_excel", "to_markdown", "write", "to_file"), _FILE),
    "describe": _FRAME,
}

#: How many columns a table names when it is printed.
_NAMED = 6


@dataclass(frozen=True, repr=False)
class HeadTable(Table):
    """A table of heads, pairs, layers or findings, that can be saved, read and joined; see ``Table``."""

    @classmethod
    @speaks_python
    def read(cls, path: Path | str) -> "HeadTable":
        """Read a table that attnprobe wrote, with units, roles, notes and provenance.

        Its name ends in .csv, .json, .parquet or .xlsx.

        Raises:
            AttnprobeError: When there is no such file, or it is no table.
        """
        from attnprobe.table.reading import read_as  # takes pandas, and a while

        return read_as(cls, Path(path))

    @speaks_python
    def save(self, path: Path | str, *, overwrite: bool = False, precision: int | None = None) -> list[Path]:
        """Write the table; the extension picks the format: csv, json, md, parquet or xlsx.

        A json beside it holds units, notes and provenance where the format itself does not. Files appear
        whole or not at all.

        Args:
            path: The file.
            overwrite: Whether files that exist are replaced.
            precision: Significant digits; all of them by default.

        Returns:
            The files, the table first.

        Raises:
            AttnprobeError: When a file can't be written.
        """
        return saved(self, check_file(Path(path), overwrite), precision)

    @speaks_python
    def join(self, other: "HeadTable", suffix: str = "_other") -> "HeadTable":
        """Put the columns of another table about the same rows behind these; see ``table.joining``.

        Examples:
            >>> from attnprobe.table.table import Column
            >>> head, x = Column("head", role="key"), Column("x")
            >>> one = HeadTable("a", [head, x], {"head": [0, 1], "x": [1.0, 2.0]})
            >>> two = HeadTable("b", [head, x], {"head": [1, 0], "x": [3.0, 4.0]})
            >>> one.join(two)["x_other"].tolist()
            [4.0, 3.0]
        """
        return joined(self, other, suffix)

    @speaks_python
    def to_csv(self, precision: int | None = None) -> str:
        """Give the table as csv text, as ``save`` writes it."""
        return rendered(self, "csv", precision).decode()

    @speaks_python
    def plot(
        self,
        kind: "Kind | None" = None,
        measure: str | Sequence[str] | None = None,
        theme: "ThemeName" = "light",
        width: int | None = None,
        title: str | None = None,
        clusters: int | None = None,
    ) -> "Picture":
        """Draw the table; the picture shows itself in a notebook, and ``save`` writes it.

        Args:
            kind: What to draw, where a table can be drawn in more ways than one; by default its own picture.
            measure: Columns to draw; by default those that the table puts first.
            theme: ``"light"``, ``"dark"`` or ``"paper"``.
            width: About how wide, in pixels.
            title: What stands above; by default the table's title.
            clusters: Into how many parts a tree of heads is cut.

        Raises:
            AttnprobeError: When the table can't be drawn like this; it says as what else.
        """
        # A table knows no room above its own. It asks the package for its plot, as any user does.
        import attnprobe

        return attnprobe.plot(
            self, kind=kind, measure=measure, theme=theme, width=width, title=title, clusters=clusters
        )

    def __getattr__(self, name: str) -> NoReturn:
        """Answer a guess."""
        said = _GUESSES.get(name)
        raise AttributeError(f"a HeadTable has no {name!r}" + (f": {said}" if said else ""))

    def __repr__(self) -> str:
        """Say what the table is, in a line."""
        names = [column.name for column in self.columns if column.role in {"key", "measure"}]
        shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        rows = "1 row" if len(self) == 1 else f"{len(self):,} rows"
        return f"HeadTable({self.title!r}: {rows} of {shown})"
