"""What follows from the effects on pairs: shares, errors, what is tested, and how pairs add up."""

import re

import numpy as np
import pytest
from scipy import stats

from attnprobe.intervention.patching.passes import PatchedPairs, PatchPlan, measure_pairs
from attnprobe.intervention.patching.table import adjust_tests, compute_share, tabulate_patching
from attnprobe.sums.base import pack, unpack
from attnprobe.sums.inference import adjust


def test_shares_are_ratios_of_sums_with_the_error_of_the_jackknife():
    """One document is left out at a time, of 30 documents of 1 or 2 pairs; a pair may lack a number."""
    draw = np.random.default_rng(3)
    documents = np.repeat(np.arange(30), draw.integers(1, 3, 30))
    gap = draw.normal(3, 1, len(documents))
    effect = gap[:, None] * draw.uniform(-0.1, 0.5, 3) + draw.normal(0, 0.3, (len(documents), 3))
    effect[5, 1] = np.nan
    share = compute_share(effect, gap, documents)

    def divide(rows):
        known = np.isfinite(effect[rows])
        return np.nansum(effect[rows], 0) / (known * gap[rows, None]).sum(0)

    without = np.stack([divide(documents != document) for document in range(30)])
    np.testing.assert_allclose(share.value, divide(documents >= 0))
    np.testing.assert_allclose(share.error, np.sqrt(29 / 30 * np.square(without - share.value).sum(0)))


def test_a_gap_of_nothing_has_no_shares():
    share = compute_share(np.ones((4, 2)), np.zeros(4), np.arange(4))
    assert np.isnan([share.value, share.error]).all()


def test_what_was_not_chosen_counts_in_the_correction():
    p, tested = np.array([0.01, np.nan, 0.02, np.nan]), np.array([True, True, True, False])
    adjusted = adjust_tests(p, tested, "holm")
    np.testing.assert_allclose(adjusted, adjust([0.01, 1.0, 0.02])[[0, 1, 2, 2]] + [0, np.nan, 0, np.nan])
    assert adjusted[0] == pytest.approx(0.03)


def test_pairs_add_up_in_whatever_order():
    draw = np.random.default_rng(0)

    def make(*members):
        effect = draw.normal(size=(2, len(members), 2, 3))
        return PatchedPairs(np.array(members), *draw.normal(size=(2, len(members))), *effect)

    first, second = make(4, 1), make(2)
    for pairs in (first + second, second + first):
        restored = PatchedPairs.from_arrays(unpack(pack(pairs.arrays()))).sort()
        assert restored.members.tolist() == [1, 2, 4]
        np.testing.assert_array_equal(restored.effect, [first.effect[1], second.effect[0], first.effect[0]])
        np.testing.assert_array_equal(restored.gap, [first.gap[1], second.gap[0], first.gap[0]])


def test_the_table_tests_pairs_by_student_s_t(headed, paired_data, pairs_of):
    """Also the tokens that most pairs have at a position, more than half of them, are named."""
    pairs = pairs_of("classification")
    del pairs[3]  # of the others, half begin with "the"
    with paired_data(headed("bert", "classification", double=True), pairs) as data:
        patched = measure_pairs(data, PatchPlan())
        table = tabulate_patching(data, PatchPlan(), patched)
        plan = PatchPlan(positions=True)
        by_position = tabulate_patching(data, plan, measure_pairs(data, plan))
    effect = patched.effect.reshape(len(patched.effect), -1)
    np.testing.assert_allclose(table["effect"], effect.mean(0))
    np.testing.assert_allclose(table["effect_se"], stats.sem(effect))
    tested = np.isfinite(table["p"])
    np.testing.assert_allclose(table["p"][tested], stats.ttest_1samp(effect, 0).pvalue[tested])
    np.testing.assert_allclose(table["recovered"], effect.sum(0) / patched.gap.sum())
    means = [float(number) for number in re.findall(r"(\S+) for (?:clean|corrupted)", table.notes[0])]
    assert means == pytest.approx([patched.source.mean(), patched.base.mean()], rel=0.05)
    frame = by_position.to_pandas()
    tokens = [data.model.checkpoint.tokenizer(pair["corrupted"]).tokens() for pair in pairs]
    for place, named in frame.groupby("position")["token"]:
        there = [row[place] for row in tokens if place < len(row)]
        usual = [token for token in there if 2 * there.count(token) > len(there)]
        assert set(named.fillna("")) == set(usual or [""])
    assert frame["n"].max() == len(pairs)
    assert frame["n"].min() == sum(pair["clean"].count(" ") >= 6 for pair in pairs) > 0
