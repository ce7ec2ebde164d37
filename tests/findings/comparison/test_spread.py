"""Where columns vary, from tables of checkpoints, against an analysis of variance of the values."""

import numpy as np
import pytest

from attnprobe.attention.kinds import Kind, Place
from attnprobe.findings.comparison.differences import ALONE
from attnprobe.findings.comparison.spread import tabulate_spread
from attnprobe.statistics.registry import find_statistic
from attnprobe.sums.base import Measurement
from attnprobe.sums.documents import find_block
from attnprobe.sums.resampling import Jackknife
from attnprobe.table.builder import Labels

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
