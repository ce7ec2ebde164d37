"""From sums to tables: which offset wins, and what a layer of one or two heads can say."""

from dataclasses import replace

import numpy as np
import pytest

from attnprobe.attention.kinds import number_layers
from attnprobe.statistics import (
    Statistic,
    alignment_table,
    all_statistics,
    census_statistics,
    links,
    mixing,
    select_statistics,
    trees,
)
from attnprobe.statistics.distance import BY_HEAD, BY_LAYER, BY_PAIR
from attnprobe.statistics.induction import REPEATED
from attnprobe.statistics.positional import CONTROLLED, FURTHEST, FURTHEST_STEP
from attnprobe.statistics.rank import RANK
from attnprobe.statistics.registry import EVERYTHING, all_tabulations
from attnprobe.statistics.role_table import ROLES
from attnprobe.statistics.tabulation import HEADS, Tabulation, head_table
from attnprobe.sums.base import Measurement
from attnprobe.sums.groups import Clustered
from attnprobe.table.builder import Labels
from attnprobe.table.head_table import HeadTable


def labels(layers: int = 1) -> Labels:
    return Labels("tiny", "texts", {"seed": 1}, number_layers(["encoder"] * layers))


NAN = float("nan")


def best(*sequences: dict[int, float]) -> HeadTable:
    """Tabulate the offset of a single head from its shares in each sequence; others are undefined."""
    shares = np.full((len(sequences), 1, 1, 2 * FURTHEST + 1), np.nan)
    for sequence, found in enumerate(sequences):
        for offset, share in found.items():
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
    found = {"jsd": jsd, "jsd_mean": mean, "jsd_layer": layer}
    return Measurement({name: Clustered.of(values) for name, values in found.items()}, len(pairs))


def tabulated(tabulation: Tabulation, found: Measurement) -> HeadTable:
    return tabulation.build(tabulation.title, found, select_statistics("distance"), labels())


class TestDistance:
    """Layers of few heads."""

    def test_three(self):
        found = measured([[0.1, 0.3, 0.4], [0.1, 0.5, 0.6]], 3)
        table = tabulated(BY_HEAD, found)
        assert table["nearest_head"].tolist() == [1, 0, 0]
        np.testing.assert_allclose(table["jsd_nearest"], [0.1, 0.1, 0.4])
        np.testing.assert_allclose(table["jsd_mean"], [0.25, 0.3, 0.45])
        layer = tabulated(BY_LAYER, found)
        assert layer["odd_head"].tolist() == [2]
        np.testing.assert_allclose(layer["odd_jsd"], [0.45])
        np.testing.assert_allclose(layer["jsd_std"], [np.std([0.1, 0.4, 0.5], ddof=1)])

    def test_two_have_a_distance_but_no_odd_one(self):
        found = measured([[0.1], [0.3]], 2)
        assert tabulated(BY_HEAD, found)["nearest_head"].tolist() == [1, 0]
        layer = tabulated(BY_LAYER, found)
        np.testing.assert_allclose(layer["jsd_mean"], [0.2])
        assert layer["odd_head"].tolist() == [None]
        assert np.isnan(layer["jsd_std"]).all()
        assert np.isnan(layer["odd_jsd"]).all()

    def test_one_has_neither(self):
        found = measured([[], []], 1)
        assert len(tabulated(BY_PAIR, found)) == 0
        heads = tabulated(BY_HEAD, found)
        assert heads["nearest_head"].tolist() == [None]
        assert np.isnan(heads["jsd_nearest"]).all()
        layer = tabulated(BY_LAYER, found)
        assert np.isnan(layer["jsd_mean"]).all()
        assert layer["odd_head"].tolist() == [None]

    def test_pairs(self):
        table = tabulated(BY_PAIR, measured([[0.04, 0.16, 0], [0.04, 0.36, 0]], 3))
        assert list(zip(table["head_a"], table["head_b"], strict=True)) == [(0, 1), (0, 2), (1, 2)]
        np.testing.assert_allclose(table["jsd"], [0.04, 0.26, 0])
        np.testing.assert_allclose(table["js_distance"], np.sqrt([0.04, 0.26, 0]))
        np.testing.assert_allclose(table["jsd_se"], [0, 0.1, 0])
        np.testing.assert_allclose(table["js_distance_se"], [0, 0.1 / (2 * np.sqrt(0.26)), NAN])

    def test_two_of_three_heads_are_there(self):
        """Of which none is the odd one out."""
        found = measured([[0.2, NAN, NAN], [0.3, NAN, NAN]], 3)
        sums = found.sums | {"jsd_mean": Clustered.of([[[0.2, 0.2, NAN]], [[0.3, 0.3, NAN]]])}
        layer = tabulated(BY_LAYER, Measurement(sums, 2))
        assert layer["odd_head"].tolist() == [None]
        assert np.isnan(layer["odd_jsd"]).all()


def of_heads(statistics: list[Statistic], offsets: int = 2 * FURTHEST + 1) -> Measurement:
    """Make the measurement of one layer of two heads, of which nothing but zeros was found."""
    shape = {one.name: (2, 1, 2, offsets) if one.name == "offset_share" else (2, 1, 2) for one in statistics}
    return Measurement({one.name: one.sums.of(np.zeros(shape[one.name])) for one in statistics}, 2)


def test_columns_units_and_record():
    """Every measure has its error beside it, in the same unit; keys come first."""
    statistics = census_statistics()
    table = head_table("census", of_heads(statistics), statistics, labels())
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


def test_units_of_images():
    """Distances between patches are counted in patches, offsets in rows and columns."""
    statistics = census_statistics("positional")
    found = of_heads(statistics, (2 * FURTHEST_STEP + 1) ** 2)
    table = head_table("positional", found, statistics, replace(labels(), patches=True))
    units = {column.name: column.unit for column in table.columns}
    assert "offset" not in units
    assert {name for name, unit in units.items() if unit == "patches"} == {
        "offset_rows", "offset_columns", "attention_distance", "attention_distance_se",
    }  # fmt: skip
    assert "tokens" not in units.values()


def test_statistics_that_were_not_measured_have_no_columns():
    """Such as those of patches, of a text."""
    asked = census_statistics("positional")
    statistics = [statistic for statistic in asked if statistic.about != "patches"]
    table = head_table("positional", of_heads(statistics), asked, labels())
    assert "above" not in table.data
    assert {statistic.name for statistic in statistics} <= set(table.data)


def test_tabulations_are_found_by_name():
    """By which a record knows how its table was made."""
    gold = (
        *(links.BY_RELATION, links.BY_RELATION_AND_HEAD, trees.BY_HEAD),
        *(links.BY_MENTION, links.BY_MENTION_AND_HEAD),
        *(links.BY_LABEL, links.BY_LABEL_AND_HEAD),
        *(alignment_table.BEST_ALIGNMENTS, alignment_table.BY_HEAD),
    )
    mixed = (mixing.BY_HEAD, mixing.BY_LAYER, mixing.BY_PAIR)
    every = (EVERYTHING, HEADS, BY_PAIR, BY_HEAD, BY_LAYER, CONTROLLED, REPEATED, ROLES, RANK, *gold, *mixed)
    assert all_tabulations() == {tabulation.name: tabulation for tabulation in every}
