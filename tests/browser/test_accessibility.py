"""Every kind of page for everyone: axe finds nothing, the keyboard is enough, marks are said."""

import re
from functools import cache

import numpy as np
import picture_tables as tables
import pytest

import attnprobe
from attnprobe.reports.charts.draw import draw_picture
from attnprobe.table.table import Column, HeadTable

pytestmark = pytest.mark.slow

TEXT = "The walker came late , by night"
WIDTHS, SCHEMES = (380, 1000, 1400), ("light", "dark")


def census(layers=3, heads=4):
    """Make a table of heads with two columns and their errors."""
    draw, size = np.random.default_rng(0), layers * heads
    places = np.indices((layers, heads)).reshape(2, -1).tolist()
    keys = dict(
        zip(("model", "dataset", "attention"), (["m"] * size, ["d"] * size, ["encoder"] * size), strict=True)
    )
    data, columns = {**keys, "layer": places[0], "head": places[1]}, []
    for name in ("previous", "next"):
        data |= {name: draw.random(size).round(3).tolist(), f"{name}_se": [0.0123] * size}
        columns += [Column(name, "share"), Column(f"{name}_se", "share", role="error")]
    return HeadTable(
        "census of heads",
        [*(Column(one, "", role="key") for one in (*keys, "layer", "head")), *columns],
        data,
    )


@pytest.fixture(scope="module")
def pages(saved, tmp_path_factory):
    """Write a page of each kind, once."""
    folder = tmp_path_factory.mktemp("pages")

    def view(name, model="bert", **options):
        return attnprobe.view(saved(model), TEXT, **options).save(folder / f"{name}.html")

    def chart(name, table, **options):
        return table.plot(**options).save(folder / f"{name}.html")

    @cache
    def write(name):
        match name:
            case "view of lines":
                return view(name, "t5", rollout=True)
            case "view of a map":
                return view(name, draw="map", layer=1, head=2)
            case "view of an alignment" | "view beside a census":
                given = {"target": "by night it came", "alignment": "0-3 1p2 2-2"}
                beside = name.endswith("census")
                return view(name, census=census()) if beside else view(name, "bart", **given)
            case "heat map":
                return chart(name, census(), only="previous")
            case "heat maps, dark":
                return chart(name, census(4, 24), theme="dark")
        return draw_picture([tables.NATURAL[name][0]()]).save(folder / f"{name}.html")

    return write


VIEWS = ("view of lines", "view of a map", "view of an alignment", "view beside a census")
CHARTS = ("heat map", "heat maps, dark")


@pytest.fixture
def opened(visit, pages):
    def open_page(name, width=1000, scheme="light"):
        seen = visit(pages(name), viewport={"width": width, "height": 800}, color_scheme=scheme)
        if name in VIEWS:
            seen.page.wait_for_function("() => document.documentElement.dataset.drawn")
        else:
            seen.page.wait_for_selector(".chart[data-marks]")
        return seen

    return open_page


@pytest.mark.parametrize("name", [*VIEWS, *CHARTS])
def test_axe_finds_nothing(opened, name):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="no axe: pip install axe-core-python")
    checker = axe.Axe()
    for width in WIDTHS:
        seen = opened(name, width)
        page = seen.page
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            # Of a page in the dark nothing else is other than its colours.
            found = checker.run(page, options={} if scheme == "light" else {"runOnly": ["color-contrast"]})
            assert [(width, scheme, one["id"], one["nodes"][0]["html"]) for one in found["violations"]] == []
            assert len(found["passes"]) > (10 if scheme == "light" else 0)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        seen.assert_silent()


@pytest.mark.parametrize("kind", tables.NATURAL)
def test_every_kind_of_picture_is_said_and_walked(opened, kind):
    seen = opened(kind, 380)
    page = seen.page
    assert int(page.get_attribute(".chart", "data-marks")) > 0
    page.focus(".chart")
    heard = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "PageDown", "End"):
        press(page, key)
        heard.append(page.inner_text("#text"))
    assert all(re.search(r"\w", one) and "undefined" not in one and "NaN" not in one for one in heard), heard
    seen.assert_silent()


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
