"""Words that two tokenizers both see."""

import torch

from attnprobe.attention.tokens import TokenAnnotation, TokenSpan
from attnprobe.survey.pairing import pair_words, pool_words


def spans(*ends):
    return TokenAnnotation(numbered=tuple(end and TokenSpan(*end) for end in ends))


def test_words_that_one_side_lost_are_no_units():
    assert pair_words(spans((1, 2), None, (3, 4)), spans((0, 1), (1, 2), None)) == [
        (TokenSpan(1, 2), TokenSpan(0, 1))
    ]


def test_words_that_share_tokens_on_both_sides_become_one_unit():
    one = spans((1, 2), (1, 2), (2, 3), (3, 4))
    two = spans((0, 1), (1, 2), (1, 2), (2, 3))
    assert pair_words(one, two) == [(TokenSpan(1, 3), TokenSpan(0, 2)), (TokenSpan(3, 4), TokenSpan(2, 3))]


def test_rows_of_words_sum_to_one():
    maps = torch.rand(3, 6, 6).softmax(-1)
    found = pool_words(maps, [TokenSpan(1, 3), TokenSpan(4, 5)])
    assert found.shape == (3, 2, 3)
    torch.testing.assert_close(found.sum(-1), torch.ones(3, 2))
    torch.testing.assert_close(found[:, 0, 1], maps[:, 1:3, 4].mean(1))
    torch.testing.assert_close(found[:, 1, 0], maps[:, 4, 1:3].sum(1))
