"""Whether a pruned checkpoint can go where it is to go, told before anything is loaded."""

import tempfile
from pathlib import Path

from attnprobe.errors import AttnprobeError, first_line
from attnprobe.model.loading.folders import RECORD


def check_free(folder: Path, *, overwrite: bool) -> Path:
    """Refuse a folder that is not free, before anything is computed for it.

    Args:
        folder: Where a pruned checkpoint is to go.
        overwrite: Whether a pruned checkpoint that lies there may be replaced.

    Returns:
        The folder, behind links.

    Raises:
        AttnprobeError: When something else is there, or it may not be replaced.
    """
    try:
        found = folder.expanduser().resolve()
        if not found.exists():
            _check_writable(folder, next(parent for parent in found.parents if parent.exists()))
            return found
        if not found.is_dir():
            raise AttnprobeError(f"{folder} is a file; name a folder for the pruned checkpoint.")
        if not any(found.iterdir()):
            return found
    except (OSError, RuntimeError) as error:
        raise unwritable(folder, error) from error
    if not overwrite:
        raise AttnprobeError(f"{folder} exists; choose another folder or pass --overwrite.")
    if not (found / RECORD).is_file():  # nobody meant to lose anything else
        raise AttnprobeError(
            f"{folder} holds no {RECORD}, so it is no pruned checkpoint and is not replaced; "
            "choose another folder."
        )
    return found


def _check_writable(folder: Path, parent: Path) -> None:
    if not parent.is_dir():
        raise AttnprobeError(f"{folder} can't be made: {parent} is a file.")
    try:
        tempfile.TemporaryFile(dir=parent).close()
    except OSError as error:
        raise unwritable(folder, error) from error


def unwritable(folder: Path, error: OSError | RuntimeError) -> AttnprobeError:
    """Say why a folder can't be written."""
    reason = (getattr(error, "strerror", None) or first_line(error)).lower()
    return AttnprobeError(f"{folder} can't be written ({reason}); choose another folder.")
