"""Words of a text of which nobody says where its words are."""

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnprobe.corpus.links import find_words


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
