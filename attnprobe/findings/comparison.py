"""Two checkpoints: which head is compared with which, and their table, a row a head or a layer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.errors import AttnprobeError
from attnprobe.findings.differences import Difference, Rows, compare_statistic
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.survey.comparison import NUMBERED, OF_LAYERS, Comparison, name_pairs
from attnprobe.table.builder import TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import join_names
from attnprobe.table.table import Column

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
#: Within which heads partners are looked for.
Within = Literal["layer", "model"]


@dataclass(frozen=True)
class Partners:
    """A head of the second model for each head of the first, both numbered through all layers of the model.

    Attributes:
        head: Its number, -1 where there is none.
    """

    head: Places
    jsd: Floats
    error: Floats


def find_namesakes(found: Comparison) -> Places:
    """Find the head of the same number of each head, -1 for those of kinds that are not shared."""
    shared = found.shared
    partner = np.full(shared.first.layers * shared.first.heads, -1, np.intp)
    for kind in shared.kinds:
        if shared.numbered(kind):
            ours, theirs = _number_heads(found, kind)
            partner[ours] = theirs
    return partner


def find_nearest(found: Comparison) -> Partners:
    """Find the head of the other model with the least divergence; of equals, the one of the same number."""

    def choose(apart: Floats, _: Kind) -> Places:
        cost = np.where(np.isnan(apart), np.inf, apart)
        return np.where(np.isfinite(cost.min(1)), _find_least(cost), -1)

    return _choose_partners(found, choose)


def match_heads(found: Comparison, within: Within) -> Partners:
    """Assign heads to heads one to one, so that their divergences add up to the least.

    Within ``layer``, heads of a layer are assigned to heads of the layer of the same number; within
    ``model``, to heads of any layer. Where one side has more heads, those that are too many have no partner.

    Raises:
        AttnprobeError: When layers are to have partners of their number, and the numbers differ.
    """
    shared = found.shared
    for kind in shared.kinds if within == "layer" else ():
        ours, theirs = map(len, shared.layers(kind))
        if ours != theirs:
            raise AttnprobeError(
                f"{found.labels.model} has {ours} layers and {found.other} has {theirs}, so that heads can't "
                "be matched layer by layer; use --match model."
            )

    def assign(apart: Floats, kind: Kind) -> Places:
        from scipy.optimize import linear_sum_assignment  # takes a while to import

        cost = np.where(np.isnan(apart), 1.0, apart)  # more than ln 2, so that removed heads come last
        blocks = [np.ogrid[: len(cost), : cost.shape[1]]]
        if within == "layer":
            sizes = shared.first.heads, shared.second.heads
            layers = range(len(shared.layers(kind)[0]))
            blocks = [np.ix_(*(np.arange(i * size, (i + 1) * size) for size in sizes)) for i in layers]
        partner = np.full(len(cost), -1, np.intp)
        for rows, columns in blocks:
            picked = linear_sum_assignment(cost[rows, columns])
            ours, theirs = rows.ravel()[picked[0]], columns.ravel()[picked[1]]
            partner[ours] = np.where(np.isfinite(apart[ours, theirs]), theirs, -1)
        return partner

    return _choose_partners(found, assign)


def find_nearest_layers(found: Comparison, kind: Kind) -> tuple[Places, Floats]:
    """Find, for each layer of a kind, the layer of the other model whose heads are most like its own.

    How far a layer is from another is the mean over its heads of the divergence from the nearest head there.

    Returns:
        For each layer of the kind, which one of the other model's layers it is, and how far.
    """
    shared = found.shared
    apart = found.measurement.sums[name_pairs(kind)].average
    blocks = apart.reshape(-1, shared.first.heads, apart.shape[1] // shared.second.heads, shared.second.heads)
    least = np.where(np.isnan(blocks), np.inf, blocks).min(-1)
    least = np.where(np.isinf(least), np.nan, least)
    known = ~np.isnan(least)
    total, number = np.where(known, least, 0).sum(1), known.sum(1)
    far = np.divide(total, number, out=np.full(total.shape, np.inf), where=number > 0)
    best = _find_least(far)
    return best, far[np.arange(len(far)), best]


def _find_least(apart: Floats) -> Places:
    """Find the least of each row; of equals, the one of the row's own number."""
    best = apart.argmin(1)
    own = np.minimum(np.arange(len(apart)), apart.shape[1] - 1)
    return np.where(apart[np.arange(len(apart)), own] <= apart.min(1), own, best)


def _choose_partners(found: Comparison, choose: Callable[[Floats, Kind], Places]) -> Partners:
    """Choose partners kind by kind, from the divergences of heads."""
    shared = found.shared
    size = shared.first.layers * shared.first.heads
    head, jsd, error = np.full(size, -1, np.intp), np.full(size, np.nan), np.full(size, np.nan)
    for kind in shared.kinds:
        pairs = found.measurement.sums[name_pairs(kind)]
        apart, errors = pairs.average, pairs.standard_error
        chosen = choose(apart, kind)
        ours, theirs = _number_heads(found, kind)
        there = np.flatnonzero(chosen >= 0)
        head[ours[there]] = theirs[chosen[there]]
        jsd[ours[there]] = apart[there, chosen[there]]
        error[ours[there]] = errors[there, chosen[there]]
    return Partners(head, jsd, error)


def _number_heads(found: Comparison, kind: Kind) -> tuple[Places, Places]:
    """Number the heads of a kind through all layers of either model."""

    def number(layers: Sequence[int], heads: int) -> Places:
        return (np.array(layers, np.intp)[:, None] * heads + np.arange(heads)).ravel()

    ours, theirs = found.shared.layers(kind)
    return number(ours, found.shared.first.heads), number(theirs, found.shared.second.heads)


#: So many heads are named as those that changed most.
MOST = 3
#: So many columns are spoken of.
COLUMNS = 4
#: With fewer blocks of documents than this, errors and p values are rough.
FEW = 10


def describe_heads(
    found: Comparison, near: Partners | None, pairs: Partners | None, match: str | None, mine: Places
) -> list[str]:
    """Say which heads changed most, and whether heads are nearest to those of their number."""
    said: list[str] = []
    heads, other_heads = found.shared.first.heads, found.shared.second.heads
    removed = set(found.labels.removed)
    there = np.array([row for row, one in enumerate(mine) if divmod(int(one), heads) not in removed])
    if NUMBERED in found.measurement.sums:
        apart = found.measurement.sums[NUMBERED]
        said += _describe_changes(found, apart.average.ravel(), apart.standard_error.ravel(), mine[there])
    namesake = find_namesakes(found)
    standing = found.shared.second.standing.ravel()
    both = [int(one) for one in mine[there] if namesake[one] >= 0 and standing[namesake[one]]]
    which = "heads" if len(both) == len(there) else "heads that both have"
    if near is not None and found.shared.alike:
        own = sum(near.head[one] == namesake[one] for one in both)
        said.append(
            f"The nearest head of {found.other} is the one of the same number for {own} of {len(both)} "
            f"{which}."
        )
    if pairs is not None:
        known = [one for one in mine[there] if pairs.head[one] >= 0]
        text = f"Matched {'layer by layer' if match == 'layer' else 'over the model'}"
        if found.shared.alike:
            moved = [one for one in both if pairs.head[one] >= 0 and pairs.head[one] != namesake[one]]
            own = sum(pairs.head[one] == namesake[one] for one in both)
            text += f", {own} of {len(both)} {which} have the partner of their own number"
            if moved:
                ours = _name_head(found, moved[0])
                place = divmod(int(pairs.head[moved[0]]), other_heads)
                theirs = found.shared.second.places[place[0]].head(place[1])
                text += f"; {ours} is {theirs} there, to name the first of the others"
        else:
            text += f", {len(known)} of {len(there)} heads have a partner"
        mean = float(np.nansum(pairs.jsd[known])) / max(1, len(known))
        far = f"{mean:.2g} nats" if mean > found.rounding else f"0 {_note_rounding(found)}"
        said.append(f"{text}; the mean divergence of partners is {far}.")
    return said


def describe_layers(found: Comparison, layers: Sequence[int]) -> list[str]:
    """Say where the models differ most, of some layers."""
    if OF_LAYERS not in found.measurement.sums:
        return []
    apart = found.measurement.sums[OF_LAYERS]
    values = apart.average[layers]
    if not np.nanmax(values, initial=0.0) > found.rounding:
        return [f"All heads attend as those of {found.other} do, {_note_rounding(found)}."]
    layer = layers[int(np.nanargmax(values))]
    far = _format_error(apart.average[layer].item(), apart.standard_error[layer].item())
    return [f"What heads attend to differs most in {found.labels.places[layer]}: {far} nats."]


def describe_columns(
    found: Comparison, differences: Mapping[str, Difference], partner: str, noun: str
) -> list[str]:
    """Say which columns differ, in how many rows, and how that was decided."""
    if not differences:
        return []
    said, counted = [], []
    for name, one in differences.items():
        up, down = one.moved
        if up or down:
            counted.append((name, up, down, int(np.isfinite(one.p).sum())))
    counted.sort(key=lambda one: -(one[1] + one[2]))
    for name, up, down, number in counted[:COLUMNS]:
        said.append(f"{name} is higher in {up} and lower in {down} of {number} {noun}s")
    rest = len(counted) - len(said)
    blocks = _count_blocks(found)
    how = f"p < {SIGNIFICANT} after Holm's correction over {noun}s"
    if said:
        more = f"; {rest} more column{'s' * (rest != 1)} differ{'s' * (rest == 1)} in some" if rest else ""
        summary = f"In {found.other}, {'; '.join(said)}{more} ({how})."
    elif all(np.isnan(one.p).all() for one in differences.values()):
        summary = "Errors and p values need at least two documents."
    else:
        summary = f"No column differs significantly in any {noun} ({how})."
    few = f"Differences are over {blocks} documents only: errors and p values are rough."
    return [summary, partner, *([few] if 1 < blocks < FEW else [])]


def _name_head(found: Comparison, number: int) -> str:
    """Name a head of the first model, of this number in the model."""
    layer, head = divmod(number, found.shared.first.heads)
    return found.labels.places[layer].head(head)


def _describe_changes(found: Comparison, jsd: np.ndarray, error: np.ndarray, mine: Places) -> list[str]:
    """Name the heads whose attention changed most, and the layers in which none did."""
    known = mine[np.isfinite(jsd[mine])]
    if not len(known):
        return []
    if not jsd[known].max() > found.rounding:
        return [
            f"All {len(known)} heads attend as those of the same number in {found.other} do, "
            f"{_note_rounding(found)}."
        ]
    order = [one for one in known[np.argsort(-jsd[known], kind="stable")] if jsd[one] > found.rounding]
    named = [
        f"{_name_head(found, one)} ({_format_error(jsd[one].item(), error[one].item())})"
        for one in order[:MOST]
    ]
    said = [f"What changed most, in nats of divergence from {found.other}: {join_names(named)}."]
    same = len(known) - len(order)
    if same:
        said.append(
            f"{same} of {len(known)} heads {'attends' if same == 1 else 'attend'} as before, "
            f"{_note_rounding(found)}; the first that does not is {_name_head(found, min(order))}."
        )
    return said


def _note_rounding(found: Comparison) -> str:
    """Say below which divergence heads count as the same."""
    return f"but for rounding, which may give a jsd of {found.rounding:.1g} nats"


def _format_error(value: float, error: float) -> str:
    return f"{value:.2g} ± {error:.1g}" if np.isfinite(error) else f"{value:.2g}"


def _count_blocks(found: Comparison) -> int:
    """Count the blocks of documents that differences are over."""
    for statistic in found.statistics:
        counts = getattr(found.sums(0, statistic), "counts", None)
        if counts is not None:
            return int((counts.reshape(BLOCKS, -1).max(1, initial=0) > 0).sum())
    return BLOCKS


#: A terminal shows so many columns, those in which most rows differ.
SHOWN = 2
UNIT = "nats"


def tabulate_heads(found: Comparison, match: Within | None = None) -> HeadTable:
    """Tabulate the heads of the first model beside those of the second.

    A head's partner, which columns ``_b`` are about, is the one that is matched to it if that is asked for,
    else the one of its number, else the nearest.
    """
    shared, sums = found.shared, found.measurement.sums
    heads, layers = shared.first.heads, _list_layers(found)
    mine = np.array([layer * heads + head for layer in layers for head in range(heads)], np.intp)
    near = find_nearest(found) if found.divergences.pairs else None
    pairs = match_heads(found, match) if match is not None else None
    if pairs is not None:
        partner = pairs.head
    elif shared.alike:
        partner = find_namesakes(found)
    else:
        assert near is not None  # models of different shapes are compared head by nearest head
        partner = near.head
    build = _start_table(found, [layer for layer in layers for _ in range(heads)])
    build.key("head", np.tile(np.arange(heads), len(layers)))
    build.count("n", np.full(len(mine), found.measurement.sequences))
    if NUMBERED in sums:
        apart = sums[NUMBERED]
        build.measure(
            "jsd", UNIT, apart.average.ravel()[mine], apart.standard_error.ravel()[mine],
            headline=True, title="divergence from the head of the same number",
        )  # fmt: skip
    if near is not None:
        _add_partners(build, found, "nearest", near, mine, headline=NUMBERED not in sums)
    if pairs is not None:
        _add_partners(build, found, "matched", pairs, mine, headline=False)
    sizes = heads * shared.first.layers, shared.second.heads * shared.second.layers
    differences = _add_columns(build, found, Rows.of_heads(mine, partner[mine], sizes), mine, partner[mine])
    notes = describe_heads(found, near, pairs, match, mine)
    notes += describe_columns(found, differences, describe_partner(found, match), "head")
    return build.table(f"heads of {found.labels.model} and of {found.other}", notes, "change")


def tabulate_layers(found: Comparison) -> HeadTable:
    """Tabulate the layers of the first model beside those of the second; numbers are means over heads.

    A layer's partner is the one of its number, or the nearest where the models have different numbers.
    """
    shared, sums = found.shared, found.measurement.sums
    layers = _list_layers(found)
    partner = np.full(len(layers), -1, np.intp)
    near = np.full(len(layers), -1, np.intp)
    far = np.full(len(layers), np.nan)
    for kind in shared.kinds:
        ours, theirs = shared.layers(kind)
        rows = [layers.index(layer) for layer in ours]
        if found.divergences.pairs:
            best, distance = find_nearest_layers(found, kind)
            near[rows], far[rows] = np.array(theirs)[best], distance
        partner[rows] = theirs if len(ours) == len(theirs) else near[rows]
    build = _start_table(found, layers)
    build.count("n", np.full(len(layers), found.measurement.sequences))
    if OF_LAYERS in sums:
        apart = sums[OF_LAYERS]
        build.measure(
            "jsd", UNIT, apart.average[layers], apart.standard_error[layers],
            headline=True, title="mean divergence from heads of the same number",
        )  # fmt: skip
    if found.divergences.pairs:
        build.add(Column("nearest_layer", role="count"), [_find_layer(found, int(one)) for one in near])
        build.add(Column("jsd_nearest", UNIT, title="mean divergence from the nearest heads of a layer"), far)
    shapes = [(side.layers, side.heads) for side in (shared.first, shared.second)]
    differences = _add_columns(build, found, Rows.of_layers(np.array(layers, np.intp), partner, shapes))
    which = all(len(ours) == len(theirs) for ours, theirs in map(shared.layers, shared.kinds))
    said = f"Columns _b are about {'the layer of the same number' if which else 'nearest_layer'}"
    notes = describe_layers(found, layers)
    notes += describe_columns(found, differences, f"{said}; all are means over heads.", "layer")
    return build.table(f"layers of {found.labels.model} and of {found.other}", notes, "layers")


def describe_partner(found: Comparison, match: Within | None) -> str:
    """Say which head columns ``_b`` are about."""
    if match is not None:
        return "Columns _b are about the matched head."
    if found.shared.alike:
        return "Columns _b are about the head of the same number."
    return "The models have other numbers of layers or heads, so columns _b are about the nearest head."


def _start_table(found: Comparison, layers: Sequence[int]) -> TableBuilder:
    build = TableBuilder(found.labels, len(layers))
    build.add(Column("model_b", role="key"), [found.other] * len(layers))
    build.layers(layers)
    return build


def _list_layers(found: Comparison) -> list[int]:
    """List the layers of kinds that both models have."""
    kinds = found.shared.first.kinds
    return [layer for layer, kind in enumerate(kinds) if kind in found.shared.kinds]


def _find_layer(found: Comparison, layer: int) -> int | None:
    """Find the number that a table has for a layer of the second model."""
    return found.shared.second.places[layer].layer if layer >= 0 else None


def _add_partners(
    build: TableBuilder, found: Comparison, name: str, partners: Partners, mine: Places, *, headline: bool
) -> None:
    heads = found.shared.second.heads
    which = partners.head[mine]
    layers = [_find_layer(found, int(one) // heads) if one >= 0 else None for one in which]
    build.add(Column(f"{name}_layer", role="count"), layers)
    build.add(Column(f"{name}_head", role="count"), [one % heads if one >= 0 else None for one in which])
    title = f"divergence from the {name} head"
    jsd, error = partners.jsd[mine], partners.error[mine]
    build.measure(f"jsd_{name}", UNIT, jsd, error, headline=headline, title=title)


def _add_columns(
    build: TableBuilder,
    found: Comparison,
    rows: Rows,
    mine: Places | None = None,
    partner: Places | None = None,
) -> dict[str, Difference]:
    """Append the columns of every statistic; those in which most rows differ are shown."""
    differences = {
        one.name: compare_statistic(one, found.sums(0, one), found.sums(1, one), rows)
        for one in found.statistics
    }
    certain = {name: int(one.certain.sum()) for name, one in differences.items()}
    shown = sorted(certain, key=lambda name: -certain[name])[:SHOWN]
    for statistic in found.statistics:
        name, one = statistic.name, differences[statistic.name]
        unit = statistic.unit_of(patches=build.patches)
        for said, (first, second) in one.said.items() if mine is not None else ():
            build.add(Column(f"{said}_a", role="count"), first[mine])
            cells = [second[at] if at >= 0 else None for at in ([] if partner is None else partner)]
            build.add(Column(f"{said}_b", role="count"), cells)
        for side, which, values in (("a", "first", one.first), ("b", "second", one.second)):
            build.add(Column(f"{name}_{side}", unit, title=f"{statistic.title}, {which} model"), values)
        title = f"change of {statistic.title}"
        headline = name in shown and certain[name] > 0
        build.measure(f"{name}_delta", unit, one.delta, one.error, headline=headline, title=title)
        adjusted = Column(f"{name}_p_adjusted", "probability", title=f"adjusted p of the {title}")
        build.add(adjusted, one.adjusted)
    return differences
