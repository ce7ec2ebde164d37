"""Images and sound: folders of files, and from files to the arrays that a model reads."""

import csv
import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.corpus.sources.document import Label
from attnprobe.errors import AttnprobeError, DataError

IMAGE, SOUND = "image", "sound"
EXTENSIONS = {
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"), IMAGE),
    **dict.fromkeys((".wav", ".flac", ".ogg", ".mp3"), SOUND),
}
#: What is said about the files of a folder, in a table beside them, as in an ImageFolder or AudioFolder.
METADATA = ("metadata.csv", "metadata.jsonl")
#: Formats that Pillow hands to an interpreter, whatever the file is called.
_PROGRAMS = {"EPS", "WMF"}
#: Bytes of a file that are held at a time.
_PART = 1 << 24
#: Columns in which a class or a transcript is looked for where none is named.
USUAL = ("label", "text", "transcription", "transcript", "sentence")


@dataclass(frozen=True)
class Item:
    """A file."""

    path: Path
    label: Label | None = None


@dataclass(frozen=True)
class MediaFolder:
    """Files of one kind, in the order of their names."""

    path: Path
    kind: str
    items: tuple[Item, ...]

    @classmethod
    def open(cls, path: Path, column: str | None = None) -> "MediaFolder":
        """List the images or the sound of a folder and of those inside it.

        A file's label is what a column of ``metadata.csv`` (or ``.jsonl``) says of its ``file_name``, or
        else the name of the folder it lies in, if all files lie in folders of their own.

        ``column``: of the table; by default label, text, transcription, transcript or sentence.
        """
        if path.is_file():
            return cls(path, EXTENSIONS[path.suffix.lower()], (Item(path),))
        found = sorted(find_media(path))
        kinds = {EXTENSIONS[file.suffix.lower()] for file in found}
        if not kinds:
            raise DataError(
                f"{path} is a folder without text, images or sound; give a file, or a folder that "
                f"holds files like .txt, {', '.join(EXTENSIONS)}."
            )
        if len(kinds) > 1:
            raise DataError(f"{path} holds images and sound; put them in folders of their own.")
        labels = _read_metadata(path, column)
        if labels is None:
            if column is not None:
                raise DataError(f"{path} has no metadata.csv that could hold a column {column!r}.")
            apart = all(file.parent != path for file in found)
            labels = {_name(file, path): file.relative_to(path).parts[0] for file in found if apart}
        items = tuple(Item(file, _find_label(labels, file, path)) for file in found)
        return cls(path, kinds.pop(), items)

    @property
    def labelled(self) -> "MediaFolder":
        return replace(self, items=tuple(item for item in self.items if item.label is not None))

    def first(self, number: int | None) -> "MediaFolder":
        return self if number is None else replace(self, items=self.items[:number])

    @cached_property
    def described(self) -> dict[str, Any]:
        """What goes on record: its name, a SHA-256 of names and contents, and its size."""
        digest, size = hashlib.sha256(), 0
        for path, label in ((item.path, item.label) for item in self.items):
            try:
                with path.open("rb") as content:
                    length = path.stat().st_size
                    digest.update(f"{path.name}|{label!r}|{length}|".encode())
                    while part := content.read(_PART):
                        digest.update(part)
            except OSError as error:
                raise DataError(f"{path} can't be read: {error.strerror}.") from error
            size += length
        return {
            "name": self.path.name,
            "kind": self.kind,
            "files": len(self.items),
            "sha256": digest.hexdigest(),
            "bytes": size,
        }


def is_media(path: Path) -> bool:
    """Tell a folder, or a file that is an image or sound by its name."""
    return path.is_dir() or path.suffix.lower() in EXTENSIONS


def find_media(folder: Path) -> Iterator[Path]:
    try:
        for path in folder.rglob("*"):
            hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
            if not hidden and path.suffix.lower() in EXTENSIONS and path.is_file():
                yield path
    except OSError as error:
        raise DataError(f"{folder} can't be read: {error.strerror}.") from error


def _find_label(labels: Mapping[str, Label], file: Path, folder: Path) -> Label | None:
    return labels.get(_name(file, folder), labels.get(_name(file.parent, folder)))


def _name(file: Path, folder: Path) -> str:
    return file.relative_to(folder).as_posix()


def _read_metadata(folder: Path, column: str | None) -> dict[str, Label] | None:
    """Read the table beside the files: what is said of each, or None where there is none."""
    path = next((folder / name for name in METADATA if (folder / name).is_file()), None)
    if path is None:
        return None
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            table = list(csv.DictReader(lines) if path.suffix == ".csv" else map(json.loads, lines))
        if not all(isinstance(row, dict) for row in table):
            raise ValueError("a line is no object")
        known = list(table[0]) if table else []
        name = column or next((usual for usual in USUAL if usual in known), None)
        for wanted in ("file_name", column):
            if wanted is not None and wanted not in known:
                raise DataError(f"{path} has no column {wanted!r}; its columns are {', '.join(known)}.")
        if name is None:
            return {}
        return {row["file_name"]: row[name] for row in table if row.get(name) not in {None, ""}}
    except (OSError, ValueError, TypeError, KeyError, RecursionError, csv.Error) as error:
        raise DataError(f"{path} is damaged: it can't be read as a table with a column file_name.") from error


def _explain_sound(path: Path, error: Exception) -> AttnprobeError:
    if isinstance(error, ImportError):
        return DataError("Sound needs soundfile: pip install soundfile.")
    return _explain_damage(path, error, "sound")


def _explain_damage(name: object, error: Exception, what: str) -> AttnprobeError:
    if "DecompressionBomb" in type(error).__name__:
        return DataError(f"{name} has too many pixels for an image; leave it out.")
    if isinstance(error, OSError) and error.errno is not None:  # the disk, not the file
        return DataError(f"{name} can't be read: {error.strerror}.")
    return DataError(f"{name} is damaged: it can't be read as {what}.")


def read_image(image: Path | BytesIO, name: str = "") -> NDArray[np.uint8]:
    """Read an image, (height, width, red-green-blue), turned as its camera says; ``name`` is for errors."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise DataError("Images need Pillow: pip install pillow.") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(image) as opened:
                if opened.format in _PROGRAMS:
                    raise DataError(
                        f"{name or image} can't be read as an image: {opened.format} is a program that draws."
                    )
                return np.asarray(ImageOps.exif_transpose(opened).convert("RGB"))
    except (AttnprobeError, MemoryError):
        raise
    except Exception as error:  # decoders raise whatever they like over broken files
        raise _explain_damage(name or image, error, "an image") from error


def read_image_size(path: Path) -> tuple[int, int]:
    """Tell width and height of an image without decoding it."""
    try:
        from PIL import Image

        with Image.open(path) as image:
            (width, height), turned = image.size, image.getexif().get(0x0112, 1) >= 5
            return (height, width) if turned else (width, height)
    except Exception as error:
        raise _explain_damage(path, error, "an image") from error


def read_sound(path: Path, rate: int) -> NDArray[np.float32]:
    """Read sound as samples at ``rate`` a second, the mean of its channels."""
    samples, own = _decode_sound(path)
    if not len(samples):
        raise DataError(f"{path} holds no sound.")
    mono = samples.mean(1)
    if own == rate:
        return mono
    from scipy.signal import resample_poly  # takes a while to import

    common = gcd(own, rate)
    return resample_poly(mono, rate // common, own // common).astype(np.float32)


def count_samples(path: Path, rate: int) -> int:
    """Tell how many samples ``read_sound`` will give, without decoding."""
    try:
        import soundfile

        about = soundfile.info(path)
    except Exception as error:
        raise _explain_sound(path, error) from error
    common = gcd(about.samplerate, rate)
    return -(-about.frames * (rate // common) // (about.samplerate // common))


def _decode_sound(path: Path) -> tuple[NDArray[np.float32], int]:
    try:
        import soundfile

        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
        return np.asarray(samples, np.float32), rate
    except Exception as error:
        raise _explain_sound(path, error) from error
