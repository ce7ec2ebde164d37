"""What a cell of the head atlas shows, in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnprobe.reports.profile import Profile
from attnprobe.reports.shapes import lay_out_roles
from attnprobe.table.cells import clean
from attnprobe.table.head_table import HeadTable


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
