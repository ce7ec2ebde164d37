"""Images that are read together with texts: which column of a table names them, and what a cell holds."""

import hashlib
import re
import warnings
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.corpus.formats import Row
from attnprobe.corpus.sources.columns import find_column, find_usual
from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.sources.media import EXTENSIONS, IMAGE, METADATA, MediaFolder, read_image
from attnprobe.errors import AttnprobeWarning, DataError, first_line

#: What a model is given of an image and a text that it reads together.
BOTH = "image+text"
#: Columns in which images are looked for where none is named, if the model sees.
USUAL_IMAGE_COLUMNS = ("image", "images", "image_path", "file_name", "img", "jpg", "png")
#: Stands for the name of no column.
NO_IMAGES = "none"
#: More bytes than an honest image has.
_LARGEST = 1 << 28
#: Base64, perhaps as a data URL, and how that of PNG, JPEG, GIF and WebP begins.
_BASE64 = re.compile(r"(?:data:image/[\w.+-]+;base64,)?([A-Za-z0-9+/\s]+={0,2}\s*)")
_BEGINS = ("data:image/", "iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR")


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that is read together with a text."""

    where: str
    path: Path | None = None
    held: bytes = b""
    spool: "tuple[Any, int, int] | None" = None

    def __str__(self) -> str:
        if self.path is None:
            return f"the image of {self.where}"
        name = str(self.path)  # which a terminal may obey
        return f"{name if name.isprintable() else repr(name)} ({self.where})"

    @property
    def content(self) -> bytes:
        if self.spool is not None:
            return self.spool[0].read(*self.spool[1:])
        if self.path is None:
            return self.held
        try:
            if not self.path.is_file():
                raise DataError(f"There is no image {self}.")
            if self.path.stat().st_size > _LARGEST:
                raise DataError(f"{self} has more than {_LARGEST >> 20} MiB.")
            return self.path.read_bytes()
        except (OSError, ValueError) as error:
            raise DataError(f"{self} can't be read: {first_line(error)}.") from error

    def read(self) -> NDArray[np.uint8]:
        """Read it, (height, width, red-green-blue)."""
        return read_image(BytesIO(self.content), str(self))

    @property
    def digest(self) -> str:
        """Name what it shows."""
        return hashlib.sha256(self.content).hexdigest()

    @classmethod
    def of_cell(cls, cell: Any, folder: Path, where: str) -> "Picture | None":
        """Read a cell of a table: the path of a file, bytes, base64, or what the hub's images are.

        Returns:
            The image; None where the cell is empty.
        """
        if isinstance(cell, list | tuple):
            if len(cell) > 1:
                raise DataError(f"{where} has {len(cell)} images; one is read with a text.")
            cell = cell[0] if cell else None
        if isinstance(cell, Mapping):
            cell = cell.get("bytes") or cell.get("path")
        if cell is None or (isinstance(cell, str | bytes) and not cell):  # others may have no hash
            return None
        if isinstance(cell, bytes):
            return cls(where, held=cell)
        if isinstance(cell, str):
            if cell.startswith(("http://", "https://")):
                raise DataError(f"{where} names an image on the web; download it, and name the file.")
            if not cell.startswith(_BEGINS):
                return cls(where, folder / cell)
            encoded = _BASE64.fullmatch(cell)
            with suppress(ValueError):
                if encoded is not None:
                    return cls(where, held=b64decode(encoded[1]))
            raise DataError(f"{where} has an image in broken base64.")
        if isinstance(cell, Path):
            return cls(where, folder / cell)
        if hasattr(cell, "save") and hasattr(cell, "convert"):  # decoded by who read the table
            held = BytesIO()
            cell.convert("RGB").save(held, "PNG")
            return cls(where, held=held.getvalue())
        raise DataError(
            f"{where} has {type(cell).__name__} for an image; give the path of a file, bytes or base64."
        )


@dataclass(frozen=True)
class Images:
    """Which column of a table holds images that are read together with the text."""

    column: str | None = None
    sees: Callable[[], bool] = lambda: False
    folder: Path = Path()

    def find(self, columns: Sequence[str], rows: Sequence[Row], name: str) -> str | None:
        """Choose the column; None where no images are read."""
        if self.column is not None:
            return None if self.column == NO_IMAGES else find_column(self.column, columns, name)
        found = find_usual(USUAL_IMAGE_COLUMNS, columns)
        if found is None or not any(map(_may_be_image, (row.cells.get(found) for row in rows))):
            return None
        return found if self.sees() else None

    def add(self, document: Document, row: Row, column: str, name: str) -> Document | None:
        """Add the image of a row to its document; None where it has none."""
        found = Picture.of_cell(row.cells.get(column), self.folder, f"{row.where} of {name}")
        return None if found is None else replace(document, image=found)


def open_captioned(folder: Path, column: str) -> Iterator[Document]:
    """Read the images of a folder, each with its caption; those without one are left out.

    Args:
        folder: Where they are, with what is said of them in ``metadata.csv`` (or ``.jsonl``).
        column: Of that table.
    """
    if not any((folder / name).is_file() for name in METADATA):
        raise DataError(f"{folder} has no metadata.csv with captions; leave out --text-column.")
    found = MediaFolder.open(folder, column)
    said = {item.path: None if item.label is None else str(item.label) for item in found.items}
    if found.kind != IMAGE:
        raise DataError(f"{folder} holds {found.kind}; leave out --text-column.")
    silent = sum(not caption or not caption.strip() for caption in said.values())
    if silent == len(said):
        raise DataError(f"No image of {folder} has a caption; name another --text-column.")
    if silent:
        sentence = f"{silent:,} image{'s' * (silent > 1)} of {folder} without a caption left out."
        warnings.warn(sentence, AttnprobeWarning, stacklevel=2)
    return (
        Document(caption.strip(), image=Picture("a caption", path))
        for path, caption in said.items()
        if caption and caption.strip()
    )


def _may_be_image(cell: Any) -> bool:
    if isinstance(cell, list | tuple) and cell:
        cell = cell[0]
    if isinstance(cell, Mapping):
        return "bytes" in cell or "path" in cell
    if isinstance(cell, str):
        suffix = Path(cell).suffix.lower()
        return cell.startswith(_BEGINS) or EXTENSIONS.get(suffix) == IMAGE
    return isinstance(cell, bytes) or hasattr(cell, "convert")
