"""Paired differences, against scipy and by simulation."""

import numpy as np
import pytest
from scipy import stats

from attnprobe.findings.comparison import compare_statistic
from attnprobe.statistics.registry import find_statistic
from attnprobe.sums.base import Constant
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.documents import find_block

ENTROPY = find_statistic("entropy")


def drawn(seed, texts, *shape, shift=0.0):
    """Two paired samples (text, layer, head) that share what is of the text."""
    random = np.random.default_rng(seed)
    shared = random.normal(size=(texts, 1, 1))
    first, second = (shared + random.normal(size=(texts, *shape)) for _ in range(2))
    return first, second + shift


def compare(first, second, documents=None, partners=None):
    documents = np.arange(len(first)) if documents is None else documents
    sides = (Blocked.of(values, documents=documents) for values in (first, second))
    heads = np.arange(first[0].size)
    return compare_statistic(ENTROPY, *sides, heads, heads if partners is None else np.array(partners))


def test_with_a_text_a_block_it_is_the_paired_t_test():
    _, first_of_block = np.unique(find_block(np.arange(200)), return_index=True)
    documents = np.sort(first_of_block)[:40]
    first, second = drawn(0, len(documents), 2, 3, shift=1.0)
    difference = compare(first, second, documents)
    expected = stats.ttest_rel(second, first)
    assert difference.estimate.value == pytest.approx((second - first).mean(0).ravel())
    error = (second - first).std(0, ddof=1) / len(documents) ** 0.5
    assert difference.estimate.error == pytest.approx(error.ravel())
    assert difference.p == pytest.approx(expected.pvalue.ravel())
    assert (difference.adjusted >= difference.p).all()
    assert difference.moved[0] == (difference.adjusted < 0.05).sum() > 0


def test_a_difference_of_heads_with_others_than_their_own():
    first, second = drawn(1, 64, 1, 3)
    difference = compare(first, second, partners=[2, -1, 0])
    gap = second[:, 0, [2, 0]] - first[:, 0, [0, 2]]
    assert difference.estimate.value[[0, 2]] == pytest.approx(gap.mean(0))
    assert difference.estimate.error[[0, 2]] == pytest.approx(gap.std(0, ddof=1) / 8, rel=0.35)
    assert np.isnan([difference.second[1], difference.estimate.value[1], difference.p[1]]).all()


def test_numbers_that_no_text_changes_have_no_error():
    sides = Constant.of([[1.0, 2.0]]), Constant.of([[1.5, 3.0]])
    difference = compare_statistic(ENTROPY, *sides, np.arange(2), np.array([1, -1]))
    assert difference.estimate.value[0] == 2
    assert np.isnan([difference.estimate.value[1], *difference.estimate.error, *difference.p]).all()


def test_equal_means_differ_with_p_one_and_rounding_is_no_difference():
    first, _ = drawn(3, 100, 2, 2)
    for second in (first, first + 3e-8):
        difference = compare(first + 5, second + 5)
        assert not difference.estimate.value.any()
        assert (difference.adjusted == 1).all()


def test_a_head_that_few_texts_speak_of_in_one_model_has_no_more_freedom_than_these_give():
    first, second = drawn(5, 30, 1, 1)
    second[4:] = np.nan
    difference = compare(first, second)
    statistic = np.abs(difference.estimate.value) / difference.estimate.error
    assert difference.p == pytest.approx(2 * stats.t.sf(statistic, 3))


@pytest.mark.slow
@pytest.mark.parametrize("texts", [10, 30, 300])
@pytest.mark.parametrize("alike", [1.0, 0.5, 0.0])
def test_p_values_are_calibrated_where_documents_have_few_and_many_windows(texts, alike):
    """A few documents have most of the windows, which are copies, alike, or have nothing in common."""
    random = np.random.default_rng(texts)
    below = []
    for _ in range(120):
        documents = np.repeat(np.arange(texts), np.ceil(random.lognormal(1, 1.2, texts)).astype(int))
        of_documents = random.normal(size=(2, texts, 1, 8))[:, documents]
        sides = alike**0.5 * of_documents + (1 - alike) ** 0.5 * random.normal(size=of_documents.shape)
        below.append((compare(*sides, documents).p < 0.05).mean())
    assert 0.01 <= np.mean(below) <= 0.07
