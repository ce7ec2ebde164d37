"""HeadTable: what every command returns, and reads again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from attnprobe.errors import AttnprobeError
from attnprobe.table.cells import to_plain
from attnprobe.table.destination import check_file, render_table, save_table
from attnprobe.table.table import HALVES, Cell, Column, Table
from attnprobe.wording import speaks_python

if TYPE_CHECKING:
    from attnprobe.reports.pictures.picture import Picture
    from attnprobe.reports.theme import ThemeName
    from attnprobe.table.kinds import PictureKind


Joined = TypeVar("Joined", bound=Table)

#: Keys that say what was asked, not which head a row is about.
_ASKED = ("model", "dataset", "objective", "method", "metric")
#: How what belongs to a measure ends.
_ENDINGS = ("_se", *(f"_{half}" for half in HALVES))


def join_tables(left: Joined, right: Table, suffix: str = "_other") -> Joined:
    """Put the columns of a table behind those of another, row by row.

    Rows are matched by the columns that name them in both, such as layer and head; those of ``left`` and
    their order stay. The ``suffix`` goes behind the name of a column that both have. Raises AttnprobeError
    when the tables are about different models, or not about the same rows.
    """
    if left.models != right.models:
        raise AttnprobeError(
            f"One table is about {', '.join(left.models)}, the other about {', '.join(right.models)}; only "
            "tables of the same model can be joined."
        )
    ours = [column.name for column in left.columns if column.role == "key"]
    keys = [name for name in ours if name not in _ASKED and name in right.data]
    if not keys:
        raise AttnprobeError("The tables have no columns in common that name a row, such as layer and head.")
    order = _match_rows(left, right, keys)
    ordered = {name: [cells[row] for row in order] for name, cells in right.data.items()}
    alike = {
        name for name, cells in ordered.items() if name in left.data and _are_same(left.data[name], cells)
    }
    added: list[tuple[Column, list[Cell]]] = []
    for column in right.columns:
        if column.name in keys or _find_family(column.name, right) <= alike:
            continue
        name = _choose_name(column.name, left, suffix)
        added.append((replace(column, name=name), ordered[column.name]))
    data: dict[str, Any] = {**left.data, **{column.name: cells for column, cells in added}}
    if len(data) < len(left.data) + len(added):
        raise AttnprobeError(f"Both tables have columns that end in {suffix!r}; give another suffix.")
    record = {"joined": [dict(left.provenance), dict(right.provenance)]}
    columns = [*left.columns, *(column for column, _ in added)]
    title = left.title if left.title == right.title else f"{left.title}, and {right.title}"
    return type(left)(title, columns, data, [*left.notes, *right.notes], record)


def join_side_by_side(left: Joined, right: Table) -> Joined:
    """Put the columns of a table behind those of another of the same rows in the same order.

    What names the rows, and their number ``n``, stays as it is on the left; notes that both have are said
    once, and the provenance is that of the left. Raises ValueError when the rows are others, or a column is
    in both.
    """
    keys = [column.name for column in right.columns if column.role == "key"]
    if any(list(left.data.get(key, ())) != list(right.data[key]) for key in keys):
        raise ValueError("only tables of the same rows belong side by side")
    added = [column for column in right.columns if column.name not in {*keys, "n"}]
    if doubled := {column.name for column in added} & left.data.keys():
        raise ValueError(f"both tables have {', '.join(sorted(doubled))}")
    data = {**left.data, **{column.name: right.data[column.name] for column in added}}
    notes = list(dict.fromkeys([*left.notes, *right.notes]))
    return type(left)(left.title, [*left.columns, *added], data, notes, left.provenance)


def _match_rows(left: Table, right: Table, keys: list[str]) -> list[int]:
    """Find the row of the right table for each row of the left one."""
    ours, theirs = (list(zip(*(side.data[key] for key in keys), strict=True)) for side in (left, right))
    places = {place: row for row, place in enumerate(theirs)}
    if len(places) < len(theirs) or len(set(ours)) < len(ours):
        raise AttnprobeError(
            f"A table has more than one row for some {', '.join(keys)}; join tables of a row each."
        )
    if set(ours) != set(theirs):
        apart = len(set(ours) ^ set(theirs))
        raise AttnprobeError(
            f"The tables are not about the same rows: {apart} of them are in only one ({', '.join(keys)})."
        )
    return [places[place] for place in ours]


def _are_same(one: Sequence[Cell], other: Sequence[Cell]) -> bool:
    """Compare cells; what is undefined in both is the same, NaN or None."""
    return [to_plain(cell) for cell in one] == [to_plain(cell) for cell in other]


def _find_family(name: str, table: Table) -> set[str]:
    """Find the columns that stay together: a measure, its error and its halves."""
    bases = (name.removesuffix(end) for end in _ENDINGS)
    base = next((base for base in bases if base != name and base in table.data), name)
    return {base, *(f"{base}{end}" for end in _ENDINGS)} & set(table.data)


def _choose_name(name: str, left: Table, suffix: str) -> str:
    """Give a column a name of its own; an error or a half stays behind the measure it belongs to."""
    for ending in _ENDINGS:
        base = name.removesuffix(ending)
        if base != name and base in left.data:
            return f"{base}{suffix}{ending}"
    return f"{name}{suffix}" if name in left.data else name


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

        Its name ends in an extension of a format such as .csv, .json, .parquet or .xlsx.

        Raises:
            AttnprobeError: When there is no such file, or it is no table.
        """
        from attnprobe.table.reading import read_table_as  # takes pandas, and a while

        return read_table_as(cls, Path(path))

    @speaks_python
    def save(self, path: Path | str, *, overwrite: bool = False, precision: int | None = None) -> list[Path]:
        """Write the table; the extension picks the format, such as csv, json, md, parquet or xlsx.

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
        return save_table(self, check_file(Path(path), overwrite), precision)

    @speaks_python
    def join(self, other: "HeadTable", suffix: str = "_other") -> "HeadTable":
        """Put the columns of another table about the same rows behind these; see ``join_tables``.

        Examples:
            >>> from attnprobe.table.table import Column
            >>> head, x = Column("head", role="key"), Column("x")
            >>> one = HeadTable("a", [head, x], {"head": [0, 1], "x": [1.0, 2.0]})
            >>> two = HeadTable("b", [head, x], {"head": [1, 0], "x": [3.0, 4.0]})
            >>> one.join(two)["x_other"].tolist()
            [4.0, 3.0]
        """
        return join_tables(self, other, suffix)

    @speaks_python
    def to_csv(self, precision: int | None = None) -> str:
        """Give the table as csv text, as ``save`` writes it."""
        return render_table(self, "csv", precision).decode()

    @speaks_python
    def plot(
        self,
        kind: "PictureKind | None" = None,
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
        """Refuse an unknown attribute, and say what to use for a common guess."""
        said = _GUESSES.get(name)
        raise AttributeError(f"a HeadTable has no {name!r}" + (f": {said}" if said else ""))

    def __repr__(self) -> str:
        """Say what the table is, in a line."""
        names = [column.name for column in self.columns if column.role in {"key", "measure"}]
        shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        rows = "1 row" if len(self) == 1 else f"{len(self):,} rows"
        return f"HeadTable({self.title!r}: {rows} of {shown})"
