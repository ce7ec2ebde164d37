"""Images and sound: folders of files, images beside texts, and their pixels and samples."""

import csv
import hashlib
import json
import warnings
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.corpus.streams import explain_errors, hash_stream
from attnprobe.errors import AttnprobeError, DataError, first_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Kinds of files; and the modality of a model that reads images and texts together.
IMAGE, SOUND, BOTH = "image", "sound", "image+text"
EXTENSIONS = {
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"), IMAGE),
    **dict.fromkeys((".wav", ".flac", ".ogg", ".mp3"), SOUND),
}
#: Tables of labels beside files, as in an ImageFolder or AudioFolder.
METADATA = ("metadata.csv", "metadata.jsonl")
#: Their usual columns of classes and transcripts.
USUAL = ("label", "text", "transcription", "transcript", "sentence")
#: Formats that Pillow hands to an interpreter, whatever the file is called.
_PROGRAMS = {"EPS", "WMF"}
#: Larger files are no images.
_LARGEST = 1 << 28
#: The first characters of a data URL, and of base64 of PNG, JPEG, GIF and WebP.
_BEGINS = ("data:image/", "iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR")


@dataclass(frozen=True)
class Item:
    """A file, and its class or its transcript."""

    path: Path
    label: str | int | float | None = None


@dataclass(frozen=True)
class MediaFolder:
    """Files of one kind, in the order of their names."""

    path: Path
    kind: str
    items: tuple[Item, ...]

    @classmethod
    def open(cls, path: Path, column: str | None = None) -> "MediaFolder":
        """Open a file, or the images or the sound, but not both, of a folder and its subfolders.

        Labels are in a ``column`` (by default one of ``USUAL``) of ``metadata.csv`` or ``.jsonl`` beside
        ``file_name``; without such a table, they are the subfolders, if all files lie in some.
        """
        if path.is_file():
            return cls(path, EXTENSIONS[path.suffix.lower()], (Item(path),))
        files = sorted(find_files(path, is_media))
        kinds = {EXTENSIONS[file.suffix.lower()] for file in files}
        if not kinds:
            known = ", ".join(EXTENSIONS)
            raise DataError(f"{path} is a folder without text, images or sound, such as .txt, {known}.")
        if len(kinds) > 1:
            raise DataError(f"{path} holds images and sound; put them in folders of their own.")
        names = [file.relative_to(path) for file in files]
        labels = _read_metadata(path, column)
        if labels is None and all(len(name.parts) > 1 for name in names):
            labels = {name.as_posix(): name.parts[0] for name in names}
        each = ((labels or {}).get(name.as_posix()) for name in names)
        return cls(path, kinds.pop(), tuple(map(Item, files, each)))

    @property
    def labelled(self) -> "MediaFolder":
        return replace(self, items=tuple(item for item in self.items if item.label is not None))

    @cached_property
    def described(self) -> dict[str, Any]:
        """Its name, size, and the SHA-256 of names and contents, for the record."""
        digest, size = hashlib.sha256(), 0
        for item in self.items:
            with explain_errors(str(item.path)), item.path.open("rb") as content:
                length = item.path.stat().st_size
                digest.update(f"{item.path.name}|{item.label!r}|{length}|".encode())
                size += hash_stream(content, digest)
        known = {"name": self.path.name, "kind": self.kind, "files": len(self.items)}
        return {**known, "sha256": digest.hexdigest(), "bytes": size}


def is_media(path: Path) -> bool:
    return path.suffix.lower() in EXTENSIONS


def find_files(folder: Path, wanted: Callable[[Path], bool]) -> Iterator[Path]:
    """Find the ``wanted`` files of a folder and its subfolders, in any order, without hidden ones."""
    with explain_errors(str(folder)):
        for path in folder.rglob("*"):
            hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
            if not hidden and wanted(path) and path.is_file():
                yield path


def _read_metadata(folder: Path, column: str | None) -> dict[str, Any] | None:
    """Read the labels of files, by name, from the table beside them; None where there is no table."""
    path = next((folder / name for name in METADATA if (folder / name).is_file()), None)
    if path is None:
        if column is not None:
            raise DataError(f"{folder} has no metadata.csv that could hold a column {column!r}.")
        return None
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            table = list(csv.DictReader(lines) if path.suffix == ".csv" else map(json.loads, lines))
        known = list(dict(table[0])) if table else []
        name = column or next((usual for usual in USUAL if usual in known), None)
        for wanted in {"file_name", column}.difference(known, {None}):
            raise DataError(f"{path} has no column {wanted!r}; its columns are {', '.join(known)}.")
        return {row["file_name"]: row[name] for row in table if name and row.get(name) not in {None, ""}}
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError, csv.Error) as error:
        raise DataError(f"{path} is damaged: it can't be read as a table with a column file_name.") from error


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that is read together with a text."""

    where: str  # the row, for errors
    path: Path | None = None
    held: bytes | Callable[[], bytes] = b""  # without a path, its bytes, or what reads them

    def __str__(self) -> str:
        if self.path is None:
            return f"the image of {self.where}"
        name = str(self.path)  # which a terminal may obey
        return f"{name if name.isprintable() else repr(name)} ({self.where})"

    @property
    def content(self) -> bytes:
        if self.path is None:
            return self.held if isinstance(self.held, bytes) else self.held()
        try:
            if not self.path.is_file():
                raise DataError(f"There is no image {self}.")
            if self.path.stat().st_size > _LARGEST:
                raise DataError(f"{self} has more than {_LARGEST >> 20} MiB.")
            return self.path.read_bytes()
        except (OSError, ValueError) as error:
            raise DataError(f"{self} can't be read: {first_line(error)}.") from error

    def read(self) -> "NDArray[np.uint8]":
        return read_image(BytesIO(self.content), str(self))

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @classmethod
    def of_cell(cls, cell: Any, folder: Path, where: str) -> "Picture | None":
        """Read a cell of a table: a path, bytes, base64, an image of the hub; None if it is empty."""
        if isinstance(cell, list | tuple):
            if len(cell) > 1:
                raise DataError(f"{where} has {len(cell)} images; one is read with a text.")
            cell = cell[0] if cell else None
        if isinstance(cell, Mapping):
            cell = cell.get("bytes") or cell.get("path")
        if cell is None or (isinstance(cell, str | bytes) and not cell):
            return None
        if isinstance(cell, bytes):
            return cls(where, held=cell)
        if isinstance(cell, str) and cell.startswith(("http://", "https://")):
            raise DataError(f"{where} names an image on the web; download it, and name the file.")
        if isinstance(cell, str) and cell.startswith(_BEGINS):
            try:
                return cls(where, held=b64decode("".join(cell.rpartition(",")[2].split()), validate=True))
            except ValueError:
                raise DataError(f"{where} has an image in broken base64.") from None
        if isinstance(cell, str | Path):
            return cls(where, folder / cell)
        if hasattr(cell, "save") and hasattr(cell, "convert"):  # an image of Pillow
            cell.convert("RGB").save(held := BytesIO(), "PNG")
            return cls(where, held=held.getvalue())
        raise DataError(f"{where} has {type(cell).__name__} for an image; give a path, bytes or base64.")

    @staticmethod
    def may_be(cell: Any) -> bool:
        cell = cell[0] if isinstance(cell, list | tuple) and cell else cell
        if isinstance(cell, Mapping):
            return "bytes" in cell or "path" in cell
        if isinstance(cell, str):
            return cell.startswith(_BEGINS) or EXTENSIONS.get(Path(cell).suffix.lower()) == IMAGE
        return isinstance(cell, bytes) or hasattr(cell, "convert")


@contextmanager
def _explain_damage(name: object, kind: str, package: str) -> Iterator[None]:
    try:
        yield
    except (AttnprobeError, MemoryError):
        raise
    except ImportError as error:
        raise DataError(f"Reading {kind} needs {package}: pip install {package.lower()}.") from error
    except Exception as error:  # decoders raise whatever they like
        if "DecompressionBomb" in type(error).__name__:
            raise DataError(f"{name} has too many pixels for an image; leave it out.") from error
        if isinstance(error, OSError) and error.errno is not None:  # the disk, not the file
            raise DataError(f"{name} can't be read: {error.strerror}.") from error
        raise DataError(f"{name} is damaged: it can't be read as {kind}.") from error


@contextmanager
def _open_image(image: Path | BytesIO, name: str = "") -> Iterator[Any]:
    with _explain_damage(name or image, "an image", "Pillow"), warnings.catch_warnings():
        from PIL import Image

        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(image) as opened:
            if opened.format in _PROGRAMS:
                raise DataError(f"{name or image} is no image: {opened.format} is a program that draws.")
            yield opened


def read_image(image: Path | BytesIO, name: str = "") -> "NDArray[np.uint8]":
    """Read an image (height, width, 3), rotated as its camera notes; ``name`` is for errors."""
    with _open_image(image, name) as opened:
        import numpy as np
        from PIL import ImageOps

        return np.asarray(ImageOps.exif_transpose(opened).convert("RGB"))


def read_image_size(path: Path) -> tuple[int, int]:
    """Read the width and height of an image without decoding it."""
    with _open_image(path) as image:
        turned = image.getexif().get(0x0112, 1) >= 5
        return image.size[::-1] if turned else image.size


def read_sound(path: Path, rate: int) -> "NDArray[np.float32]":
    """Read sound as ``rate`` samples a second, averaged over channels."""
    with _explain_damage(path, "sound", "soundfile"):
        import soundfile

        samples, recorded = soundfile.read(path, dtype="float32", always_2d=True)
    mono = samples.mean(1)
    if recorded == rate:
        return mono
    from scipy.signal import resample_poly  # takes a while to import

    common = gcd(recorded, rate)
    return resample_poly(mono, rate // common, recorded // common).astype("float32")


def count_samples(path: Path, rate: int) -> int:
    """Count the samples that ``read_sound`` gives, without decoding."""
    with _explain_damage(path, "sound", "soundfile"):
        import soundfile

        about = soundfile.info(path)
    common = gcd(about.samplerate, rate)
    return -(-about.frames * (rate // common) // (about.samplerate // common))
