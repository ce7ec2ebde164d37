"""Videos: files, folders of frames and tables of both, and from them to the frames that a model reads."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.corpus.sources.columns import USUAL_TEXT_COLUMNS, find_column, find_usual
from attnprobe.corpus.sources.media import (
    EXTENSIONS,
    IMAGE,
    USUAL,
    VIDEO,
    VIDEO_EXTENSIONS,
    Item,
    MediaFolder,
    find_media,
    read_image,
)
from attnprobe.corpus.sources.packing import open_file, strip_packing
from attnprobe.corpus.sources.streams import shorten
from attnprobe.corpus.sources.tables import TABLE_READERS
from attnprobe.errors import AttnprobeError, first_line

#: How FFmpeg calls what files of each of ``VIDEO_EXTENSIONS`` hold. Nothing else is looked for in them, since
#: FFmpeg would fetch what a list of addresses under the name of a video lists.
_FORMATS = {
    **dict.fromkeys((".mp4", ".m4v", ".mov"), "mov"),
    **dict.fromkeys((".mkv", ".webm"), "matroska"),
    ".avi": "avi",
}
#: Tables that may name videos, and what the column of their paths is called.
_TABLES, _COLUMNS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet"), ("video", "video_path")
#: A video may have so many frames (an hour at 30 a second), a frame so many pixels, and what is read of one
#: video so many bytes.
MOST_FRAMES, MOST_PIXELS, MOST_BYTES = 108_000, 1 << 24, 1 << 31


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


def open_video_table(path: Path, label: str | None) -> MediaFolder | None:
    """Open a table whose column ``video`` names files of videos, or folders of frames; None for any other.

    A table that has a column of texts is read as text, as it is by models of text. Paths begin at its
    folder.
    Labels are those of a column, by default of a usual name.

    Raises:
        AttnprobeError: When a video is not there, or no column has the name of the labels.
    """
    kind = strip_packing(path).suffix.lower()
    if kind not in _TABLES or not path.is_file():
        return None
    with open_file(path, str(path)) as stream:
        try:
            table = TABLE_READERS[kind](stream, str(path))
            column = next((name for name in table.columns if name.lower() in _COLUMNS), None)
            first = None if column is None else next(table.rows, None)
        except AttnprobeError:  # which whoever reads it as text explains
            return None
        if column is None or first is None or not _names_video(path.parent, first.cells.get(column)):
            return None
        if find_usual(USUAL_TEXT_COLUMNS, table.columns) is not None:
            return None
        if label is not None:
            label = find_column(label, table.columns, str(path))
        label = label or next((name for name in USUAL if name in table.columns), None)
        rows = chain([first], table.rows)
        items = [_read_row(path, row.cells, column, label, f"{row.where} of {path}") for row in rows]
    return MediaFolder(path, VIDEO, tuple(items))


def _names_video(folder: Path, cell: Any) -> bool:
    if not isinstance(cell, str) or not cell.strip() or "\0" in cell:  # nothing would be the table's folder
        return False
    return Path(cell).suffix.lower() in VIDEO_EXTENSIONS or (folder / cell).is_dir()


def _read_row(path: Path, cells: Mapping[str, Any], column: str, label: str | None, where: str) -> Item:
    cell = cells.get(column)
    if not _names_video(path.parent, cell):
        raise AttnprobeError(f"{where} names no video; give files like {', '.join(VIDEO_EXTENSIONS)}.")
    found, said = path.parent / str(cell), None if label is None else cells.get(label)
    said = said if isinstance(said, str | int | float) and said != "" else None
    if found.is_dir():
        frames = sort_naturally([one for one in find_media(found) if EXTENSIONS[one.suffix.lower()] == IMAGE])
        if not frames:
            raise AttnprobeError(f"{where} names {shorten(str(cell))}, a folder without images.")
        return Item(found, said, tuple(frames))
    if not found.is_file():
        raise AttnprobeError(f"{where} names {shorten(str(cell))}, which is not there.")
    return Item(found, said)


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
        raise AttnprobeError(f"{path} can't be read as a video: {first_line(error)}.") from error


def _check_sizes(path: Path, sizes: set[tuple[int, int]], number: int) -> None:
    """Refuse frames that differ in size, or are too large."""
    if len(sizes) > 1:
        raise AttnprobeError(f"The frames of {path} differ in size; write it again with one size.")
    height, width = sizes.pop()
    if height * width > MOST_PIXELS or 3 * number * height * width > MOST_BYTES:
        raise AttnprobeError(
            f"{path} has frames of {width} x {height}, more than is read of a video; make it smaller."
        )
