"""The charts of a report, as shapes: where each point and line is, in units of the drawing.

They are drawn by the template, in the page's own colours, so that light, dark and paper need one drawing.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from attnprobe.reports.columns import DrawingRequest
from attnprobe.reports.dossier.figures import shown, with_error
from attnprobe.reports.dossier.heads import Heads, Measure
from attnprobe.reports.pictures.pairs import distances, pairs_of, scale_to_plane
from attnprobe.reports.scales import Scale
from attnprobe.reports.theme import THEMES
from attnprobe.table.cleaning import clean
from attnprobe.table.head_table import HeadTable

#: Steps of the colours of a heat map, and of the colours of layers.
STEPS = 32
#: Fewer heads than this have no map, nor have more: majorisation would take longer than measuring.
LEAST_ON_A_MAP, MOST_ON_A_MAP = 3, 1024


@dataclass(frozen=True)
class Tick:
    """A mark on an axis."""

    at: float
    said: str


@dataclass(frozen=True)
class Axis:
    """From numbers to places of a drawing.

    Attributes:
        low: The number at ``start``.
        high: The number at ``end``.
        start: Where the axis begins.
        end: Where it ends.
    """

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def over(cls, values: Iterable[float], start: float, end: float, room: float = 0.04) -> "Axis":
        """Make an axis that holds some numbers, with some room around them."""
        known = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(known), max(known)
        wide = (high - low) or abs(high) or 1.0
        return cls(low - room * wide, high + room * wide, start, end)

    def __call__(self, value: float) -> float:
        """Give the place of a number."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 2)

    def ticks(self, about: int = 5) -> list[Tick]:
        """Mark round numbers."""
        rough = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * one for one in (1, 2, 5, 10) if power * one >= rough * 0.999)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [Tick(self(n * step), shown(round(n * step, 12))) for n in range(first, last + 1)]


@dataclass(frozen=True)
class Point:
    """A head in a drawing."""

    head: int
    x: float
    y: float
    step: int
    said: str


@dataclass(frozen=True)
class _Step:
    """A step of a pruning curve."""

    share: float
    score: float
    error: float | None


@dataclass(frozen=True)
class Line:
    """A line, and the band of its standard errors."""

    kind: str
    path: str
    band: str = ""


@dataclass(frozen=True)
class Chart:
    """A drawing with axes.

    Attributes:
        width: Of the drawing.
        height: Of the drawing.
        said: What it shows, for those who don't see it.
        points: Heads.
        lines: Lines.
        x: Marks of the horizontal axis.
        y: Marks of the vertical axis.
        titles: Of both axes.
        legend: What stands for what: a class of the style sheet, and words.
    """

    width: int
    height: int
    said: str
    points: Sequence[Point] = ()
    lines: Sequence[Line] = ()
    x: Sequence[Tick] = ()
    y: Sequence[Tick] = ()
    titles: tuple[str, str] = ("", "")
    legend: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = field(default_factory=tuple)


def step_of(value: float | None, scale: Scale) -> int | None:
    """Give the step of the colour of a number.

    >>> [step_of(value, Scale(-1, 1)) for value in (-1, 0, 1, None)]
    [0, 16, 31, None]
    """
    return None if value is None else min(STEPS - 1, int(scale.place(value) * STEPS))


def strip(measure: Measure) -> str:
    """Draw a tick for each head, from 0 for the least to 100 for the largest number."""
    known = sorted({value for value in measure.values if value is not None})
    wide = (known[-1] - known[0]) or 1.0
    places = dict.fromkeys(round(100 * (value - known[0]) / wide, 1) for value in known)
    return "".join(f"M{place:g} 3v8" for place in places)


def maps_of_heads(heads: Heads, table: HeadTable) -> list[Chart]:
    """Lay heads out so that those which attend alike lie together, for each kind of attention."""
    pairs = pairs_of(table)
    if pairs is None:
        return []
    found = []
    for kind in pairs.maps:
        rows = [row for row, of in enumerate(pairs.of) if of == kind]
        named = {side[row] for side in (pairs.one, pairs.other) for row in rows}
        attention = (
            next((str(table.data["attention"][row]) for row in rows), "") if "attention" in table.data else ""
        )
        layers = sorted({layer for layer, _ in named if isinstance(layer, int)})
        if not LEAST_ON_A_MAP <= len(named) <= MOST_ON_A_MAP or not layers:
            continue
        laid = distances(table, rows, pairs, DrawingRequest(THEMES["light"], 760))
        flat = scale_to_plane(laid.matrix)
        middle = (flat.points.max(0) + flat.points.min(0)) / 2
        reach = float(np.ptp(flat.points, axis=0).max()) / 2 * 1.08 or 1.0
        size = 520
        points = []
        for (layer, head), (x, y) in zip(laid.heads, flat.points, strict=True):
            place = heads.place((attention, layer, head))  # type: ignore[arg-type]
            if place is not None:
                at = np.round((1 + (np.array([x, y]) - middle) / reach) * size / 2, 1)
                step = round(layers.index(layer) / max(1, len(layers) - 1) * (STEPS - 1))  # type: ignore[arg-type]
                points.append(
                    Point(place, float(at[0]), round(float(size - at[1]), 1), step, heads.name(place))
                )
        said = f"Map of {len(points)} heads: the nearer two heads, the more similar their attention."
        stress = (
            "A flat map shows these distances only roughly: Kruskal's stress-1 is "
            f"{shown(flat.stress, 2)}, where 0 is perfect and 0.2 is poor."
        )
        left = (
            [f"{len(laid.left_out)} heads without a distance to some other are left out."]
            if laid.left_out
            else []
        )
        legend = [("low", f"layer {layers[0]}"), ("high", f"layer {layers[-1]}")]
        found.append(
            Chart(
                size,
                size,
                said,
                points,
                titles=(kind, ""),
                legend=legend,
                notes=[stress, *(left if laid.left_out else [])],
            )
        )
    return found


def curve(table: HeadTable) -> Chart:
    """Draw the score while heads are removed: in the criterion's order, and in random ones."""
    rows = [
        {name: cell if isinstance(cell, str) or _is_number(cell) else None for name, cell in named}
        for named in (zip(table.data, row, strict=True) for row in table.rows())
    ]
    orders: dict[tuple[str, object], list[_Step]] = {}
    for row in rows:
        if row["score"] is not None and row["share_removed"] is not None:
            error = row.get("score_se") if row["criterion"] != "random" else None
            spread = None if error is None else _float(error)
            step = _Step(_float(row["share_removed"]), _float(row["score"]), spread)
            orders.setdefault((str(row["criterion"]), row.get("seed")), []).append(step)
    every = [step for steps in orders.values() for step in steps]
    share = Axis(0, 1, 52, 600)
    reach = [step.score + sign * (step.error or 0.0) for step in every for sign in (1, -1)]
    score = Axis.over(reach, 300, 14)
    lines = []
    for (criterion, _), steps in sorted(orders.items(), key=lambda one: one[0][0] != "random"):
        band = ""
        if all(step.error is not None for step in steps):
            above, below = (
                [(share(step.share), score(step.score + sign * (step.error or 0.0))) for step in steps]
                for sign in (1, -1)
            )
            band = f"{_path([*above, *reversed(below)])}z"
        kind = "random" if criterion == "random" else "criterion"
        lines.append(Line(kind, _path((share(step.share), score(step.score)) for step in steps), band))
    main = next((criterion for criterion, _ in orders if criterion != "random"), "random")
    metric = clean(str(rows[0].get("metric") or "score"))
    band = ", with its standard error" if any(line.band for line in lines) else ""
    legend = [("criterion", f"by {clean(main)}{band}")] if main != "random" else []
    number = sum(criterion == "random" for criterion, _ in orders)
    legend += [("random", "one random order" if number == 1 else f"{number} random orders")] if number else []
    ticks = [Tick(share(n / 5), f"{n * 20} %") for n in range(6)]
    order = "in random order" if main == "random" else "the least important first"
    last = max((step.share for step in every), default=0.0)
    end = ", until none is left" if last >= 1 else ""
    said = f"The {metric} while heads are removed, {order}{end}."
    titles = ("heads removed", metric)
    return Chart(620, 340, said, lines=lines, x=ticks, y=score.ticks(), titles=titles, legend=legend)


def scatter(heads: Heads, table: HeadTable) -> Chart | None:
    """Draw each head by what it matters on one dataset and on another."""
    sides = (name.removesuffix("_in") for name in table.data if name.endswith("_in"))
    column = next((name for name in sides if name != "rank"), None)
    if column is None or f"{column}_out" not in table.data:
        return None
    inside, outside = (heads.in_order(table, f"{column}_{side}") for side in ("in", "out"))
    both = [
        (place, _float(one), _float(other))
        for place, (one, other) in enumerate(zip(inside, outside, strict=True))
        if _is_number(one) and _is_number(other)
    ]
    if not both:
        return None
    every = [value for _, *pair in both for value in pair]
    x, y = Axis.over(every, 62, 500), Axis.over(every, 446, 8)
    layers = sorted({layer for _, layer, _ in heads.every})
    points = [
        Point(
            place, x(one), y(other),
            round(layers.index(heads.every[place][1]) / max(1, len(layers) - 1) * (STEPS - 1)),
            f"{heads.name(place)}: {shown(one)} in domain, {shown(other)} out of domain",
        )
        for place, one, other in both
    ]  # fmt: skip
    line = Line("random", _path([(x(x.low), y(x.low)), (x(x.high), y(x.high))]))
    words = clean(column.replace("_", " "))
    said = f"{words} of {len(points)} heads on both datasets; on the line, both are the same."
    legend = [("low", f"layer {layers[0]}"), ("high", f"layer {layers[-1]}")]
    titles = (f"{words}, in domain", f"{words}, out of domain")
    return Chart(510, 490, said, points, [line], x.ticks(), y.ticks(), titles, legend)


def said_of(heads: Heads, measure: Measure, place: int) -> str:
    """Say the number of a head, as a cell of a heat map does."""
    return f"{heads.name(place)}: {with_error(measure.values[place], measure.errors[place])}"


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "".join(f"{'L' if number else 'M'}{x:g} {y:g}" for number, (x, y) in enumerate(points))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _float(value: object) -> float:
    return float(value)  # type: ignore[arg-type]
