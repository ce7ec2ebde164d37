"""What pictures state by their kind: only what is significant in the table, with the table's numbers."""

import re
from dataclasses import replace

import numpy as np
import picture_tables as tables
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.stats import norm

from attnprobe.reports.pictures.choosing import draw_picture
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column


def said(table, kind=None, **how):
    """Give what is stated, or nothing where the title is the table's own."""
    drawn = draw_picture([table], kind, **how)
    return "" if drawn.title == table.title else drawn.title


def with_cells(table, **cells):
    return HeadTable(table.title, table.columns, {**table.data, **cells})


def numbers(text):
    return [float(one.replace("\u2212", "-")) for one in re.findall(r"\u2212?\d+\.\d+", text)]


def half(errors, many):
    return norm.ppf(1 - 0.05 / 2 / many) * np.asarray(errors)


def test_a_finding_is_the_title_and_the_measure_stands_below():
    table = tables.census()
    drawn = draw_picture([table], measures=["previous"])
    assert drawn.title == "L2 H3 looks at the previous token: 0.92"
    assert drawn.spec["title"]["subtitle"] == ["census of heads", "model m, data d"]
    svg = drawn.rendered("svg").decode()
    assert ">attention to the previous token</text>" in svg
    assert drawn.spec["description"].startswith("L2 H3 looks at the previous token: 0.92. census of heads. ")


def test_of_several_measures_each_states_its_own():
    drawn = draw_picture([tables.census()], "heatmap")
    assert drawn.title == "census of heads"
    titles = [" ".join(one) if isinstance(one, list) else one for one in find_titles(drawn.spec)]
    stated = ["entropy of attention: 0.92 nats", "L2 H3 looks at the previous token: 0.92"]
    assert f"L2 H3 stands out by high {stated[0]}" in titles
    assert stated[1] in titles
    assert drawn.spec["description"].index(stated[0]) < drawn.spec["description"].index(stated[1])


def find_titles(node):
    if isinstance(node, dict):
        if isinstance(node.get("title"), dict):
            yield node["title"].get("text")
        for part in node.values():
            yield from find_titles(part)
    elif isinstance(node, list):
        for part in node:
            yield from find_titles(part)


@pytest.mark.parametrize("title", ["Heads of my model", ""])
def test_a_title_of_ones_own_takes_the_place_of_what_is_found(title):
    for measures in (["previous"], ["previous", "entropy"]):
        drawn = draw_picture([tables.census()], measures=measures, title=title)
        assert drawn.title == title
        assert "looks at the previous token:" not in re.sub(
            r'aria-label="[^"]*"', "", str(drawn.spec["vconcat"])
        )
        assert "looks at the previous token: 0.92" in drawn.spec["description"]


def test_no_finding_no_change():
    table = tables.census()
    wide = with_cells(table, **{f"{name}_se": [0.9] * 12 for name in ("previous", "entropy", "jsd_mean")})
    drawn = draw_picture([wide], measures=["previous"])
    assert drawn.title == "census of heads"
    assert drawn.spec["description"] == "census of heads. model m, data d. A picture of kind heatmap"


@pytest.mark.parametrize("seed", range(8))
def test_relations_that_beat_a_rule_are_counted(seed):
    draw = np.random.default_rng(seed)
    gain, p = draw.normal(0, 0.3, 6), draw.choice([0.01, 0.2], 6)
    table = with_cells(tables.found(), gain=gain.tolist(), p_adjusted=p.tolist())
    error = draw.uniform(0, 0.2, 6)
    table = HeadTable("t", [*table.columns, Column("gain_se", role="error")],
                      {**table.data, "gain_se": error.tolist()})  # fmt: skip
    some = np.flatnonzero((gain > 0) & (p < 0.05))
    less = np.count_nonzero(gain + 1.96 * error < 0)
    text, _, rest = said(table).partition("; ")
    of = "" if "of 6 cases" in text else " of 6 cases"
    assert rest == (f"in {less}{of}, the best head finds less" if less else "")
    if not len(some):
        assert text == "No head finds significantly more than the best simple rule in any of 6 cases"
        return
    row = some[gain[some].argmax()]
    head = f"L{table.data['layer'][row]} H{table.data['head'][row]}"
    assert head in text
    assert f"({table.data['relation'][row]})" in text
    assert numbers(text) == pytest.approx(
        [table.data["accuracy"][row], table.data["baseline"][row]], abs=0.006
    )
    if len(some) > 1:
        start = f"Heads find more than the best simple rule in {len(some)} of 6 cases, such as "
        assert text.startswith(start)
    else:
        assert text.startswith(f"{head} finds more of ")


def test_all_links_are_no_relation():
    """They are counted apart: a head may find more of all while it does of no relation."""
    names = ["all", "all", "det", "det", "amod", "amod"]
    cells = {
        "relation": names,
        "gain": [0.3, 0.1, 0.2, 0.1, 0.1, 0.1],
        "accuracy": [0.9] * 6,
        "baseline": [0.6] * 6,
    }
    whole = with_cells(tables.found(), **cells, p_adjusted=[0.01, 0.5, 0.5, 0.5, 0.5, 0.5])
    text = "L0 H3 finds more of all links than the best simple rule (0.90, rule 0.60)"
    assert said(whole) == f"{text}; no head does in any of 4 cases"
    assert said(with_cells(whole, p_adjusted=[0.01, *[None] * 5])) == text
    one = with_cells(whole, p_adjusted=[0.01, 0.5, 0.5, 0.5, 0.01, 0.5])
    assert said(one).startswith(
        "L1 H1 finds more of adjectival modifier (amod) than the best simple rule: 0.90"
    )
    assert said(with_cells(whole, p_adjusted=[None] * 6)) == ""
    single = HeadTable("t", whole.columns, {name: cells[2:3] for name, cells in whole.data.items()})
    none = "No head finds significantly more than the best simple rule for determiner (det)"
    assert said(single) == none
    assert said(with_cells(single, gain=[-0.5])) == f"{none}; the best head finds less"


def test_labels_are_counted_by_what_they_are():
    names = ["relation", "mention", "label"]
    said_of = {}
    for name in names:
        table = tables.found()
        data = {
            (name if one == "relation" else one): cells
            for one, cells in table.data.items()
            if one != "direction"
        }
        data |= {name: list("abcdef"), "p_adjusted": [0.5] * 6, "gain": [0.0] * 6}
        keys = [Column(name, role="key") if one.name == "relation" else one for one in table.columns]
        said_of[name] = said(HeadTable("t", [one for one in keys if one.name != "direction"], data))
    start = "No head finds significantly more than the best simple rule in any of 6 "
    assert said_of == {
        "relation": f"{start}relations", "mention": f"{start}kinds of mention", "label": f"{start}labels"
    }  # fmt: skip


def test_probes_that_beat_the_best_head():
    table = tables.probes()
    start = "All heads together find more of all links than the best head (0.61, best head 0.40)"
    assert said(table) == f"{start}, but not in any of 2 relations"
    none = "All heads together do not find significantly more than the best head in any of 2 relations "
    none += "(adjusted p)"
    assert said(with_cells(table, p_adjusted=[0.06, 0.4, 0.9])) == none
    assert said(with_cells(table, p_adjusted=[0.01, 0.04, 0.9])) == (
        "All heads together find more of determiner (det) than the best head: 0.80, best head 0.79"
    )
    both = with_cells(table, p_adjusted=[0.01, 0.04, 0.03], accuracy=[0.61, 0.8, 0.45])
    assert said(both) == (
        "All heads together find more than the best head in 2 of 2 relations, such as object (obj): "
        "0.45, best head 0.30"
    )
    # The interval of the first is 0.61 \u00b1 0.02, of the second 0.80 \u00b1 0.04.
    above = with_cells(both, baseline=[0.64, 0.85, 0.45])
    assert said(above) == (
        "All heads together find more than the best head in 2 of 2 relations; the simple rule lies "
        "above their 95 % interval in 1"
    )
    assert said(with_cells(above, baseline=[0.64, 0.83, 0.44])).endswith("(obj): 0.45, best head 0.30")
    whole = with_cells(table, baseline=[0.64, 0.85, 0.2])
    assert (
        said(whole)
        == f"{start}, but not in any of 2 relations; the simple rule lies above their 95 % interval in 1"
    )
    assert (
        said(with_cells(whole, p_adjusted=[0.06, 0.4, 0.9]))
        == f"{none}; the simple rule lies above their 95 % interval in 1"
    )
    single = HeadTable("t", table.columns, {name: cells[1:2] for name, cells in above.data.items()})
    assert said(with_cells(single, p_adjusted=[0.01])) == (
        "All heads together find more of determiner (det) than the best head: 0.80, best head 0.79; "
        "the simple rule lies above their 95 % interval"
    )


def lost(**cells):
    """Make a pruning table of one order and two random ones, of which no step is significant."""
    table = tables.pruning()
    more = {
        "delta": [0.0, -0.01, -0.08, -0.2, -0.4] + [None] * 10,
        "p_adjusted": [None, 0.3, 0.2, 0.2, 0.001] + [None] * 10,
        "bound": [0.0, 0.03, 0.1234, 0.3, 0.5] + [None] * 10,
        "delta_random": [0.0, 0.02, 0.3, 0.35, 0.0] + [None] * 10,
        "p_random_adjusted": [None, 0.6, 0.2, 0.3, 0.001] + [None] * 10,
    }
    columns = [*table.columns, *(Column(name) for name in more)]
    return HeadTable(table.title, columns, {**table.data, **more, **cells})


def test_a_curve_states_where_an_order_differs_most_from_random_ones():
    p = [0.001, 0.01, 0.03, 0.2, 0.001] + [None] * 10
    assert said(lost(p_random_adjusted=p)) == (
        "50 % of heads removed, least important (gradient) first: accuracy 0.30 above the mean of random "
        "orders"
    )
    p[3] = 0.049
    assert "75 % of heads removed, least important (gradient) first: accuracy 0.35 above" in said(
        lost(p_random_adjusted=p)
    )
    below = [0.0, -0.02, -0.3, 0.1, 0.0] + [None] * 10
    assert "accuracy 0.30 below the mean" in said(lost(p_random_adjusted=p, delta_random=below))


def test_of_several_orders_p_is_adjusted_for_them():
    p = [None, 0.3, 0.03, 0.2, 0.001] + [None] * 10
    names = ["gradient"] * 5 + ["norm"] * 5 + ["random"] * 5
    many = lost(criterion=names, p_random_adjusted=p)
    assert said(many) == ""
    p[2] = 0.024
    assert said(lost(criterion=names, p_random_adjusted=p)).startswith(
        "50 % of heads removed, least important (gradient) first"
    )


def test_a_curve_states_the_first_significant_loss():
    p, scores = [None, 0.3, 0.2, 0.001, 0.001] + [None] * 10, [0.9, 0.89, 0.82, 0.7, 0.5] + [0.6] * 10
    assert said(lost(p_adjusted=p, score=scores)) == (
        "75 % of heads removed, least important (gradient) first: accuracy 0.90 \u2192 0.70, the first "
        "significant change"
    )
    p[1] = 0.04
    assert said(lost(p_adjusted=p, score=scores)).startswith(
        "25 % of heads removed, least important (gradient) first: accuracy 0.90 \u2192 0.89,"
    )


def test_steps_of_a_curve_have_their_ticks_where_they_are_few():
    def find_axis(table):
        return str(draw_picture([table]).spec["vconcat"])

    assert "0.25, 0.5, 0.75" in find_axis(tables.pruning())
    table = tables.pruning()
    shares = [row / 14 for row in range(15)]
    assert f"{shares[1]}, {shares[2]}" not in find_axis(with_cells(table, share_removed=shares))


def test_a_curve_states_what_half_of_the_heads_cost_at_most():
    """Rounded up, so that a bound stays one; and never what all orders share at the end."""
    start = "50 % of heads removed, least important (gradient) first"
    scores = [0.9, 0.89, 0.82, 0.7, 0.5] + [0.6] * 10
    known = said(lost(score=scores))
    assert known == f"{start}: accuracy 0.90 \u2192 0.82, at most 0.13 lower (one-sided 95 %)"
    loss = lost(metric=["loss"] * 15, delta=[0.0, 0.01, 0.08, 0.2, 0.4] + [None] * 10, score=scores)
    assert said(loss) == f"{start}: loss 0.74 \u2192 0.82, at most 0.13 higher (one-sided 95 %)"
    assert said(lost(bound=[0.0, 0.03, 0.41, 0.3, 0.5] + [None] * 10)) == ""  # more than all heads are worth
    assert said(lost(bound=[None] * 15)) == ""
    assert said(tables.pruning()) == ""


@pytest.mark.parametrize(("kind", "clusters"), [("clustermap", 4), ("dendrogram", None), ("clustermap", 12)])
def test_clusters_are_those_of_scipy(kind, clusters):
    table = tables.all_pairs(3, 4)
    flat = np.sqrt(table.data["jsd"])
    joined = linkage(flat, "average")
    rule = (0.7 * joined[-1, 2], "distance") if clusters is None else (clusters, "maxclust")
    sizes = [size for size in np.bincount(fcluster(joined, *rule)).tolist() if size > 1]
    text = said(table, kind, clusters=clusters)
    if not sizes:
        assert text == ""
    elif len(sizes) == 1:
        assert text == f"{sizes[0]} of 12 heads form one cluster"
    else:
        assert text == (f"{sum(sizes)} of 12 heads form {len(sizes)} clusters, the largest of {max(sizes)}")


def test_an_atlas_states_which_heads_look_at_a_neighbour():
    table, words = tables.profiles(2, 4), ["broad"] * 3 + ["mixed"] * 5
    values = [0.6] * 8
    assert said(with_cells(table, role=words, value=values), "atlas") == (
        "3 of 8 heads have a role, most often broad (3)"
    )
    words[6], values[6] = "next", 0.914
    one = with_cells(table, role=words, value=values)
    assert said(one, "atlas") == "1 of 8 heads looks at a neighbour: L1 H2 next 0.91"
    words[1], values[1] = "previous", 0.95
    assert said(with_cells(table, role=words, value=values), "atlas") == (
        "2 of 8 heads look at a neighbour: L0 H1 previous 0.95, L1 H2 next 0.91"
    )
    words[0], values[0] = "previous", 0.92
    assert said(with_cells(table, role=words, value=values), "atlas") == (
        "3 of 8 heads look at a neighbour, such as L0 H1 previous 0.95"
    )
    without = tables.profiles(2, 4, roles=False)
    assert draw_picture([without], "atlas").title == "what heads look at, by offset"


def test_a_correlation_is_stated_where_its_interval_leaves_out_0():
    assert said(tables.correlation()) == (
        "The same heads have high numbers on both sides: Pearson 0.50 (0.25 to 0.75)"
    )
    assert said(with_cells(tables.correlation(), pearson_low=[-0.1])) == ""
    negative = with_cells(tables.correlation(), pearson=[-0.5], pearson_low=[-0.7], pearson_high=[-0.2])
    assert said(negative).startswith(
        "Heads with high numbers have low ones on both sides: Pearson \u22120.50"
    )


@pytest.mark.parametrize("error", [0.001, 0.1, 3.0])
def test_heads_off_the_line_are_counted(error):
    draw = np.random.default_rng(0)
    one, other = draw.uniform(0, 1, 12), draw.uniform(0, 1, 12)
    table = tables.table(
        "both", {**tables.named(12), **tables.places()}, x_in=one.tolist(), x_in_se=[error] * 12,
        x_out=other.tolist(), x_out_se=[error] * 12,
    )  # fmt: skip
    sure = np.abs(one - other) > half(np.full(12, error * 2**0.5), 12)
    text = said(table, "scatter")
    if not sure.any():
        assert text == ""
        return
    assert text.startswith(f"X of {sure.sum()} of 12 heads differs, such as ")
    row = np.where(sure, np.abs(one - other), 0).argmax()
    assert f"L{row // 4} H{row % 4}" in text
    assert numbers(text) == pytest.approx([one[row], other[row]], abs=0.006)


def test_two_measures_are_no_finding():
    assert said(tables.census(), "scatter") == ""


def test_lines_state_the_last_step():
    table = tables.over_training("previous")
    columns = [
        Column("previous", "share", title="attention to the previous token")
        if one.name == "previous"
        else one
        for one in table.columns
    ]
    cells = [0.9] * 12 + [0.05] * 24
    cells[24 + 5] = 0.93
    table = HeadTable(table.title, columns, {**table.data, "previous": cells, "previous_se": [0.01] * 36})
    start = "Attention to the previous token falls in 11 of 12 heads over 8,000 steps"
    assert said(table) == f"{start}, such as L0 H0: from 0.90 to 0.050"
    still = with_cells(table, previous=[*cells[24:], *cells[24:], *cells[24:]])
    assert said(still) == "At step 8,000, L1 H1 looks at the previous token: 0.93"
    cells[24 + 5] = 0.05
    assert said(with_cells(table, previous=cells[24:] * 3)) == ""


@pytest.mark.parametrize("seed", range(12))
def test_what_changed_most_in_training_is_stated_where_it_did(seed):
    """An interval of the difference, for all heads together: errors of both steps add up at most."""
    draw = np.random.default_rng(seed)
    first = draw.uniform(1, 2, 12)
    last = first + draw.normal(0, 0.06, 12) * draw.integers(0, 2, 12)
    errors = draw.choice([0.005, 0.02], 36)
    table = tables.over_training("x")
    cells = np.concatenate([first, draw.uniform(0, 9, 12), last])
    text = said(with_cells(table, x=cells.tolist(), x_se=errors.tolist()))
    change = last - first
    sure = np.abs(change) > norm.ppf(1 - 0.025 / 12) * (errors[:12] + errors[24:])
    if not sure.any():
        assert "over 8,000 steps" not in text
        return
    row = int(np.where(sure, np.abs(change), 0).argmax())
    assert f"L{row // 4} H{row % 4}" in text
    ends = numbers(text)
    if " by " in text:  # both ends are the same with two digits
        assert ends == pytest.approx([abs(change[row])], rel=0.06)
    else:
        assert ends == pytest.approx([first[row], last[row]], abs=0.051)
    up, down = (int((sure & (sign * change > 0)).sum()) for sign in (1, -1))
    if up + down == 1:
        assert text.startswith(f"X of L{row // 4} H{row % 4} {'rises' if up else 'falls'} ")
        return
    counts = [(up, "rises"), (down, "falls")]
    wanted = [f"{word} in {number}" for number, word in counts if number]
    assert text.startswith(
        f"X {wanted[0]} of 12 heads{' and ' if len(wanted) > 1 else ''}{''.join(wanted[1:])} over"
    )


def test_a_change_of_layers_names_the_layer():
    steps = np.repeat([0, 500, 8000], 4).tolist()
    keys = {"model": ["m"] * 12, "step": steps, "layer": [0, 1, 2, 3] * 3}
    cells = [0.5] * 12
    cells[9] = 0.71
    table = tables.table("t", keys, cancellation=cells, cancellation_se=[0.01] * 12)
    assert said(table) == "Cancellation of layer 1 rises from 0.50 to 0.71 over 8,000 steps"
    cells[9] = 0.545  # 2.25 standard errors of 0.02, which is too little for one of four
    assert "rises" not in said(with_cells(table, cancellation=cells, cancellation_se=[0.01] * 12))
    assert "rises" not in said(with_cells(table, cancellation_se=[None] * 12))


def test_pairs_groups_and_positions():
    assert said(tables.interactions()) == "L0 H0 + L1 H1 stand in for each other: 0.40"
    assert said(with_cells(tables.interactions(), p_adjusted=[0.06] * 3)) == ""
    groups = tables.by_group()
    cells = dict(zip(("news", "</script>", "=cmd()"), groups.data["entropy"][4::4], strict=True))
    high, low = (choose(cells, key=cells.get) for choose in (max, min))
    assert said(groups) == (
        f"Groups differ in entropy in L0 H0: {cells[high]:.2f} in {high}, lowest, {cells[low]:.2f} in {low}"
    )
    nowhere = with_cells(tables.by_group(), entropy_q_p_adjusted=[0.2] * 4 + [None] * 12)
    assert said(nowhere) == ""
    table = tables.at_positions()
    p, values = np.array(table.data["p_adjusted"]), np.array(table.data["effect"])
    row = np.where(p < 0.05, np.abs(values), 0).argmax()
    text = said(table)
    place = (
        f"L{table.data['layer'][row]} H{table.data['head'][row]} at position {table.data['position'][row]}"
    )
    assert text.startswith(f"Effect is significant in {(p < 0.05).sum()} of 48 cells, such as {place}")
    assert numbers(text)[-1] == pytest.approx(abs(values[row]), abs=0.006)
    assert text.endswith(f"{'towards' if values[row] > 0 else 'away from'} the clean answer")
    assert said(with_cells(table, p_adjusted=[0.2] * 48)) == ""
    recorded = replace(table, provenance={"patching": {"total_effect": 3.0}})
    share = round(100 * abs(values[row]) / 3)
    assert said(recorded) == f"{text}, {share} % of the gap"
    noised = replace(table, provenance={"patching": {"total_effect": -3.0}})
    assert said(noised) == text  # effects of --noising close no gap


def test_checks_and_roles_are_counted():
    assert said(tables.checked()) == "1 of 2 checks warned: gates"
    assert said(with_cells(tables.checked(), status=["ok", "ok"])) == "All 2 checks passed"
    assert said(with_cells(tables.checked(), status=["ok", "failed"])) == "1 of 2 checks failed: gates"
    assert said(tables.roles()) == "8 of 12 heads have a role"
    words = ["previous", "previous", "broad"] + ["mixed"] * 9
    assert (
        said(with_cells(tables.roles(), role=words)) == "3 of 12 heads have a role, most often previous (2)"
    )
    assert said(with_cells(tables.roles(), role=["mixed"] * 12)) == ""


@pytest.mark.parametrize(("error", "sure"), [(0.01, True), (0.035, False)])
def test_the_ends_of_layers_are_beyond_the_intervals_of_all_others(error, sure):
    table = with_cells(tables.by_layer(), cancellation=[0.5, 0.7, 0.6], cancellation_se=[error] * 3)
    assert bool(2 * half(error, 3) < 0.7 - 0.6) == sure
    assert said(table) == (
        "Layer 1 has the highest cancellation: 0.70, layer 0 the lowest: 0.50" if sure else ""
    )
    high = with_cells(tables.by_layer(), cancellation=[0.5, 0.7, 0.5], cancellation_se=[error] * 3)
    assert said(high) == ("Layer 1 has the highest cancellation: 0.70" if 2 * half(error, 3) < 0.2 else "")
    low = with_cells(tables.by_layer(), cancellation=[0.7, 0.5, 0.7], cancellation_se=[0.01] * 3)
    assert said(low) == "Layer 1 has the lowest cancellation: 0.50"


def test_of_heads_the_mean_of_a_layer_is_stated():
    table = tables.of_heads("entropy")
    layers, rng = np.array(table.data["layer"]), np.random.default_rng(3)
    values = np.array([1.0, 3.0, 2.0])[layers] + rng.uniform(-0.5, 0.5, len(layers))
    means = [values[layers == layer].mean() for layer in range(3)]
    sure = with_cells(table, entropy=values.tolist(), entropy_se=[0.05] * len(layers))
    assert said(sure, "depth") == (
        f"Layer 1 has the highest mean entropy: {means[1]:.1f}, layer 0 the lowest: "
        f"{means[0]:.{1 if means[0] >= 1 else 2}f}"
    )
    # Errors of heads do not average out: they read the same texts.
    error = 0.9 * (means[1] - means[2]) / (2 * half(1.0, 3)) * 2
    assert half(error, 3) * 2 > means[1] - means[2] > half(error / np.sqrt(4), 3) * 2
    unsure = with_cells(table, entropy=values.tolist(), entropy_se=[error] * len(layers))
    assert "highest" not in said(unsure, "depth")


@pytest.mark.parametrize("kind", tables.NATURAL)
def test_titles_are_read_aloud(kind):
    drawn = draw_picture([tables.NATURAL[kind][0]()], kind, columns=1)
    assert drawn.title in drawn.spec["description"]


def with_divergences(means, error, layers=4, heads=4):
    """Give all pairs of heads; those within a layer have a divergence about a mean, with an error."""
    table = tables.all_pairs(layers, heads)
    one, other = (np.array(table.data[f"layer_{side}"]) for side in "ab")
    values = np.where(one == other, np.array(means)[one], 0.9)
    values += np.where(one == other, np.resize([-0.01, 0.01], len(one)), 0)
    columns = [*table.columns, Column("jsd_se", "nats", "error")]
    return HeadTable(
        table.title, columns, {**table.data, "jsd": values.tolist(), "jsd_se": [error] * len(values)}
    )


def test_a_map_states_the_layer_whose_heads_differ_most():
    """Where its interval lies above those of all other layers; errors of pairs add up at most."""
    means, error = [0.1, 0.2, 0.5, 0.3], 0.01
    table = with_divergences(means, error)
    one, other, jsd = (np.array(table.data[name]) for name in ("layer_a", "layer_b", "jsd"))
    found = [jsd[(one == layer) & (other == layer)].mean() for layer in range(4)]
    assert found[2] - found[3] > 2 * half(error, 4)
    assert (
        said(table, "map") == f"Heads of layer 2 differ most: mean Jensen-Shannon divergence {found[2]:.2f}"
    )
    limit = (found[2] - found[3]) / 2 / half(1.0, 4)
    assert said(with_divergences(means, limit * 0.99), "map")
    assert not said(with_divergences(means, limit * 1.01), "map")
    assert not said(tables.all_pairs(), "map")  # without errors
    twice = {name: [*cells, *cells] for name, cells in table.data.items()}
    kinds = ["encoder"] * len(table) + ["decoder"] * len(table)
    columns = [Column("attention", role="key"), *table.columns]
    assert not said(HeadTable(table.title, columns, {"attention": kinds, **twice}), "map")
