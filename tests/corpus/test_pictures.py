"""Images beside texts: every form of them is read alike, and what is none ends in one sentence."""

import base64
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import seeing_models

from attnprobe.corpus import media
from attnprobe.corpus.document import Document
from attnprobe.corpus.media import Picture, read_image
from attnprobe.corpus.open import open_anything
from attnprobe.corpus.source import Source
from attnprobe.errors import AttnprobeError

image = pytest.importorskip("PIL.Image")
Pairs = list[tuple[Path, str]]


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    return seeing_models.draw_pairs(tmp_path / "seen", 4)


def read(path: Path, *, sees: bool = True, **options: Any) -> list[Document]:
    return list(open_anything(Source(str(path), sees=lambda: sees, **options)).documents)


def write_lines(folder: Path, cells: list[Any], texts: list[str], column: str = "image") -> Path:
    rows = [json.dumps({column: cell, "text": text}) for cell, text in zip(cells, texts, strict=True)]
    (folder / "pairs.jsonl").write_text("\n".join(rows))
    return folder / "pairs.jsonl"


def encode(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


#: How the images may be written, each from a path to a cell of JSON.
CELLS: dict[str, Callable[[Path], Any]] = {
    "relative": lambda path: f"seen/{path.name}",
    "absolute": str,
    "base64": encode,
    "data URL": lambda path: f"data:image/png;base64,{encode(path)}",
    "list": lambda path: [f"seen/{path.name}"],
    "hub": lambda path: {"path": f"seen/{path.name}", "bytes": None},
}


@pytest.mark.parametrize("form", CELLS)
def test_lines(form: str, pairs: Pairs, tmp_path: Path):
    path = write_lines(tmp_path, [CELLS[form](one) for one, _ in pairs], [text for _, text in pairs])
    found = read(path)
    assert [document.text for document in found] == [text for _, text in pairs]
    for document, (own, _) in zip(found, pairs, strict=True):
        assert document.image is not None
        assert np.array_equal(document.image.read(), read_image(own))
    assert len({document.digest for document in found}) == len(found)
    assert not any(document.image for document in read(path, sees=False))
    assert not any(document.image for document in read(path, image_column="none"))


@pytest.mark.parametrize("form", ["csv", "hub", "bytes", "metadata"])
def test_other_forms(form: str, pairs: Pairs, tmp_path: Path):
    """A csv, parquet as the hub writes it and with bare bytes, the table of a folder."""
    texts, options = [text for _, text in pairs], {}
    path = tmp_path / f"pairs.{'csv' if form == 'csv' else 'parquet'}"
    if form == "csv":
        frame = pandas.DataFrame({"text": texts, "image_path": [f"seen/{one.name}" for one, _ in pairs]})
        frame.to_csv(path, index=False)
    elif form in {"hub", "bytes"}:
        own = [one.read_bytes() for one, _ in pairs]
        cells = [{"bytes": one, "path": "x.png"} for one in own] if form == "hub" else own
        pandas.DataFrame({"text": texts, "image": cells}).to_parquet(path)
    else:
        path = tmp_path / "seen" / "metadata.jsonl"
        options = {"text_column": "caption"}
        rows = [json.dumps({"file_name": one.name, "caption": text}) for one, text in pairs]
        path.write_text("\n".join(rows))
    found = read(path, **options)
    assert [document.text for document in found] == texts
    for document, (own, _) in zip(found, pairs, strict=True):
        assert document.image is not None
        assert np.array_equal(document.image.read(), read_image(own))


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("https://somewhere/a.png", "line 1 of .* names an image on the web; download it"),
        (["a.png", "b.png"], "line 1 of .* has 2 images; one is read with a text"),
        (7, "line 1 of .* has int for an image"),
        ({"bytes": [1, 2]}, "line 1 of .* has list for an image"),
        ("data:image/png;base64,@@", "line 1 of .* has an image in broken base64"),
        ("nowhere.png", r"There is no image .*nowhere\.png \(line 1 of .*\)"),
        ("/dev/zero", "There is no image /dev/zero"),
        ("\x1b[2J.png", r"There is no image '.*\\x1b\[2J\.png' \(line 1"),
    ],
)
def test_refused(cell: Any, says: str, tmp_path: Path):
    path = write_lines(tmp_path, [cell], ["a"], "shown")
    with pytest.raises(AttnprobeError, match=says):
        [document.image.read() for document in read(path, image_column="shown") if document.image]


def test_a_file_larger_than_any_image_is_not_read(pairs: Pairs, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(media, "_LARGEST", 99)
    with pytest.raises(AttnprobeError, match="has more than"):
        Picture("row 1", pairs[0][0]).read()


def test_a_program_ends_in_one_sentence():
    held = BytesIO()
    image.new("L", (4, 4)).save(held, "EPS")
    with pytest.raises(AttnprobeError, match="EPS is a program that draws"):
        Picture("row 1", held=held.getvalue()).read()
