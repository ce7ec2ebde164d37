"""Words and links of JSON, words of plain text; which links are asked about; and what a mention asks."""

import gzip
import io
import json
import random
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

from attnprobe.corpus.coreference import REACH, Mention, link_antecedent, link_mentions
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
    (found,) = read_documents(Source(write(tmp_path, [row]), annotated=True, **columns))
    return found


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
            said = io.BytesIO((begin + "\n".join(rows) + "\n\n").encode())
            monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=said))
            (found,) = read_documents(Source("-", annotated=True))
            assert (found.text, found.annotation.links) == ("the dog", (Link(Span(0, 3), Span(4, 7), "det"),))

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
        for order in (links, links[::-1]):
            (found,) = read_linked_rows([{"text": "the old dog", "links": order}])
            assert {(one.target, one.label, frozenset(one.candidates)) for one in found.annotation.links} == {
                (one.target, one.label, frozenset(one.candidates)) for one in expected
            }
            assert len(found.annotation.links) == 4
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
        (found,) = read_linked_rows([{"text": "the old dog", "words": np.array([[0, 3]]), "links": links}])
        assert found.annotation.words == (Span(0, 3),)
        assert found.annotation.links == (Link(Span(0, 3), DOG, "", (Span(4, 7), DOG)),)

    def test_documents(self):
        """Words are found where nobody names any; those that are named stay."""
        link = Link(Span(0, 1, "target"), Span(8, 11), "x")
        bare = Document("the old dog", label="ab", annotation=Annotation((Span(0, 7),), (link,)), part_of="4")
        (found,) = read_linked_rows([bare])
        words = (Span(0, 7), Span(0, 1, "target"), Span(1, 2, "target"))
        assert found == Document(
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
    found, told = None, "text 0"
    try:
        (found,) = read_linked_rows([row])
    except AttnprobeError as error:
        told = str(error)
    assert told.startswith("text 0")
    assert told.isprintable()
    if found is not None and found.annotation is not None:
        texts = {"text": found.text, "pair": found.pair, "target": found.label}
        spans = [span for link in found.annotation.links for span in (link.source, link.target, *link.also)]
        for span in (*found.annotation.words, *spans):
            assert texts[span.where][span.start : span.stop]


LABELS = ("pronoun|feminine", "pronoun|masculine", "nsubj:pass|old", "")


def document(*labels):
    links = tuple(Link(Span(0, 1), Span(1, 2), label) for label in labels)
    return Document("ab", annotation=Annotation(links=links))


def left(**how):
    (found,) = filter_links([document(*LABELS)], "it", **how)
    return [link.label for link in found.annotation.links]


def test_all_of_them():
    assert left() == list(LABELS)
    assert left(fold=True) == [*LABELS[:2], "nsubj|old", ""]


def test_labels_that_are_not_there():
    with pytest.raises(AttnprobeError, match="no link called 'noun'; it has feminine, masculine, nsubj:pass"):
        left(labels=["noun"])
    with pytest.raises(AttnprobeError, match="it holds no links"):
        list(filter_links([document()], "it"))


def mention(start, entity, last="w", *, kind="nominal", head_word="", text=""):
    return Mention(Span(start, start + 2), last, entity, kind, head_word, text)


def test_rules_guess_by_kind_head_word_and_all_words():
    """The nearest of each kind; of those before, the nearest that are spelled alike."""
    draw, kinds = random.Random(6), ["pronoun", "proper", "nominal", "other"]
    checked = 0
    for _ in range(300):
        found = [
            mention(
                3 * place,
                draw.choice("ab"),
                "x",
                kind=draw.choice(kinds),
                head_word=draw.choice(["H", "h", "k"]),
                text=draw.choice(["the h", "THE h", "a h", "k"]),
            )
            for place in range(7)
        ]
        at = draw.randrange(1, 7)
        source, others = found[at], [one for one in found if one is not found[at]]
        link = link_antecedent(source, others, "")
        if link is None:
            continue
        near = sorted(others, key=lambda one: (abs(one.head.start - source.head.start), one.head.start))
        before = [one for one in near if one.head.start < source.head.start]
        alike = [one for one in before if one.head_word.lower() == source.head_word.lower()]
        whole = [one for one in before if one.text.lower() == source.text.lower()]
        expected = {
            "first": sorted(others, key=lambda one: one.head.start),
            "same head word": alike,
            "same string": whole or alike,
            **{f"nearest {kind}": [one for one in near if one.kind == kind] for kind in kinds[:3]},
        }
        for rule, some in expected.items():
            guesses = [span for name, span in link.guesses if name == rule]
            assert guesses[:1] == [one.head for one in some[:1]], rule
            checked += bool(some)
    assert checked > 500


def test_links_are_those_of_plain_rules():
    draw = random.Random(5)
    for _ in range(200):
        count = draw.randrange(12)
        found = [
            mention(3 * draw.randrange(10), draw.choice("abc"), draw.choice(["x", "X", "y"]))
            for _ in range(count)
        ]
        links, expected = link_mentions(found), []
        for one in sorted(found, key=lambda one: one.head.start):
            before = [other for other in found if other.head.start < one.head.start]
            heads = sorted({other.head.start for other in before})
            right = sorted({other.head.start for other in before if other.entity == one.entity})
            if right and len(heads) > 1:
                same = sorted({o.head.start for o in before if o.last.lower() == one.last.lower()})
                expected.append((one.head.start, right[-1], right[:-1], heads, heads[-1], same))
        seen = [
            (
                link.source.start,
                link.target.start,
                [span.start for span in link.also],
                [span.start for span in link.candidates],
                link.guesses[0][1].start,
                [span.start for rule, span in link.guesses if rule == "same last word"],
            )
            for link in links
        ]
        assert sorted(seen) == sorted(expected)


def test_an_antecedent_beyond_reach_is_left_out():
    far = [mention(0, "far"), *(mention(3 * place, place) for place in range(1, REACH + 1))]
    (link,) = link_mentions([*far[:-1], mention(3 * REACH, "far")])
    assert len(link.candidates) == REACH
    assert link_mentions([*far, mention(3 * REACH + 3, "far")]) == []


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
    for one, other in pairwise(words):  # letters that touch are parted by borders alone
        if one.stop == other.start and text[one.stop - 1].isalpha() and text[one.stop].isalpha():
            assert one.stop in borders
