"""In which file a table goes, and in which format; refused early, so that no long run ends in a refusal."""

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnprobe.errors import AttnprobeError
from attnprobe.files import reason
from attnprobe.table.formats import FORMATS, either, extension


@dataclass(frozen=True)
class Destination:
    """A settled destination.

    - ``format``: One of ``FORMATS``.
    - ``path``: The file, or None for standard output.
    - ``description``: The ``.json`` beside it for units, notes and provenance, or None where the
      format holds them itself or there is no file.
    """

    format: str
    path: Path | None = None
    description: Path | None = None


def check_file(output: Path, overwrite: bool = False, format: str | None = None) -> Destination:
    """Settle the files of a table.

    - ``output``: The file.
    - ``overwrite``: Whether files that exist may be replaced.
    - ``format``: One of ``FORMATS``, where the file's extension does not say it; they must agree.

    Raises AttnprobeError in one sentence that says what to do instead.
    """
    ending = extension(output)
    chosen = format or ending
    if chosen == "table":
        raise AttnprobeError(f"--format table is for the terminal: for a file choose {either(FORMATS)}")
    if chosen not in FORMATS:
        endings = ", ".join(f".{known}" for known in FORMATS)
        raise AttnprobeError(f"can't tell the format of {output}: end it in {endings}")
    if ending in FORMATS and ending != chosen:
        raise AttnprobeError(
            f"{output} ends in .{ending}, but --format is {chosen}: leave --format out, or end the name in "
            f".{chosen}"
        )
    path = resolved(output)
    _check_folder(path)
    _check_free(path, overwrite)
    if FORMATS[chosen].stands_alone:
        return Destination(chosen, path)
    description = description_path(path)
    if str(description).casefold() == str(path).casefold():
        raise AttnprobeError(
            f"{output} would be both the {chosen} and its description: name it {path.stem}.{chosen}"
        )
    _check_free(description, overwrite)
    _check_describes(description, path)
    return Destination(chosen, path, description)


def format_of(output: Path, endings: Sequence[str]) -> str:
    """Tell the format of a picture or a page from the name of its file.

    Raises AttnprobeError when it is none of ``endings``.
    """
    ending = extension(output)
    if ending not in endings:
        listed = ", ".join(f".{known}" for known in endings)
        raise AttnprobeError(f"can't tell the format of {output}: end its name in {listed}")
    return ending


def check_free_file(output: Path, endings: Sequence[str], overwrite: bool = False) -> Path:
    """Settle the file of a picture or a page, early, so that no work ends in a refusal.

    - ``output``: The file.
    - ``endings``: What its name may end in.
    - ``overwrite``: Whether a file that exists may be replaced.

    Raises AttnprobeError in one sentence that says what to do instead.
    """
    format_of(output, endings)
    path = resolved(output)
    _check_folder(path)
    _check_free(path, overwrite, example=f"heads.{endings[0]}")
    return path


def said_in(path: Path) -> dict[str, object]:
    """Read what a json says of a table; nothing where it is no such thing."""
    try:
        about = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        about = None
    return about if isinstance(about, dict) else {}


def describes(description: Path, path: Path) -> bool:
    """Tell whether a json is the description of a table."""
    return said_in(description).get("table") == path.name


def description_path(path: Path) -> Path:
    """Give ``x.json`` for ``x.csv``, but ``bert-v1.5.json`` for ``bert-v1.5``, whose .5 is no format."""
    return path.with_suffix(".json") if extension(path) in FORMATS else path.with_name(f"{path.name}.json")


def resolved(output: Path) -> Path:
    """Follow links to the file itself."""
    try:
        path = output.resolve()
        for one in (path, description_path(path)):
            with contextlib.suppress(FileNotFoundError):
                one.stat()
    except RuntimeError as error:
        raise AttnprobeError(f"can't write to {output}: it is a link that leads in circles") from error
    except OSError as error:  # a name that is too long, or a path through a file
        raise AttnprobeError(f"can't write to {output}: {reason(error)}") from error
    except ValueError as error:
        raise AttnprobeError(f"can't write to {str(output)!r}: {error}") from error
    return path


def _check_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise AttnprobeError(f"can't write {path}: the folder {path.parent} does not exist; make it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise AttnprobeError(f"can't write {path}: you have no permission to write in {path.parent}")


def _check_free(path: Path, overwrite: bool, example: str = "heads.csv") -> None:
    if path.is_dir():
        raise AttnprobeError(f"{path} is a folder: name a file in it, such as {path / example}")
    if path.exists() and not path.is_file():  # a device such as /dev/null must not become a file
        raise AttnprobeError(f"{path} is not an ordinary file: name another file")
    if path.exists() and not overwrite:
        raise AttnprobeError(f"{path} already exists: choose another name, or add --overwrite to replace it")


def _check_describes(description: Path, path: Path) -> None:
    """Refuse to replace a ``.json`` that isn't this table's own: ``--overwrite`` was said of the table."""
    if description.exists() and not describes(description, path):
        raise AttnprobeError(
            f"{description} is not the description of {path.name} and would be replaced: choose another name"
        )
