"""HeadTable: what every command returns, and reads again."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from attnprobe.errors import AttnprobeError, first_line
from attnprobe.table.cells import to_plain, to_plain_column
from attnprobe.table.destination import check_file, find_description, render_table, save_table
from attnprobe.table.formats import FORMATS, READABLE, extension
from attnprobe.table.table import Cell, Column, Role, Table

if TYPE_CHECKING:
    import pandas

    from attnprobe.reports.picture import Picture
    from attnprobe.table.kinds import PictureKind


#: Columns that name a row, in tables without a description.
_WORDS = {
    *("model", "dataset", "attention", "objective", "method", "metric", "criterion", "check", "status"),
    *("detail", "model_out", "in_domain", "out_domain", "replaced_by", "attention_a", "attention_b"),
    *("alignment", "weights"),
}
_KEYS = _WORDS | {
    *("layer", "head", "layer_a", "head_a", "layer_b", "head_b", "seed", "step", "pruning_step"),
    *("share_removed", "place", "group"),
}
#: Columns that count or point.
_COUNTS = {
    *("n", "offset", "nearest_head", "odd_head", "heads", "heads_removed", "rank_in", "rank_out"),
    "rank_among_random",
}


def describe_table(path: Path) -> dict[str, str]:
    """Name a table and its content, for the record."""
    with path.open("rb") as stream:
        return {"name": path.name, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}


def read_table(path: Path) -> "pandas.DataFrame":
    """Read the rows of a table; raises AttnprobeError when there is no such file, or it is no table."""
    read = FORMATS[extension(path)].read if extension(path) in READABLE else None
    if read is None:
        endings = ", ".join(f".{ending}" for ending in READABLE)
        raise AttnprobeError(f"{path} is no table; give a file that ends in {endings}.")
    if not path.is_file():
        raise AttnprobeError(f"There is no file {path}.")
    try:
        return read(path, _WORDS)
    except Exception as error:
        raise AttnprobeError(f"{path} can't be read as a table: {first_line(error)}.") from error


def read_head_table(path: Path) -> "HeadTable":
    """Read a table with all that lies in the file, or beside it: units, roles, notes, provenance.

    A csv that lies alone is read as well; what its columns are is then told from their names. Raises
    AttnprobeError when there is no such file, it is no table, or what lies beside it is not its own.
    """
    frame, about = read_table(path), _read_description(path)
    described, notes = (
        value if isinstance(value := about.get(name), list) else [] for name in ("columns", "notes")
    )
    known = {str(column.get("name")): column for column in described if isinstance(column, dict)}
    names = [str(name) for name in frame.columns]
    columns = [_describe_column(name, known.get(name), names) for name in names]
    data = {
        name: to_plain_column(frame[key].tolist(), column)
        for name, key, column in zip(names, frame.columns, columns, strict=True)
    }
    title, provenance = str(about.get("title") or path.stem), about.get("provenance")
    record = provenance if isinstance(provenance, dict) else {}
    return HeadTable(title, columns, data, list(map(str, notes)), record)


def _read_description(path: Path) -> dict[str, Any]:
    """Find what is said about a table: in the file itself, or in the json beside it."""
    describe = FORMATS[extension(path)].describe
    source = find_description(path)
    try:
        if describe is not None:
            found = describe(path)
        else:
            found = json.loads(source.read_text(encoding="utf-8")) if source.is_file() else {}
            if isinstance(found, dict) and found.get("table") not in {None, path.name}:
                found = {}
    except (OSError, ValueError, RecursionError) as error:
        if describe is not None:
            raise AttnprobeError(f"{path} can't be read as a table: {first_line(error)}.") from error
        raise AttnprobeError(
            f"{source}, which describes {path.name}, can't be read: {first_line(error)}. Delete it, or write "
            "the table again with -o."
        ) from error
    return found if isinstance(found, dict) else {}


def _describe_column(name: str, said: Mapping[str, Any] | None, names: Sequence[str]) -> Column:
    if said is not None and said.get("role") in get_args(Role):
        headline, title = said.get("headline") is True, str(said.get("title", ""))
        return Column(name, str(said.get("unit", "")), said["role"], headline, title)
    return Column(name, role=_guess_role(name, names))


def _guess_role(name: str, names: Sequence[str]) -> Role:
    """Tell what a column is from its name, where nobody says."""
    if name.endswith("_se") and name.removesuffix("_se") in names:
        return "error"
    if name in _KEYS:
        return "key"
    counted = name in _COUNTS or (name.endswith("_n") and name.removesuffix("_n") in names)
    return "count" if counted else "measure"


#: Keys that say what was asked, not which head a row is about.
_ASKED = ("model", "dataset", "objective", "method", "metric", "replaced_by")


def join_tables(left: "HeadTable", right: "HeadTable", suffix: str = "_other") -> "HeadTable":
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
    return HeadTable(title, columns, data, [*left.notes, *right.notes], record)


def join_side_by_side(left: "HeadTable", right: "HeadTable") -> "HeadTable":
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
    return HeadTable(left.title, [*left.columns, *added], data, notes, left.provenance)


def _match_rows(left: Table, right: Table, keys: list[str]) -> list[int]:
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
    """Find the columns that stay together: a measure and its error."""
    base = name.removesuffix("_se")
    base = base if base in table.data else name
    return {base, f"{base}_se"} & set(table.data)


def _choose_name(name: str, left: Table, suffix: str) -> str:
    """Give a column a name of its own; an error stays behind the measure it belongs to."""
    base = name.removesuffix("_se")
    if base != name and base in left.data:
        return f"{base}{suffix}_se"
    return f"{name}{suffix}" if name in left.data else name


#: How many columns a table names when it is printed.
_NAMED = 6


@dataclass(frozen=True, repr=False)
class HeadTable(Table):
    """A table of heads, pairs, layers or findings, that can be saved, read and joined; see ``Table``."""

    @classmethod
    def read(cls, path: Path | str) -> "HeadTable":
        """Read a table that attnprobe wrote, with units, roles, notes and provenance.

        Its name ends in an extension of a format such as .csv, .json, .parquet or .xlsx.

        Raises:
            AttnprobeError: When there is no such file, or it is no table.
        """
        return read_head_table(Path(path))

    def save(self, path: Path | str, *, overwrite: bool = False, precision: int | None = None) -> list[Path]:
        """Write the table; the extension picks the format, such as csv, json, md, parquet, tex or xlsx.

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

    def to_csv(self, precision: int | None = None) -> str:
        """Give the table as csv text, as ``save`` writes it."""
        return render_table(self, "csv", precision).decode()

    def plot(
        self,
        kind: "PictureKind | None" = None,
        measure: str | Sequence[str] | None = None,
        **options: Any,
    ) -> "Picture":
        """Draw the table as ``attnprobe.plot`` does, which says what else it takes."""
        # A table knows no room above its own. It asks the package for its plot, as any user does.
        import attnprobe

        return attnprobe.plot(self, kind=kind, measure=measure, **options)

    def __repr__(self) -> str:
        """Say what the table is, in a line."""
        names = [column.name for column in self.columns if column.role in {"key", "measure"}]
        shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        rows = "1 row" if len(self) == 1 else f"{len(self):,} rows"
        return f"HeadTable({self.title!r}: {rows} of {shown})"
