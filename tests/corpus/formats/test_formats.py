"""Formats are found by their files, and errors list what is there."""

from pathlib import Path

import pytest

from attnprobe.corpus.open import list_coreference, open_anything
from attnprobe.corpus.source import Source
from attnprobe.errors import AttnprobeError


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (
            {},
            "convert it to one of .txt, .conllu, .csv, .tsv, .jsonl, .ndjson, .json, .parquet, .conll, .bio, "
            ".iob, .xlsx, each also with .gz, .bz2, .xz or .zst",
        ),
        (
            {"coreference": True},
            "coreference reads CorefUD (.conllu) and GAP (.tsv), each also with .gz, .bz2, .xz or .zst.",
        ),
    ],
)
def test_an_unknown_extension(tmp_path: Path, wanted: dict[str, bool], said: str):
    path = tmp_path / "data.docx"
    path.write_text("one\n", "utf-8")
    with pytest.raises(AttnprobeError) as caught:
        list(open_anything(Source(str(path), **wanted)).documents)
    assert said in str(caught.value)


def test_formats_without_links(tmp_path: Path):
    path = tmp_path / "data.csv"
    path.write_text("text\none\n", "utf-8")
    with pytest.raises(AttnprobeError) as caught:
        list(open_anything(Source(str(path), annotated=True)).documents)
    assert "CoNLL-U (.jsonl, .ndjson, .json, .parquet, .conllu, each also with" in str(caught.value)


def test_coreference_is_listed():
    assert list_coreference() == "CorefUD (.conllu) or GAP (.tsv)"
