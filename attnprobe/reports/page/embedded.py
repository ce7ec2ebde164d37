"""Reading the record that a page carries: a block of JSON that no browser runs."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from attnprobe.errors import AttnprobeError, first_line

#: The id of the block.
RECORD = "attnprobe-record"
_TYPE = "application/json"
#: No page that attnprobe writes comes near it, in bytes.
_LARGEST = 1 << 28


class _Blocks(HTMLParser):
    """Collects the blocks of that id and type; everything else of the page is passed by."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a block."""
        said = dict(attrs)
        self._inside = tag == "script" and (said.get("id"), said.get("type")) == (RECORD, _TYPE)
        if self._inside:
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        """End a block."""
        self._inside = False

    def handle_data(self, data: str) -> None:
        """Read what stands inside."""
        if self._inside:
            self.found[-1] += data


def record_in(path: Path) -> dict[str, Any]:
    """Read the record of a page.

    Raises:
        AttnprobeError: When the page can't be read, or has no such record, or several.
    """
    if not path.is_file():
        raise AttnprobeError(f"There is no file {path}.")
    reader = _Blocks()
    try:
        if path.stat().st_size > _LARGEST:
            raise AttnprobeError(f"{path} is too large for a page of attnprobe.")
        reader.feed(path.read_text(encoding="utf-8"))
        reader.close()
        if len(reader.found) != 1:
            number = "no record" if not reader.found else f"{len(reader.found)} records"
            raise AttnprobeError(
                f"{path} has {number} of attnprobe; give a page that `attnprobe report` wrote."
            )
        found = json.loads(reader.found[0])
    except (OSError, ValueError, RecursionError, AssertionError) as error:
        raise AttnprobeError(f"The record of {path} can't be read: {first_line(error)}.") from error
    if not isinstance(found, dict):
        raise AttnprobeError(f"The record of {path} is none of attnprobe.")
    return found
