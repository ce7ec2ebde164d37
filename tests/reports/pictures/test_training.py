"""Lines over training: which heads are named, where their names stand, and when steps have a log scale."""

import itertools
import re

import numpy as np
import picture_tables as tables
import pytest

from attnprobe.reports.pictures.channels import choose_across, spread_labels
from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.reports.pictures.training import grow_steps

STEPS = (0, 500, 8000)


def over_steps(values, measure="entropy", layers=1):
    """Make a table of heads at steps from values (step, layer, head)."""
    values = np.asarray(values, float).reshape(len(values), layers, -1)
    steps = STEPS[: len(values)]
    rows = [
        (step, layer, head) for step in range(len(steps)) for layer in range(layers)
        for head in range(values.shape[2])
    ]  # fmt: skip
    keys = {
        "model": [f"checkpoint-{steps[row[0]]}" for row in rows], "dataset": ["d"] * len(rows),
        "step": [steps[row[0]] for row in rows], "layer": [row[1] for row in rows],
        "head": [row[2] for row in rows],
    }  # fmt: skip
    cells = [values[row].item() for row in rows]
    return tables.table("t", keys, **{measure: cells, f"{measure}_se": [0.01] * len(rows)})


def rows_of(table, **how):
    return [row for some in draw_picture([table], **how).spec["datasets"].values() for row in some]


def leading(table):
    """Name the heads that lead, in their order."""
    found = {row["rank"]: row["name"] for row in rows_of(table) if row["rank"] is not None}
    return [found[rank] for rank in sorted(found)]


def svg_of(table, **how):
    return draw_picture([table], **how).rendered("svg").decode()


@pytest.mark.parametrize(
    ("last", "wanted", "said"),
    [
        ([0.9, 0.1, 0.2, 0.7, 0.15], ["H0", "H3", "H2"], ["highest", "second highest", "third highest"]),
        ([3.0, 2.9, 0.1, 2.8, 2.0], ["H2", "H4", "H3"], ["lowest", "second lowest", "third lowest"]),
        (
            [0.1, -0.9, 0.2, 0.3, -0.05],
            ["H1", "H3", "H2"],
            ["farthest from 0", "second farthest", "third farthest"],
        ),
    ],
)
def test_the_heads_that_lead_at_the_last_step_are_named(last, wanted, said):
    table = over_steps([np.linspace(0.5, 0.4, 5), last[::-1], last])
    assert leading(table) == wanted
    drawn = svg_of(table)
    assert ">in its layer, at the last step</text>" in drawn
    assert legend_of(drawn) == [*said, "other heads"]
    assert "bands: 95 % intervals" in drawn
    assert all(f">{name}</text>" in drawn for name in wanted)
    assert ">H4</text>" not in drawn or "H4" in wanted


def legend_of(drawn):
    """List what the legend says, in its order."""
    legend = drawn[drawn.index("role-legend-entry") :]
    return [one for one in re.findall(r">([a-z][a-z 0]+)</text>", legend) if one != "training step"]


@pytest.mark.parametrize("heads", [1, 3, 4])
def test_of_few_heads_each_has_a_name_and_its_own_look_in_all_charts(heads):
    """Whatever their order at the last step: no line is grey, and no legend needed."""
    values = np.arange(3.0 * 2 * heads).reshape(3, 2, heads)
    values[2, 1] = values[2, 1, ::-1]
    table = over_steps(values, layers=2)
    drawn = svg_of(table)
    assert "role-legend" not in drawn
    looks = {(row["panel"], row["name"]): row["rank"] for row in rows_of(table)}
    assert looks == {(f"layer {layer}", f"H{head}"): head for layer in (0, 1) for head in range(heads)}
    assert all(drawn.count(f">H{head}</text>") == 2 for head in range(heads))
    strokes = set(re.findall(r'stroke="(#\w+)" stroke-width="1.7"(?: stroke-dasharray="([\d,]+)")?', drawn))
    assert len(strokes) == len({colour for colour, _ in strokes}) == heads


def test_a_colour_is_the_same_rank_in_all_charts():
    """In layer 0, head 0 is highest, in layer 1 head 2: both lines have the first colour."""
    values = [[[0.1, 0.2, 0.3, 0.0, 0.0], [0.1, 0.2, 0.3, 0.0, 0.0]]] * 2 + [
        [[0.9, 0.5, 0.4, 0.0, 0.0], [0.4, 0.5, 0.9, 0.0, 0.0]]
    ]
    table = over_steps(values, layers=2)
    ranks = {(row["panel"], row["name"]): row["rank"] for row in rows_of(table)}
    assert {pair for pair, rank in ranks.items() if rank == 0} == {("layer 0", "H0"), ("layer 1", "H2")}
    spec = str(draw_picture([table]).spec["vconcat"])
    assert spec.count("'field': 'rank'") >= 4
    assert "'field': 'name', 'type': 'nominal'" in spec  # of the text and the lines alone, never of a colour
    assert "'color': {'field': 'name'" not in spec


def test_lines_without_errors_have_no_bands():
    table = over_steps(np.arange(12.0).reshape(3, 4))
    table.data["entropy_se"][:] = [None] * len(table)
    assert "bands:" not in svg_of(table)


def test_names_stand_at_the_ends_of_their_lines_and_do_not_touch():
    """Three equal values: one name is at its line, the others as near as letters allow."""
    table = over_steps([[0.0] * 5, [0.2] * 5, [0.5, 0.5, 0.5, 0.1, 0.9]])
    drawn = svg_of(table, columns=1)
    found = dict(re.findall(r'translate\([\d.]+,([\d.]+)\)"[^>]*>(H\d)</text>', drawn))
    places = sorted(map(float, found))
    assert len(places) == 3
    assert all(other - one > 8 for one, other in itertools.pairwise(places))
    ends = {row["name"]: (row["at"], row["value"]) for row in rows_of(table) if row["at"] is not None}
    assert ends["H4"][0] == pytest.approx(0.9, abs=0.05)


def test_a_head_without_a_value_at_the_last_step_does_not_lead():
    table = over_steps([[0.1] * 5, [9.0, 0.1, 0.1, 0.1, 0.1], [np.nan, 0.4, 0.3, 0.2, 0.1]])
    assert leading(table) == ["H1", "H2", "H3"]


def test_intervals_are_those_of_the_leading_heads():
    table = over_steps([[0.1] * 5, [0.2] * 5, [0.5, 0.4, 0.3, 0.2, 0.1]], "previous")
    rows = rows_of(table)
    assert {row["name"] for row in rows if row["low"] is not None} == {"H0", "H1", "H2"}
    assert all(row["low"] == pytest.approx(row["value"] - 1.96 * 0.01) for row in rows if row["low"])


def test_small_charts_share_both_axes():
    drawn = draw_picture([tables.over_training()])
    ends = re.findall(
        r"Y-axis titled 'share' for a linear scale with values from ([\d.]+) to ([\d.]+)",
        drawn.rendered("svg").decode(),
    )
    assert len(set(ends)) == 1


def test_layers_are_lines_of_one_chart():
    values = np.linspace(0.1, 0.9, 15).reshape(3, 5)
    keys = {"model": ["m"] * 15, "step": np.repeat(STEPS, 5).tolist(), "layer": [0, 1, 2, 3, 4] * 3}
    table = tables.table("t", keys, cancellation=values.ravel().tolist())
    assert table.kind == "layers of checkpoints"
    assert leading(table) == ["L4", "L3", "L2"]


@pytest.mark.parametrize(
    ("steps", "grow"),
    [
        ([0, 100, 200, 300], False),
        ([100, 200, 300, 400, 500, 600], False),
        ([1, 2, 4, 8, 16], True),
        ([0, 1, 2, 4, 8, 16], True),
        ([0, 500, 8000], True),
        ([1000, 16000, 143000], True),
        ([1, 1000], False),  # two steps are no series
        ([10, 1000, 2000, 3000], True),  # few on the left of a wide span
        ([1000, 1001, 1003, 1007], False),
        ([0], False),
        ([], False),
    ],
)
def test_steps_grow_where_their_gaps_do(steps, grow):
    assert grow_steps(steps) is grow


@pytest.mark.parametrize(("steps", "kind"), [((0, 500, 8000), "symlog"), ((1, 500, 8000), "log")])
def test_a_log_scale_is_said_and_has_room_for_step_0(steps, kind):
    table = over_steps(np.arange(12.0).reshape(3, 4))
    table.data["step"][:] = [steps[STEPS.index(step)] for step in table.data["step"]]
    drawn = draw_picture([table])
    assert "training step (log scale)" in drawn.rendered("svg").decode()
    assert f"'type': '{kind}'" in str(drawn.spec)
    table.data["step"][:] = [(0, 100, 200)[steps.index(step)] for step in table.data["step"]]
    plain = draw_picture([table])
    assert "log" not in str(plain.spec["vconcat"])


def test_labels_move_apart_and_stay_within():
    draw = np.random.default_rng(0)
    for _ in range(50):
        places = draw.uniform(-5, 105, 5).tolist()
        moved = spread_labels(places, 12, 100)
        order = np.argsort(places, kind="stable")
        assert (np.diff(np.array(moved)[order]) >= 12 - 1e-9).all()
        assert min(moved) >= 0
        assert max(moved) <= 100
    assert spread_labels([10, 50], 12, 100) == [10, 50]


@pytest.mark.parametrize(
    ("panels", "most", "across"), [(6, 4, 3), (12, 5, 4), (7, 4, 4), (1, 0, 1), (5, 9, 5)]
)
def test_rows_of_charts_are_full_where_they_can_be(panels, most, across):
    assert choose_across(panels, most) == across


def test_of_few_heads_one_without_a_value_at_the_last_step_has_no_name_there():
    table = over_steps([[0.1, 0.2], [0.3, 0.4], [np.nan, 0.5]])
    drawn = svg_of(table)
    assert ">H1</text>" in drawn
    assert ">H0</text>" not in drawn


def test_the_test_behind_rises_and_falls_is_said_where_the_title_says_so():
    table = over_steps([[0.1, 0.2], [0.3, 0.4], [0.8, 0.1]])
    assert "rises, falls: the interval of the change is clear of 0" in svg_of(table)
    assert "rises, falls" not in svg_of(table, title="own")
