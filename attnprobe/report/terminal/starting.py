"""The first sign of life: a line on a terminal while Python imports what takes seconds."""

import os
import sys

_LINE = "attnprobe: starting"
_ERASE = "\r\x1b[2K"


class Starting:
    """A line that stands until something else is shown, and leaves no trace."""

    def __init__(self) -> None:
        """Stand nowhere yet."""
        self._stands = False

    def show(self) -> None:
        """Write the line, on a terminal only."""
        if sys.stderr.isatty() and not self._stands:
            # A terminal that knows no commands keeps the line.
            dumb = os.environ.get("TERM", "") in {"", "dumb"}
            print(_LINE, end="\n" if dumb else " ...", file=sys.stderr, flush=True)
            self._stands = not dumb

    def clear(self) -> None:
        """Take the line away, if it stands."""
        if self._stands:
            print(_ERASE, end="", file=sys.stderr, flush=True)
            self._stands = False


#: There is one standard error, and so one line.
starting = Starting()
