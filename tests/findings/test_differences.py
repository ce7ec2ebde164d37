"""Paired differences, against scipy and by simulation."""

import numpy as np
import pytest
from scipy import stats

from attnprobe.findings.differences import Rows, compare_statistic
from attnprobe.statistics.registry import find_statistic
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.documents import BLOCKS, find_block

ENTROPY = find_statistic("entropy")


def same_number(layers, heads):
    every = np.arange(layers * heads)
    return Rows.of_heads(every, every, (len(every), len(every)))


def drawn(seed, texts, *shape, shift=0.0):
    """Two paired samples (text, layer, head) that share what is of the text."""
    random = np.random.default_rng(seed)
    shared = random.normal(size=(texts, 1, 1))
    first, second = (shared + random.normal(size=(texts, *shape)) for _ in range(2))
    return first, second + shift


def summed(values, documents=None):
    return Blocked.of(values, documents=np.arange(len(values)) if documents is None else documents)


def test_with_a_text_a_block_it_is_the_paired_t_test():
    _, first_of_block = np.unique(find_block(np.arange(200)), return_index=True)
    documents = np.sort(first_of_block)[:40]
    first, second = drawn(0, len(documents), 2, 3, shift=0.3)
    found = compare_statistic(ENTROPY, summed(first, documents), summed(second, documents), same_number(2, 3))
    expected = stats.ttest_rel(second, first)
    assert found.delta == pytest.approx((second - first).mean(0).ravel())
    assert found.error == pytest.approx(((second - first).std(0, ddof=1) / len(documents) ** 0.5).ravel())
    assert found.p == pytest.approx(expected.pvalue.ravel())
    assert (found.adjusted >= found.p).all()


def test_a_difference_of_heads_with_others_than_their_own():
    first, second = drawn(1, 64, 1, 3)
    rows = Rows.of_heads(np.array([0, 1, 2]), np.array([2, -1, 0]), (3, 3))
    found = compare_statistic(ENTROPY, summed(first), summed(second), rows)
    apart = second[:, 0, [2, 0]] - first[:, 0, [0, 2]]
    assert found.delta[[0, 2]] == pytest.approx(apart.mean(0))
    assert np.isnan(found.delta[1])
    assert np.isnan(found.p[1])
    assert found.error[[0, 2]] == pytest.approx(apart.std(0, ddof=1) / 8, rel=0.35)


def test_means_over_heads_leave_out_what_is_undefined():
    first, second = drawn(2, 300, 2, 2)
    first[:, 0, 1] = np.nan
    weights = np.kron(np.eye(2), [[0.5, 0.5]])
    found = compare_statistic(ENTROPY, summed(first), summed(second), Rows(weights, weights))
    assert found.first == pytest.approx([first[:, 0, 0].mean(), first[:, 1].mean()])
    assert found.delta == pytest.approx(found.second - found.first)
    assert np.isfinite(found.error).all()


def test_equal_means_differ_with_p_one_and_rounding_is_no_difference():
    first, _ = drawn(3, 100, 2, 2)
    for second in (first, first + 3e-8):
        found = compare_statistic(ENTROPY, summed(first + 5), summed(second + 5), same_number(2, 2))
        assert not found.delta.any()
        assert (found.p == 1).all()
        assert (found.adjusted == 1).all()


def test_one_text_has_no_error_and_no_p():
    first, second = drawn(4, 1, 1, 2)
    found = compare_statistic(ENTROPY, summed(first), summed(second), same_number(1, 2))
    assert np.isnan(found.error).all()
    assert np.isnan(found.p).all()
    assert found.delta == pytest.approx((second - first).ravel())


@pytest.mark.parametrize("texts", [12, 64, 500])
def test_p_values_are_calibrated_where_nothing_differs(texts):
    """Heads whose texts are long-tailed, as sequence means are: at most 7 % below .05."""
    random = np.random.default_rng(texts)
    below = []
    for _ in range(60):
        shared = random.gamma(2.0, size=(texts, 1, 1))
        first, second = (shared * random.gamma(4.0, size=(texts, 4, 6)) for _ in range(2))
        found = compare_statistic(ENTROPY, summed(first), summed(second), same_number(4, 6))
        below.append((found.p < 0.05).mean())
    assert np.mean(below) <= 0.07
    assert np.mean(below) >= 0.02  # and it is no test that never finds anything
    assert BLOCKS == 64


def test_windows_of_a_document_do_not_make_differences_sure():
    """Eight windows of a document that say the same are one observation."""
    random = np.random.default_rng(7)
    below = []
    for _ in range(60):
        first, second = (np.repeat(random.normal(size=(100, 1, 8)), 8, 0) for _ in range(2))
        documents = np.repeat(np.arange(100), 8)
        found = compare_statistic(
            ENTROPY, summed(first, documents), summed(second, documents), same_number(1, 8)
        )
        below.append((found.p < 0.05).mean())
    assert np.mean(below) <= 0.08


@pytest.mark.parametrize("texts", [10, 30, 300])
@pytest.mark.parametrize("alike", [1.0, 0.5, 0.0])
def test_p_values_are_calibrated_where_documents_have_few_and_many_windows(texts, alike):
    """A few documents have most of the windows, which are copies, alike, or have nothing in common."""
    random = np.random.default_rng(texts)
    below = []
    for _ in range(120):
        documents = np.repeat(np.arange(texts), np.ceil(random.lognormal(1, 1.2, texts)).astype(int))
        own = random.normal(size=(2, texts, 1, 8))[:, documents]
        first, second = alike**0.5 * own + (1 - alike) ** 0.5 * random.normal(size=own.shape)
        found = compare_statistic(
            ENTROPY, summed(first, documents), summed(second, documents), same_number(1, 8)
        )
        below.append((found.p < 0.05).mean())
    assert 0.01 <= np.mean(below) <= 0.07


def test_a_head_that_few_texts_speak_of_in_one_model_has_no_more_freedom_than_these_give():
    first, second = drawn(5, 30, 1, 1)
    second[4:] = np.nan
    found = compare_statistic(ENTROPY, summed(first), summed(second), same_number(1, 1))
    assert found.p == pytest.approx(2 * stats.t.sf(np.abs(found.delta) / found.error, 3))
