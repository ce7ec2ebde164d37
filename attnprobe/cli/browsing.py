"""A page in the browser that is there."""

import os
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from attnprobe.errors import AttnprobeError
from attnprobe.files import reason

if TYPE_CHECKING:
    from attnprobe.reports.report_page.report import Report
    from attnprobe.reports.view.view import View


def browser_there() -> bool:
    """Tell whether there is a browser with a window; one in a terminal shows no pictures."""
    windows = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if sys.platform not in ("win32", "darwin") and not any(map(os.environ.get, windows)):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def shown_in_browser(page: "Report | View") -> Path:
    """Write a page into the temporary folder, open it, and give its path; the page stays there."""
    content = page.html.encode()
    try:
        with tempfile.NamedTemporaryFile(prefix="attnprobe-", suffix=".html", delete=False) as file:
            file.write(content)
    except OSError as error:
        raise AttnprobeError(
            f"could not write the page into the temporary folder: {reason(error)}."
        ) from error
    path = Path(file.name)
    if not webbrowser.open(path.as_uri()):
        raise AttnprobeError(f"The browser did not open the page; it is in {path}.")
    return path
