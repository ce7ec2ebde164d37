"""What each kind of picture shows, and of which kinds of tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from attnprobe.reports.charts.atlas import Atlas
from attnprobe.reports.charts.bars import Bars, has_shares
from attnprobe.reports.charts.figure import TICK, Axis, Figure, Point, Words
from attnprobe.reports.charts.forest import Forest
from attnprobe.reports.charts.grid import Grid, Roles
from attnprobe.reports.charts.kinds import PictureKind
from attnprobe.reports.charts.lines import Lines
from attnprobe.reports.charts.places import place_heads, place_pairs, place_positions
from attnprobe.reports.charts.points import Points, find_sides, list_measures, read_map, read_scatter
from attnprobe.reports.charts.tree import Tree
from attnprobe.reports.columns import (
    DrawingRequest,
    add_layers,
    are_rows_unique,
    has_measures,
    label_by_others,
    label_rows,
    list_keys,
    make_reader,
    read_cells,
    read_numbers,
)
from attnprobe.reports.findings import list_tested_measures, tabulate_group_differences
from attnprobe.reports.pairs import has_all_pairs, name_pairs
from attnprobe.reports.profile import read_profile
from attnprobe.reports.scales import find_significant
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.cells import Cell, clean
from attnprobe.table.kinds import HEAD, PAIR, PRUNING_STEP, RANDOM, RULES, STEP
from attnprobe.table.numbers import name_head
from attnprobe.table.table import Column, HeadTable

_INTERVALS = "bars: 95 % intervals"
_FILLED = f"filled: adjusted p < {SIGNIFICANT}"
_TESTED = {"n": "links", "p_adjusted": "adjusted p"}
_RULE = Point("baseline", "best simple rule", TICK, 1)


def _name_first(table: HeadTable) -> str:
    """Name the column of what is looked for: the first key that is neither a model nor a set of data."""
    return next(name for name in list_keys(table) if name not in {"model", "dataset"})


def _label_first(table: HeadTable) -> list[str]:
    return make_reader(_name_first(table))(table)


def _label_others(table: HeadTable) -> list[str]:
    return label_by_others(table, {_name_first(table)})


def _label_but(*names: str) -> Callable[[HeadTable], list[str]]:
    """Make a function that labels rows by their keys, except some."""
    return lambda table: label_by_others(table, names)


def _name_places(table: HeadTable) -> list[str]:
    """Name the head of each row, and the position of what it finds where the table has one."""
    places = zip(*(read_cells(table, name) for name in ("layer", "head", "position")), strict=True)
    return [
        "" if layer is None else f"{name_head(layer, head)} {position or ''}".strip()
        for layer, head, position in places
    ]


def _write_rules(table: HeadTable) -> Sequence[str]:
    return make_reader(next((name for name in RULES if name in table.data), RULES[0]))(table)


def _name_interaction(table: HeadTable) -> str:
    unit = table.column("interaction").unit
    return f"\u0394L(both) \u2212 \u0394L(one) \u2212 \u0394L(other){f' ({unit})' if unit else ''}"


def _melt(
    table: HeadTable, name: str, values: Mapping[str, Sequence[str]], columns: Sequence[Column]
) -> HeadTable:
    """Stack all rows once for each part in ``values``, whose columns become ``columns``; only keys stay."""
    keys = [column for column in table.columns if column.role == "key"]
    data = {key.name: list(read_cells(table, key.name)) * len(values) for key in keys}
    data[name] = [part for part in values for _ in range(len(table))]
    for place, column in enumerate(columns):
        data[column.name] = [cell for names in values.values() for cell in read_cells(table, names[place])]
    described = [*keys, Column(name, role="text"), *columns]
    return HeadTable(table.title, described, data, provenance=table.provenance)


def _melt_coefficients(table: HeadTable, _: DrawingRequest) -> list[HeadTable]:
    """Give each coefficient of a correlation a row, with the ends of its interval."""
    ends = ("", "_low", "_high")
    values = {
        name.capitalize(): [f"{name}{end}" for end in ends] for name in ("pearson", "spearman", "kendall")
    }
    return [_melt(table, "coefficient", values, [Column(f"value{end}") for end in ends])]


def _melt_steps(table: HeadTable) -> HeadTable:
    """Give both correlations of the order of heads at a step a row each."""
    values = {"with the last step": ["spearman_last"], "with the step before": ["spearman_previous"]}
    return _melt(table, "line", values, [Column("value", title="rank correlation")])


def _list_changes(table: HeadTable, request: DrawingRequest) -> list[Column]:
    """List the changes named, or else the divergence and the 5 differences significant in most rows."""
    if request.measures:
        named = [f"{name}_delta" if f"{name}_delta" in table.data else name for name in request.measures]
        return replace(request, measures=named).columns(table)
    measures = [column for column in table.columns if column.role == "measure"]
    changes = [column for column in measures if column.name.endswith("_delta")]
    counts = {column.name: sum(map(bool, find_significant(table, column).signs)) for column in changes}
    most = sorted(changes, key=lambda column: -counts[column.name])[:5]
    return [column for column in measures if column.name == "jsd" or column in most]


def _has_curves(table: HeadTable) -> bool:
    scored = any(value is not None for value in read_numbers(table, "score"))
    return "share_removed" in list_keys(table) and scored


def _label_removals(table: HeadTable) -> list[str]:
    known = {"criterion", "seed", STEP, PRUNING_STEP, "share_removed"}
    return label_by_others(table, known | ({"model"} if PRUNING_STEP in table.data else set()))


def _name_orders(table: HeadTable) -> list[str]:
    return label_rows(table, ["criterion", "seed", *([STEP] if PRUNING_STEP in table.data else [])])


def _colour_curves(table: HeadTable) -> Sequence[Cell]:
    """Colour curves by their criterion, or by the step of training that a checkpoint was saved at."""
    return read_cells(table, STEP) if PRUNING_STEP in table.data else make_reader("criterion")(table)


def _name_score(table: HeadTable, column: Column) -> str:
    """Name a score by its metric, where all rows have the same, with the unit unless it repeats the name."""
    metrics = set(make_reader("metric")(table))
    name = metrics.pop() if len(metrics) == 1 and column.name == "score" else clean(column.name)
    name, unit = (name or column.name).replace("_", " "), clean(column.unit)
    return f"{name} ({unit})" if unit and unit != name else name


def _has_steps(table: HeadTable) -> bool:
    """Tell whether a table has a measure, and one row for each head or layer and step."""
    numbered = all(isinstance(step, int) for step in read_cells(table, STEP))
    keys = [name for name in list_keys(table) if name != "model"]
    return has_measures(table) and numbered and are_rows_unique(table, keys)


def _label_layers(table: HeadTable) -> list[str]:
    """Label the panel of each row by its layer, if rows are heads, and by keys but model and step."""
    others = label_by_others(table, {"model", STEP, *HEAD})
    if "head" not in list_keys(table):
        return others
    return add_layers(others, read_cells(table, "layer"))


def _name_lines(table: HeadTable) -> list[str]:
    letter, key = ("H", "head") if "head" in list_keys(table) else ("L", "layer")
    return [f"{letter}{cell}" for cell in make_reader(key)(table)]


def _has_depth(table: HeadTable) -> bool:
    """Tell whether a table has a measure, and one row for each head or layer in each setting."""
    measured = {"model", "model_b", "dataset", "attention", "objective", "method", "metric", "table"}
    keys = list_keys(table)
    known = set(keys) <= measured | {*HEAD, "replaced_by"}
    return known and has_measures(table) and are_rows_unique(table, keys)


FIGURES: Mapping[PictureKind, Figure] = {
    "heatmap": Grid(fits=lambda table: has_measures(table) and place_heads(table)),
    "change": Grid(
        fits=place_heads,
        choose=_list_changes,
        caption=["changes: the second model minus the first", "divergence: 0 where both attend alike"],
    ),
    "roles": Roles(fits=place_heads, fixed=True, states=None),
    "positions": Grid(
        fits=lambda table: has_measures(table) and place_positions(table),
        places=place_positions,
        x_title="position",
        y_title="head",
        widest=26,
        highest=12,
        square=False,
    ),
    "matrix": Grid(
        fits=lambda table: place_pairs(table) and has_measures(table),
        places=place_pairs,
        y_title="head",
        widest=24,
        caption=["each pair of heads of a layer, once"],
    ),
    "relations": Forest(
        states="gain",
        label=_label_first,
        panel=_label_others,
        axes=[
            Axis("links found", [Point("accuracy", "best head", tested=True), _RULE], [0, 1]),
            Axis("gain", [Point("gain", "best head", tested=True, interval=True)], reference=0),
        ],
        words=[
            Words("head", _name_places),
            Words("rule", _write_rules),
            Words("links", make_reader("n"), wide=True),
        ],
        tooltip=_TESTED,
        caption=["gain: over the best simple rule", _INTERVALS, _FILLED],
    ),
    "probes": Forest(
        states="accuracy",
        label=_label_first,
        panel=_label_others,
        axes=[
            Axis(
                "links found",
                [
                    Point("accuracy", "all heads together", tested=True, interval=True),
                    Point("best_head_accuracy", "best attention head", "diamond", 2),
                    _RULE,
                    Point("control", "a model with random weights", "triangle-up", -1),
                ],
                [0, 1],
            )
        ],
        words=[Words("links", make_reader("n"))],
        tooltip=_TESTED,
        caption=[_INTERVALS, "p: all heads against the best one"],
    ),
    "alignments": Forest(
        tested="aer",
        label=_label_but("model", "dataset", "weights", "attention"),
        panel=_label_but("alignment", "direction"),
        axes=[
            Axis(
                "alignment error rate",
                [
                    Point("aer", "alignment", tested=True, interval=True),
                    Point("baseline", "same relative place", TICK, 1),
                ],
                [0, 1],
            )
        ],
        words=[Words("head", _name_places), Words("pairs of texts", make_reader("n"), wide=True)],
        tooltip={"n": "pairs of texts", "p_adjusted": "adjusted p"},
        caption=["the lower, the better", _INTERVALS],
    ),
    "intervals": Forest(
        label=make_reader("coefficient"),
        panel=_label_but(),
        prepare=_melt_coefficients,
        axes=[
            Axis(
                "correlation over heads", [Point("value", "correlation", ends=("_low", "_high"))], [-1, 1], 0
            )
        ],
        caption=[_INTERVALS],
    ),
    "pairs": Forest(
        states="interaction",
        label=name_pairs,
        panel=_label_but(*PAIR, "attention_a", "attention_b"),
        axes=[
            Axis(
                _name_interaction,
                [
                    Point("interaction", "interaction", tested=True, interval=True),
                    Point("proposed", "predicted from gradients", TICK, -1),
                ],
                reference=0,
            )
        ],
        tooltip={"p_adjusted": "adjusted p"},
        caption=["above 0: both removals cost more than each adds up to", _INTERVALS],
    ),
    "groups": Forest(
        fits=list_tested_measures,
        fixed=False,
        prepare=tabulate_group_differences,
        label=make_reader("group"),
        panel=make_reader("row"),
        axes=[Axis(lambda table: str(table.data["title"][0]), [Point("value", "group", interval=True)])],
        side_by_side=4,
        caption=[_INTERVALS, f"*: groups differ, adjusted p < {SIGNIFICANT}"],
    ),
    "curves": Lines(
        states=None,
        fits=_has_curves,
        x="share_removed",
        panel=_label_removals,
        series=_name_orders,
        hue=_colour_curves,
        back=lambda table: [cell == RANDOM for cell in read_cells(table, "criterion")],
        legend="order of heads",
        choose=lambda table, request: (
            request.columns(table, 1) if request.measures else [table.column("score")]
        ),
        name=_name_score,
        caption=[_INTERVALS, "thin: random orders; band: from the lowest to the highest of these"],
    ),
    "settling": Lines(
        states=None,
        x=STEP,
        panel=lambda table: label_rows(table, ["attention", "measure", "dataset"]),
        series=make_reader("line"),
        hue=make_reader("line"),
        zero=True,
        choose=lambda table, _: [table.column("value")],
        name=lambda *_: "rank correlation",
        prepare=_melt_steps,
    ),
    "lines": Lines(
        states=None,
        fits=_has_steps,
        x=STEP,
        panel=_label_layers,
        series=_name_lines,
        hue=_name_lines,
        leading=True,
        choose=lambda table, request: request.columns(table, 3),
        caption=["bands: 95 % intervals", "named: those farthest from 0 at the end"],
    ),
    "depth": Lines(
        fits=_has_depth,
        x="layer",
        panel=lambda table: [""] * len(table),
        series=lambda table: label_by_others(table, {"layer"}),
        hue=lambda table: label_by_others(table, {"layer", "head"}),
        dots=True,
        zero=True,
        choose=lambda table, request: request.columns(table, 4),
        caption=["line: mean of a layer", _INTERVALS],
    ),
    "scatter": Points(
        fits=lambda table: find_sides(table) or len(list_measures(table)) > 1, read=read_scatter
    ),
    "map": Points(fits=has_all_pairs, read=read_map),
    "modality": Bars(
        fits=has_shares,
        fixed=True,
        caption=["bars: means over the heads of a layer", "points: how much of one head goes to the image"],
    ),
    "atlas": Atlas(
        fits=lambda table: place_heads(table) and read_profile(table),
        fixed=True,
        details={
            "role:N": "role",
            "measure:N": "measure",
            "value:Q": "value",
            "value_se:Q": "standard error",
            "entropy:Q": "entropy (nats)",
            "profile_first:Q": "attention to the first token",
            "profile_special:Q": "to other special tokens",
            "profile_-1:Q": "to the previous token",
            "profile_0:Q": "to itself",
            "profile_1:Q": "to the next token",
            "profile_before:Q": "further before",
            "profile_after:Q": "further behind",
            "profile_beyond:Q": "further away",
        },
    ),
    "clustermap": Tree(fits=has_all_pairs),
}
