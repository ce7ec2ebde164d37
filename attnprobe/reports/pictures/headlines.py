"""What a picture as a whole shows, by its kind; ``reports.headline`` words measures of heads."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from attnprobe.intervention.pruning.headline import describe_bound
from attnprobe.reports.columns import (
    DrawingRequest,
    label_by_others,
    label_rows,
    list_keys,
    name_measure,
    read_cells,
    read_numbers,
)
from attnprobe.reports.groups import (
    Compared,
    lay_out_groups,
    list_compared,
    list_groups,
    name_rows,
    sort_by_difference,
)
from attnprobe.reports.headline import (
    capitalise,
    find_significant,
    name_unit,
    state_measure,
    write_number,
)
from attnprobe.reports.pairs import cluster_parts, name_head, name_head_of
from attnprobe.reports.pictures.changes import list_changes, state_change
from attnprobe.reports.pictures.definitions import state_trend
from attnprobe.reports.pictures.gains import state_relations
from attnprobe.reports.pictures.modality import state_modality
from attnprobe.reports.pictures.positions import DIRECTIONS, read_gap
from attnprobe.reports.pictures.probes import state_probes
from attnprobe.reports.pictures.scatter import choose_axes
from attnprobe.reports.pictures.settling import state_settling
from attnprobe.reports.pictures.shares import state_shares
from attnprobe.reports.pictures.similarity import state_map
from attnprobe.reports.pictures.training import state_lines
from attnprobe.reports.scales import BEYOND
from attnprobe.reports.shapes import RANDOM, SCORE, name_pairs
from attnprobe.sums.resampling import SIGNIFICANT, half_width
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.documents import count_documents
from attnprobe.table.head_table import HeadTable
from attnprobe.table.kinds import CLUSTERMAP, IN, OUT, TREE, PictureKind
from attnprobe.table.naming import MIXED, find_role_kind, join_names
from attnprobe.table.table import Column
from attnprobe.tasks import METRICS

#: Of so few heads, a correlation has no interval.
_FEWEST = 3
_Stating = Callable[[HeadTable, Sequence[Column]], str]


def state_picture(kind: PictureKind, table: HeadTable, request: DrawingRequest) -> str:
    """State what a picture shows; empty where the table does not bear anything out."""
    other = kind in _OWN and request.measures and tuple(request.measures) != (SCORE,)
    if kind in {TREE, CLUSTERMAP}:
        return "" if other else capitalise(_state_clusters(table, request))
    state = _STATING.get(kind)
    return "" if state is None or other else capitalise(state(table, list_drawn(kind, table, request)))


def state_each(kind: PictureKind, table: HeadTable, request: DrawingRequest) -> list[str]:
    """State what each map of a picture shows, those of which nothing is said left out."""
    drawn = list_drawn(kind, table, request) if kind in _OF_MAPS else []
    return [capitalise(said) for column in drawn if (said := state_measure(table, column))]


def list_drawn(kind: PictureKind, table: HeadTable, request: DrawingRequest) -> list[Column]:
    """List the measures that a picture is about; of kinds with columns of their own, none."""
    if kind in _OWN or (kind == "groups" and not request.measures):
        return []
    if kind == "scatter":
        return list(choose_axes(table, request))
    return list_changes(table, request) if kind == "change" else request.columns(table)


def _state_one(table: HeadTable, columns: Sequence[Column]) -> str:
    """State what a single measure shows: of several, each has its own title."""
    return state_measure(table, columns[0]) if len(columns) == 1 else ""


def _read_floats(table: HeadTable, name: str) -> np.ndarray:
    return np.array([np.nan if one is None else one for one in read_numbers(table, name)], float)


def _state_curves(table: HeadTable, columns: Sequence[Column]) -> str:
    """State where an order differs most from random ones, or where the score first falls, or how far at most.

    The first of these that holds, at a step between no head and all heads removed: at the ends, all orders
    are the same. The p values of an order are adjusted for its steps; of several orders, for these, too. How
    far at most is said of the step nearest to half of the heads, which does not depend on the scores; and
    only where that is less than the score of the model without heads is away.
    """
    criteria = [format_cell(one) for one in read_cells(table, "criterion")]
    own = [row for row, one in enumerate(criteria) if one != RANDOM]
    hidden = {"seed", "step", "share_removed", "criterion"}
    others = [name for name in list_keys(table) if name not in hidden]
    alike = all(len({read_cells(table, name)[row] for row in own}) == 1 for name in others)
    if not own or not alike or table.kind != "pruning" or "delta" not in table.data:
        return ""
    shares = [share or 0.0 for share in read_numbers(table, "share_removed")]
    inner = sorted((row for row in own if 0 < shares[row] < 1), key=lambda row: shares[row])
    orders = len({criteria[row] for row in own})
    metric = format_cell(read_cells(table, "metric")[own[0]]).replace("_", " ")

    def say_step(row: int) -> str:
        name = criteria[row].replace("_", " ")
        return f"{100 * shares[row]:.3g} % of heads removed, least important ({name}) first: {metric}"

    def say_change(row: int) -> str:
        """Say what the score is with all heads, and at a step."""
        score, change = (read_numbers(table, name)[row] or 0.0 for name in (SCORE, "delta"))
        return f"{write_number(score - change)} \u2192 {write_number(score)}"

    def find_differing(delta: str, p: str) -> list[tuple[int, float]]:
        sizes, chances = read_numbers(table, delta), read_numbers(table, p)
        return [
            (row, size)
            for row in inner
            if (size := sizes[row]) and (chance := chances[row]) is not None and chance * orders < SIGNIFICANT
        ]

    if beyond := find_differing("delta_random", "p_random_adjusted"):
        row, size = max(beyond, key=lambda one: abs(one[1]))
        side = "above" if size > 0 else "below"
        return f"{say_step(row)} {write_number(abs(size))} {side} the mean of random orders"
    if orders > 1:
        return ""
    if changed := find_differing("delta", "p_adjusted"):
        row = changed[0][0]
        return f"{say_step(row)} {say_change(row)}, the first significant change"
    end = max(own, key=lambda row: shares[row])
    half = min(inner, key=lambda row: abs(shares[row] - 0.5), default=end)
    bound, loss = read_numbers(table, "bound")[half], read_numbers(table, "delta")[end]
    if half == end or bound is None or loss is None or not 0 < bound < abs(loss):
        return ""
    spec = METRICS.get(format_cell(read_cells(table, "metric")[end]))
    size = describe_bound(bound, higher_is_better=loss < 0 if spec is None else spec.higher_is_better)
    return f"{say_step(half)} {say_change(half)}, {size} (one-sided 95 %)"


def _state_intervals(table: HeadTable, columns: Sequence[Column]) -> str:
    if table.kind != "correlations" or len(table) != 1:
        return ""
    value, low, high = (read_numbers(table, f"pearson{end}")[0] for end in ("", "_low", "_high"))
    if value is None or low is None or high is None or low <= 0 <= high:
        return ""
    said = "the same heads have high numbers" if low > 0 else "heads with high numbers have low ones"
    return (
        f"{said} on both sides: Pearson {write_number(value)} ({write_number(low)} to {write_number(high)})"
    )


def _state_scatter(table: HeadTable, columns: Sequence[Column]) -> str:
    """State how many heads have other numbers on the other side, where both axes are the same measure.

    Without errors of heads, that is how well both sides correlate over heads, and which head differs most.
    """
    if len(columns) != 2 or "head" not in table.data:
        return ""
    one, other = columns
    if not (one.name.endswith(IN) and other.name == f"{one.name.removesuffix(IN)}{OUT}"):
        return ""
    title = clean(one.name.removesuffix(IN)).replace("_", " ")
    x, x_error, y, y_error = (
        _read_floats(table, name) for column in columns for name in (column.name, f"{column.name}_se")
    )
    apart, error = np.abs(x - y), np.hypot(x_error, y_error)
    known = np.flatnonzero(np.isfinite(apart) & np.isfinite(error))
    documents = count_documents(table, one.name)
    some = known[apart[known] > half_width(error[known], documents[known])]

    def say(row: int, verb: str) -> str:
        name = name_head_of(table, row)
        return f"{name}{verb}: {write_number(x[row])} and {write_number(y[row])}"

    if len(some):
        row = int(some[np.argmax(apart[some])])
        if len(some) == 1:
            return f"{title} of {say(row, ' differs')}"
        return f"{title} of {len(some)} of {len(known)} heads differs, such as {say(row, '')}"
    both = np.flatnonzero(np.isfinite(apart))
    others = {read_cells(table, "model_out")[row] for row in both}
    found = correlate_pairs(x[both], y[both]) if not len(known) and len(others) == 1 else None
    if found is None:
        return ""
    row = int(both[np.argmax(apart[both])])
    sides = [clean(format_cell(read_cells(table, name)[row])) for name in ("model", "model_out")]
    where = [f" in {side}" for side in sides] if len(set(sides)) > 1 else ["", ""]
    if not sides[1]:
        where = [" in domain", " out of domain"]
    numbers = [f"{write_number(side[row])}{end}" for side, end in zip((x, y), where, strict=True)]
    name = name_head_of(table, row)
    return f"{title} of the same heads correlates: Pearson {found}; {name} differs most: {', '.join(numbers)}"


def correlate_pairs(x: np.ndarray, y: np.ndarray) -> str | None:
    """Correlate two sides, and write Pearson's r with its 95 % interval (Fisher); None where that has 0."""
    if len(x) <= _FEWEST or not np.ptp(x) or not np.ptp(y):
        return None
    r = float(np.clip(np.corrcoef(x, y)[0, 1], -1, 1))
    if abs(r) == 1:
        return None
    z, half = np.arctanh(r), BEYOND / np.sqrt(len(x) - 3)
    low, high = np.tanh([z - half, z + half])
    return (
        None if low <= 0 <= high else f"{write_number(r)} (95 %: {write_number(low)} to {write_number(high)})"
    )


def _state_pairs(table: HeadTable, columns: Sequence[Column]) -> str:
    values, names = read_numbers(table, "interaction"), name_pairs(table, name_head)
    p = read_numbers(table, "p_adjusted")
    some = [row for row, one in enumerate(p) if one is not None and one < SIGNIFICANT and values[row]]
    if not some:
        return ""
    row = max(some, key=lambda row: abs(values[row] or 0.0))
    above = (values[row] or 0.0) > 0
    own = [one for one in some if ((values[one] or 0.0) > 0) is above]
    does = "stand in for each other" if above else "do less without each other"
    size = f"{write_number(values[row] or 0.0)}{name_unit(table.column('interaction'))}"
    if len(own) == 1:
        return f"{names[row]} {does}: {size}"
    return f"{len(own)} of {len(table)} pairs {does}, such as {names[row]}: {size}"


def _state_clusters(table: HeadTable, request: DrawingRequest) -> str:
    """State into how many clusters the cut parts the heads, and how large the largest is."""
    parts = list(cluster_parts(table, request))
    sizes = [*parts[0][1].sizes.values()] if len(parts) == 1 else []
    if not sizes:
        return ""
    said = f"{sum(sizes)} of {len(parts[0][1].found.heads)} heads form"
    if len(sizes) == 1:
        return f"{said} one cluster"
    return f"{said} {len(sizes)} clusters, the largest of {max(sizes)}"


def _state_atlas(table: HeadTable, columns: Sequence[Column]) -> str:
    """State which heads look at a neighbour, or else what roles there are; without roles, nothing."""
    if "role" not in table.data:
        return ""
    roles = [format_cell(cell) for cell in read_cells(table, "role")]
    values = read_numbers(table, "value")
    some = [
        (-size, row) for row, (role, size) in enumerate(zip(roles, values, strict=True))
        if role in {"previous", "next"} and size is not None
    ]  # fmt: skip
    named = [f"{name_head_of(table, row)} {roles[row]} {write_number(-size)}" for size, row in sorted(some)]
    others = [name for name in list_keys(table) if name not in {"layer", "head"}]
    if not named or any(label_rows(table, others)):
        return _state_roles(table, columns)
    said = f"{len(named)} of {len(table)} heads {'look' if len(named) > 1 else 'looks'} at a neighbour"
    return f"{said}: {', '.join(named)}" if len(named) <= 2 else f"{said}, such as {named[0]}"


def _state_groups(table: HeadTable, columns: Sequence[Column]) -> str:
    tested = [column for column in list_compared(table) if not columns or column in columns]
    if len(tested) != 1:
        return ""
    rows = sort_by_difference(lay_out_groups(table, tested[0].name, name_head))
    some = [one for one in rows if one.p < SIGNIFICANT]
    if not some:
        return ""
    title, sizes = name_measure(tested[0]), _state_ends(table, tested[0], some[0])
    if len(some) == 1:
        return f"groups differ in {title} in {some[0].label}{sizes}"
    what = name_rows(table)
    return f"groups differ in {title} in {len(some)} of {len(rows)} {what}, such as {some[0].label}{sizes}"


def _state_ends(table: HeadTable, column: Column, one: Compared) -> str:
    """State the highest and the lowest group of a row with their numbers: ": 1.9 in a, 1.6 in b"."""
    values = read_numbers(table, column.name)
    pairs = zip(list_groups(table), one.rows, strict=True)
    known = [(value, name) for name, row in pairs if row is not None and (value := values[row]) is not None]
    if len(known) < 2:
        return ""
    (high, first), (low, last) = max(known), min(known)
    numbers = [write_number(value) for value in (high, low)]
    if numbers[0] == numbers[1]:
        numbers = [f"{value:.4g}" for value in (high, low)]
    least = "" if len(known) == 2 else "lowest, "
    return f": {numbers[0]}{name_unit(column)} in {clean(first)}, {least}{numbers[1]} in {clean(last)}"


def _state_positions(table: HeadTable, columns: Sequence[Column]) -> str:
    if len(columns) != 1:
        return ""
    values = read_numbers(table, columns[0].name)
    some = find_significant(table, columns[0])
    if not some:
        return ""
    row = max(some, key=lambda row: abs(values[row] or 0.0))
    who = name_head_of(table, row)
    token = read_cells(table, "token")[row]
    where = f"at position {read_cells(table, 'position')[row]}" + (f" ({clean(str(token))})" if token else "")
    value = values[row] or 0.0
    size = write_number(value)
    if way := DIRECTIONS.get(columns[0].name):
        size = f"{write_number(abs(value))} {way[value > 0]}{_compare_with_gap(table, value)}"
    title = name_measure(columns[0])
    if len(some) == 1:
        return f"{title} of {who} {where}: {size}"
    return f"{title} is significant in {len(some)} of {len(table)} cells, such as {who} {where}: {size}"


def _compare_with_gap(table: HeadTable, effect: float) -> str:
    """Say which share of the gap between clean and corrupted texts an effect is, where that is on record."""
    gap = read_gap(table)
    return "" if gap is None else f", {100 * abs(effect / gap):.0f} % of the gap"


def _state_checks(table: HeadTable, columns: Sequence[Column]) -> str:
    """State which checks failed, or else which have a warning, or that all passed."""
    names, statuses = (
        [format_cell(cell) for cell in read_cells(table, name)] for name in ("check", "status")
    )
    for status, verb in (("failed", "failed"), ("warning", "warned")):
        some = list(dict.fromkeys(name for name, one in zip(names, statuses, strict=True) if one == status))
        if some:
            return f"{len(some)} of {len(table)} checks {verb}: {clean(join_names(some, 3))}"
    return f"all {len(table)} checks passed" if set(statuses) == {"ok"} else ""


def _state_roles(table: HeadTable, columns: Sequence[Column]) -> str:
    """State how many heads have a role; roles are given where intervals lie beyond thresholds."""
    kinds = Counter(find_role_kind(format_cell(cell)) for cell in read_cells(table, "role"))
    number = len(table) - kinds.pop(MIXED, 0)
    if not number:
        return ""
    (first, most), *others = kinds.most_common(2)
    said = f"{number} of {len(table)} heads {'has' if number == 1 else 'have'} a role"
    if others and others[0][1] == most:
        return said
    return f"{said}, most often {first} ({most})"


def _state_depth(table: HeadTable, columns: Sequence[Column]) -> str:
    """State which layer has the highest number and which the lowest, if its interval is beyond all others.

    Of heads, it is their mean; its error is the mean of theirs, enough however they depend on each other.
    """
    if len(columns) > 1:
        return state_trend(table, columns)
    of_heads = "head" in table.data
    if len(columns) != 1 or any(label_by_others(table, {"layer", "head"})):
        return ""
    layers = np.array([format_cell(cell) for cell in read_cells(table, "layer")])
    names = list(dict.fromkeys(layers.tolist()))
    numbers = (_read_floats(table, f"{columns[0].name}{end}") for end in ("", "_se"))
    values, errors = (np.array([one[layers == name].mean() for name in names]) for one in numbers)
    if len(names) < 2 or not np.isfinite(values).all() or not np.isfinite(errors).all():
        return ""
    documents = count_documents(table, columns[0].name)
    half = half_width(errors, [documents[layers == name].min() for name in names])
    title, unit = name_measure(columns[0]), name_unit(columns[0])
    said = []
    for side, sign in (("highest", 1), ("lowest", -1)):
        first = int((sign * values).argmax())
        if (sign * values[first] - half[first] > sign * values + half).sum() == len(names) - 1:
            said.append((side, names[first], f"{write_number(float(values[first]))}{unit}"))
    if not said:
        return ""
    (side, layer, number), *rest = said
    mean = "mean " if of_heads else ""
    also = f", layer {rest[0][1]} the {rest[0][0]}: {rest[0][2]}" if rest else ""
    return f"layer {layer} has the {side} {mean}{title}: {number}{also}"


#: Kinds with a title for each measure; and those that draw columns of their own.
_OF_MAPS = {"heatmap", "change"}
_OWN = {
    "roles", "relations", "intervals", "pairs", "shares", "checks", "probes", "settling", "curves", "matrix",
    "map", TREE, CLUSTERMAP, "atlas", "modality",
}  # fmt: skip
_STATING: Mapping[str, _Stating] = {
    "heatmap": _state_one, "change": state_change, "relations": state_relations, "probes": state_probes,
    "curves": _state_curves, "intervals": _state_intervals, "settling": state_settling,
    "scatter": _state_scatter, "lines": state_lines, "pairs": _state_pairs, "groups": _state_groups,
    "positions": _state_positions, "shares": state_shares, "checks": _state_checks, "roles": _state_roles,
    "depth": _state_depth, "atlas": _state_atlas, "modality": state_modality,
    "map": state_map,
}  # fmt: skip
