"""What ships inside the package: what is wanted tells the part; snippets with coreference are balanced."""

import hashlib
import io
from itertools import pairwise

import pandas as pd
import pytest

from attnprobe.corpus.open import Embedded, open_embedded, open_source, read_embedded
from attnprobe.corpus.source import EMBEDDED, Source

WANTED = {
    Embedded.SENTENCES: {},
    Embedded.TREEBANK: {"annotated": True},
    Embedded.COREFERENCE: {"coreference": True},
    Embedded.PAIRS: {"contrasts": True},
}


@pytest.mark.parametrize("part", Embedded)
def test_each_part_has_its_documents_and_its_hash(part):
    opened = open_source(Source(EMBEDDED, **WANTED[part]))
    assert list(opened.documents) == list(read_embedded(part))
    content = b"".join(stream.read() for stream, _ in open_embedded(part))
    assert opened.described["name"] == EMBEDDED
    assert opened.described["sha256"] == hashlib.sha256(content).hexdigest()
    assert opened.described["bytes"] == len(content)


FEMININE, MASCULINE = {"she", "her", "hers"}, {"he", "him", "his"}


@pytest.fixture(scope="module")
def rows():
    content = b"".join(stream.read() for stream, _ in open_embedded(Embedded.COREFERENCE))
    table = pd.read_csv(io.BytesIO(content), sep="\t", keep_default_na=False)
    return table.to_dict("records")


def right(row):
    return "A" if row["A-coref"] else "B"


def test_offsets_fit(rows):
    for row in rows:
        spans = []
        for column in ("Pronoun", "A", "B"):
            start = row[f"{column}-offset"]
            assert row["Text"][start : start + len(row[column])] == row[column]
            around = row["Text"][max(start - 1, 0) : start] + row["Text"][start + len(row[column]) :][:1]
            assert not any(map(str.isalnum, around)), row  # whole words
            spans.append((start, start + len(row[column])))
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
        assert row["A-offset"] < row["B-offset"]


def test_the_reader_takes_every_row(rows):
    documents = list(read_embedded(Embedded.COREFERENCE))
    assert [document.text for document in documents] == [row["Text"] for row in rows]
    for document, row in zip(documents, rows, strict=True):
        (link,) = document.annotation.links
        assert document.text[link.source.start : link.source.stop] == row["Pronoun"]
        answer = document.text[link.target.start : link.target.stop]
        assert answer == row[right(row)].split()[-1]
        assert len(link.candidates) == 2
