"""Words and links of JSON, words of plain text; which links are asked about; and what a mention asks."""

import gzip
import io
import json
import sys
import unicodedata
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from attnprobe.corpus.document import Annotation, Document, Link, Span
from attnprobe.corpus.links import filter_links, find_words, read_linked_rows
from attnprobe.corpus.open import open_anything, read_documents
from attnprobe.corpus.source import Source
from attnprobe.errors import AttnprobeError

ROW = {
    "text": "the old dog",
    "text_pair": "a cat ran",
    "target": "der alte Hund",
    "words": [[8, 11], [0, 3], [4, 7], [0, 3]],
    "links": [
        {"source": [0, 3], "target": [8, 11], "label": "det", "candidates": [[4, 7], [8, 11]]},
        {"source": [2, 5], "source_in": "pair", "target": [8, 11], "also": [[4, 7], [8, 11], [4, 7]]},
        {"source": [0, 3], "source_in": "target", "target": [0, 3], "label": None, "target_in": None},
    ],
}
DOG = Span(8, 11)
EXPECTED = Document(
    "the old dog",
    "a cat ran",
    "der alte Hund",
    Annotation(
        (
            Span(0, 3), Span(4, 7), DOG,
            Span(0, 1, "pair"), Span(2, 5, "pair"), Span(6, 9, "pair"),
            Span(0, 3, "target"), Span(4, 8, "target"), Span(9, 13, "target"),
        ),
        (
            Link(Span(0, 3), DOG, "det", (Span(4, 7), DOG)),
            Link(Span(2, 5, "pair"), DOG, "", also=(Span(4, 7),)),
            Link(Span(0, 3, "target"), Span(0, 3), ""),
        ),
    ),
)  # fmt: skip


def write(folder, rows, name="links.jsonl"):
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return str(folder / name)


def read(tmp_path, row, **columns):
    (document,) = read_documents(Source(write(tmp_path, [row]), annotated=True, **columns))
    return document


class TestFiles:
    @pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
    def test_json(self, tmp_path, name):
        assert list(read_documents(Source(write(tmp_path, [ROW], name), annotated=True))) == [EXPECTED]

    def test_parquet(self, tmp_path):
        """Where one link of a column has a field, the others have it too, and it is null."""
        plain = {"text": "a dog", "links": [{"source": [0, 1], "target": [2, 5]}]}
        parquet.write_table(pyarrow.Table.from_pylist([ROW, plain]), path := tmp_path / "a.parquet")
        first, second = read_documents(Source(str(path), annotated=True))
        assert first == EXPECTED
        assert second.annotation.links == (Link(Span(0, 1), Span(2, 5), ""),)
        assert (second.pair, second.label) == (None, None)
        assert [document.annotation for document in read_documents(Source(str(path)))] == [None, None]

    def test_a_treebank_on_standard_input(self, monkeypatch):
        rows = ["1\tthe\t_\t_\t_\t_\t2\tdet\t_\t_", "2\tdog\t_\t_\t_\t_\t0\t_\t_\t_"]
        for begin in ("", "\n# text = the dog\n"):
            stream = io.BytesIO((begin + "\n".join(rows) + "\n\n").encode())
            monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
            (result,) = read_documents(Source("-", annotated=True))
            assert (result.text, result.annotation.links) == (
                "the dog",
                (Link(Span(0, 3), Span(4, 7), "det"),),
            )

    def test_without_links(self, tmp_path):
        with pytest.raises(AttnprobeError, match="holds no gold links"):
            list(read_documents(Source(write(tmp_path, [ROW], "a.txt"), annotated=True)))
        with pytest.raises(AttnprobeError, match="is a folder"):
            open_anything(Source(str(tmp_path), annotated=True))
        with pytest.raises(AttnprobeError, match="no column 'links'"):
            read(tmp_path, {"text": "a dog", "n": 3})


LINK = {"source": [0, 3], "target": [4, 7]}


@pytest.mark.parametrize(
    "cells",
    [
        *({"links": [LINK | {"source": span}]} for span in ([0, 99], [3, 3], [-1, 3], ["a", 3], 5)),
        {"links": [LINK | {"source_in": "pair"}]},
        {"links": [LINK | {"target_in": "target"}], "target": "  "},
        {"links": [LINK | {"source_in": "moon"}]},
        {"links": [{"target": [0, 1]}]},
        {"links": "none"},
        {"words": [[0, True]]},
        {"words": [[0, 5], [3, 7]]},
        {"links": [LINK | {"candidates": 3}]},
        {"links": [LINK | {"candidates": [[4, 7]], "also": [[8, 11]]}]},
        {"links": [LINK | {"label": ["det"]}]},
        {"links": [LINK | {"label": "a\ud800"}]},
        {"links": [LINK | {"possible": "yes"}]},
        {"links": [LINK | {"candidate": [[8, 11]]}]},
    ],
)
def test_refused(tmp_path, cells):
    row = {"text": "the old dog", **cells}
    with pytest.raises(AttnprobeError, match=r"line 2 of [^\n]*$"):
        list(read_documents(Source(write(tmp_path, [ROW, row]), annotated=True)))
    with pytest.raises(AttnprobeError, match="text 1"):
        list(read_linked_rows([ROW, row]))


class TestInPython:
    def test_mappings(self):
        assert list(read_linked_rows([ROW])) == [EXPECTED]

    def test_a_link_counts_once(self):
        """Whatever the order of its answers; one that is sure is not possible too."""
        link = {"source": [0, 3], "target": [8, 11], "label": "det"}
        choice = link | {"candidates": [[4, 7], [8, 11]]}
        links = [link, link, link | {"possible": True}, link | {"label": "other"}]
        links += [
            choice,
            link | {"candidates": [[8, 11], [4, 7]]},
            link | {"target": [4, 7], "possible": True},
        ]
        expected = [
            Link(Span(0, 3), DOG, "det"),
            Link(Span(0, 3), DOG, "other"),
            Link(Span(0, 3), DOG, "det", (Span(4, 7), DOG)),
            Link(Span(0, 3), Span(4, 7), "det|possible"),
        ]

        def describe(link):
            return link.target, link.label, frozenset(link.candidates)

        for order in (links, links[::-1]):
            (result,) = read_linked_rows([{"text": "the old dog", "links": order}])
            assert set(map(describe, result.annotation.links)) == set(map(describe, expected))
            assert len(result.annotation.links) == 4
        (again,) = read_linked_rows([Document("the old dog", annotation=Annotation((), (expected[0],) * 3))])
        assert again.annotation.links == (expected[0],)

    def test_arrays(self):
        """As pandas has the cells of a parquet file."""
        links = np.array(
            [
                {
                    "source": np.array([0, 3]),
                    "target": (np.int64(8), 11),
                    "candidates": np.array([[4, 7], [8, 11]]),
                }
            ]
        )
        (result,) = read_linked_rows([{"text": "the old dog", "words": np.array([[0, 3]]), "links": links}])
        assert result.annotation.words == (Span(0, 3),)
        assert result.annotation.links == (Link(Span(0, 3), DOG, "", (Span(4, 7), DOG)),)

    def test_documents(self):
        """Words are found where nobody names any; those that are named stay."""
        link = Link(Span(0, 1, "target"), Span(8, 11), "x")
        bare = Document("the old dog", label="ab", annotation=Annotation((Span(0, 7),), (link,)), part_of="4")
        (result,) = read_linked_rows([bare])
        words = (Span(0, 7), Span(0, 1, "target"), Span(1, 2, "target"))
        assert result == Document(
            "the old dog", label="ab", annotation=Annotation(words, (link,)), part_of="4"
        )
        plain = [Document("a dog"), Document("a dog", annotation=Annotation())]
        assert list(read_linked_rows(plain)) == plain

    @pytest.mark.parametrize(
        "row", ["a dog", None, {"links": []}, {"text": " ", "links": []}, {"text": 3, "links": []}]
    )
    def test_refused(self, row):
        with pytest.raises(AttnprobeError, match=r"^text 0"):
            list(read_linked_rows([row]))


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)
PLACE = st.sampled_from(["text", "pair", "target"]) | ANY
SPAN = st.lists(st.integers(0, 6), min_size=2, max_size=2) | ANY
ANY_LINK = st.fixed_dictionaries(
    {"source": SPAN, "target": SPAN},
    optional={
        "label": ANY, "source_in": PLACE, "target_in": PLACE,
        "candidates": st.lists(SPAN, max_size=3) | ANY, "also": st.lists(SPAN, max_size=2) | ANY,
    },
)  # fmt: skip


ROWS = st.fixed_dictionaries(
    {"text": st.text(max_size=6) | ANY, "links": st.lists(ANY_LINK | ANY, max_size=3) | ANY},
    optional={
        "text_pair": st.text(max_size=6) | ANY,
        "target": st.text(max_size=6) | ANY,
        "words": st.lists(SPAN, max_size=3) | ANY,
        "words_target": st.lists(SPAN, max_size=3) | ANY,
    },
)


@given(ROWS)
def test_whatever_a_row_holds(row):
    """It is read, and every span lies in its text; or it is told in one sentence."""
    result, told = None, "text 0"
    try:
        (result,) = read_linked_rows([row])
    except AttnprobeError as error:
        told = str(error)
    assert told.startswith("text 0")
    assert told.isprintable()
    if result is not None and result.annotation is not None:
        texts = {"text": result.text, "pair": result.pair, "target": result.label}
        spans = [span for link in result.annotation.links for span in (link.source, link.target, *link.also)]
        for span in (*result.annotation.words, *spans):
            assert texts[span.where][span.start : span.stop]


LABELS = ("pronoun|feminine", "pronoun|masculine", "nsubj:pass|old", "")


def document(*labels):
    links = tuple(Link(Span(0, 1), Span(1, 2), label) for label in labels)
    return Document("ab", annotation=Annotation(links=links))


def left(**how):
    (result,) = filter_links([document(*LABELS)], "it", **how)
    return [link.label for link in result.annotation.links]


def test_all_of_them():
    assert left() == list(LABELS)
    assert left(fold=True) == [*LABELS[:2], "nsubj|old", ""]


def test_labels_that_are_not_there():
    with pytest.raises(AttnprobeError, match="no link called 'noun'; it has feminine, masculine, nsubj:pass"):
        left(labels=["noun"])
    with pytest.raises(AttnprobeError, match="it holds no links"):
        list(filter_links([document()], "it"))


def spelled(text, *borders):
    return [text[word.start : word.stop] for word in find_words(text, borders)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the old dog", ["the", "old", "dog"]),
        ("Don't stop.", ["Don", "'", "t", "stop", "."]),
        ("cafe\u0301 nai\u0308ve", ["cafe\u0301", "nai\u0308ve"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("می\u200cخواهم، نه؟", ["می\u200cخواهم", "،", "نه", "؟"]),  # noqa: RUF001
        ("\u200fשָׁלוֹם\u200f!", ["שָׁלוֹם", "!"]),  # noqa: RUF001
        ("東京は。", ["東京は", "。"]),
        ("👩\u200d👩\u200d👧👍🏽 ok", ["👩\u200d👩\u200d👧", "👍🏽", "ok"]),
        ("a\u00a0b\u3000c\r\nd\te", ["a", "b", "c", "d", "e"]),
        ("\ufeffx \x07\u200b \u200d", ["x"]),
        ("CC(=O)Cl", ["CC", "(", "=", "O", ")", "Cl"]),
        ("", []),
        (" \n", []),
    ],
)
def test_words(text, words):
    assert spelled(text) == words


@given(st.text(max_size=30), st.lists(st.integers(0, 31)))
def test_every_letter_is_in_one_word(text, borders):
    """By definition: words are in order and apart, hold no blanks, and no border lies inside one."""
    words = find_words(text, borders)
    ends = [end for word in words for end in (word.start, word.stop)]
    assert ends == sorted(ends)
    assert all(word.start < word.stop for word in words)
    inside = {place for word in words for place in range(word.start, word.stop)}
    for place, character in enumerate(text):
        if unicodedata.category(character)[0] in "LNPS":
            assert place in inside
        if character.isspace() and character != "\x85":
            assert place not in inside
    for border in borders:
        assert not any(word.start < border < word.stop for word in words)
    for each, other in pairwise(words):  # letters that touch are parted by borders alone
        if each.stop == other.start and text[each.stop - 1].isalpha() and text[each.stop].isalpha():
            assert each.stop in borders
