"""Pages in a real browser: what they log, what they ask for, and whether any script but theirs runs.

Fixtures for every test that asks for ``visit``. Where playwright or a Chromium is missing, such a test is
skipped and says what to install.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

#: What a Chromium is called, from one system to the next.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: What never leaves the page.
_WITHIN = ("data:", "blob:", "about:")


@dataclass
class Visit:
    """A page that was opened, and all that it did.

    Attributes:
        page: The page itself, a ``playwright.sync_api.Page``.
        address: Its address.
        console: What was written to the console, whatever its level; with what a policy forbids.
        errors: Errors that no script caught.
        requests: Addresses asked for, other than the page itself.
        dialogs: Messages of ``alert`` and the like.
        opened: Addresses of further windows, and of files that were offered for download.
    """

    page: Any
    address: str
    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)

    def assert_silent(self) -> None:
        """Fail unless nothing was logged, nothing failed, nothing was asked for and nothing popped up."""
        self.page.wait_for_timeout(50)  # what a handler has just been told
        noise = {
            name: content
            for name in ("console", "errors", "requests", "dialogs", "opened")
            if (content := getattr(self, name))
        }
        assert not noise, noise


def chromium_path(playwright: Any) -> str | None:
    """Find a Chromium: playwright's own, or one of the system."""
    bundled = playwright.chromium.executable_path
    return bundled if Path(bundled).exists() else next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="module")  # for longer, playwright's event loop would be in the way of other tests
def browser() -> Iterator[Any]:
    """Start a Chromium without a window."""
    api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    with api.sync_playwright() as playwright:
        path = chromium_path(playwright)
        if path is None:
            pytest.skip("no Chromium: apt-get install chromium, or playwright install chromium")
        started = playwright.chromium.launch(executable_path=path)
        yield started
        started.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    """Open a page, a file or an address, and note what it does; requests to a network are cut off."""
    contexts = []

    def open_page(target: Path | str, **options: Any) -> Visit:
        address = target.resolve().as_uri() if isinstance(target, Path) else target
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        seen = Visit(page, address)
        page.on("console", lambda message: seen.console.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        page.on("dialog", lambda dialog: (seen.dialogs.append(dialog.message), dialog.dismiss()))
        page.on("popup", lambda other: seen.opened.append(other.url))
        page.on("download", lambda file: seen.opened.append(file.suggested_filename))
        page.on("websocket", lambda socket: seen.requests.append(socket.url))
        page.on("request", lambda request: _note(request.url, seen))
        page.route(
            "http*://**/*", lambda route: route.continue_() if isinstance(target, str) else route.abort()
        )
        page.goto(address)
        return seen

    yield open_page
    for context in contexts:
        context.close()


def _note(address: str, seen: Visit) -> None:
    if address.split("#", maxsplit=1)[0] != seen.address and not address.startswith(_WITHIN):
        seen.requests.append(address)


def drawn(page, **expected):
    """Wait until what is chosen is drawn."""
    page.wait_for_function(
        "expected => { const drawn = document.documentElement.dataset.drawn;"
        " return drawn && Object.entries(expected).every(([k, v]) => JSON.parse(drawn)[k] === v); }",
        arg=expected,
    )
