"""How long the page of a sequence takes: until all heads are painted, until another one is shown."""

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from figures import Figure

from attnprobe.attention.kinds import Kind
from attnprobe.reports.view.packing import Start
from attnprobe.reports.view.view import write_page
from attnprobe.table.sequence import Maps, SequenceAttention, Side

LAYERS, HEADS = 24, 16
#: Heads of several layers, so that some may have to be unpacked; the worst of 20 counts too.
ASKED = [1, 17, 40, 100, 383, 200, 5, 30, 7, 63, 150, 151, 152, 153, 154, 300, 310, 320, 2, 3]
#: Click heads one after the other, and wait for the frame in which each is painted.
CLICKS = """async asked => {
  const root = document.documentElement, found = [], buttons = [...document.querySelectorAll('#grid button')];
  for (const place of asked) {
    const before = root.dataset.drawn, start = performance.now();
    buttons[place].click();
    while (root.dataset.drawn === before) await new Promise(done => {
      const channel = new MessageChannel();
      channel.port1.onmessage = done;
      channel.port2.postMessage(0);
    });
    await new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)));
    found.push(performance.now() - start);
  }
  return found;
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
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        yield Figure("page", None, "ms", 1000, 500, "pip install playwright")
        return
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        for length in (64, 256):
            content = write_page(
                random_sequence(length), Start("encoder", 0, 0, "lines", words=False, special=True)
            )
            file = Path(folder) / f"{length}.html"
            file.write_text(content, encoding="utf-8")
            rounds = [_timed(browser, file) for _ in range(2 if quick else 5)]
            name, size = f"page, 24 x 16 heads, {length} tokens", f"{len(content) / 1e6:.1f} MB"
            yield Figure(f"{name}: first paint", _median([one[0] for one in rounds]), "ms", 1000, 500, size)
            yield Figure(f"{name}: all heads", _median([one[1] for one in rounds]), "ms", 1000, 500, size)
            for place, draw in ((2, "lines"), (3, "map")):
                times = [time for one in rounds for time in one[place]]
                note = f"most {max(times):.0f}"
                yield Figure(f"{name}: another head as {draw}", _median(times), "ms", 100, 50, note)
        browser.close()


def _timed(browser: Any, path: Path) -> tuple[float, float, list[float], list[float]]:
    """Give milliseconds until the first paint, until all heads are there, and of further heads."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.goto(path.as_uri(), wait_until="commit")
    tab.wait_for_selector(f"#grid tbody tr:nth-child({LAYERS}) button")
    tab.wait_for_selector("html[data-drawn]")
    there = tab.evaluate("performance.now()")
    tab.wait_for_load_state("load")
    tab.wait_for_timeout(1000)
    first = tab.evaluate("performance.getEntriesByType('paint')[0].startTime")
    lines = tab.evaluate(CLICKS, ASKED)
    tab.check("input[value=map]")
    tab.wait_for_timeout(500)
    maps = tab.evaluate(CLICKS, ASKED)
    tab.close()
    return first, there, lines, maps


def _median(times: list[float]) -> float:
    return statistics.median(times)
