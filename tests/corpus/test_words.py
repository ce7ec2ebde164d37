"""Words of a text of which nobody says where its words are."""

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnprobe.corpus.document import Annotation, Link, Span
from attnprobe.corpus.links import complete_words, find_words


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


def test_only_texts_without_words_are_given_some():
    link = Link(
        Span(0, 1, "pair"), Span(4, 6, "target"), "", (Span(4, 6, "target"),), (Span(7, 8, "target"),)
    )
    said = Annotation((Span(4, 7), Span(0, 3), Span(0, 3)), (link,))
    found = complete_words(said, {"text": "the old dog", "pair": "ab", "target": "the one two"})
    assert found.links == (link,)
    words = {where: [w for w in found.words if w.where == where] for where in ("text", "pair", "target")}
    assert [word for where in words for word in words[where]] == list(found.words)
    assert words["text"] == [Span(0, 3), Span(4, 7)]
    assert [(w.start, w.stop) for w in words["pair"]] == [(0, 1), (1, 2)]
    assert [(w.start, w.stop) for w in words["target"]] == [(0, 3), (4, 6), (6, 7), (8, 11)]
