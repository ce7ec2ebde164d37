"""Writing files: a file appears whole or not at all."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from attnprobe.errors import AttnprobeError

_ADVICE = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your disk quota is used up",
    errno.EACCES: "you have no permission to write there",
    errno.EPERM: "you have no permission to write there",
    errno.EROFS: "that disk is read-only",
    errno.ENOENT: "the folder does not exist",
    errno.ENAMETOOLONG: "the file name is too long",
}


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write all the files or none of them, without ever showing a half-written one.

    Each is first written in full beside its destination, since a rename is atomic only within one
    file system. Should a later rename fail, the files that this call created are taken back; one
    that it replaced stays replaced.

    Raises AttnprobeError if a file can't be written, with the reason.
    """
    with contextlib.ExitStack() as cleanup, contextlib.ExitStack() as undo:
        staged: dict[Path, Path] = {}
        for path, content in contents.items():
            with _explained(path):
                staged[path] = temporary = path.with_name(f".attnprobe-{secrets.token_hex(8)}.tmp")
                cleanup.callback(_remove, temporary)
                _write_through(temporary, content)
                if path.exists():  # what was private stays private
                    temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        for path, temporary in staged.items():
            with _explained(path):
                existed = path.exists()
                temporary.replace(path)
            if not existed:
                undo.callback(_remove, path)
        undo.pop_all()


def same_file(one: Path, other: Path) -> bool:
    """Tell whether two paths lead to one file, through links and whatever the case of their letters.

    Of a file that is yet to be made, only the name can be compared.
    """
    try:
        if one.exists() and other.exists():
            return one.samefile(other)
        return str(one.resolve()).casefold() == str(other.resolve()).casefold()
    except (OSError, RuntimeError, ValueError):
        return False


def lies_in(path: Path, folder: Path) -> bool:
    """Tell whether a path, behind links, is a folder or lies in it."""
    try:
        inside = path.resolve()
    except (OSError, RuntimeError, ValueError):
        return False
    return any(same_file(parent, folder) for parent in (inside, *inside.parents))


def _write_through(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # a full disk must show before the rename, not after it


def _remove(path: Path) -> None:
    # What fails here must not hide the error that led here.
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AttnprobeError(f"could not write {path}: {reason(error)}") from error


def reason(error: OSError) -> str:
    """Say in plain words why the system refused."""
    return _ADVICE.get(error.errno or 0, error.strerror or str(error))
