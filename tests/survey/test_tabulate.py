"""From moments to tables: which offset wins, and what a layer of one or two heads can say."""

import numpy as np
import pytest

from attnprobe.attention.kinds import places_of
from attnprobe.statistics import Statistic, all_statistics
from attnprobe.statistics.positional.offset import FURTHEST
from attnprobe.sums.moments import Moments
from attnprobe.survey.measurement import Measurement
from attnprobe.survey.tabulate import (
    by_head_table,
    by_layer_table,
    census_statistics,
    head_table,
    pair_table,
)
from attnprobe.table.builder import Labels
from attnprobe.table.head_table import HeadTable


def labels(layers: int = 1) -> Labels:
    return Labels("tiny", "texts", {"seed": 1}, places_of(["encoder"] * layers))


NAN = float("nan")


def best(*sequences: dict[int, float]) -> HeadTable:
    """Tabulate the offset of a single head from its shares in each sequence; others are undefined."""
    shares = np.full((len(sequences), 1, 1, 2 * FURTHEST + 1), np.nan)
    for sequence, found in enumerate(sequences):
        for offset, share in found.items():
            shares[sequence, 0, 0, offset + FURTHEST] = share
    offset = all_statistics()["offset_share"]
    measurement = Measurement({offset.name: Moments.of(shares)}, len(sequences))
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

    def test_never_anything(self):
        table = best({0: 0.0, 1: 0.0})
        assert table["offset"].tolist() == [0]
        assert table["offset_share"].tolist() == [0]

    def test_undefined(self):
        table = best({}, {})
        assert table["offset"].tolist() == [None]
        assert np.isnan(table["offset_share"]).all()


def measured(pairs: list[list[float]], heads: int) -> Measurement:
    """Make the measurement of one layer from the divergence of its pairs in each sequence."""
    jsd = np.array(pairs, float)[:, None].reshape(len(pairs), 1, -1)
    a, b = np.triu_indices(heads, 1)
    mean = np.full((len(pairs), 1, heads), np.nan)
    for head in range(heads if heads > 1 else 0):
        mean[..., head] = jsd[..., (a == head) | (b == head)].mean(-1)
    layer = jsd.mean(-1, keepdims=True) if heads > 1 else np.full((len(pairs), 1, 1), np.nan)
    moments = {"jsd": jsd, "jsd_mean": mean, "jsd_layer": layer}
    return Measurement({name: Moments.of(values) for name, values in moments.items()}, len(pairs))


class TestDistance:
    """Layers of few heads."""

    def test_three(self):
        found = measured([[0.1, 0.3, 0.4], [0.1, 0.5, 0.6]], 3)
        table = by_head_table("heads", found, 3, labels())
        assert table["nearest_head"].tolist() == [1, 0, 0]
        np.testing.assert_allclose(table["jsd_nearest"], [0.1, 0.1, 0.4])
        np.testing.assert_allclose(table["jsd_mean"], [0.25, 0.3, 0.45])
        layer = by_layer_table("layers", found, 3, labels())
        assert layer["odd_head"].tolist() == [2]
        np.testing.assert_allclose(layer["odd_jsd"], [0.45])
        np.testing.assert_allclose(layer["jsd_std"], [np.std([0.1, 0.4, 0.5], ddof=1)])

    def test_two_have_a_distance_but_no_odd_one(self):
        found = measured([[0.1], [0.3]], 2)
        assert by_head_table("heads", found, 2, labels())["nearest_head"].tolist() == [1, 0]
        layer = by_layer_table("layers", found, 2, labels())
        np.testing.assert_allclose(layer["jsd_mean"], [0.2])
        assert layer["odd_head"].tolist() == [None]
        assert np.isnan(layer["jsd_std"]).all()
        assert np.isnan(layer["odd_jsd"]).all()

    def test_one_has_neither(self):
        found = measured([[], []], 1)
        assert len(pair_table("pairs", found, 1, labels())) == 0
        heads = by_head_table("heads", found, 1, labels())
        assert heads["nearest_head"].tolist() == [None]
        assert np.isnan(heads["jsd_nearest"]).all()
        layer = by_layer_table("layers", found, 1, labels())
        assert np.isnan(layer["jsd_mean"]).all()
        assert layer["odd_head"].tolist() == [None]

    def test_pairs(self):
        table = pair_table("pairs", measured([[0.04, 0.16, 0], [0.04, 0.36, 0]], 3), 3, labels())
        assert list(zip(table["head_a"], table["head_b"], strict=True)) == [(0, 1), (0, 2), (1, 2)]
        np.testing.assert_allclose(table["jsd"], [0.04, 0.26, 0])
        np.testing.assert_allclose(table["js_distance"], np.sqrt([0.04, 0.26, 0]))
        np.testing.assert_allclose(table["jsd_se"], [0, 0.1, 0])
        np.testing.assert_allclose(table["js_distance_se"], [0, 0.1 / (2 * np.sqrt(0.26)), NAN])

    def test_trend_needs_three_layers(self):
        (note, _) = by_layer_table("layers", measured([[0.1, 0.3, 0.4]], 3), 3, labels()).notes
        assert "undefined for 1 layer" in note


def test_columns_units_and_record():
    """Every measure has its error beside it, in the same unit; keys come first."""
    statistics = census_statistics()
    width = {s.name: 2 * FURTHEST + 1 if s.over == "offset" else None for s in statistics}
    moments = {
        name: Moments.of(np.zeros((2, 1, 2) if size is None else (2, 1, 2, size)))
        for name, size in width.items()
    }
    table = head_table("census", Measurement(moments, 2), statistics, labels())
    assert [column.name for column in table.columns][:5] == ["model", "dataset", "layer", "head", "n"]
    names = list(table.data)
    for statistic in statistics:
        assert names[names.index(statistic.name) + 1] == f"{statistic.name}_se"
        found = table.column(statistic.name), table.column(f"{statistic.name}_se")
        assert [column.unit for column in found] == [statistic.unit] * 2
        assert [column.role for column in found] == ["measure", "error"]
        assert (f"{statistic.name}_n" in names) == statistic.own_count
    assert table.provenance == {"seed": 1}
    assert set(table["model"]) == {"tiny"}
    assert {s.name for s in statistics if s.own_count} == {"rare_mass", "rare_lift", "rarest_two_share"}
    assert all(isinstance(statistic, Statistic) for statistic in statistics)
