"""What follows from the effects on pairs: shares, errors, tests, against numpy and scipy."""

import numpy as np
import pytest
from scipy import stats

from attnprobe.intervention.patching.pairs import PatchedPairs, adjust_tests
from attnprobe.intervention.patching.passes import PatchPlan
from attnprobe.intervention.patching.values import PairValues
from attnprobe.sums.inference import adjust


def pairs_of(effect, base, source, clusters=None):
    number = len(effect)
    alone = np.full(number, -1)
    return PatchedPairs(
        PatchPlan(),
        base,
        source,
        effect,
        np.full_like(effect, np.nan),
        alone if clusters is None else clusters,
        np.arange(number),
    )


@pytest.fixture
def drawn():
    draw = np.random.default_rng(3)
    base, gap = draw.normal(-1, 1, 40), draw.normal(3, 1, 40)
    effect = gap[:, None, None] * draw.uniform(-0.1, 0.5, (2, 3)) + draw.normal(0, 0.3, (40, 2, 3))
    return pairs_of(effect, base, base + gap)


def test_shares_are_ratios_of_sums_with_the_error_of_the_jackknife(drawn):
    share, error = drawn.recovered
    gap = drawn.gap
    np.testing.assert_allclose(share, drawn.effect.sum(0) / gap.sum())
    without = np.stack([np.delete(drawn.effect, k, 0).sum(0) / np.delete(gap, k).sum() for k in range(40)])
    jackknife = np.sqrt(39 / 40 * np.square(without - without.mean(0)).sum(0))
    np.testing.assert_allclose(error, jackknife, rtol=0.05)


def test_the_error_of_shares_covers_the_truth():
    """Of 400 draws of 60 pairs, the 95 % interval holds the true share in about 95 %."""
    draw, held = np.random.default_rng(0), 0
    for _ in range(400):
        gap = draw.normal(2, 1.5, 60)
        effect = 0.3 * gap + draw.normal(0, 1, 60)
        share, error = pairs_of(effect[:, None, None], np.zeros(60), gap).recovered
        held += abs(share.item() - 0.3) < 2 * error.item()
    assert 0.92 < held / 400 < 0.98


def test_p_is_that_of_a_paired_t(drawn):
    p = drawn.summarise(drawn.effect).estimate.p()
    np.testing.assert_allclose(p, stats.ttest_1samp(drawn.effect, 0).pvalue)


def test_pairs_of_one_document_are_no_independent_pairs(drawn):
    clusters = np.repeat(np.arange(1000, 1020), 2)
    alike = pairs_of(np.repeat(drawn.effect[:20], 2, 0), drawn.base, drawn.source, clusters)
    single = pairs_of(drawn.effect[:20], drawn.base[:20], drawn.source[:20])
    effects, alone = (one.summarise(one.effect) for one in (alike, single))
    np.testing.assert_allclose(effects.standard_error, alone.standard_error)
    np.testing.assert_allclose(effects.estimate.p(), alone.estimate.p())


def test_p_is_uniform_where_the_answers_are_exchanged_by_the_throw_of_a_coin(headed, paired, pairs_of):
    """To exchange both answers turns the sign of m, and so of every effect: by a coin, none has any."""
    checkpoint = headed("bert", "classification", double=True)
    words = ["dog", "cat", "bird", "house", "road", "train", "stone", "water", "light", "day"]
    sentences = [
        {"clean": f"the {a} ran to the {b}", "corrupted": f"the {c} ran to the {b}", "answer": 0, "other": 1}
        for a in words for b in words for c in words if a < c
    ][::3]  # fmt: skip
    turned = [{**one, "answer": 1, "other": 0} for one in sentences[:6]]
    with paired(checkpoint, sentences) as bench:
        from attnprobe.intervention.patching.running import measure_pairs

        found = measure_pairs(bench, PatchPlan())
    with paired(checkpoint, turned) as bench:
        np.testing.assert_allclose(measure_pairs(bench, PatchPlan()).effect, -found.effect[:6], atol=1e-12)
    draw, p = np.random.default_rng(1), []
    for _ in range(300):
        rows = draw.choice(len(sentences), 40, replace=False)
        coins = draw.choice([-1, 1], 40)[:, None, None]
        some = found.summarise(found.effect)  # of the right kind, and replaced below
        some = type(some).of(found.effect[rows] * coins)
        p.append(some.estimate.p()[1, 2])
    assert stats.kstest(p, "uniform").pvalue > 0.01
    assert 0.02 < np.mean(np.array(p) < 0.05) < 0.09


def test_what_was_not_chosen_counts_in_the_correction():
    p, tested = np.array([0.01, np.nan, 0.02, np.nan]), np.array([True, True, True, False])
    found = adjust_tests(p, tested, "holm")
    np.testing.assert_allclose(found[[0, 2]], adjust([0.01, 1.0, 0.02])[[0, 2]])
    assert np.isnan(found[[1, 3]]).all()
    assert found[0] == pytest.approx(0.03)


def test_values_add_up_in_whatever_order():
    draw = np.random.default_rng(0)
    one = PairValues(
        ((np.array([4, 1]), {"own": draw.normal(size=2), "effect": draw.normal(size=(2, 2, 3))}),)
    )
    other = PairValues(
        ((np.array([2]), {"own": draw.normal(size=1), "effect": draw.normal(size=(1, 2, 5))}),)
    )
    whole = one + other + one.__class__(())
    again = PairValues.from_arrays(whole.arrays())
    members = np.array([1, 2, 4])
    for found in (whole, again, other + one):
        effect = found.collect("effect", members)
        assert effect.shape == (3, 2, 5)
        np.testing.assert_array_equal(effect[2, :, :3], one.parts[0][1]["effect"][0])
        np.testing.assert_array_equal(effect[1], other.parts[0][1]["effect"][0])
        assert np.isnan(effect[[0, 2], :, 3:]).all()
    assert whole.arrays().keys() == {
        f"{part}/{name}" for part in "01" for name in ("members", "values/own", "values/effect")
    }
