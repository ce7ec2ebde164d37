"""Writing a table, a picture or a page to a file, whole or not at all."""

from collections.abc import Callable, Sequence
from pathlib import Path

from attnprobe.files import write_together
from attnprobe.table.cells import check_precision
from attnprobe.table.destination import Destination, check_free_file, format_of
from attnprobe.table.formats import FORMATS
from attnprobe.table.formats.json import description
from attnprobe.table.table import Table


def rendered(table: Table, format: str, precision: int | None = None, *, bom: bool = False) -> bytes:
    """Write a table as bytes of a format; ``bom`` begins text with a byte order mark, for Excel."""
    check_precision(precision)
    content = FORMATS[format].write(table, precision)
    if isinstance(content, bytes):
        return content
    return content.encode("utf-8-sig" if bom else "utf-8")


def saved(
    table: Table, destination: Destination, precision: int | None = None, *, bom: bool = False
) -> list[Path]:
    """Write a table and, where its format has no room for it, its units, notes and provenance beside it.

    Returns:
        The files, the table first.

    Raises:
        AttnprobeError: When a file can't be written.
    """
    assert destination.path is not None
    files = {destination.path: rendered(table, destination.format, precision, bom=bom)}
    if destination.description is not None:
        files[destination.description] = description(table, destination.path.name).encode()
    write_together(files)
    return list(files)


def written(path: Path, endings: Sequence[str], content: Callable[[str], bytes], *, overwrite: bool) -> Path:
    """Write a picture or a page in the format that the name of its file ends in.

    Args:
        path: The file.
        endings: What its name may end in.
        content: Gives it in one of these.
        overwrite: Whether a file that exists is replaced.

    Returns:
        The file, behind links.

    Raises:
        AttnprobeError: When the file can't be written.
    """
    settled = check_free_file(path, endings, overwrite)
    write_together({settled: content(format_of(settled, endings))})
    return settled
