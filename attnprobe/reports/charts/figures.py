"""What each kind of picture shows, and of which kinds of tables."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attnprobe.reports.charts.figure import Drawing, Figure
from attnprobe.reports.charts.forest import TICK, Axis, Forest, Point, Words, write_column
from attnprobe.reports.charts.grid import Grid, Letters
from attnprobe.reports.charts.groups import list_compared, take_groups
from attnprobe.reports.charts.places import place_heads, place_pairs, place_positions
from attnprobe.reports.columns import (
    DrawingRequest,
    has_measures,
    label_by_others,
    label_rows,
    list_keys,
    read_cells,
)
from attnprobe.reports.pictures import (
    atlas,
    clustermap,
    curves,
    modality,
    scatter,
    settling,
    similarity,
    training,
)
from attnprobe.reports.profile import can_draw_atlas
from attnprobe.reports.scales import mark_column
from attnprobe.reports.shapes import name_pairs
from attnprobe.reports.theme import ROLE_COLOURS
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.cells import format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import PAIR, RULES, PictureKind
from attnprobe.table.naming import LETTERS, find_role_kind
from attnprobe.table.numbers import name_head
from attnprobe.table.table import Column

_INTERVALS = "bars: 95 % intervals"
_FILLED = f"filled: adjusted p < {SIGNIFICANT}"
#: How many differences are drawn where nobody names them.
_MOST_CHANGES = 5


def _label_first(table: HeadTable) -> list[str]:
    """Label rows by what is looked for: the first key that is neither a model nor a set of data."""
    return list(map(format_cell, read_cells(table, _name_first(table))))


def _name_first(table: HeadTable) -> str:
    return next(name for name in list_keys(table) if name not in {"model", "dataset"})


def _label_others(table: HeadTable) -> list[str]:
    return label_by_others(table, {_name_first(table)})


def _label_keys(*but: str) -> Callable[[HeadTable], list[str]]:
    return lambda table: label_rows(table, [name for name in list_keys(table) if name not in but])


def _name_places(table: HeadTable) -> list[str]:
    """Name the head of each row, and the position of what it finds where that is said."""
    places = zip(*(read_cells(table, name) for name in ("layer", "head", "position")), strict=True)
    return [
        "" if layer is None else " ".join([name_head(layer, head), *([str(position)] if position else [])])
        for layer, head, position in places
    ]


def _write_rules(table: HeadTable) -> Sequence[str]:
    return write_column(next((name for name in RULES if name in table.data), RULES[0]))(table)


def _name_interaction(table: HeadTable) -> str:
    unit = table.column("interaction").unit
    return f"\u0394L(both) \u2212 \u0394L(one) \u2212 \u0394L(other){f' ({unit})' if unit else ''}"


def _melt_coefficients(table: HeadTable, request: DrawingRequest) -> list[HeadTable]:
    """Give each coefficient of a correlation a row, with the ends of its interval."""
    names = ("pearson", "spearman", "kendall")
    keys = [column for column in table.columns if column.role == "key"]
    data = {key.name: [cell for cell in read_cells(table, key.name) for _ in names] for key in keys}
    data["coefficient"] = [name.capitalize() for _ in range(len(table)) for name in names]
    for end in ("", "_low", "_high"):
        cells = zip(*(read_cells(table, f"{name}{end}") for name in names), strict=True)
        data[f"value{end}"] = [cell for row in cells for cell in row]
    columns = [
        *keys,
        Column("coefficient", role="text"),
        *(Column(f"value{end}") for end in ("", "_low", "_high")),
    ]
    return [HeadTable(table.title, columns, data, provenance=table.provenance)]


def _find_kinds(table: HeadTable) -> list[str]:
    return [find_role_kind(format_cell(cell)) for cell in read_cells(table, "role")]


def list_changes(table: HeadTable, request: DrawingRequest) -> list[Column]:
    """List what changed: the divergence, and the differences of which most are significant."""
    if request.measures:
        named = [f"{name}_delta" if f"{name}_delta" in table.data else name for name in request.measures]
        return replace(request, measures=named).columns(table)
    measures = [column for column in table.columns if column.role == "measure"]
    changes = [column for column in measures if column.name.endswith("_delta")]

    def count_significant(column: Column) -> int:
        return sum(map(bool, mark_column(table, column).signs))

    most = sorted(changes, key=count_significant, reverse=True)[:_MOST_CHANGES]
    divergences = [column for column in measures if column.name == "jsd"]
    return [*divergences, *sorted(most, key=changes.index)]


def _has_changes(table: HeadTable) -> bool:
    changed = (name == "jsd" or name.endswith("_delta") for name in table.data)
    return place_heads(table) is not None and any(changed)


FIGURES: Mapping[PictureKind, Figure] = {
    "heatmap": Grid(fits=lambda table: has_measures(table) and place_heads(table), places=place_heads),
    "change": Grid(
        fits=_has_changes,
        places=place_heads,
        choose=list_changes,
        caption=["changes: the second model minus the first", "divergence: 0 where both attend alike"],
    ),
    "roles": Letters(
        fits=place_heads,
        fixed=True,
        places=place_heads,
        kind=_find_kinds,
        legend="role (heads)",
        letters=[(kind, letter, ROLE_COLOURS[kind]) for kind, letter in LETTERS.items()],
        details=[
            ("role", "N"),
            ("measure", "N"),
            ("value", "Q"),
            ("value_se", "Q"),
            ("threshold", "Q"),
            ("also", "N"),
            ("pattern", "N"),
        ],
    ),
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
        fixed=True,
        states="gain",
        tested="gain",
        order="gain",
        label=_label_first,
        panel=_label_others,
        axes=[
            Axis(
                "links found",
                domain=[0, 1],
                points=[
                    Point("accuracy", "best head", tested=True),
                    Point("baseline", "best simple rule", TICK, 1),
                ],
            ),
            Axis(
                "gain",
                reference=0,
                points=[
                    Point("gain", "best head", tested=True, interval=True),
                ],
            ),
        ],
        words=[
            Words("head", _name_places),
            Words("rule", _write_rules),
            Words("links", write_column("n"), wide=True),
        ],
        tooltip={"n": "links", "p_adjusted": "adjusted p"},
        caption=["gain: over the best simple rule", _INTERVALS, _FILLED],
    ),
    "probes": Forest(
        fixed=True,
        states="accuracy",
        tested="accuracy",
        order="accuracy",
        label=_label_first,
        panel=_label_others,
        axes=[
            Axis(
                "links found",
                domain=[0, 1],
                points=[
                    Point("accuracy", "all heads together", tested=True, interval=True),
                    Point("best_head_accuracy", "best attention head", "diamond", 2),
                    Point("baseline", "best simple rule", TICK, 1),
                    Point("control", "a model with random weights", "triangle-up", -1),
                ],
            )
        ],
        words=[Words("links", write_column("n"))],
        tooltip={"n": "links", "p_adjusted": "adjusted p"},
        caption=[_INTERVALS, "p: all heads against the best one"],
    ),
    "alignments": Forest(
        fixed=True,
        tested="aer",
        label=_label_keys("model", "dataset", "weights", "attention"),
        panel=_label_keys("alignment", "direction"),
        axes=[
            Axis(
                "alignment error rate",
                domain=[0, 1],
                points=[
                    Point("aer", "alignment", tested=True, interval=True),
                    Point("baseline", "same relative place", TICK, 1),
                ],
            )
        ],
        words=[Words("pairs of texts", write_column("n"), wide=True)],
        tooltip={"n": "pairs of texts", "p_adjusted": "adjusted p"},
        caption=["the lower, the better", _INTERVALS],
    ),
    "intervals": Forest(
        fixed=True,
        label=write_column("coefficient"),
        panel=_label_keys(),
        prepare=_melt_coefficients,
        axes=[
            Axis(
                "correlation over heads",
                domain=[-1, 1],
                reference=0,
                points=[
                    Point("value", "correlation", ends=("_low", "_high")),
                ],
            )
        ],
        caption=[_INTERVALS],
    ),
    "pairs": Forest(
        fixed=True,
        states="interaction",
        tested="interaction",
        order="interaction",
        label=name_pairs,
        panel=_label_keys(*PAIR, "attention_a", "attention_b"),
        axes=[
            Axis(
                _name_interaction,
                reference=0,
                points=[
                    Point("interaction", "interaction", tested=True, interval=True),
                    Point("proposed", "predicted from gradients", TICK, -1),
                ],
            )
        ],
        tooltip={"p_adjusted": "adjusted p"},
        caption=["above 0: both removals cost more than each adds up to", _INTERVALS],
    ),
    "groups": Forest(
        fits=list_compared,
        prepare=take_groups,
        label=write_column("group"),
        panel=write_column("row"),
        axes=[
            Axis(
                lambda table: format_cell(table.data["title"][0]),
                points=[Point("value", "group", interval=True)],
            )
        ],
        side_by_side=4,
        p="",
        caption=[_INTERVALS, f"*: groups differ, adjusted p < {SIGNIFICANT}"],
    ),
}


@dataclass(frozen=True, kw_only=True)
class _Unlike(Figure):
    """A kind of picture that no template draws yet."""

    by: Callable[[HeadTable, DrawingRequest], Any]
    listed: int = 0

    def columns(self, table: HeadTable, request: DrawingRequest) -> list[Column]:
        return request.columns(table, self.listed) if self.listed else []

    def draw(self, table: HeadTable, request: DrawingRequest) -> Drawing:
        return Drawing(self.by(table, request))


FIGURES = {
    **FIGURES,
    "atlas": _Unlike(fits=can_draw_atlas, fixed=True, by=atlas.draw_atlas),
    "settling": _Unlike(by=settling.draw_settling),
    "curves": _Unlike(fits=curves.can_draw_curves, by=curves.draw_curves),
    "lines": _Unlike(fits=training.can_draw_lines, by=training.draw_lines),
    "scatter": _Unlike(fits=scatter.can_draw_scatter, by=scatter.draw_scatter),
    "map": _Unlike(fits=similarity.can_draw_map, by=similarity.draw_map),
    "clustermap": _Unlike(fits=clustermap.can_draw_clustermap, by=clustermap.draw_clustermap),
    "depth": _Unlike(fits=curves.can_draw_depth, by=curves.draw_depth, listed=4),
    "modality": _Unlike(fits=modality.can_draw_modality, fixed=True, by=modality.draw_modality),
}
