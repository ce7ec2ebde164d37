"""Every kind of picture: drawn, held against the schema, with the table's numbers, and no name is obeyed."""

import json
import math
from collections import Counter

import picture_tables as tables
import pytest
from altair.utils import schemapi
from scipy.stats import t

from attnprobe.errors import AttnprobeError
from attnprobe.reports.charts.draw import draw_picture, list_kinds
from attnprobe.reports.picture import draw_svg

#: Of each kind, fields of its data, and the columns of the table, one or several in turn, that they are.
FIELDS = {
    "atlas": {"layer": "layer", "head": "head", "role": "role", "profile_-1": "profile_-1"},
    "heatmap": {"y": "layer", "x": "head", "value": "entropy", "error": "entropy_se", "n": "n"},
    "positions": {"y": "head", "value": "effect", "error": "effect_se", "n": "n"},
    "roles": {"y": "layer", "x": "head", "role": "role", "value": "value", "threshold": "threshold"},
    "change": {"value": ("jsd", "next_delta", "self_delta", "first_delta", "other_delta", "separator_delta")},
    "relations": {"name": ("relation",) * 3, "value": ("accuracy", "baseline", "gain"), "more0": ("n",) * 3,
                  "more1": ("p_adjusted",) * 3},
    "settling": {"x": ("step", "step"), "value": ("spearman_last", "spearman_previous")},
    "curves": {"hue": "criterion", "x": "share_removed", "value": "score", "error": "score_se"},
    "lines": {"x": "step", "value": "entropy", "error": "entropy_se"},
    "scatter": {"layer": "layer", "head": "head", "x": "importance_in", "y": "importance_out"},
    "matrix": {"x": "head_a", "y": "head_b", "value": "jsd"},
    "depth": {"x": "layer", "value": "cancellation", "error": "cancellation_se"},
    "intervals": {"value": ("pearson", "spearman", "kendall")},
    "pairs": {"value": ("interaction", "proposed"), "more0": ("p_adjusted",) * 2},
    "probes": {"name": ("relation",) * 4, "more0": ("n",) * 4,
               "value": ("accuracy", "best_head_accuracy", "baseline", "control")},
    "modality": {"value": ("text_to_image", "image_to_image"),
                 "error": ("text_to_image_se", "image_to_image_se")},
    "alignments": {"name": ("alignment",) * 2, "value": ("aer", "baseline"), "more1": ("p_adjusted",) * 2},
}  # fmt: skip


def rows_of(spec):
    return [row for rows in spec["datasets"].values() for row in rows]


def plain(cell):
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def list_cells(table, columns):
    columns = (columns,) if isinstance(columns, str) else columns
    return [plain(cell) for name in columns for cell in table.data[name]]


@pytest.mark.parametrize("kind", tables.NATURAL)
def test_a_picture_is_drawn_and_has_the_numbers_of_its_table(kind, monkeypatch):
    """It is not held against the schema while it is drawn, which takes long, but holds."""
    table = tables.NATURAL[kind]()
    first = {"atlas": "roles", "clustermap": "map"}.get(kind, kind)
    assert list_kinds(table)[0] == first
    validate = schemapi.validate_jsonschema

    def without_rows(part, *rest, **more):
        assert "'values': [{" not in str(part)
        return validate(part, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(schemapi, "validate_jsonschema", without_rows)
        drawn = draw_picture([table], kind)
        spec = drawn.spec
    assert drawn.kind == kind
    assert " ".join(spec["title"]["text"]) == table.title or kind == "atlas"
    drawn.chart.to_dict()
    assert drawn.render("svg").startswith(b"<svg")
    json.dumps(spec, allow_nan=False)
    if kind in FIELDS:
        fields = FIELDS[kind]
        drawn_cells = Counter(
            tuple(row[field] for field in fields) for row in rows_of(spec) if row.keys() >= fields.keys()
        )
        cells = Counter(zip(*(list_cells(table, columns) for columns in fields.values()), strict=True))
        assert drawn_cells == cells


def test_the_map_has_every_head():
    rows = rows_of(draw_picture([tables.all_pairs()]).spec)
    heads = [(row["layer"], row["head"]) for row in rows if "x" in row]
    assert heads == [(layer, head) for layer in range(3) for head in range(4)]


def test_a_bar_is_the_mean_of_a_layer():
    table = tables.modalities()
    bars = [row for row in rows_of(draw_picture([table]).spec) if "mean" in row]
    assert len(bars) == 2 * 3 * tables.LAYERS
    names = {"what text looks at": "text", "what the image looks at": "image"}
    for bar in bars:
        cells = table.data[f"{names[bar['panel']]}_to_{bar['part'].split()[0]}"]
        layers = table.data["layer"]
        heads = [cell for cell, layer in zip(cells, layers, strict=True) if layer == bar["layer"]]
        assert bar["mean"] == pytest.approx(sum(heads) / len(heads))


def test_groups_have_their_cells_the_most_different_row_first():
    """A panel is a head and a row in it a group; the interval is Student's t over the group's documents."""
    table = tables.by_group()
    rows = sorted(
        (row for row in rows_of(draw_picture([table]).spec) if row.get("mark") == "group"),
        key=lambda row: row["row"],
    )
    cells = {
        tuple(key): (value, t.ppf(0.975, n - 1) * error)
        for *key, value, error, n in zip(
            *(table.data[name] for name in ("layer", "head", "group", "entropy", "entropy_se", "n")),
            strict=True,
        )
    }
    by_p = [(0, 0), (1, 0), (1, 1), (0, 1)]  # p of 0.01, 0.5, 0.9, none
    expected = [(*head, group) for head in by_p for group in ("news", "</script>", "=cmd()")]
    assert [row["name"] for row in rows] == [f"{group} (9)" for *_, group in expected]
    for row, key in zip(rows, expected, strict=True):
        value, half = cells[key]
        assert (row["value"], row["low"], row["high"]) == pytest.approx((value, value - half, value + half))


def list_field_names(node):
    if isinstance(node, dict):
        for name in ("field", "filter", "as", "groupby", "calculate"):
            if isinstance(node.get(name), str):
                yield node[name]
        for name, part in node.items():
            if name not in {"datasets", "values"}:
                yield from list_field_names(part)
    elif isinstance(node, list):
        for part in node:
            yield from list_field_names(part)


@pytest.mark.parametrize("kind", tables.NATURAL)
def test_hostile_names_are_text(kind):
    """Names of models, labels, titles and units are in no field and no expression, and nothing is fetched."""
    drawn = draw_picture([tables.make_hostile(kind)], kind)
    assert not [name for name in list_field_names(drawn.spec) if "alert" in name or "example" in name]
    svg = drawn.render("svg").decode()
    assert not any(text in svg for text in ("<script", "<img", "\u202e", "\x1b", 'href="http'))


def test_nothing_is_fetched_whatever_a_spec_names():
    with pytest.raises(AttnprobeError, match="not allowed"):
        draw_svg({"data": {"url": "http://127.0.0.1:9/a.json"}, "mark": "point"})


def test_a_column_of_any_name_is_drawn():
    for name in (*tables.HOSTILE, "value", "layer[0]", "a.b", "image"):
        table = tables.of_heads(name, layers=1, heads=2)
        drawn = draw_picture([table])
        assert [row["value"] for row in rows_of(drawn.spec)] == table.data[name]
        assert drawn.render("svg").startswith(b"<svg")
