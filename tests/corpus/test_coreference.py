"""Which reader takes a file, and sources of coreference as they are opened elsewhere."""

import gzip
import hashlib
import io
import sys

import pytest

from attnprobe.corpus.open import open_anything
from attnprobe.corpus.source import STDIN, Source
from attnprobe.errors import AttnprobeError

GAP = (
    "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"
    "1\tAnn met Bea, as she said.\tshe\t16\tAnn\t0\tTRUE\tBea\t8\tFALSE\thttps://example.org\n"
)
ROW = "{}\tw\t_\tPRON\t_\t_\t_\t_\t_\tEntity=(e{})\n"
COREFUD = "# global.Entity = eid\n" + "".join(ROW.format(*pair) for pair in [(1, 1), (2, 2), (3, 1)])
FORMATS = {"x.conllu": COREFUD, "x.tsv": GAP, "plain": GAP}


def sources(spec):
    opened = open_anything(Source(str(spec), coreference=True))
    return opened, list(opened.documents)


@pytest.mark.parametrize("name", FORMATS)
def test_files(tmp_path, name):
    content = FORMATS[name].encode()
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(content))
    opened, documents = sources(path)
    assert opened.name == path.name
    assert opened.described["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert opened.described["bytes"] == path.stat().st_size
    assert all(document.annotation.links for document in documents)
    assert len(documents) == 1


@pytest.mark.parametrize("content", [COREFUD, GAP])
@pytest.mark.parametrize("byte_order_mark", ["", "\ufeff"])
def test_standard_input_and_text_by_content(tmp_path, monkeypatch, content, byte_order_mark):
    raw = f"{byte_order_mark}\n{content}".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
    opened, documents = sources(STDIN)
    assert (opened.name, opened.described["sha256"]) == ("stdin", None)
    path = tmp_path / "anything"
    path.write_bytes(raw)
    assert sources(path)[1] == documents


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("somebody/corpus", "somebody/corpus has no coreference"),
        ("missing.conllu", "there is no file missing.conllu"),
    ],
)
def test_what_holds_no_coreference(spec, says):
    with pytest.raises(AttnprobeError, match=says):
        sources(spec)
