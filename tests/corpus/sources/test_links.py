"""Gold links in JSON lines."""

import json

import pytest

from attnprobe.corpus.sources.annotation import Link, Span
from attnprobe.corpus.sources.text import Source, read_documents
from attnprobe.errors import AttnprobeError

ROW = {
    "text": "the old dog",
    "other": "a cat ran",
    "words": [[0, 3], [4, 7], [8, 11]],
    "links": [
        {"source": [0, 3], "target": [8, 11], "label": "det", "candidates": [[4, 7], [8, 11]]},
        {"source": [2, 5], "source_in": "pair", "target": [8, 11]},
    ],
}


def read(tmp_path, row, **columns):
    path = tmp_path / "links.jsonl"
    path.write_text(json.dumps(row) + "\n")
    (found,) = read_documents(Source(str(path), annotated=True, **columns))
    return found


def test_everything_is_read(tmp_path):
    found = read(tmp_path, ROW, pair_column="other").annotation
    dog = Span(8, 11)
    assert found.words == (Span(0, 3), Span(4, 7), dog)
    assert found.links == (
        Link(Span(0, 3), dog, "det", (Span(4, 7), dog)),
        Link(Span(2, 5, "pair"), dog, ""),
    )


def test_nothing_is_said(tmp_path):
    assert read(tmp_path, {"text": "a dog"}).annotation is None


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (
            {"links": [{"source": [0, 99], "target": [0, 1]}]},
            r"\[0, 99\] is no span of its text, which .*11",
        ),
        ({"links": [{"source": [3, 3], "target": [0, 1]}]}, "no span"),
        ({"links": [{"source": ["a", 3], "target": [0, 1]}]}, "no span"),
        ({"links": [{"source": [0, 1], "source_in": "pair", "target": [0, 1]}]}, "its pair, which has 0"),
        ({"links": [{"source": [0, 1], "source_in": "moon", "target": [0, 1]}]}, "'moon'"),
        ({"links": [{"target": [0, 1]}]}, "source and target"),
        ({"links": "none"}, "must be lists"),
        ({"words": [[0, True]]}, "no span"),
        ({"links": [{"source": [0, 1], "target": [0, 1], "candidates": 3}]}, "candidates"),
    ],
)
def test_refused(tmp_path, cells, says):
    with pytest.raises(AttnprobeError, match=f"line 1 of .*{says}"):
        read(tmp_path, {"text": "the old dog", **cells})
