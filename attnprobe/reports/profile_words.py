"""What a cell of the head atlas shows, in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnprobe.reports.profile import Profile
from attnprobe.reports.report_page.measures import format_measured, is_number
from attnprobe.reports.shapes import lay_out_roles
from attnprobe.table.cells import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import MIXED, NOUNS, REACH, REACH_IN_PATCHES, list_offsets

#: Where attention goes that is not to one offset.
_ELSEWHERE = {
    "first": "to the first token",
    "special": "to special tokens but the first",
    "before": f"more than {REACH} tokens before",
    "after": f"more than {REACH} tokens behind",
    "beyond": f"more than {REACH_IN_PATCHES} patches away",
}


def describe_bars(profile: Profile) -> str:
    """Say what the parts of a cell are, from left to right."""
    if side := profile.side:
        near = f"up to {side // 2} rows and columns away, the own one framed"
        parts = ["a leading special token", f"as squares, to patches {near}", "pale, to all further away"]
        scale = f" Black is {profile.darkest:g}, and shades are square roots, as heights are."
    else:
        count, both = profile.single.shape[1], profile.beyond.shape[1] == 2
        ends = f"{-(count // 2)} to +{count // 2}" if both else f"{1 - count} to 0"
        most = count // 2 if both else count - 1
        parts = ["the first token", f"pale, to all tokens more than {most} before"]
        parts += [f"to ordinary tokens at offsets {ends}, with a line at 0"]
        parts += [f"pale, to all tokens more than {most} after"] * both
        scale = " Heights are square roots of attention."
    return f"From left to right: mean attention to {'; '.join(parts)}; to other special tokens.{scale}"


def write_caption(profile: Profile, *, entropy: bool) -> str:
    """Say how a cell of an atlas is read: its bars, and where it is there, entropy."""
    below = " Below: entropy over its largest value." if entropy else ""
    return f"{describe_bars(profile)}{below}"


@dataclass(frozen=True)
class CellRoles:
    """The roles that an atlas shows."""

    names: Sequence[str | None]
    kinds: Sequence[str | None]
    counts: Mapping[str, int]

    def describe(self, kind: str) -> str:
        """Say how many heads have a role."""
        return f"{kind} ({self.counts[kind]})"


def read_roles(table: HeadTable) -> CellRoles | None:
    """Read the roles of a table of heads; None where it has none."""
    if "role" not in table.data:
        return None
    names = [None if cell is None else clean(str(cell)) for cell in table.data["role"]]
    found = lay_out_roles(names)
    return CellRoles(names, found.kinds, found.counts)


def describe_cell(table: HeadTable, row: int) -> str:
    """Say the role of a row, then what gets the most attention on average, with its error.

    Such as "previous token; most attention at offset -1: 0.88 ± 0.01". Without roles it is the latter alone,
    and a row without numbers is "undefined".
    """
    said = []
    if "role" in table.data:
        role = str(table.data["role"][row] or MIXED)
        said.append(NOUNS.get(role) or clean(role))
    for suffix in ("", "_norm"):
        known = {
            name: cell
            for patches in (False, True)
            for name, _ in list_offsets(patches=patches)
            if is_number(cell := table.data.get(f"profile_{name}{suffix}", [None] * len(table))[row])
        }
        if known:
            most = max(known, key=lambda name: known[name])
            written = _write(table, row, f"profile_{most}{suffix}")
            weighted = "most attention by norm" if suffix else "most attention"
            said.append(f"{weighted} {_ELSEWHERE.get(most) or _name_offset(most)}: {written}")
            break
    return "; ".join(said) or "undefined"


def _name_offset(name: str) -> str:
    """Name an offset, or those of a patch.

    >>> _name_offset("-1"), _name_offset("3"), _name_offset("-1_0")
    ('at offset -1', 'at offset +3', 'at rows -1, columns 0')
    """
    signed = [f"{int(one):+d}" if int(one) else "0" for one in name.split("_")]
    return f"at offset {signed[0]}" if len(signed) == 1 else f"at rows {signed[0]}, columns {signed[1]}"


def _write(table: HeadTable, row: int, name: str) -> str:
    """Write a cell with its error; nothing where it has no number."""
    cells, errors = (table.data.get(one) for one in (name, f"{name}_se"))
    if cells is None or not is_number(cells[row]):
        return ""
    return format_measured(cells[row], None if errors is None else errors[row])
