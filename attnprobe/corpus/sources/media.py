"""Images, sound and videos: folders of files, and from files to the arrays that a model reads."""

import csv
import hashlib
import json
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.corpus.sources.document import Label
from attnprobe.errors import AttnprobeError, first_line

IMAGE, SOUND, VIDEO = "image", "sound", "video"
EXTENSIONS = {
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"), IMAGE),
    **dict.fromkeys((".wav", ".flac", ".ogg", ".mp3"), SOUND),
}
#: Those of videos, which are looked for where there is neither.
VIDEO_EXTENSIONS = (".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi")
#: How FFmpeg calls what files of each of ``VIDEO_EXTENSIONS`` hold. Nothing else is looked for in them, since
#: FFmpeg would fetch what a list of addresses under the name of a video lists.
_FORMATS = {
    **dict.fromkeys((".mp4", ".m4v", ".mov"), "mov"),
    **dict.fromkeys((".mkv", ".webm"), "matroska"),
    ".avi": "avi",
}
#: A video may have so many frames (an hour at 30 a second), a frame so many pixels, and what is read of one
#: video so many bytes.
MOST_FRAMES, MOST_PIXELS, MOST_BYTES = 108_000, 1 << 24, 1 << 31
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
    """A file, or a folder with the frames of a video.

    Attributes:
        path: Where it is.
        label: Its class, or what is said in it; None where nobody says.
        frames: The images of a video, in their order; none where it is a file.
    """

    path: Path
    label: Label | None = None
    frames: tuple[Path, ...] = ()


@dataclass(frozen=True)
class MediaFolder:
    """Files of one kind, in the order of their names.

    Attributes:
        path: The folder, or a single file.
        kind: "image", "sound" or "video".
        items: The files.
    """

    path: Path
    kind: str
    items: tuple[Item, ...]

    @classmethod
    def open(cls, path: Path, column: str | None = None) -> "MediaFolder":
        """List the images or the sound of a folder and of those inside it; or videos, where there are none.

        A file's label is what a column of ``metadata.csv`` (or ``.jsonl``) says of its ``file_name``, or
        else the name of the folder it lies in, if all files lie in folders of their own.

        Args:
            path: A folder, or one file.
            column: Of the table; by default label, text, transcription, transcript or sentence.

        Raises:
            AttnprobeError: When there is none of them, or images and sound.
        """
        if path.is_file():
            return cls(path, EXTENSIONS.get(path.suffix.lower(), VIDEO), (Item(path),))
        found = sorted(find_media(path)) or sorted(find_media(path, VIDEO_EXTENSIONS))
        kinds = {EXTENSIONS.get(file.suffix.lower(), VIDEO) for file in found}
        if not kinds:
            raise AttnprobeError(
                f"{path} is a folder without text, images, sound or videos; give a file, or a folder that "
                f"holds files like .txt, {', '.join((*EXTENSIONS, *VIDEO_EXTENSIONS))}."
            )
        if len(kinds) > 1:
            raise AttnprobeError(f"{path} holds images and sound; put them in folders of their own.")
        labels = _read_metadata(path, column)
        if labels is None:
            if column is not None:
                raise AttnprobeError(f"{path} has no metadata.csv that could hold a column {column!r}.")
            apart = all(file.parent != path for file in found)
            labels = {_name(file, path): file.relative_to(path).parts[0] for file in found if apart}
        items = tuple(Item(file, _find_label(labels, file, path)) for file in found)
        return cls(path, kinds.pop(), items)

    def group_frames(self) -> "MediaFolder":
        """Make a video of the images of each folder, in the order of their names and of numbers in them."""
        found: dict[Path, list[Item]] = {}
        for item in self.items:
            found.setdefault(item.path.parent, []).append(item)
        items = (
            Item(folder, some[0].label, tuple(sort_naturally([item.path for item in some])))
            for folder, some in found.items()
        )
        return replace(self, kind=VIDEO, items=tuple(items))

    @property
    def labelled(self) -> "MediaFolder":
        return replace(self, items=tuple(item for item in self.items if item.label is not None))

    def first(self, number: int | None) -> "MediaFolder":
        return self if number is None else replace(self, items=self.items[:number])

    @cached_property
    def described(self) -> dict[str, Any]:
        """What goes on record: its name, a SHA-256 of names and contents, and its size."""
        digest, size = hashlib.sha256(), 0
        for path, label in ((path, item.label) for item in self.items for path in item.frames or [item.path]):
            try:
                with path.open("rb") as content:
                    length = path.stat().st_size
                    digest.update(f"{path.name}|{label!r}|{length}|".encode())
                    while part := content.read(_PART):  # a video may be larger than the memory
                        digest.update(part)
            except OSError as error:
                raise AttnprobeError(f"{path} can't be read: {error.strerror}.") from error
            size += length
        return {
            "name": self.path.name,
            "kind": self.kind,
            "files": len(self.items),
            "sha256": digest.hexdigest(),
            "bytes": size,
        }


def is_media(path: Path) -> bool:
    """Tell a folder, or a file that is an image, sound or a video by its name."""
    return path.is_dir() or path.suffix.lower() in (*EXTENSIONS, *VIDEO_EXTENSIONS)


def find_media(folder: Path, extensions: Collection[str] = tuple(EXTENSIONS)) -> Iterator[Path]:
    try:
        for path in folder.rglob("*"):
            hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
            if not hidden and path.suffix.lower() in extensions and path.is_file():
                yield path
    except OSError as error:
        raise AttnprobeError(f"{folder} can't be read: {error.strerror}.") from error


def _find_label(labels: Mapping[str, Label], file: Path, folder: Path) -> Label | None:
    """Find what is said of a file, or of the folder that it lies in."""
    return labels.get(_name(file, folder), labels.get(_name(file.parent, folder)))


def _name(file: Path, folder: Path) -> str:
    """Name a file as the table in its folder does."""
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
                raise AttnprobeError(f"{path} has no column {wanted!r}; its columns are {', '.join(known)}.")
        if name is None:
            return {}
        return {row["file_name"]: row[name] for row in table if row.get(name) not in {None, ""}}
    except (OSError, ValueError, TypeError, KeyError, RecursionError, csv.Error) as error:
        raise AttnprobeError(f"{path} can't be read as a table: {first_line(error)}.") from error


def _explain_sound(path: Path, error: Exception) -> AttnprobeError:
    if isinstance(error, ImportError):
        return AttnprobeError("Sound needs soundfile: pip install soundfile.")
    return AttnprobeError(f"{path} can't be read as sound: {first_line(error)}.")


def read_image(image: Path | BytesIO, name: str = "") -> NDArray[np.uint8]:
    """Read an image, (height, width, red-green-blue), turned as its camera says; ``name`` is for errors.

    Raises:
        AttnprobeError: When it is none, or larger than any honest one.
    """
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as error:
        raise AttnprobeError("Images need Pillow: pip install pillow.") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(image) as opened:
                if opened.format in _PROGRAMS:
                    raise ValueError(f"{opened.format} is a program that draws")
                return np.asarray(ImageOps.exif_transpose(opened).convert("RGB"))
    except UnidentifiedImageError as error:  # which names an object in memory
        raise AttnprobeError(
            f"{name or image} can't be read as an image: it is of no format that Pillow knows."
        ) from error
    except Exception as error:  # decoders raise whatever they like over broken files
        raise AttnprobeError(f"{name or image} can't be read as an image: {first_line(error)}.") from error


def read_image_size(path: Path) -> tuple[int, int]:
    """Tell width and height of an image without decoding it."""
    try:
        from PIL import Image

        with Image.open(path) as image:
            (width, height), turned = image.size, image.getexif().get(0x0112, 1) >= 5
            return (height, width) if turned else (width, height)
    except Exception as error:
        raise AttnprobeError(f"{path} can't be read as an image: {first_line(error)}.") from error


def read_sound(path: Path, rate: int) -> NDArray[np.float32]:
    """Read sound as samples at ``rate`` a second, the mean of its channels.

    Raises:
        AttnprobeError: When it is none, or silent for want of samples.
    """
    samples, own = _decode_sound(path)
    if not len(samples):
        raise AttnprobeError(f"{path} holds no sound.")
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


def read_frames(item: Item, number: int) -> NDArray[np.uint8]:
    """Read some frames of a video, evenly over its length: (frame, height, width, red-green-blue).

    Of n frames, these are the frames floor(i n / number), for i from 0 on, as transformers samples them; of a
    video with fewer frames, some come twice.

    Raises:
        AttnprobeError: When it is no video, or one that is larger than any honest one.
    """
    if item.frames:
        shown = list[NDArray[np.uint8]]()
        for place in choose_frames(len(item.frames), number):
            shown.append(read_image(item.frames[place]))
            _check_sizes(item.path, {shown[0].shape[:2], shown[-1].shape[:2]}, number)  # before the next
        return np.stack(shown)
    count = 0
    for _ in _decode(item.path, number):
        count += 1
        if count > MOST_FRAMES:
            raise AttnprobeError(
                f"{item.path} has more than {MOST_FRAMES:,} frames; cut it into shorter videos."
            )
    if not count:
        raise AttnprobeError(f"{item.path} holds no frame that can be read.")
    places = choose_frames(count, number)
    found: dict[int, NDArray[np.uint8]] = {}
    for place, frame in enumerate(_decode(item.path, number)):
        if place in places:
            found[place] = frame.to_ndarray(format="rgb24")
        if place == places[-1]:
            break
    _check_sizes(item.path, {frame.shape[:2] for frame in found.values()}, number)
    return np.stack([found[place] for place in places])


def choose_frames(count: int, number: int) -> list[int]:
    """Choose some of ``count`` frames, evenly.

    >>> choose_frames(10, 4)
    [0, 2, 5, 7]
    >>> choose_frames(2, 4)
    [0, 0, 1, 1]
    """
    return [place * count // number for place in range(number)]


def sort_naturally(paths: Iterator[Path] | list[Path]) -> list[Path]:
    """Sort files by their names, with numbers in them by what they count.

    >>> [path.name for path in sort_naturally([Path("f10.png"), Path("f9.png")])]
    ['f9.png', 'f10.png']
    """

    def find_key(path: Path) -> list[tuple[int, int, str]]:
        parts = re.split(r"(\d{1,18})", path.name)
        return [(1, int(part), part) if part.isdecimal() else (0, 0, part) for part in parts]

    return sorted(paths, key=find_key)


def _decode(path: Path, number: int) -> Iterator[Any]:
    """Decode the frames of the first video stream of a file."""
    with _explain(path), path.open("rb") as content:
        import av

        with av.open(content, "r", format=_FORMATS[path.suffix.lower()]) as container:
            if not container.streams.video:
                raise AttnprobeError(f"{path} holds no video.")
            stream = container.streams.video[0]
            _check_sizes(path, {(stream.codec_context.height, stream.codec_context.width)}, number)
            for frame in container.decode(stream):
                _check_sizes(path, {(frame.height, frame.width)}, number)
                yield frame


@contextmanager
def _explain(path: Path) -> Iterator[None]:
    try:
        yield
    except (AttnprobeError, GeneratorExit):
        raise
    except ImportError as error:
        raise AttnprobeError("Videos need PyAV: pip install av.") from error
    except Exception as error:  # decoders raise whatever they like over broken files
        reason = getattr(error, "strerror", None) or first_line(
            error
        )  # without its number and the path again
        raise AttnprobeError(f"{path} can't be read as a video: {reason}.") from error


def _check_sizes(path: Path, sizes: set[tuple[int, int]], number: int) -> None:
    """Refuse frames that differ in size, or are too large."""
    if len(sizes) > 1:
        raise AttnprobeError(f"The frames of {path} differ in size; write it again with one size.")
    height, width = sizes.pop()
    if height * width > MOST_PIXELS or 3 * number * height * width > MOST_BYTES:
        raise AttnprobeError(
            f"{path} has frames of {width} x {height}, more than is read of a video; make it smaller."
        )
