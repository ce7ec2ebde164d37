"""Pages for everyone: axe finds nothing to complain about, in light and dark, at any width."""

from functools import cache

import picture_tables as tables
import pytest

import attnprobe

pytestmark = pytest.mark.slow

TEXT = "The walker came late , by night"
WIDTHS, SCHEMES = (380, 1000, 1400), ("light", "dark")


@pytest.fixture(scope="module")
def pages(saved, tmp_path_factory):
    """Write a page of each kind, once."""
    folder, census = tmp_path_factory.mktemp("pages"), tables.of_heads("previous", "next")

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
                return view(name, census=census) if beside else view(name, "bart", **given)
            case "heat map":
                return chart(name, census, only="previous")
            case "heat maps, dark":
                return chart(name, tables.of_heads("previous", "next", layers=4, heads=24), theme="dark")

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
            report = checker.run(page, options={} if scheme == "light" else {"runOnly": ["color-contrast"]})
            assert [(width, scheme, one["id"], one["nodes"][0]["html"]) for one in report["violations"]] == []
            assert len(report["passes"]) > (10 if scheme == "light" else 0)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        seen.assert_silent()
