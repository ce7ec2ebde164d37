"""Writing files: a file appears whole or not at all."""

import contextlib
import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from attnprobe.errors import AttnprobeError


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write all the files or none of them, without ever showing a half-written one.

    Each is first written in full beside its destination. Should a later rename fail, the files that this call
    created are taken back; one that it replaced stays replaced. The file that a link leads to is written.
    Raises AttnprobeError with the reason where a file can't be written.
    """
    with contextlib.ExitStack() as cleanup, contextlib.ExitStack() as undo:
        staged: dict[Path, Path] = {}
        for path, content in contents.items():
            with _explain_failure(path):
                target = path.resolve()
                staged[target] = temporary = name_unfinished(target)
                cleanup.callback(_remove, temporary)
                _write_through(temporary, content)
                if target.exists():  # what was private stays private
                    temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        for target, temporary in staged.items():
            with _explain_failure(target):
                existed = target.exists()
                temporary.replace(target)
            if not existed:
                undo.callback(_remove, target)
        undo.pop_all()


def name_unfinished(target: Path) -> Path:
    """Name what is to take the place of a file or a folder once it is whole."""
    return target.with_name(f".attnprobe-{secrets.token_hex(8)}.tmp")


def lock(path: Path) -> int | None:
    """Lock a file or a folder until the descriptor is closed; None if it is held, or always on Windows."""
    try:
        import fcntl
    except ImportError:  # this system lets nobody remove what is open
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def try_writing(folder: Path) -> None:
    """Write a small file into a folder and remove it; raises OSError where folder or disk don't take it."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(4096))
        file.flush()


def same_file(path: Path, other: Path) -> bool:
    """Tell whether two paths lead to one file, through links; of one that is yet to be made, by its name."""
    try:
        if path.exists() and other.exists():
            return path.samefile(other)
        return str(path.resolve()).casefold() == str(other.resolve()).casefold()
    except (OSError, RuntimeError, ValueError):
        return False


def hash_file(path: Path) -> str:
    """Compute the SHA-256 of a file."""
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


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
    with contextlib.suppress(OSError):  # which must not hide the error that led here
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _explain_failure(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AttnprobeError(f"could not write {path}: {reason(error)}") from error
    except RuntimeError as error:  # of resolve()
        raise AttnprobeError(f"could not write {path}: it is a link that leads in circles") from error


def reason(error: OSError) -> str:
    """Say why the system refused."""
    return error.strerror or str(error)
