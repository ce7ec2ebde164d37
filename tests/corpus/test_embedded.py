"""What ships inside the package: what is wanted tells the part; snippets with coreference are balanced."""

import hashlib
import io

import conllu
import pandas as pd
import pytest

from attnprobe.corpus.open import Embedded, open_anything, open_embedded, read_embedded
from attnprobe.corpus.source import EMBEDDED, Source

WANTED = {
    Embedded.SENTENCES: {},
    Embedded.TREEBANK: {"annotated": True},
    Embedded.COREFERENCE: {"coreference": True},
    Embedded.PAIRS: {"contrasts": True},
}


@pytest.mark.parametrize("part", Embedded)
def test_each_part_has_its_documents_and_its_hash(part):
    opened = open_anything(Source(EMBEDDED, **WANTED[part]))
    assert list(opened.documents) == list(read_embedded(part))
    content = b"".join(stream.read() for stream, _ in open_embedded(part))
    assert opened.described["name"] == EMBEDDED
    assert opened.described["sha256"] == hashlib.sha256(content).hexdigest()
    assert opened.described["bytes"] == len(content)


@pytest.fixture(scope="module")
def rows():
    content = b"".join(stream.read() for stream, _ in open_embedded(Embedded.COREFERENCE))
    table = pd.read_csv(io.BytesIO(content), sep="\t", keep_default_na=False)
    return table.to_dict("records")


def right(row):
    return "A" if row["A-coref"] else "B"


def test_the_reader_takes_every_row(rows):
    documents = list(read_embedded(Embedded.COREFERENCE))
    assert [document.text for document in documents] == [row["Text"] for row in rows]
    for document, row in zip(documents, rows, strict=True):
        (link,) = document.annotation.links
        assert document.text[link.source.start : link.source.stop] == row["Pronoun"]
        answer = document.text[link.target.start : link.target.stop]
        assert answer == row[right(row)].split()[-1]
        assert len(link.candidates) == 2


def words(sentence):
    return [token for token in sentence if isinstance(token["id"], int)]


def read():
    text = "".join(stream.read().decode() for stream, _ in open_embedded(Embedded.TREEBANK))
    return conllu.parse(text)


SENTENCES = read()


def test_the_reader_finds_every_link():
    documents = list(read_embedded(Embedded.TREEBANK))
    assert [document.text for document in documents] == [one.metadata["text"] for one in SENTENCES]
    for document, sentence in zip(documents, SENTENCES, strict=True):
        assert document.part_of is None  # each sentence is a document of its own
        inside = sum(token["id"][2] - token["id"][0] for token in sentence if token not in words(sentence))
        assert len(document.annotation.words) == len(words(sentence)) - inside  # "I'm" is one
        assert len(document.annotation.links) == len(words(sentence)) - 1
