"""The charts of a report, as shapes: where each point and line is, in units of the drawing.

They are drawn by the template, in the page's own colours, so that light, dark and paper need one drawing.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprobe.reports.columns import DrawingRequest, read_cells, read_floats
from attnprobe.reports.pairs import compute_distances, find_pairs, scale_to_plane
from attnprobe.reports.pictures.channels import interpolate_colours
from attnprobe.reports.report_page.measures import Heads, Measure, format_number, is_number
from attnprobe.reports.scales import Scale
from attnprobe.reports.shapes import Comparison, lay_out_pruning
from attnprobe.reports.theme import SEQUENTIAL, THEMES, choose_ink
from attnprobe.table.cells import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.tasks import METRICS

FloatArray = NDArray[np.float64]
#: Steps of the colours of a heat map, and of the colours of layers.
STEPS = 32
#: Of a chart with axes, what their marks take at the left and below.
_MARGIN = 44
#: Of more heads, points say no layer: they lie on one another. And how wide a digit is there.
_MOST_NUMBERED, _DIGIT = 150, 5.4
#: Fewer heads than this have no map, nor have more: majorisation would take longer than measuring.
LEAST_ON_A_MAP, MOST_ON_A_MAP = 3, 1024


class Tick(NamedTuple):
    """A mark on an axis."""

    place: float
    label: str


class Point(NamedTuple):
    """A head in a drawing, by its number, with the step of its colour."""

    head: int
    x: float
    y: float
    step: int
    label: str


class Line(NamedTuple):
    """A line, and the band of its standard errors; the kind is a class of the style sheet."""

    kind: str
    path: str
    band: str = ""


class Chart(NamedTuple):
    """A drawing with axes, whose marks are ``x`` and ``y``."""

    width: int
    height: int
    label: str  # what it shows, for those who don't see it
    titles: tuple[str, str]  # of both axes; of a map, of the whole
    legend: Sequence[tuple[str, str]]  # what stands for what: a class of the style sheet, and words
    points: Sequence[Point] = ()
    lines: Sequence[Line] = ()
    x: Sequence[Tick] = ()
    y: Sequence[Tick] = ()
    notes: Sequence[str] = ()  # sentences below
    #: Digits on the points, each text with its colour, and with the places of its characters.
    digits: Sequence[tuple[str, str, str, str]] = ()


class Thumbnail(NamedTuple):
    """A small drawing of a chart, to be recognised and not to be read: paths, with no mark to choose."""

    box: str  # what of the drawing is seen: left, top, width, height
    paths: Sequence[tuple[str, str]]  # each with its classes of the style sheet, the last one on top


class _Axis(NamedTuple):
    """From numbers, ``low`` to ``high``, to places of a drawing, ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 2)

    def ticks(self, about: int = 5) -> list[Tick]:
        """Mark round numbers."""
        rough = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * one for one in (1, 2, 5, 10) if power * one >= rough * 0.999)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        values = [n * step for n in range(first, last + 1)]
        return [Tick(self.place(value), format_number(round(value, 12))) for value in values]


def _fit_axis(values: Iterable[float], start: float, end: float) -> _Axis:
    """Make an axis that holds some numbers, with some room around them."""
    known = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(known), max(known)
    room = 0.04 * ((high - low) or abs(high) or 1.0)
    return _Axis(low - room, high + room, start, end)


def find_step(value: float | None, scale: Scale) -> int | None:
    """Find the step of the colour of a number.

    >>> [find_step(value, Scale(-1, 1)) for value in (-1, 0, 1, None)]
    [0, 16, 31, None]
    """
    return None if value is None else min(STEPS - 1, int(scale.place(value) * STEPS))


def find_factor(high: float) -> float:
    """Find what the numbers in cells are multiplied by, so that those of a scale fit into three characters.

    >>> [find_factor(high) for high in (0.97, 0.1, 3.3, 0.043, 52000.0)]
    [1.0, 1.0, 1.0, 100.0, 0.01]
    """
    power = math.floor(math.log10(high)) if high > 0 else 0
    return 1.0 if -1 <= power <= 2 else 10.0 ** (2 - power if power > 2 else -power)


def format_cells(values: Iterable[float | None], factor: float) -> list[str]:
    """Write the numbers of cells, each in two digits or as few as there are.

    >>> format_cells([0.934, 0.0002, 1.0, 3.26, 12.4, -0.25, None], 1.0)
    ['.93', '0', '1', '3.3', '12', '\u2212.25', '']
    """
    return ["" if value is None else _format_cell(value * factor) for value in values]


def _format_cell(value: float) -> str:
    size = abs(value)
    text = f"{size:.0f}" if size >= 9.95 else f"{size:.1f}" if size >= 0.995 else f"{size:.2f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "\u2212" * (value < 0 and text != "0") + text.removeprefix("0" if len(text) > 1 else "")


def draw_strip(measure: Measure) -> str:
    """Draw a tick for each head, from 0 for the least to 100 for the largest number."""
    known = sorted({value for value in measure.values if value is not None})
    wide = (known[-1] - known[0]) or 1.0
    places = dict.fromkeys(round(100 * (value - known[0]) / wide, 1) for value in known)
    return "".join(f"M{place:g} 3v8" for place in places)


def shrink_grid(heads: Heads, styles: Sequence[str], chosen: int) -> Thumbnail:
    """Draw the grid of a head's kind of attention small, a frame around it, from the class of each head."""
    kind = heads.every[chosen][0]
    layers, numbers = heads.grids[kind]
    cells: dict[str, list[str]] = {}
    frame = ""
    for place, (one, layer, head) in enumerate(heads.every):
        if one == kind:
            x, y = 10 * numbers.index(head), 10 * layers.index(layer)
            cells.setdefault(styles[place] or "none", []).append(f"M{x} {y}h9v9h-9z")
            frame = f"M{x} {y}h9v9h-9z" if place == chosen else frame
    paths = [(style, "".join(drawn)) for style, drawn in cells.items()]
    return Thumbnail(f"-2 -2 {10 * len(numbers) + 3} {10 * len(layers) + 3}", [*paths, ("chosen", frame)])


def shrink_chart(chart: Chart, chosen: Collection[int] = ()) -> Thumbnail:
    """Draw a chart small: its lines with their bands, its points as dots; some heads stand out."""
    paths = [("band", line.band) for line in chart.lines if line.band]
    paths += [(f"line {line.kind}", line.path) for line in chart.lines]
    for style, ours in (("dots", False), ("dots chosen", True)):
        marks = [f"M{p.x:g} {p.y:g}h0" for p in chart.points if (p.head in chosen) is ours]
        paths += [(style, "".join(marks))] if marks else []
    left, top, below = (_MARGIN, 0, _MARGIN) if chart.x else (0, 0, 0)
    return Thumbnail(f"{left} {top} {chart.width - left} {chart.height - below}", paths)


def draw_head_maps(heads: Heads, table: HeadTable) -> list[Chart]:
    """Draw a map for each kind of attention, on which heads that attend alike lie together."""
    pairs = find_pairs(table)
    if pairs is None:
        return []
    found = []
    for kind in pairs.maps:
        rows = pairs.rows(kind)
        named = {side[row] for side in (pairs.one, pairs.other) for row in rows}
        layers = sorted({layer for layer, _ in named if isinstance(layer, int)})
        if not LEAST_ON_A_MAP <= len(named) <= MOST_ON_A_MAP or not layers:
            continue
        attention = str(table.data["attention"][rows[0]]) if "attention" in table.data else ""
        laid = compute_distances(table, rows, pairs, DrawingRequest(THEMES["light"], 760))
        flat = scale_to_plane(laid.matrix)
        middle = (flat.points.max(0) + flat.points.min(0)) / 2
        reach = float(np.ptp(flat.points, axis=0).max()) / 2 * 1.08 or 1.0
        size, points = 520, []
        numbers = [heads.find((attention, layer, head)) for layer, head in laid.heads]  # type: ignore[arg-type]
        nearest = laid.find_nearest()
        for place, (number, point) in enumerate(zip(numbers, flat.points, strict=True)):
            if number is not None:
                x, y = np.round((1 + (point - middle) / reach) * size / 2, 1).tolist()
                step = _find_layer_step(layers, heads.every[number][1])
                other, distance = numbers[nearest[place]], laid.matrix[place, nearest[place]]
                label = _say_nearest(heads, number, other, distance)
                points.append(Point(number, x, round(size - y, 1), step, label))
        label = f"Map of {len(points)} heads: the nearer two heads, the more similar their attention."
        notes = [
            "A flat map shows these distances only roughly: Kruskal's stress-1 is "
            f"{format_number(flat.stress, 2)}, where 0 is perfect and 0.2 is poor."
        ]
        if laid.left_out:
            notes.append(f"{len(laid.left_out)} heads without a distance to some other are left out.")
        legend = _label_layers(layers)
        digits = _write_layers(heads, points) if len(points) <= _MOST_NUMBERED else []
        found.append(Chart(size, size, label, (kind, ""), legend, points, notes=notes, digits=digits))
    return found


def _write_layers(heads: Heads, points: Sequence[Point]) -> list[tuple[str, str, str, str]]:
    """Write the layer of each head on its point, in black or white: ink, x and y of each digit, digits."""
    colours = interpolate_colours(SEQUENTIAL, STEPS)
    inks: dict[str, list[tuple[float, float, str]]] = {}
    for point in points:
        name = str(heads.every[point.head][1])
        for place, digit in enumerate(name):
            x = round(point.x + _DIGIT * (place - (len(name) - 1) / 2), 1)
            inks.setdefault(choose_ink(colours[point.step]), []).append((x, round(point.y + 3.5, 1), digit))
    return [
        (ink, " ".join(f"{x:g}" for x, _, _ in some), " ".join(f"{y:g}" for _, y, _ in some),
         "".join(digit for _, _, digit in some))
        for ink, some in inks.items()
    ]  # fmt: skip


def _say_nearest(heads: Heads, number: int, other: int | None, distance: float) -> str:
    """Name a head, the head that attends most like it, and the distance of both."""
    if other is None:
        return heads.name(number)
    return f"{heads.name(number)}: nearest to {heads.name(other)}, distance {format_number(distance)}"


def draw_curve(table: HeadTable) -> Chart | None:
    """Draw the score while heads are removed: in the criterion's order, and in random ones.

    None for a table whose rows are no steps of such orders.
    """
    found = lay_out_pruning(table)
    if not found:
        return None
    # The criteria of a table have the random orders in common.
    main, orders = found[0], found[0].random.T
    curves = [("random", main.share, scores, np.full(len(scores), np.nan)) for scores in orders]
    curves += [("criterion", one.share, one.score, one.error) for one in found if one.criterion is not None]
    across = _Axis(0, 1, 52, 600)
    every = [score + sign * np.nan_to_num(error) for _, _, score, error in curves for sign in (1, -1)]
    worst = _find_worst(table, main)
    every += [] if worst is None else [worst]
    up = _fit_axis(np.concatenate(every).tolist(), 300, 14)
    lines = []
    for kind, share, score, error in curves:
        there = np.isfinite(share) & np.isfinite(score)
        below, middle, above = (
            [(across.place(x), up.place(y)) for x, y in zip(share[there], ends[there], strict=True)]
            for ends in (score + sign * np.nan_to_num(error) for sign in (-1, 0, 1))
        )
        band = f"{_write_path([*above, *reversed(below)])}z" if np.isfinite(error[there]).all() else ""
        lines.append(Line(kind, _write_path(middle), band))
    if worst is not None:
        there = np.isfinite(worst) & np.isfinite(main.share)
        ends = zip(main.share[there], worst[there], strict=True)
        lines.append(Line("bound", _write_path([(across.place(x), up.place(y)) for x, y in ends])))
    metric = clean(str(read_cells(table, "metric")[0] or "score"))
    band = ", with its standard error" if any(line.band for line in lines) else ""
    legend = [("criterion", f"by {clean(main.criterion)}{band}")] if main.criterion is not None else []
    if number := len(orders):
        legend.append(("random", "one random order" if number == 1 else f"{number} random orders"))
    if worst is not None:
        legend.append(("bound", f"the worst {metric} that these examples leave possible (95 %)"))
    ticks = [Tick(across.place(n / 5), f"{n * 20} %") for n in range(6)]
    order = "in random order" if main.criterion is None else "the least important first"
    end = ", until none is left" if any((share >= 1).any() for _, share, _, _ in curves) else ""
    label = f"The {metric} while heads are removed, {order}{end}."
    titles = ("heads removed", ", ".join(filter(None, (metric, clean(main.unit)))))
    return Chart(620, 340, label, titles, legend, (), lines, ticks, up.ticks())


def _find_worst(table: HeadTable, curve: Comparison) -> FloatArray | None:
    """Give the score of each step less the bound of what it loses; None where the table has no bound."""
    bounds, whole = read_floats(table, "bound"), curve.score[curve.heads == 0]
    spec = METRICS.get(str(read_cells(table, "metric")[0]))
    if bounds is None or not len(whole) or spec is None:
        return None
    rows = zip(read_cells(table, "criterion"), read_cells(table, "step"), bounds, strict=True)
    by_step = {step: bound for criterion, step, bound in rows if criterion == curve.criterion}
    lost = np.array([by_step.get(step, np.nan) for step in curve.steps])
    return whole[0] - lost if spec.higher_is_better else whole[0] + lost


def draw_scatter(heads: Heads, table: HeadTable, measures: Sequence[Measure]) -> Chart | None:
    """Draw each head by what it matters on one dataset and on another; a measure of its name has its unit."""
    sides = (name.removesuffix("_in") for name in table.data if name.endswith("_in"))
    column = next((name for name in sides if name != "rank"), None)
    if column is None or f"{column}_out" not in table.data:
        return None
    inside, outside = (heads.sort_cells(table, f"{column}_{side}") for side in ("in", "out"))
    both = [
        (place, float(one), float(other))
        for place, (one, other) in enumerate(zip(inside, outside, strict=True))
        if is_number(one) and is_number(other)
    ]
    if not both:
        return None
    every = [value for _, *pair in both for value in pair]
    x, y = _fit_axis(every, 62, 500), _fit_axis(every, 446, 8)
    points = []
    for place, one, other in both:
        label = f"{heads.name(place)}: {format_number(one)} in domain, {format_number(other)} out of domain"
        step = _find_layer_step(heads.layers, heads.every[place][1])
        points.append(Point(place, x.place(one), y.place(other), step, label))
    line = Line("random", _write_path([(x.place(x.low), y.place(x.low)), (x.place(x.high), y.place(x.high))]))
    words = clean(column.replace("_", " "))
    label = f"{words} of {len(points)} heads on both datasets; on the line, both are the same."
    units = {one.column.name: one.column.unit for one in measures}
    unit = clean(table.column(f"{column}_in").unit or units.get(column, ""))
    unit = f" ({unit})" if unit else ""
    titles = f"{words}, in domain{unit}", f"{words}, out of domain{unit}"
    return Chart(510, 490, label, titles, _label_layers(heads.layers), points, [line], x.ticks(), y.ticks())


def _find_layer_step(layers: Sequence[int], layer: int) -> int:
    return round(layers.index(layer) / max(1, len(layers) - 1) * (STEPS - 1))


def _label_layers(layers: Sequence[int]) -> list[tuple[str, str]]:
    return [("low", f"layer {layers[0]}"), ("high", f"layer {layers[-1]}")]


def _write_path(points: Iterable[tuple[float, float]]) -> str:
    return "".join(f"{'L' if number else 'M'}{x:g} {y:g}" for number, (x, y) in enumerate(points))
