"""Correlation over heads against scipy, from tables in any order."""

from dataclasses import replace

import numpy as np
import pandas
import pytest
from scipy import stats

from attnprobe.attention.kinds import Place
from attnprobe.errors import AttnprobeError
from attnprobe.findings.correlation import correlate_sides, tabulate_disagreement
from attnprobe.findings.noise import Sample, block_record, disattenuate
from attnprobe.findings.pair import Pair, Side
from attnprobe.sums.blocked import Blocks
from attnprobe.sums.documents import BLOCKS
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

LAYERS, HEADS = 6, 4


def table(seed, layers=LAYERS, heads=HEADS, **more):
    """Draw importance in two halves that agree with each other, and with other seeds, somewhat."""
    shared = np.random.default_rng(0).gamma(2.0, size=layers * heads)
    own = np.random.default_rng(seed)
    one, other = (shared + own.gamma(1.0, size=layers * heads) for _ in range(2))
    places = {"layer": np.repeat(range(layers), heads), "head": np.tile(range(heads), layers)}
    numbers = {"importance": (one + other) / 2, "importance_half_a": one, "importance_half_b": other}
    labels = {"model": "m", "dataset": f"d{seed}", "objective": "masked-lm", "method": "gradient"}
    return pandas.DataFrame(labels | places | numbers | more)


def halved(frame, name, column="importance"):
    """Make a side whose sample has one block of documents in either half."""
    halves = frame[[f"{column}_half_a", f"{column}_half_b"]].to_numpy().T
    found = Side.from_frame(frame, name)
    return replace(found, sample=Sample(np.ones(2), halves, np.array([0, BLOCKS // 2])))


def side(seed, **more):
    return halved(table(seed, **more), f"{seed}.csv")


def compared(inside, outside):
    return correlate_sides(inside, outside, {})


def number(found, name):
    return float(found[name][0])


@pytest.mark.parametrize("layers", [1, 6, 30])
def test_numbers_are_those_of_scipy(layers):
    x, y = (table(seed, layers)["importance"] for seed in (1, 2))
    found = compared(side(1, layers=layers), side(2, layers=layers))
    for name, function in [
        ("pearson", stats.pearsonr),
        ("spearman", stats.spearmanr),
        ("kendall", stats.kendalltau),
    ]:
        wanted = function(x, y)
        assert number(found, name) == pytest.approx(wanted.statistic, rel=1e-12)
        assert number(found, f"{name}_p") == pytest.approx(wanted.pvalue, rel=1e-9)
    z = np.arctanh(np.corrcoef(x, y)[0, 1])  # Fisher
    for name, sign in [("pearson_low", -1), ("pearson_high", 1)]:
        assert number(found, name) == pytest.approx(
            np.tanh(z + sign * 1.959963984540054 / (len(x) - 3) ** 0.5)
        )
    assert number(found, "heads") == len(x) == layers * HEADS


@pytest.mark.parametrize("seed", [1, 2])
def test_reliability_is_spearman_brown(seed):
    halves = table(seed)
    r = np.corrcoef(halves["importance_half_a"], halves["importance_half_b"])[0, 1]
    assert 0.1 < r < 0.95
    assert side(seed).reliability == pytest.approx(2 * r / (1 + r))


def test_halves_that_disagree_are_not_corrected():
    """Spearman and Brown's 2 r / (1 + r) would run to minus infinity."""
    halves = table(1)
    opposite = -halves["importance_half_a"] + 0.1 * halves["importance_half_b"]
    r = np.corrcoef(halves["importance_half_a"], opposite)[0, 1]
    assert -1 < r < -0.9
    assert side(1, importance_half_b=opposite).reliability == pytest.approx(r)


def test_reliability_is_unknown_without_two_halves_that_vary():
    lacking = replace(side(1), sample=None)
    alone = replace(side(1), sample=Sample(np.ones(2), np.ones((2, 24)), np.array([0, 1])))
    constant = side(1, importance_half_b=0.5)
    for broken in (lacking, alone, constant):
        assert np.isnan(broken.reliability)
    assert np.isfinite(number(compared(lacking, side(2)), "pearson"))
    assert np.isnan(number(compared(lacking, side(2)), "reliability_in"))


def test_disagreement_in_order_and_with_ranks():
    x, y = table(1), table(2)
    found = tabulate_disagreement(side(1), side(2), {}).to_pandas()
    apart = pandas.Series(stats.zscore(y["importance"]) - stats.zscore(x["importance"]))
    order = apart.abs().sort_values(ascending=False, kind="stable").index
    assert found["place"].tolist() == list(range(1, 25))
    assert found["layer"].tolist() == x["layer"][order].tolist()
    assert found["head"].tolist() == x["head"][order].tolist()
    np.testing.assert_allclose(found["disagreement"], apart[order])
    np.testing.assert_allclose(found["importance_in"], x["importance"][order])
    np.testing.assert_allclose(found["importance_out"], y["importance"][order])
    for name, values in (("rank_in", x), ("rank_out", y)):
        ranks = values["importance"].rank(ascending=False, method="min")
        assert found[name].tolist() == ranks[order].astype(int).tolist()


def test_the_note_on_opposite_directions():
    """A high importance, but a low accuracy without the head, says that it matters."""

    def scored(metric):
        return Side.from_frame(table(2).rename(columns={"importance": "score"}).assign(metric=metric), "y")

    said = "a negative r is agreement"
    assert said in " ".join(compared(side(1), scored("accuracy")).notes)
    assert said not in " ".join(compared(side(1), scored("loss")).notes)
    assert said in " ".join(compared(scored("loss"), scored("accuracy")).notes)
    assert said not in " ".join(compared(scored("accuracy"), scored("accuracy")).notes)


def measured(seed, noise, examples=200):
    """Make a table of examples whose heads differ as in every other such table, but for noise."""
    draw = np.random.default_rng(seed)
    truth = np.random.default_rng(0).gamma(2.0, size=(LAYERS, HEADS))
    values = truth + noise * draw.normal(size=(examples, LAYERS, HEADS))
    blocks = Blocks.of(values, np.arange(examples))
    frame = table(seed, importance=blocks.total.sum(0).ravel() / examples)
    mean = blocks.total.sum(0) / examples
    record = block_record("importance", [Place(layer) for layer in range(LAYERS)], blocks, mean)
    return HeadTable("x", [Column(name) for name in frame], frame.to_dict("list"), (), record)


def read(table, *texts):
    """Read a table of these texts."""
    return Side.from_table(
        replace(table, provenance={**table.provenance, "corpus": {"texts": [*texts]}}), "x"
    )


def test_the_same_examples_on_both_sides():
    """Their noise is alike: x . y is too large or too small for it, which the blocks tell."""
    both = [measured(seed, 4.0) for seed in (1, 2)]
    same = [read(table, "abc") for table in both]
    found = compared(*same)
    wanted = disattenuate(same[0].sample, same[1].sample, shared=True)
    ends = [number(found, f"pearson_true{end}") for end in ("", "_low", "_high")]
    assert ends == [wanted.pearson, wanted.low, wanted.high]
    assert any("the same examples" in note for note in found.notes)
    without = [replace(side, sample=None) for side in same]
    assert np.isnan(number(compared(*without), "pearson_true"))
    assert not any("same examples" in note for note in compared(Side.from_table(both[0], "x"), side(2)).notes)
    for odd in (3, {"texts": 4}, {"texts": [{}]}, None):
        assert Side.from_table(replace(both[0], provenance={**both[0].provenance, "corpus": odd}), "x").sample


def test_some_of_the_same_examples_on_both_sides():
    """Merged tables may share a part; which documents these are, nobody can tell."""
    both = [measured(seed, 4.0) for seed in (1, 2)]
    found = compared(read(both[0], "abc", "def"), read(both[1], "abc"))
    assert np.isnan([number(found, f"pearson_true{end}") for end in ("", "_low", "_high")]).all()
    assert any("some of the same examples" in note for note in found.notes)


def test_rows_in_another_order_find_their_blocks():
    there = measured(2, 4.0)
    order = np.random.default_rng(0).permutation(LAYERS * HEADS)
    data = {name: [cells[row] for row in order] for name, cells in there.data.items()}
    moved = HeadTable(there.title, there.columns, data, there.notes, there.provenance)
    one = Side.from_table(measured(1, 4.0), "1")
    found, wanted = (compared(one, Side.from_table(table, "2")) for table in (moved, there))
    for end in ("", "_low", "_high"):
        assert number(found, f"pearson_true{end}") == pytest.approx(number(wanted, f"pearson_true{end}"))


def test_notes_where_the_sides_were_made_differently():
    ablated = table(2).drop(columns="method").assign(metric="accuracy", objective="classification")
    notes = compared(side(1), Side.from_frame(ablated, "y")).notes
    for kind, ours, theirs in [
        ("objective", "masked-lm", "classification"),
        ("method", "gradient", "none"),
        ("metric", "none", "accuracy"),
    ]:
        assert f"The {kind} differs: {ours} and {theirs}." in notes
    assert not any("differs" in note for note in compared(side(1), side(2)).notes)


def test_heads_of_encoder_and_decoder_are_told_apart():
    both = [table(seed).assign(attention=kind, dataset="d") for seed, kind in ((1, "encoder"), (2, "cross"))]
    whole = Side.from_frame(pandas.concat(both), "x")
    assert whole.keys == ("attention", "layer", "head")
    assert number(compared(whole, whole), "heads") == 48
    with pytest.raises(AttnprobeError, match="more than one row"):
        Side.from_frame(pandas.concat(both).drop(columns="attention"), "x")


def test_columns_of_both_sides_keep_their_names():
    """The column out of domain was called by that in domain."""
    scored = table(2).rename(columns=lambda name: name.replace("importance", "score"))
    inside, outside = side(1), Side.from_frame(scored, "y")
    frame = tabulate_disagreement(inside, outside, {}).to_pandas().set_index(["layer", "head"])
    assert {"importance_in", "score_out"} <= set(frame.columns)
    assert frame["score_out"].to_dict() == pytest.approx(outside.values)


def test_which_column_is_compared():
    scored = table(1).rename(columns=lambda name: name.replace("importance", "score"))
    assert Side.from_frame(scored, "x").column == "score"
    assert Side.from_frame(scored.assign(importance=1.0), "x").column == "importance"
    assert Side.from_frame(scored, "x", "score_half_b").values == dict(
        zip(zip(scored["layer"], scored["head"], strict=True), scored["score_half_b"], strict=True)
    )
    for column in (None, "entropy"):
        with pytest.raises(AttnprobeError, match="its columns are layer, head, importance_half_b"):
            Side.from_frame(table(1)[["layer", "head", "importance_half_b"]], "x", column)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.drop(columns="layer"), "no columns layer and head"),
        (lambda t: t.drop(columns="head"), "no columns layer and head"),
        (lambda t: t.iloc[:0], "no rows"),
        (lambda t: t.assign(importance="x"), "no number"),
        (lambda t: pandas.concat([t, t]), "more than one row"),
        (lambda t: pandas.concat([t, t.assign(dataset="other")]), "dataset: d1, other"),
        (lambda t: pandas.concat([t, t.assign(model="other")]), "model: m, other"),
        (lambda t: pandas.concat([t, t.assign(objective="other")]), "objective: masked-lm, other"),
    ],
)
def test_what_is_no_table_of_heads(change, says):
    with pytest.raises(AttnprobeError, match=says):
        Side.from_frame(change(table(1)), "x.csv")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.assign(model="other"), "same model"),
        (lambda t: t.drop(columns="model"), "no named model"),
        (lambda t: t.iloc[1:], "1 are in only one"),
        (lambda t: t.assign(head=t["head"] + 1), "12 are in only one"),
        (lambda t: t.assign(importance=0.5), "same importance in y.csv"),
        (lambda t: t.assign(importance=[np.nan, *range(23)]), "y.csv has no importance for some"),
        (lambda t: t.assign(importance=[np.inf, *range(23)]), "y.csv has no importance for some"),
    ],
)
def test_sides_that_can_not_be_compared(change, says):
    for build in (correlate_sides, tabulate_disagreement):
        with pytest.raises(AttnprobeError, match=says):
            build(side(1), Side.from_frame(change(table(2)), "y.csv"), {})


def test_too_few_heads():
    two = Side.from_frame(table(1).head(2), "x")
    with pytest.raises(AttnprobeError, match="at least 3 heads"):
        Pair.of(two, two)
