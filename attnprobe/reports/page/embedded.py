"""The record and the tables that a page carries, read back from blocks that no browser runs."""

import base64
import json
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from attnprobe.errors import AttnprobeError, first_line
from attnprobe.table.cleaning import clean

#: The id of the block.
RECORD = "attnprobe-record"
#: No page that attnprobe writes comes near it, in bytes.
_LARGEST = 1 << 28


class _BlockParser(HTMLParser):
    """Collects blocks of data by id and type; everything else of the page is passed by."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: dict[tuple[str | None, str | None], list[str]] = {}
        self._inside: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named, self._inside = dict(attrs), None
        if tag == "script":
            self._inside = self.found.setdefault((named.get("id"), named.get("type")), [])
            self._inside.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside:
            self._inside[-1] += data


def read_page(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Read a page: its record, and its tables as csv, by their names, but for those too long for a page.

    Raises AttnprobeError when it can't be read, has no record or several, or a table in it is damaged.
    """
    if not path.is_file():
        raise AttnprobeError(f"There is no file {path}.")
    parser = _BlockParser()
    try:
        if path.stat().st_size > _LARGEST:
            raise AttnprobeError(f"{path} is too large for a page of attnprobe.")
        parser.feed(path.read_text(encoding="utf-8"))
        parser.close()
        records = parser.found.get((RECORD, "application/json"), ())
        if len(records) != 1:
            number = f"{len(records)} records" if records else "no record"
            raise AttnprobeError(
                f"{path} has {number} of attnprobe; give a page that `attnprobe report` wrote."
            )
        record = json.loads(records[0])
    except (OSError, ValueError, AssertionError, RecursionError) as error:
        raise AttnprobeError(f"The record of {path} can't be read: {first_line(error)}.") from error
    if not isinstance(record, dict):
        raise AttnprobeError(f"The record of {path} is none of attnprobe.")
    listed, tables = record.get("tables"), {}
    for number, one in enumerate(listed if isinstance(listed, list) else ()):
        name = one.get("name") if isinstance(one, dict) else None
        packed = parser.found.get((f"table-{number}", "application/octet-stream"))
        if isinstance(name, str) and packed:
            try:
                tables[name] = _decompress(packed[0])
            except (ValueError, zlib.error) as error:
                raise AttnprobeError(f"The table {clean(name)} of {path} is damaged.") from error
    return record, tables


def _decompress(packed: str) -> bytes:
    unpacking = zlib.decompressobj()
    content = unpacking.decompress(base64.b64decode(packed, validate=True), _LARGEST)
    if not unpacking.eof:
        raise ValueError("it is cut off, or too large for a table of a page")
    return content
