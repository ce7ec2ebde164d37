"""The command that shows one sentence: streams, files, refusals, the browser."""

import sys
import webbrowser
from pathlib import Path
from xml.etree import ElementTree

import pytest

import attnprobe
from attnprobe.cli import output

TEXT = "The walker came late ."
SVG = "{http://www.w3.org/2000/svg}"


def texts(path):
    return [one.text for one in ElementTree.parse(path).getroot().iter(f"{SVG}text")]


def test_a_page(invoke, saved, tmp_path):
    path = tmp_path / "view.html"
    code, out, error = invoke("view", saved("bert"), TEXT, "-o", path)
    assert (code, out) == (0, "")
    assert error == f"attnprobe: wrote {path}\n"
    page = path.read_text("utf-8")
    assert page == attnprobe.view(saved("bert"), TEXT).html
    assert "The walker came late ." in page
    assert invoke("view", saved("bert"), TEXT, "-o", path, "-q", "--overwrite") == (0, "", "")


def test_the_name_of_a_file_steers_no_terminal(invoke, saved, tmp_path):
    path = tmp_path / "\x1b[31mred\nattnprobe: all is well.svg"
    code, _, error = invoke("view", saved("bert"), TEXT, "-o", path)
    assert (code, path.is_file()) == (0, True)
    assert error == f"attnprobe: wrote {tmp_path}/red attnprobe: all is well.svg\n"
    assert "\x1b" not in invoke("view", saved("bert"), TEXT, "-o", path)[2]  # it exists


def test_one_head_as_a_graphic(invoke, saved, tmp_path):
    path, words = tmp_path / "head.svg", ["view", saved("bert"), TEXT, "--layer", 1, "--head", 2]
    assert invoke(*words, "-o", path)[0] == 0
    assert {"Layer 1, head 2", "from", "to", "[CLS]", "The", "·er"} <= set(texts(path))
    assert invoke(*words, "--words", "--hide-special", "--draw", "map", "-o", path, "--overwrite")[0] == 0
    assert {"Layer 1, head 2", "The", "walker", "came", "late", "."} <= set(texts(path))
    assert invoke(*words, "-o", tmp_path / "head.pdf")[0] == 0
    content = (tmp_path / "head.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert b"/FontFile" in content  # fonts are inside


def test_all_heads_and_rollout(invoke, saved, tmp_path):
    assert invoke("view", saved("t5"), TEXT, "-o", tmp_path / "all.svg", "--rollout")[0] == 0
    labels = texts(tmp_path / "all.svg")
    assert "Attention of t5" in labels
    assert labels.count("rollout") == 2  # none of cross-attention
    assert [one for one in labels if one in {"encoder", "decoder", "cross"}] == [
        "encoder",
        "decoder",
        "cross",
    ]
    words = ["view", saved("t5"), TEXT, "--attention", "decoder", "--layer", 1, "--rollout"]
    assert invoke(*words, "-o", tmp_path / "rolled.svg")[0] == 0
    assert "Rollout up to decoder layer 1" in texts(tmp_path / "rolled.svg")
    words[4] = "cross"
    assert "Cross-attention has no rollout" in invoke(*words, "-o", tmp_path / "none.svg")[2]
    words = ["view", saved("t5"), TEXT, "--target", TEXT, "--alignment", "0-0", "--attention", "decoder"]
    assert "aligned in the cross attention of" in invoke(*words, "-o", tmp_path / "none.svg")[2]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([TEXT, "-o", "view.gif"], "end it in .html, .svg, .png or .pdf"),
        ([TEXT, "-o", "nowhere/view.html"], "does not exist; make it first"),
        ([TEXT, "-o", "taken.html"], "add --overwrite to replace it"),
        ([" ", "-o", "view.html"], "The text is blank"),
        ([TEXT, "--head", "1", "-o", "view.html"], "--head needs the --layer"),
        ([TEXT, "--layer", "1", "-o", "view.html"], "--layer needs a --head; or --rollout"),
        ([TEXT, "--layer", "1", "--head", "0", "--role", "x", "-o", "view.html"], "--role names a head, and"),
        ([TEXT, "--target", TEXT, "--alignment", " ", "-o", "view.html"], "The alignment is blank"),
        (["dog.png", "--target", TEXT, "-o", "view.html"], "The file of image has no second text"),
        ([TEXT, "--theme", "dark", "-o", "view.html"], "leave out --theme, or write an .svg, .png or .pdf"),
        ([TEXT, "--layer", "7", "--head", "0", "-o", "view.html"], "layers of the encoder are 0, 1, 2"),
        ([TEXT, "--layer", "1", "--head", "4", "-o", "view.html"], "no head 4; a layer has heads 0 to 3"),
        (["photo.png", "-o", "view.html"], "There is no image or sound 'photo.png'"),
    ],
)  # fmt: skip
def test_refusals(refused, saved, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    for name in ("taken.html", "dog.png"):
        Path(name).write_text("mine")
    assert says in refused("view", saved("bert"), *words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dog.png", "taken.html"]
    assert Path("taken.html").read_text() == "mine"


def test_the_image_is_not_written_over(refused, media_model, photos, tmp_path):
    path = tmp_path / "picture.png"
    path.write_bytes((photos / "p0.png").read_bytes())
    link = tmp_path / "view.svg"
    link.symlink_to(path)
    sentence = refused("view", media_model("vit"), path, "-o", link, "--overwrite")
    assert "which this command reads" in sentence or "end it in" in sentence


def test_without_a_browser(refused, monkeypatch, saved):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert "write a file with -o page.html" in refused("view", saved("bert"), TEXT)


def test_in_a_browser(invoke, monkeypatch, saved, tmp_path):
    opened = []
    monkeypatch.setenv("BROWSER", "some")
    monkeypatch.setattr(webbrowser, "get", lambda: None)
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    monkeypatch.setattr(output.tempfile, "tempdir", str(tmp_path))
    code, out, error = invoke("view", saved("bert"), TEXT)
    assert (code, out) == (0, "")
    (path,) = tmp_path.glob("attnprobe-*.html")
    assert opened == [path.as_uri()]
    assert str(path) in error
    assert path.read_text("utf-8") == attnprobe.view(saved("bert"), TEXT).html
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    assert "The browser did not open the page" in invoke("view", saved("bert"), TEXT)[2]
    monkeypatch.setattr(output.tempfile, "NamedTemporaryFile", lambda **_: (tmp_path / "gone").open())
    assert "could not write into the temporary folder" in invoke("view", saved("bert"), TEXT)[2]
