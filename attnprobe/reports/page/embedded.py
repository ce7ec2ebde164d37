"""Reading the record and the tables that a page carries, in blocks that no browser runs."""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from attnprobe.errors import AttnprobeError, first_line
from attnprobe.table.cleaning import clean

#: The id of the block.
RECORD = "attnprobe-record"
_TYPE = "application/json"
#: The type of blocks that hold tables, packed.
_BYTES = "application/octet-stream"
#: No page that attnprobe writes comes near it, in bytes.
_LARGEST = 1 << 28


class _Blocks(HTMLParser):
    """Collects blocks of data by id and type; everything else of the page is passed by."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: dict[tuple[str | None, str | None], list[str]] = {}
        self._inside: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a block."""
        said, self._inside = dict(attrs), None
        if tag == "script":
            self._inside = self.found.setdefault((said.get("id"), said.get("type")), [])
            self._inside.append("")

    def handle_endtag(self, tag: str) -> None:
        """End a block."""
        self._inside = None

    def handle_data(self, data: str) -> None:
        """Read what stands inside."""
        if self._inside:
            self._inside[-1] += data


def contents_of(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Read a page: its record, and its tables as csv, by their names, but for those too long for a page.

    Raises:
        AttnprobeError: When the page can't be read, has no record or several, or a table in it is damaged.
    """
    blocks = _blocks(path)
    record = _record(path, blocks)
    tables = record.get("tables")
    found = {}
    for number, one in enumerate(tables if isinstance(tables, list) else ()):
        name = one.get("name") if isinstance(one, dict) else None
        packed = blocks.get((f"table-{number}", _BYTES))
        if isinstance(name, str) and packed:
            try:
                found[name] = _unpacked(packed[0])
            except (ValueError, zlib.error) as error:
                raise AttnprobeError(f"The table {clean(name)} of {path} is damaged.") from error
    return record, found


def _unpacked(packed: str) -> bytes:
    unpacking = zlib.decompressobj()
    content = unpacking.decompress(base64.b64decode(packed, validate=True), _LARGEST)
    if not unpacking.eof:
        raise ValueError("it is cut off, or too large for a table of a page")
    return content


def _blocks(path: Path) -> dict[tuple[str | None, str | None], list[str]]:
    if not path.is_file():
        raise AttnprobeError(f"There is no file {path}.")
    reader = _Blocks()
    try:
        if path.stat().st_size > _LARGEST:
            raise AttnprobeError(f"{path} is too large for a page of attnprobe.")
        reader.feed(path.read_text(encoding="utf-8"))
        reader.close()
    except (OSError, ValueError, AssertionError) as error:
        raise _unreadable(path, error) from error
    return reader.found


def _record(path: Path, blocks: Mapping[tuple[str | None, str | None], Sequence[str]]) -> dict[str, Any]:
    records = blocks.get((RECORD, _TYPE), ())
    if len(records) != 1:
        number = f"{len(records)} records" if records else "no record"
        raise AttnprobeError(f"{path} has {number} of attnprobe; give a page that `attnprobe report` wrote.")
    try:
        found = json.loads(records[0])
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, error) from error
    if not isinstance(found, dict):
        raise AttnprobeError(f"The record of {path} is none of attnprobe.")
    return found


def _unreadable(path: Path, error: Exception) -> AttnprobeError:
    return AttnprobeError(f"The record of {path} can't be read: {first_line(error)}.")
