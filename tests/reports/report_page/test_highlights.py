"""What a report opens with is true of its tables, and significant: each sentence is computed anew."""

import re

import numpy as np
import pytest
import report_tables as tables
from scipy.stats import norm

from attnprobe.reports.report_page.charts import draw_curve, draw_head_maps, draw_scatter
from attnprobe.reports.report_page.highlights import MOST, Charts, choose_highlights
from attnprobe.reports.report_page.measures import collect_heads, collect_measures, format_measured
from attnprobe.reports.report_page.text import MEANINGS
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import find_role_kind

HEAD = re.compile(r"[Ll]ayer (\d+), head (\d+)")
LAYERS, HEADS = 4, 6


def choose(sections):
    """Choose from tables by section, each drawn as a page draws it."""
    sections = {
        name: {name: table} if isinstance(table, HeadTable) else table for name, table in sections.items()
    }
    every = {name: table for found in sections.values() for name, table in found.items()}
    heads = collect_heads(every)
    found = [
        one for name in ("census", "importance") for one in collect_measures(heads, sections.get(name, {}))
    ]
    styles = {number: ["v3"] * len(heads.every) for number in range(len(found))}
    distance, pruned = (next(iter(sections.get(name, {}).values()), None) for name in ("distance", "prune"))
    scatter = next((one for one in sections.get("correlate", {}).values() if "head" in one.data), None)
    charts = Charts(
        styles, ["r0"] * len(heads.every), [] if distance is None else draw_head_maps(heads, distance),
        None if pruned is None else draw_curve(pruned),
        None if scatter is None else draw_scatter(heads, scatter, found),
    )  # fmt: skip
    return choose_highlights(heads, found, sections, "classification", charts)


def place_of(sentence):
    layer, head = HEAD.search(sentence).groups()
    return int(layer) * HEADS + int(head)


def quantile(number):
    """Give the number of standard errors of intervals that hold for so many heads together."""
    return norm.ppf(1 - 0.025 / number)


def changed(table, **cells):
    return HeadTable(table.title, table.columns, {**table.data, **cells}, table.notes)


@pytest.mark.parametrize("seed", range(25))
def test_a_role_is_beyond_its_threshold_by_its_whole_interval(seed):
    table = tables.draw_roles(np.random.default_rng(seed), LAYERS, HEADS)
    data = table.data
    z = quantile(LAYERS * HEADS)
    sure = {
        place
        for place, (role, value, error) in enumerate(
            zip(data["role"], data["value"], data["value_se"], strict=True)
        )
        if role != "mixed" and value - z * error > 0.9
    }
    kinds = {find_role_kind(data["role"][place]) for place in sure}
    found = choose({"roles": table})
    assert len(found) == min(MOST, len(kinds))
    for one in found:
        place = place_of(one.sentence)
        assert place == one.head
        assert place in sure
        role = data["role"][place]
        kind = find_role_kind(role)
        assert MEANINGS[kind] in one.sentence
        others = [other for other in sure if find_role_kind(data["role"][other]) == kind]
        assert data["value"][place] == max(data["value"][other] for other in others)
        assert one.value == format_measured(data["value"][place], data["value_se"][place])
        number = [find_role_kind(name) for name in data["role"]].count(kind) - 1
        assert (f"{number} other" if number else "no other head") in one.what


@pytest.mark.parametrize("seed", range(25))
def test_a_head_that_matters_more_is_above_the_intervals_of_the_others(seed):
    draw = np.random.default_rng(seed)
    values = np.abs(draw.normal(0.3, 0.1, LAYERS * HEADS))
    values[draw.integers(len(values))] *= draw.choice([1, 2, 5])
    errors = draw.uniform(0.1, 1, len(values)) * draw.choice([0.002, 0.03, 0.2])
    table = tables.draw_importance(draw, LAYERS, HEADS)
    found = choose({"importance": changed(table, importance=values.tolist(), importance_se=errors.tolist())})
    best, z = int(values.argmax()), quantile(LAYERS * HEADS)
    below = [
        values[other] + z * errors[other] < values[best] - z * errors[best]
        for other in range(len(values))
        if other != best
    ]
    said = [one for one in found if "matters more" in one.sentence]
    assert bool(said) == (sum(below) >= len(below) / 2)
    for one in said:
        assert place_of(one.sentence) == best
        assert one.sentence.endswith("than any other head." if all(below) else "than most heads.")
        assert one.value == format_measured(values[best], errors[best])
        assert one.link == "map-0"


def test_an_effect_matters_where_it_differs_from_none():
    table = tables.make_table(
        "ablation", {**tables.number_heads(2, 2), "objective": ["x"] * 4, "method": ["ablation"] * 4},
        {"delta": ([0.1, -0.5, 0.2, 0.0], [0.2, 0.3, 0.02, 0.1])},
    )  # fmt: skip
    for error in (0.3, 0.225):  # the largest of four may be nothing, even beyond 1.96 errors
        assert choose({"importance": changed(table, delta_se=[0.2, error, 0.02, 0.1])}) == []
    p = {"p_adjusted": ([0.9, 0.04, 0.01, 0.9], None)}
    delta = {"delta": (table.data["delta"], [0.2, 0.3, 0.02, 0.1])}
    keys = {name: table.data[name] for name in ("layer", "head", "objective", "method")}
    tested = tables.make_table("ablation", keys, delta | p, headline=True)
    assert len(choose({"importance": tested})) == 1
    assert choose({"importance": changed(tested, p_adjusted=[0.9, 0.06, 0.01, 0.9])}) == []
    (one,) = choose({"importance": changed(table, delta_se=[0.2, 0.03, 0.02, 0.1])})
    assert one.sentence == "Layer 0, head 1 matters for classification."
    assert one.value == "\u22120.500 \u00b1 0.030"


def test_without_errors_there_are_no_highlights():
    draw = np.random.default_rng(1)
    census = tables.draw_census(draw, LAYERS, HEADS, ["entropy"])
    census.data["entropy"][3] = 9.0
    nothing = [None] * (LAYERS * HEADS)
    assert choose({"census": changed(census, entropy_se=nothing)}) == []
    roles = tables.draw_roles(draw, LAYERS, HEADS)
    assert choose({"roles": changed(roles, value_se=nothing)}) == []
    importance = tables.draw_importance(draw, LAYERS, HEADS)
    assert choose({"importance": changed(importance, importance_se=nothing)}) == []


def test_the_first_significant_step_of_a_removal():
    table = tables.draw_removal(np.random.default_rng(2), LAYERS, HEADS)
    (one,) = choose({"prune": table})
    assert one.sentence == "With 7 of 24 heads removed, accuracy is lower than that of the whole model."
    assert one.value == format_measured(table.data["delta"][3], 0.02)
    never = changed(table, p_adjusted=[None] * len(table))
    assert choose({"prune": never}) == []
    random = [0.01 if row == 5 else p for row, p in enumerate(table.data["p_random_adjusted"])]
    (one,) = choose({"prune": changed(never, p_random_adjusted=random)})
    assert one.sentence == "With 12 of 24 heads removed, accuracy is higher than that of random orders."
    assert one.value == "0.010 \u00b1 0.020"


@pytest.mark.parametrize(
    ("low", "high", "way"), [(0.2, 0.9, "more"), (-0.9, -0.2, "less"), (-0.1, 0.9, None)]
)
def test_a_correlation_has_an_interval_without_none(low, high, way):
    one_row, by_head = tables.draw_correlation(np.random.default_rng(3), LAYERS, HEADS)
    row = changed(one_row, pearson=[(low + high) / 2], pearson_low=[low], pearson_high=[high])
    found = choose({"correlate": {"correlate": row, "by_head": by_head}})
    assert [one.sentence for one in found] == (
        [f"Heads that matter more here tend to matter {way} on e.tsv."] if way else []
    )


@pytest.mark.parametrize("seed", range(10))
def test_two_heads_are_nearer_than_any_others(seed):
    draw = np.random.default_rng(seed)
    table = tables.draw_distances(draw, LAYERS, HEADS)
    jsd = np.array(table.data["jsd"])
    first, second = np.sort(jsd)[:2]
    z = quantile(len(jsd))
    share = (0.25, 0.75, 2.0)[seed % 3]  # of what is between both pairs, that half of an interval takes
    errors = np.full(len(jsd), share * (second - first) / z)
    found = choose({"distance": changed(table, jsd_se=errors.tolist())})
    assert bool(found) == (share < 0.5)
    for one in found:
        row = int(jsd.argmin())
        pair = [[table.data[f"{name}_{side}"][row] for name in ("layer", "head")] for side in "ab"]
        assert [[int(part) for part in head] for head in HEAD.findall(one.sentence)] == pair


@pytest.mark.parametrize("seed", range(8))
def test_at_most_five_and_no_head_twice(seed):
    contents = tables.draw_contents(LAYERS, HEADS, seed)
    found = choose(contents.tables)
    heads = [one.head for one in found if one.head is not None]
    assert 2 <= len(found) <= MOST
    assert len(set(heads)) == len(heads)
    for one in found:
        assert one.drawing.paths
        assert all(path for _, path in one.drawing.paths)
