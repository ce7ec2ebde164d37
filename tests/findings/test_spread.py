"""Variance components: without bias, as planted, and against an analysis of variance of the values."""

from itertools import product

import numpy as np
import pytest

from attnprobe.attention.kinds import Kind, Place
from attnprobe.findings.differences import ALONE
from attnprobe.findings.spread import PARTS, SUBSCRIPTS, estimate_components, tabulate_spread
from attnprobe.statistics.registry import find_statistic
from attnprobe.sums.base import Measurement
from attnprobe.sums.documents import find_block
from attnprobe.sums.resampling import Jackknife
from attnprobe.table.builder import Labels

#: Seeds, layers, heads of a layer, blocks.
SHAPE = (3, 2, 4, 5)
SIZES = np.array([1.0, 2.0, 2.0, 3.0, 7.0])


def subscripts(name):
    return [factor in SUBSCRIPTS[name] for factor in "slht"]


def drawn(variances, shape, sizes, rng):
    """Draw means over blocks of texts, with effects of some variances."""
    values = np.zeros(shape)
    for name, variance in variances.items():
        effects = rng.normal(size=[n if has else 1 for n, has in zip(shape, subscripts(name), strict=True)])
        values += effects * np.sqrt(variance / (sizes if subscripts(name)[3] else 1.0))
    return values


@pytest.mark.parametrize("planted", SUBSCRIPTS)
def test_estimates_have_no_bias(planted):
    """What an estimate is on average is the sum of what it is of each level's indicator.

    It is a quadratic form y' A y, and E[y y'] = Z Z' = the sum of z z' over the columns z of Z.
    """
    has = subscripts(planted)
    total = dict.fromkeys(SUBSCRIPTS, 0.0)
    for level in product(*(range(n) if one else [slice(None)] for n, one in zip(SHAPE, has, strict=True))):
        indicator = np.zeros(SHAPE)
        indicator[level] = 1.0
        if has[3]:
            indicator /= np.sqrt(SIZES)
        for name, found in estimate_components(indicator, SIZES).estimates.items():
            total[name] += found
    for name, found in total.items():
        assert found == pytest.approx(float(name == planted), abs=1e-9), name


def test_sums_of_squares_are_those_of_regressions():
    """Each mean square is what dummies of a component add to those of what it contains."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=SHAPE)
    ones = np.ones(SHAPE[3])
    found = estimate_components(values, ones)

    def dummies(name):
        numbers = np.indices(SHAPE).reshape(4, -1)
        label = np.zeros(values.size, int)
        for number, n, has in zip(numbers, SHAPE, subscripts(name), strict=True):
            label = label * n + number * has
        return np.eye(label.max() + 1)[label]

    def fitted(names):
        design = np.hstack([np.ones((values.size, 1)), *map(dummies, names)])
        fit = design @ np.linalg.lstsq(design, values.ravel(), rcond=None)[0]
        return float(fit @ fit), np.linalg.matrix_rank(design)

    for name in SUBSCRIPTS:
        below = [one for one in SUBSCRIPTS if SUBSCRIPTS[one] < SUBSCRIPTS[name]]
        (whole, rank), (less, lower) = fitted([*below, name]), fitted(below)
        square = (whole - less) / (rank - lower)
        expected = sum(
            values.size
            / np.prod([n for n, has in zip(SHAPE, subscripts(one), strict=True) if has])
            * estimate
            for one, estimate in found.estimates.items()
            if SUBSCRIPTS[name] <= SUBSCRIPTS[one]
        )
        assert square == pytest.approx(expected), name


def test_shares_and_errors_of_what_was_planted():
    rng = np.random.default_rng(1)
    shape, sizes = (12, 6, 8, 30), rng.integers(1, 6, 30).astype(float)
    planted = {"layers": 4.0, "heads": 3.0, "seeds": 2.0, "heads_by_seed": 3.0, "texts": 6.0}
    planted |= {"heads_by_text": 2.0, "heads_by_seed_by_text": 5.0}
    draws = [estimate_components(drawn(planted, shape, sizes, rng), sizes) for _ in range(120)]
    for one in draws:
        assert sum(one.shares.values()) == pytest.approx(1)
        assert min(one.shares.values()) >= 0
    for part, names in PARTS.items():
        true = sum(planted.get(name, 0.0) for name in names) / 25
        shares = np.array([one.shares[part] for one in draws])
        assert abs(shares.mean() - true) < 0.03, part
        if true:
            error = np.mean([one.errors[part] for one in draws])
            assert 0.75 < error / shares.std() < 1.3, part
    assert np.mean([one.variance for one in draws]) == pytest.approx(25, rel=0.06)


def test_the_same_checkpoint_again():
    rng = np.random.default_rng(2)
    one = drawn(
        {"layers": 1.0, "heads": 1.0, "texts": 1.0, "heads_by_text": 1.0}, (1, 3, 4, 20), np.ones(20), rng
    )
    found = estimate_components(np.repeat(one, 3, 0), np.ones(20)).shares
    for part in ("seeds", "layers_by_seed", "heads_by_seed", "seeds_by_text", "rest"):
        assert found[part] == 0
    assert found["heads"] > 0.1


def test_heads_in_another_order():
    """With heads of each layer and checkpoint in an order of their own, numbers of heads mean nothing."""
    rng = np.random.default_rng(3)
    one = drawn({"layers": 4.0, "heads": 4.0, "texts": 1.0}, (1, 12, 12, 20), np.ones(20), rng)[0]
    mixed = np.stack([[layer[rng.permutation(12)] for layer in one] for _ in range(10)])
    straight, other = (estimate_components(y, np.ones(20)).shares for y in (np.stack([one] * 10), mixed))
    assert straight["heads"] > 0.2
    assert straight["heads_by_seed"] == 0
    assert other["heads"] < 0.02
    assert other["heads_by_seed"] == pytest.approx(straight["heads"], rel=0.1)
    assert other["layers"] == pytest.approx(straight["layers"], rel=0.05)


@pytest.mark.parametrize(
    ("shape", "unknown"),
    [
        ((3, 1, 4, 6), {"layers", "layers_by_seed", "layers_by_text"}),
        ((3, 4, 1, 6), {"heads", "heads_by_seed", "heads_by_text"}),
    ],
)
def test_what_one_layer_or_head_can_not_tell(shape, unknown):
    found = estimate_components(np.random.default_rng(4).normal(size=shape) + 1, np.ones(6))
    assert {part for part, share in found.shares.items() if np.isnan(share)} == unknown
    assert np.nansum(list(found.shares.values())) == pytest.approx(1)


def test_a_constant_has_no_shares():
    found = estimate_components(np.full(SHAPE, 0.3), SIZES)
    assert found.variance == 0
    assert all(np.isnan(share) for share in found.shares.values())


SEEDS, LAYERS, HEADS, TEXTS = 3, 2, 4, 40
#: Documents of which each is a block of its own.
DOCUMENTS = np.sort(np.unique(find_block(np.arange(400)), return_index=True)[1])[:TEXTS]
#: Only the encoder's layers have a previous token; the others are a third and more of all heads.
PLACES = [*(Place(n, Kind.ENCODER) for n in range(LAYERS)), Place(0, Kind.DECODER), Place(0, Kind.CROSS)]


@pytest.fixture(scope="module")
def values():
    """Values of the encoder (seed, text, layer, head), with effects of all kinds."""
    draw = np.random.default_rng(3)

    def effect(*sizes):
        return draw.normal(size=sizes)

    return (
        effect(1, 1, LAYERS, 1)
        + effect(1, 1, LAYERS, HEADS)
        + effect(SEEDS, 1, LAYERS, HEADS)
        + 1.5 * effect(1, TEXTS, 1, 1)
        + effect(1, TEXTS, LAYERS, HEADS)
        + effect(SEEDS, TEXTS, 1, 1)
        + effect(SEEDS, TEXTS, LAYERS, HEADS)
    )


def table_of(own):
    """Tabulate a checkpoint: a number for the encoder's heads, and none for all others."""
    whole = np.full((TEXTS, len(PLACES), HEADS), np.nan)
    whole[:, :LAYERS] = own
    corpus = {"documents": TEXTS, "empty": 0, "sequences": TEXTS, "cut": 0}
    labels = Labels("tiny", "texts", {"corpus": corpus, "measurement": {}}, PLACES)
    previous = find_statistic("previous")
    found = Measurement({previous.name: Jackknife.of(whole, documents=DOCUMENTS)}, TEXTS, TEXTS)
    return ALONE.table("heads", found, [previous], labels)


def mean_squares(values):
    """Give the mean squares of texts, and of texts by seed, by layer, and by both."""
    by_text = values.mean((0, 2, 3))
    texts = SEEDS * LAYERS * HEADS * by_text.var(ddof=1)
    by_seed = values.mean((2, 3))
    apart = by_seed - by_seed.mean(1, keepdims=True) - by_seed.mean(0) + by_seed.mean()
    seeds = LAYERS * HEADS * np.square(apart).sum() / ((SEEDS - 1) * (TEXTS - 1))
    by_layer = values.mean((0, 3))
    apart = by_layer - by_layer.mean(1, keepdims=True) - by_layer.mean(0) + by_layer.mean()
    layers = SEEDS * HEADS * np.square(apart).sum() / ((LAYERS - 1) * (TEXTS - 1))
    both = values.mean(3)
    for axis in range(3):
        both = both - both.mean(axis, keepdims=True)
    rest = HEADS * np.square(both).sum() / ((SEEDS - 1) * (LAYERS - 1) * (TEXTS - 1))
    return texts, seeds, layers, rest


def test_a_column_that_some_heads_lack_varies_over_texts_as_its_own_heads_do(values):
    """Sizes of blocks are of the heads that have the column; those of all heads made this half as much."""
    names = [f"seed-{seed}" for seed in range(SEEDS)]
    table = tabulate_spread(list(map(table_of, values)), names, dataset="texts", notes=[], record={})
    assert table.data["attention"] == ["encoder", "decoder", "cross"]
    texts, seeds, layers, rest = mean_squares(values)
    variance = float(table.data["sd"][0]) ** 2
    found = float(table.data["texts"][0]) * variance
    assert found == pytest.approx((texts - seeds - layers + rest) / (SEEDS * LAYERS * HEADS))
    assert float(table.data["seeds_by_text"][0]) * variance == pytest.approx(
        (seeds - rest) / (LAYERS * HEADS)
    )
    assert np.isnan([float(table.data["texts"][row]) for row in (1, 2)]).all()
