"""How large pages are, how long they take to write and to paint, and how quickly they show another head."""

import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from figures import Figure
from shapes import Shape, word_tokenizer

import attnprobe
from attnprobe.attention.kinds import Kind
from attnprobe.reports.report.page import Report
from attnprobe.reports.view.packing import Start
from attnprobe.reports.view.view import write_page
from attnprobe.table.sequence import Maps, SequenceAttention, Side

LAYERS, HEADS = 24, 16
#: Narrow: what a report holds and how long it takes does not depend on the width.
REPORTED = Shape(12, 12, 192), Shape(LAYERS, HEADS, 256)
#: Heads of several layers, so that some may have to be unpacked; the worst of them counts too.
CHOSEN = [1, 17, 40, 100, 383, 200, 5, 30, 7, 63, 150, 151, 152, 153, 154, 300, 310, 320, 2, 3]
#: Click heads one after the other, and wait for the frame in which each is painted.
CLICKS = """async ([places, marks, state]) => {
  const data = document.documentElement.dataset, spent = [], all = [...document.querySelectorAll(marks)];
  const find = place => all.find(mark => mark.dataset.h === String(place)) ?? all[place];
  for (const mark of places.map(find)) {
    const before = data[state], start = performance.now();
    mark.dispatchEvent(new MouseEvent('click', { bubbles: true }));
    while (data[state] === before) await new Promise(done => {
      const channel = new MessageChannel();
      channel.port1.onmessage = done;
      channel.port2.postMessage(0);
    });
    await new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)));
    spent.push(performance.now() - start);
  }
  return spent;
}"""


def random_sequence(length: int) -> SequenceAttention:
    """Draw attention from nearly uniform to nearly one-hot."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(LAYERS, HEADS, length, length)).astype(np.float32)
    rows = np.exp(rows * np.linspace(0.3, 3, HEADS, dtype=np.float32)[:, None, None])
    rows /= rows.sum(-1, keepdims=True)
    names, words = tuple(f"token{place}" for place in range(length)), np.arange(length) // 2
    special = np.arange(length) % (length - 1) == 0
    side = Side(names, names, special, words, names[::2])
    maps = Maps(Kind.ENCODER, tuple(range(LAYERS)), rows, side, side, np.ones((LAYERS, HEADS), bool))
    return SequenceAttention("random", ("random",), (maps,))


def page_milliseconds(*, quick: bool) -> Iterator[Figure]:
    """Time pages of 24 layers of 16 heads over 64 and 256 tokens."""
    start = Start("encoder", 0, 0, "lines", words=False, special=True)
    for length in (64, 256):
        content = write_page(random_sequence(length), start)
        name = f"page, {LAYERS} x {HEADS} heads, {length} tokens"
        yield from _look(name, content, ("#grid button", "drawn"), rounds=2 if quick else 5)


def report_of(shape: Shape) -> Report:
    """Report on a random model over random sentences."""
    texts = [
        " ".join(f"w{(7 * number + step * step) % 300}" for step in range(6 + number % 15))
        for number in range(40)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", attnprobe.AttnprobeWarning)
        return attnprobe.report(shape.model(), texts, tokenizer=word_tokenizer(texts))


def report_figures(*, quick: bool) -> Iterator[Figure]:
    """Measure the report of 12 x 12 heads, and look at that of 24 x 16."""
    for shape in REPORTED:
        name, report = f"report, {shape.layers} x {shape.heads} heads", report_of(shape)
        start = time.perf_counter()
        content = report.html
        seconds = time.perf_counter() - start
        yield Figure(f"{name}: size", len(content.encode()) / 1e6, "MB", 4, 2.5)
        yield Figure(f"{name}: page, after the measurements", seconds, "s", 10, 5)
    yield from _look(name, content, ("#roles [data-h]", "chosen"), rounds=2 if quick else 5)


def _look(name: str, content: str, marks: tuple[str, str], *, rounds: int) -> Iterator[Figure]:
    """Time a page in a browser: until it is painted, and until another head is."""
    with _open_browser() as browser, tempfile.TemporaryDirectory() as folder:
        if browser is None:
            yield Figure(f"{name}: first paint", None, "ms", 1000, 500, "needs chromium and playwright")
            return
        file = Path(folder) / "page.html"
        file.write_text(content, encoding="utf-8")
        paints, clicks = zip(*(_time(browser, file, *marks) for _ in range(rounds)), strict=True)
    yield Figure(f"{name}: first paint", median(paints), "ms", 1000, 500, f"{len(content) / 1e6:.1f} MB")
    for draw in clicks[0]:
        times = [spent for round_ in clicks for spent in round_[draw]]
        yield Figure(f"{name}: another head{draw}", median(times), "ms", 100, 50, f"most {max(times):.0f}")


@contextmanager
def _open_browser() -> Iterator[Any]:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        yield None
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def _time(browser: Any, file: Path, marks: str, state: str) -> tuple[float, dict[str, list[float]]]:
    """Give milliseconds until the first paint, and of further heads by how they are drawn."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.goto(file.as_uri())
    tab.wait_for_selector(f"html[data-{state}]")
    tab.wait_for_timeout(1000)
    first = tab.evaluate("performance.getEntriesByType('paint')[0].startTime")
    spent = {"": tab.evaluate(CLICKS, [CHOSEN, marks, state])}
    if state == "drawn":
        tab.check("input[value=map]")
        tab.wait_for_timeout(500)
        spent = {" as lines": spent[""], " as map": tab.evaluate(CLICKS, [CHOSEN, marks, state])}
    tab.close()
    return first, spent
