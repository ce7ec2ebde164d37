"""How large the page of a report is, how long it takes to write, and how quickly it shows another head."""

import shutil
import statistics
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from figures import Figure
from shapes import Shape, word_tokenizer

import attnprobe
from attnprobe.reports.report.report import Report

#: Narrow: what a page holds and how long it takes does not depend on the width.
ORDINARY, LARGE = Shape(12, 12, 192), Shape(24, 16, 256)
_SENTENCES = 40
#: Heads of several layers.
ASKED = [1, 17, 40, 100, 383, 200, 5, 30, 77, 310]
#: Choose heads one after the other, and wait for the frame in which each is painted.
CLICKS = """async asked => {
  const root = document.documentElement, found = [];
  const buttons = new Map([...document.querySelectorAll('#roles [data-h]')].map(one => [one.dataset.h, one]));
  for (const place of asked) {
    const start = performance.now();
    buttons.get(String(place)).dispatchEvent(new MouseEvent('click', { bubbles: true }));
    while (root.dataset.chosen !== String(place)) await new Promise(done => setTimeout(done, 0));
    await new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)));
    found.push(performance.now() - start);
  }
  return found;
}"""


def report_of(shape: Shape) -> Report:
    """Report on a random model over random sentences."""
    texts = [
        " ".join(f"w{(7 * number + step * step) % 300}" for step in range(6 + number % 15))
        for number in range(_SENTENCES)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", attnprobe.AttnprobeWarning)
        return attnprobe.report(shape.model(), texts, tokenizer=word_tokenizer(texts))


def report_figures(*, quick: bool) -> Iterator[Figure]:
    """Measure the page of 12 x 12 heads, and look at that of 24 x 16."""
    for shape in (ORDINARY, LARGE):
        name = f"report, {shape.layers} x {shape.heads} heads"
        made = report_of(shape)
        start = time.perf_counter()
        content = made.html
        seconds = time.perf_counter() - start
        yield Figure(f"{name}: size", len(content.encode()) / 1e6, "MB", 4, 2.5)
        yield Figure(f"{name}: page, after the measurements", seconds, "s", 10, 5)
    yield from _looked_at(name, content, rounds=2 if quick else 5)


def _looked_at(name: str, content: str, *, rounds: int) -> Iterator[Figure]:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        yield Figure(f"{name}: first paint", None, "ms", 1000, 500, "needs chromium and playwright")
        return
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "report.html"
        file.write_text(content, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        found = [_timed(browser, file) for _ in range(rounds)]
        browser.close()
    paint = statistics.median(first for first, _ in found)
    clicks = [one for _, some in found for one in some]
    yield Figure(f"{name}: first paint", paint, "ms", 1000, 500)
    note = f"most {max(clicks):.0f}"
    yield Figure(f"{name}: another head", statistics.median(clicks), "ms", 100, 50, note)


def _timed(browser: Any, file: Path) -> tuple[float, list[float]]:
    """Give milliseconds until the first paint, and of further heads."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.goto(file.as_uri())
    tab.wait_for_selector("html[data-chosen]")
    tab.wait_for_timeout(500)
    first = tab.evaluate("performance.getEntriesByType('paint')[0].startTime")
    times = tab.evaluate(CLICKS, ASKED)
    tab.close()
    return first, times
