"""What ships inside the package: an encoder with recognisable heads, and sentences to read."""

from importlib.resources import files

import attnprobe
from attnprobe.corpus.open import read_embedded

DEMO = files("attnprobe") / "demo"


def test_type_checkers_read_its_annotations():
    """PEP 561: without this file, mypy takes every function of the package for untyped."""
    assert (files("attnprobe") / "py.typed").is_file()


def test_it_is_small():
    assert sum(len(file.read_bytes()) for file in DEMO.iterdir()) <= 8_000_000


def test_it_holds_no_pickle_and_no_code():
    assert {file.name.rpartition(".")[2] for file in DEMO.iterdir()} <= {"json", "safetensors"}


def test_it_has_a_previous_head_and_a_next_head():
    frame = attnprobe.census("demo", statistics=["positional"]).to_pandas()
    assert frame["previous"].max() > 0.8
    assert frame["next"].max() > 0.8
    assert frame.loc[frame["previous"].idxmax(), "offset"] == -1
    assert frame.loc[frame["next"].idxmax(), "offset"] == 1


def test_the_sentences():
    sentences = [document.text for document in read_embedded()]
    words = [len(sentence.split()) for sentence in sentences]
    assert len(sentences) == len(set(sentences)) >= 300
    assert min(words) >= 4
    assert max(words) <= 80
    assert sum(length >= 60 for length in words) >= 10
