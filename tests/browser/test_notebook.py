"""A notebook that is run: tables, pictures and views show themselves in its cells, in a real browser."""

from html import escape

import nbformat
import pytest

pytestmark = pytest.mark.slow

#: The cells of the notebook; the last expression of each is what shows itself.
CELLS = [
    "heads",
    "heads.plot(kind='scatter', width=900)",
    "attnprobe.view(model, 'The walker came late , by night', layer=1, head=1)",
]
#: Pixels of the cell of a notebook: in Jupyter, and in VS Code beside a sidebar.
WIDTHS = (900, 420)


@pytest.fixture(scope="module")
def outputs(saved, tmp_path_factory):
    """Run a notebook; give what each cell shows, by the kind of content."""
    nbclient = pytest.importorskip("nbclient", reason="no nbclient: pip install nbclient ipykernel")
    pytest.importorskip("ipykernel", reason="no ipykernel: pip install ipykernel")
    first = (
        f"import attnprobe\nmodel = {str(saved('bert'))!r}\n"
        "heads = attnprobe.entropy(model, ['The walker came late', 'by night it rained'])"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in (first, *CELLS)])
    folder = tmp_path_factory.mktemp("notebook")
    nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    shown = [cell["outputs"] for cell in notebook.cells[1:]]
    assert [len(one) for one in shown] == [1] * len(CELLS)
    return [one[0]["data"] for one in shown]


#: What VS Code sets for the webview of a notebook, into whose document it puts the HTML of a cell
#: (vscode, backLayerWebView.ts, generateContent, of 1.60 to 1.10x; setting notebook.experimental.enableCsp).
VS_CODE = (
    "default-src 'none'; script-src 'self' https://*.vscode-cdn.net 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' https://*.vscode-cdn.net 'unsafe-inline'; "
    "img-src 'self' https://*.vscode-cdn.net https: http: data:; font-src 'self' https:; connect-src https:; "
    "child-src https: data:;"
)
#: Where a view draws. Colab puts outputs into a sandboxed frame of another origin (tensorboard pull request
#: 1822, colabtools issue 3253); here it is one of no origin at all, which has no storage and no downloads.
FRONT_ENDS = {"Jupyter": None, "Colab": "allow-scripts", "VS Code": VS_CODE}
#: Where it can't: the frame of a front end that runs no scripts, and a policy that lets none run.
SILENT = {"no scripts": "", "policy": VS_CODE.replace(" 'unsafe-inline' 'unsafe-eval'", "")}


def show_cells(outputs, how, width):
    """Show outputs in a sandboxed frame, in a document with a policy, or in a plain one without."""
    cells = "".join(data.get("text/html") or data["image/svg+xml"] for data in outputs)
    head = "<!doctype html><meta charset=utf-8><title>x</title>"
    if how is not None and "-src" not in how:
        return f'{head}<iframe sandbox="{how}" width={width} height=1800 srcdoc="{escape(cells)}">'
    policy = "" if how is None else f'<meta http-equiv="Content-Security-Policy" content="{how}">'
    return f'{head}{policy}<div class="cell" style="overflow: hidden">{cells}</div>'


@pytest.fixture
def shown(visit, outputs, tmp_path):
    """Show the outputs as a front end does; give the visit, and the frame that the view is in."""

    def show(how, width=900):
        path = tmp_path / "cells.html"
        path.write_text(show_cells(outputs, how, width), encoding="utf-8")
        # A frame out of sight is not painted.
        visited = visit(path, viewport={"width": width + 50, "height": 2400})
        visited.page.wait_for_timeout(700)
        (inside,) = [frame for frame in visited.page.frames if frame.query_selector("#one") is not None]
        return visited, inside

    return show


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", FRONT_ENDS)
def test_a_view_draws_in_its_cell_and_fits(shown, name, width):
    visited, inside = shown(FRONT_ENDS[name], width)
    inside.wait_for_function("() => document.documentElement.dataset.drawn")
    assert inside.query_selector("#still") is None
    assert inside.is_visible("#drawing svg")
    assert inside.inner_text("#title") == "Layer 1, head 1"
    inside.locator("#grid tbody tr:nth-child(1) td:nth-of-type(2) button").click()
    inside.wait_for_function("() => document.getElementById('title').textContent === 'Layer 0, head 1'")
    sizes = inside.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert sizes[0] <= sizes[1]
    assert not visited.errors
    assert not visited.requests
    assert not [line for line in visited.console if "download" not in line]


@pytest.mark.parametrize("name", SILENT)
def test_a_view_without_scripts_is_a_picture_that_says_how_to_open_it(shown, name):
    seen, inside = shown(SILENT[name])
    assert inside.is_visible("#still img")
    assert not inside.is_visible("main")
    assert '.save("view.html")' in inside.inner_text("#still")
    box = inside.locator("#still img").bounding_box()
    assert box["height"] > 100
    assert not seen.requests
