"""Correlation over heads against scipy, from tables in any order."""

from dataclasses import replace

import numpy as np
import pandas
import pytest
from scipy import stats

from attnprobe.attention.kinds import Place
from attnprobe.errors import AttnprobeError
from attnprobe.findings.correlation import correlate_sides, tabulate_disagreement
from attnprobe.findings.noise import block_record, disattenuate
from attnprobe.findings.sides import PairedSides, TableSide
from attnprobe.sums.blocked import Blocked
from attnprobe.table.table import Column, HeadTable

LAYERS, HEADS = 6, 4


def table(seed, layers=LAYERS, heads=HEADS, **more):
    """Draw importance that agrees with that of other seeds, somewhat."""
    shared = np.random.default_rng(0).gamma(2.0, size=layers * heads)
    importance = shared + np.random.default_rng(seed).gamma(1.0, size=layers * heads)
    labels = {"model": "m", "dataset": f"d{seed}", "objective": "masked-lm", "method": "gradient"}
    places = {"layer": np.repeat(range(layers), heads), "head": np.tile(range(heads), layers)}
    return pandas.DataFrame(labels | places | {"importance": importance} | more)


def read(frame, name="x.csv", column=None, record=None):
    data = frame.to_dict("list")
    return TableSide.from_table(
        HeadTable("x", [Column(one) for one in data], data, (), record or {}), name, column
    )


def compared(inside, outside):
    return correlate_sides(PairedSides.of(inside, outside), {})


def number(result, name):
    return float(result[name][0])


@pytest.mark.parametrize("layers", [1, 6, 30])
def test_numbers_are_those_of_scipy(layers):
    frames = [table(seed, layers) for seed in (1, 2)]
    x, y = (frame["importance"] for frame in frames)
    result = compared(*map(read, frames))
    for name, function in [
        ("pearson", stats.pearsonr),
        ("spearman", stats.spearmanr),
        ("kendall", stats.kendalltau),
    ]:
        wanted = function(x, y)
        assert number(result, name) == pytest.approx(wanted.statistic, rel=1e-12)
        assert number(result, f"{name}_p") == pytest.approx(wanted.pvalue, rel=1e-9)
    z = np.arctanh(np.corrcoef(x, y)[0, 1])  # Fisher
    for name, sign in [("pearson_low", -1), ("pearson_high", 1)]:
        assert number(result, name) == pytest.approx(
            np.tanh(z + sign * 1.959963984540054 / (len(x) - 3) ** 0.5)
        )
    assert number(result, "heads") == len(x) == layers * HEADS
    assert np.isnan(number(result, "reliability_in"))


def test_disagreement_in_order_and_with_ranks():
    x, y = table(1), table(2)
    result = tabulate_disagreement(PairedSides.of(read(x), read(y)), {}).to_pandas()
    difference = pandas.Series(stats.zscore(y["importance"]) - stats.zscore(x["importance"]))
    order = difference.abs().sort_values(ascending=False, kind="stable").index
    assert result["place"].tolist() == list(range(1, 25))
    assert result["layer"].tolist() == x["layer"][order].tolist()
    assert result["head"].tolist() == x["head"][order].tolist()
    np.testing.assert_allclose(result["disagreement"], difference[order])
    for suffix, frame in (("in", x), ("out", y)):
        np.testing.assert_allclose(result[f"importance_{suffix}"], frame["importance"][order])
        ranks = frame["importance"].rank(ascending=False, method="min")
        assert result[f"rank_{suffix}"].tolist() == ranks[order].astype(int).tolist()


def test_the_note_on_opposite_directions():
    """A high importance, but a low accuracy without the head, says that it matters."""

    def scored(metric):
        return read(table(2).rename(columns={"importance": "score"}).assign(metric=metric))

    phrase = "a negative r is agreement"
    assert phrase in " ".join(compared(read(table(1)), scored("accuracy")).notes)
    assert phrase not in " ".join(compared(read(table(1)), scored("loss")).notes)
    assert phrase in " ".join(compared(scored("loss"), scored("accuracy")).notes)
    assert phrase not in " ".join(compared(scored("accuracy"), scored("accuracy")).notes)


def measured(seed, *texts, examples=200):
    """Make a table of examples whose heads differ as in every other such table, but for noise."""
    truth = np.random.default_rng(0).gamma(2.0, size=(LAYERS, HEADS))
    values = truth + 4.0 * np.random.default_rng(seed).normal(size=(examples, LAYERS, HEADS))
    blocks = Blocked.of(values, documents=np.arange(examples))
    places = [Place(layer) for layer in range(LAYERS)]
    record = block_record("importance", places, blocks, blocks.average)
    return table(seed, importance=blocks.average.ravel()), record | {"corpus": {"texts": list(texts)}}


def side(seed, *texts):
    frame, record = measured(seed, *texts)
    return read(frame, record=record)


def test_the_same_examples_on_both_sides():
    """Their noise is alike: x . y is too large or too small for it, which the blocks tell."""
    same = [side(seed, "abc") for seed in (1, 2)]
    result = compared(*same)
    wanted = disattenuate(same[0].sample, same[1].sample, shared=True)
    ends = [number(result, f"pearson_true{end}") for end in ("", "_low", "_high")]
    assert ends == [wanted.pearson, wanted.low, wanted.high]
    assert number(result, "reliability_in") == same[0].sample.reliability
    assert any("the same examples" in note for note in result.notes)
    bare = read(table(1), record={"corpus": {"texts": ["abc"]}})
    assert np.isnan(number(compared(bare, same[1]), "pearson_true"))
    assert not any("same examples" in note for note in compared(side(1, "abc"), side(2, "d")).notes)


def test_some_of_the_same_examples_on_both_sides():
    """Merged tables may share a part; which documents these are, nobody can tell."""
    result = compared(side(1, "abc", "def"), side(2, "abc"))
    assert np.isnan([number(result, f"pearson_true{end}") for end in ("", "_low", "_high")]).all()
    assert any("some of the same examples" in note for note in result.notes)


def test_heads_of_encoder_and_decoder_are_told_apart():
    both = pandas.concat(
        [table(seed).assign(attention=kind, dataset="d") for seed, kind in ((1, "encoder"), (2, "cross"))]
    )
    assert number(compared(read(both), read(both)), "heads") == 48
    with pytest.raises(AttnprobeError, match="more than one row"):
        read(both.drop(columns="attention"))


def test_which_column_is_compared():
    scored = table(1).rename(columns={"importance": "score"})
    assert read(scored).column == "score"
    assert read(scored.assign(importance=1.0)).column == "importance"
    assert read(scored.assign(importance=1.0), column="score").values.tolist() == scored["score"].tolist()
    for column in (None, "entropy"):
        with pytest.raises(AttnprobeError, match="its columns are layer, head, other"):
            read(table(1)[["layer", "head"]].assign(other=1.0), column=column)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.drop(columns="layer"), "no columns layer and head"),
        (lambda t: t.iloc[:0], "no rows"),
        (lambda t: t.assign(importance="x"), "no number"),
        (lambda t: pandas.concat([t, t]), "more than one row"),
        (lambda t: pandas.concat([t, t.assign(dataset="other")]), "dataset: d1, other"),
    ],
)
def test_what_is_no_table_of_heads(change, says):
    with pytest.raises(AttnprobeError, match=says):
        read(change(table(1)))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.assign(model="other"), "same model"),
        (lambda t: t.drop(columns="model"), "no named model"),
        (lambda t: t.assign(head=t["head"] + 1), "12 are in only one"),
        (lambda t: t.assign(importance=0.5), "same importance in y.csv"),
        (lambda t: t.assign(importance=[np.nan, *range(23)]), "y.csv has no importance for some"),
        (lambda t: t.assign(importance=[np.inf, *range(23)]), "y.csv has no importance for some"),
    ],
)
def test_sides_that_can_not_be_compared(change, says):
    with pytest.raises(AttnprobeError, match=says):
        PairedSides.of(read(table(1)), read(change(table(2)), "y.csv"))


def test_too_few_heads():
    two = read(table(1).head(2))
    with pytest.raises(AttnprobeError, match="at least 3 heads"):
        PairedSides.of(two, replace(two, name="y"))
