"""Words that two tokenizers both see."""

from attnprobe.attention.tokens import TokenAnnotation, TokenSpan
from attnprobe.survey.pairing import pair_words


def spans(*ends):
    return TokenAnnotation(numbered=tuple(end and TokenSpan(*end) for end in ends))


def test_words_that_one_side_lost_are_no_units():
    assert pair_words(spans((1, 2), None, (3, 4)), spans((0, 1), (1, 2), None)) == [
        (TokenSpan(1, 2), TokenSpan(0, 1))
    ]


def test_words_that_share_tokens_on_both_sides_become_one_unit():
    first = spans((1, 2), (1, 2), (2, 3), (3, 4))
    second = spans((0, 1), (1, 2), (1, 2), (2, 3))
    assert pair_words(first, second) == [
        (TokenSpan(1, 3), TokenSpan(0, 2)),
        (TokenSpan(3, 4), TokenSpan(2, 3)),
    ]
