"""The pages that attnprobe writes, as a browser shows them: png files that docs/ shows.

    python docs/scripts/screens.py [NAME.png ...]

runs the command of each, opens what it writes in a Chromium, and keeps what fits on the screen. It needs
``pip install -e ".[test]"`` and a Chromium. Fonts and browsers draw a page differently, so no test compares
pixels. Run it after a change of what the pages look like.
"""

import io
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import outputs
import pictures

#: What a Chromium is called, from one system to the next.
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: Colours of a png. More than these weigh more, and nobody sees them.
COLOURS = 96


@dataclass(frozen=True)
class Screen:
    """A page in a browser.

    Attributes:
        page: The page of docs/ that gives the command and shows the png.
        command: What writes the page.
        width: Of the window, in pixels.
        height: Of the window, in pixels.
        head: The head that the page opens on, as its address names it; of none, what the page opens on.
    """

    page: str
    command: str
    width: int
    height: int
    head: str = ""

    @property
    def file(self) -> str:
        """Name the file that the command writes."""
        return self.command.rpartition(" -o ")[2]


SCREENS = {
    "report.png": Screen("report.md", "attnprobe report demo -o report.html", 1100, 900),
    "view.png": Screen(
        "report.md",
        'attnprobe view demo "The parcel came late, and she signed for it." -o parcel.html',
        1100,
        650,
        "3.2",
    ),
}


def draw(screen: Screen, folder: Path) -> bytes:
    """Run the command of a screen in a folder, and give a png of what a Chromium shows."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    outputs.output_of(outputs.Example("console", screen.command, None))
    address = (folder / screen.file).as_uri() + (f"#head={screen.head}" if screen.head else "")
    with sync_playwright() as playwright:
        bundled = playwright.chromium.executable_path
        path = bundled if Path(bundled).exists() else next(filter(None, map(shutil.which, CHROMIUM)), None)
        browser = playwright.chromium.launch(executable_path=path)
        size = {"width": screen.width, "height": screen.height}
        page = browser.new_page(viewport=size, reduced_motion="reduce")  # type: ignore[arg-type]
        page.goto(address, wait_until="load")
        page.wait_for_timeout(1000)  # drawings come when there is time
        shown = page.screenshot()
        browser.close()
    out = io.BytesIO()
    Image.open(io.BytesIO(shown)).convert("RGB").quantize(COLOURS).save(out, "png", optimize=True)
    return out.getvalue()


def main() -> None:
    """Draw the screens that are named, or all."""
    for name in sys.argv[1:] or SCREENS:
        with outputs.workplace() as folder:
            (pictures.FOLDER / name).write_bytes(draw(SCREENS[name], folder))
        print(f"{name}: {(pictures.FOLDER / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
