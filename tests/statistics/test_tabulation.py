"""From sums to tables: which offset wins, and what a layer of one or two heads can say."""

import numpy as np
import pytest

from attnprobe.attention.kinds import number_layers
from attnprobe.statistics import (
    all_statistics,
    select_statistics,
)
from attnprobe.statistics.distance import BY_HEAD, BY_LAYER
from attnprobe.statistics.positional import FURTHEST
from attnprobe.statistics.tabulation import Tabulation, head_table
from attnprobe.sums.base import Measurement
from attnprobe.sums.clustered import Clustered
from attnprobe.table.builder import Labels
from attnprobe.table.table import HeadTable


def labels(layers: int = 1) -> Labels:
    return Labels("tiny", "texts", {"seed": 1}, number_layers(["encoder"] * layers))


def best(*sequences: dict[int, float]) -> HeadTable:
    """Tabulate the offset of a single head from its shares in each sequence; others are undefined."""
    shares = np.full((len(sequences), 1, 1, 2 * FURTHEST + 1), np.nan)
    for sequence, shares_of_sequence in enumerate(sequences):
        for offset, share in shares_of_sequence.items():
            shares[sequence, 0, 0, offset + FURTHEST] = share
    offset = all_statistics()["offset_share"]
    measurement = Measurement({offset.name: Clustered.of(shares)}, len(sequences))
    return head_table("offsets", measurement, [offset], labels())


class TestOffset:
    """The offset with the largest share of argmaxes."""

    def test_largest(self):
        table = best({-1: 0.2, 0: 0.1, 1: 0.7}, {-1: 0.4, 0: 0.3, 1: 0.3})
        assert table["offset"].tolist() == [1]
        assert table["offset_share"][0] == pytest.approx(0.5)
        assert table["offset_share_se"][0] == pytest.approx(0.2)

    def test_of_equals_the_nearest_then_the_earlier(self):
        assert best({-2: 0.5, 1: 0.5, 5: 0.5})["offset"].tolist() == [1]
        assert best({-1: 0.5, 1: 0.5, 0: 0.2})["offset"].tolist() == [-1]
        assert best({-64: 0.5, 64: 0.5, 0: 0.2})["offset"].tolist() == [-64]

    def test_an_offset_of_few_sequences_does_not_compete(self):
        """One long sequence can't win with an offset that the others do not have."""
        few = [{0: 0.3, 7: 1.0}, {0: 0.3}, {0: 0.3}]
        assert best(*few)["offset"].tolist() == [0]
        half = [{0: 0.3, 7: 1.0}, {0: 0.3}, {0: 0.3}, {0: 0.3, 7: 0.9}]
        assert best(*half)["offset"].tolist() == [7]
        assert best(*half)["offset_share"][0] == pytest.approx(0.95)


def measured(pairs: list[list[float]], heads: int) -> Measurement:
    """Make the measurement of one layer from the divergence of its pairs in each sequence."""
    jsd = np.array(pairs, float)[:, None].reshape(len(pairs), 1, -1)
    a, b = np.triu_indices(heads, 1)
    mean = np.full((len(pairs), 1, heads), np.nan)
    for head in range(heads if heads > 1 else 0):
        mean[..., head] = jsd[..., (a == head) | (b == head)].mean(-1)
    layer = jsd.mean(-1, keepdims=True) if heads > 1 else np.full((len(pairs), 1, 1), np.nan)
    sums = {"jsd": jsd, "jsd_mean": mean, "jsd_layer": layer}
    return Measurement({name: Clustered.of(values) for name, values in sums.items()}, len(pairs))


def tabulated(tabulation: Tabulation, measurement: Measurement) -> HeadTable:
    return tabulation.build(tabulation.title, measurement, select_statistics("distance"), labels())


class TestDistance:
    """Layers of few heads."""

    def test_three(self):
        measurement = measured([[0.1, 0.3, 0.4], [0.1, 0.5, 0.6]], 3)
        table = tabulated(BY_HEAD, measurement)
        assert table["nearest_head"].tolist() == [1, 0, 0]
        np.testing.assert_allclose(table["jsd_nearest"], [0.1, 0.1, 0.4])
        np.testing.assert_allclose(table["jsd_mean"], [0.25, 0.3, 0.45])
        layer = tabulated(BY_LAYER, measurement)
        assert layer["odd_head"].tolist() == [2]
        np.testing.assert_allclose(layer["odd_jsd"], [0.45])
        np.testing.assert_allclose(layer["jsd_std"], [np.std([0.1, 0.4, 0.5], ddof=1)])
