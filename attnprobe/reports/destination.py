"""Where a table goes and in which format, settled before a long run starts."""

import importlib.util
from pathlib import Path

from attnprobe.errors import AttnprobeError
from attnprobe.reports import stdout
from attnprobe.table.destination import Destination, check_file
from attnprobe.table.formats import FORMATS as OF_FILES

FORMATS = ("table", *OF_FILES)


def check_output(
    output: Path | None, overwrite: bool = False, format: str | None = None, bom: bool = False
) -> Destination:
    """Settle where the table goes; call it early, so that no long run ends in a refusal.

    - ``output``: The file; None or ``-`` is standard output.
    - ``overwrite``: Whether files that exist may be replaced.
    - ``format``: One of ``FORMATS``, where the file's extension does not say it; they must agree.
    - ``bom``: Whether a byte order mark is wanted, for Excel; for csv only.

    Raises AttnprobeError in one sentence that says what to do instead.
    """
    if format is not None and format not in FORMATS:
        raise AttnprobeError(f"unknown format {format!r}: choose one of {', '.join(FORMATS)}")
    found = _stream(format) if output is None or str(output) == "-" else check_file(output, overwrite, format)
    if bom and found.format != "csv":
        raise AttnprobeError(f"--bom is for csv, and this would be {found.format}: add --format csv")
    package = OF_FILES[found.format].package if found.format in OF_FILES else ""
    if package and importlib.util.find_spec(package) is None:
        raise AttnprobeError(f"{found.format} needs {package}: pip install {package}, or choose csv or json")
    return found


def _stream(format: str | None) -> Destination:
    terminal = stdout.is_terminal()
    if format in OF_FILES and OF_FILES[format].binary and terminal:
        raise AttnprobeError(f"{format} is not for reading on a terminal: name a file with -o heads.{format}")
    return Destination(format or ("table" if terminal else "csv"))
