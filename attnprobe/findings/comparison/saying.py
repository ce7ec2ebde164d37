"""The sentences below a comparison: what changed most, who is near whom, which columns differ."""

from collections.abc import Mapping, Sequence

import numpy as np

from attnprobe.findings.comparison.differences import Difference
from attnprobe.findings.comparison.partners import Partners, Places, numbered
from attnprobe.sums.blocks import BLOCKS
from attnprobe.sums.significance import SIGNIFICANT
from attnprobe.survey.comparison.divergence import NUMBERED, OF_LAYERS
from attnprobe.survey.comparison.running import Compared
from attnprobe.table.naming import listed

#: So many heads are named as those that changed most.
MOST = 3
#: So many columns are spoken of.
COLUMNS = 4
#: With fewer blocks of documents than this, errors and p values are rough.
FEW = 10


def said_of_heads(
    found: Compared,
    near: Partners | None,
    pairs: Partners | None,
    match: str | None,
    mine: Places,
) -> list[str]:
    """Say which heads changed most, and whether heads are nearest to those of their number."""
    said: list[str] = []
    heads, other_heads = found.shared.first.heads, found.shared.second.heads
    there = np.array(
        [row for row, one in enumerate(mine) if divmod(int(one), heads) not in set(found.labels.removed)]
    )
    if NUMBERED in found.measurement.sums:
        apart = found.measurement.sums[NUMBERED]
        said += _changed(found, apart.average.ravel(), apart.standard_error.ravel(), mine[there])
    namesake = numbered(found)
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
                first = moved[0]
                ours = found.labels.places[first // heads].head(first % heads)
                place = divmod(int(pairs.head[first]), other_heads)
                theirs = found.shared.second.places[place[0]].head(place[1])
                text += f"; {ours} is {theirs} there, to name the first of the others"
        else:
            text += f", {len(known)} of {len(there)} heads have a partner"
        mean = float(np.nansum(pairs.jsd[known])) / max(1, len(known))
        far = f"{mean:.2g} nats" if mean > found.rounding else f"0 {_rounding(found)}"
        said.append(f"{text}; the mean divergence of partners is {far}.")
    return said


def said_of_layers(found: Compared, layers: Sequence[int]) -> list[str]:
    """Say where the models differ most, of some layers."""
    if OF_LAYERS not in found.measurement.sums:
        return []
    apart = found.measurement.sums[OF_LAYERS]
    values = apart.average[layers]
    if not np.nanmax(values, initial=0.0) > found.rounding:
        return [f"All heads attend as those of {found.other} do, {_rounding(found)}."]
    layer = layers[int(np.nanargmax(values))]
    far = _with_error(apart.average[layer].item(), apart.standard_error[layer].item())
    return [f"What heads attend to differs most in {found.labels.places[layer]}: {far} nats."]


def said_of_columns(
    found: Compared, differences: Mapping[str, Difference], partner: str, noun: str
) -> list[str]:
    """Say which columns differ, in how many rows, and how that was decided."""
    if not differences:
        return []
    said, counted = [], []
    for name, one in differences.items():
        certain = one.adjusted < SIGNIFICANT
        up, down = int((certain & (one.delta > 0)).sum()), int((certain & (one.delta < 0)).sum())
        if up or down:
            counted.append((name, up, down, int(np.isfinite(one.p).sum())))
    counted.sort(key=lambda one: -(one[1] + one[2]))
    for name, up, down, number in counted[:COLUMNS]:
        said.append(f"{name} is higher in {up} and lower in {down} of {number} {noun}s")
    rest = len(counted) - len(said)
    blocks = _blocks(found)
    how = f"p < {SIGNIFICANT} after Holm's correction over {noun}s"
    if said:
        more = f"; {rest} more column{'s' * (rest != 1)} differ{'s' * (rest == 1)} in some" if rest else ""
        texts = f"In {found.other}, {'; '.join(said)}{more} ({how})."
    elif all(np.isnan(one.p).all() for one in differences.values()):
        texts = "Errors and p values need at least two documents."
    else:
        texts = f"No column differs significantly in any {noun} ({how})."
    found_notes = [texts, partner]
    if 1 < blocks < FEW:
        found_notes.append(f"Differences are over {blocks} documents only: errors and p values are rough.")
    return found_notes


def _changed(found: Compared, jsd: np.ndarray, error: np.ndarray, mine: Places) -> list[str]:
    """Name the heads whose attention changed most, and the layers in which none did."""
    known = mine[np.isfinite(jsd[mine])]
    if not len(known):
        return []
    if not jsd[known].max() > found.rounding:
        return [
            f"All {len(known)} heads attend as those of the same number in {found.other} do, "
            f"{_rounding(found)}."
        ]
    heads = found.shared.first.heads
    order = [one for one in known[np.argsort(-jsd[known], kind="stable")] if jsd[one] > found.rounding]
    named = []
    for one in order[:MOST]:
        far = _with_error(jsd[one].item(), error[one].item())
        named.append(f"{found.labels.places[one // heads].head(one % heads)} ({far})")
    said = [f"What changed most, in nats of divergence from {found.other}: {listed(named)}."]
    same = len(known) - len(order)
    if same:
        first = min(order)
        place = found.labels.places[first // heads].head(first % heads)
        verb = "attends" if same == 1 else "attend"
        said.append(
            f"{same} of {len(known)} heads {verb} as before, {_rounding(found)}; the first that does not is "
            f"{place}."
        )
    return said


def _rounding(found: Compared) -> str:
    """Say below which divergence heads count as the same."""
    return f"but for rounding, which may give a jsd of {found.rounding:.1g} nats"


def _with_error(value: float, error: float) -> str:
    return f"{value:.2g} ± {error:.1g}" if np.isfinite(error) else f"{value:.2g}"


def _blocks(found: Compared) -> int:
    """Count the blocks of documents that differences are over."""
    for statistic in found.statistics:
        one = found.sums(0, statistic)
        counts = getattr(one, "counts", None)
        if counts is not None:
            return int((counts.reshape(BLOCKS, -1).max(1, initial=0) > 0).sum())
    return BLOCKS
