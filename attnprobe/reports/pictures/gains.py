"""What heads find, judged: where it is significantly more than something else, and what a title states."""

from collections.abc import Sequence

from attnprobe.reports.columns import list_keys, read_cells, read_numbers
from attnprobe.reports.headline import label_row, write_number
from attnprobe.reports.pairs import name_head_of
from attnprobe.reports.scales import BEYOND
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.table.cells import clean, format_cell
from attnprobe.table.head_table import HeadTable
from attnprobe.table.relation_names import name_relation
from attnprobe.table.table import Column

#: What is found, by whether it is significantly more than what it is compared with.
MORE, SAME, LESS = 1, 0, -1
#: The column whose labels are relations of a treebank, and that whose labels are kinds of mention.
RELATION, MENTION = "relation", "mention"
#: The label of all links, which stands first.
ALL = "all"


def compare(gain: float | None, spread: float | None, p: float | None) -> int:
    """Tell whether one finds significantly more than another: by an adjusted one-sided p, or less.

    No p value says that it finds less; half the interval of the gain, ``spread``, says so, where all of it
    lies below 0.
    """
    if gain is None:
        return SAME
    if p is not None and p < SIGNIFICANT and gain > 0:
        return MORE
    return LESS if spread is not None and gain + spread < 0 else SAME


def compare_rows(table: HeadTable, gains: Sequence[float | None], errors: Sequence[str]) -> list[int]:
    """Compare in each row, as ``compare`` does; the error is that of the first column that has one."""
    known = [read_numbers(table, name) for name in errors]
    p = read_numbers(table, "p_adjusted")
    compared = []
    for row, gain in enumerate(gains):
        error = next((column[row] for column in known if column[row] is not None), None)
        compared.append(compare(gain, None if error is None else BEYOND * error, p[row]))
    return compared


def have_common_links(label: str, said: Sequence[str]) -> bool:
    """Tell whether rows are about the same links: all of them stand beside some, or a mention has kinds."""
    return len(set(said)) > 1 and (label == MENTION or ALL in said)


def state_relations(table: HeadTable, columns: Sequence[Column]) -> str:
    """State in how many rows a head finds significantly more than the best simple rule, and where less."""

    def name(row: int) -> str:
        return name_head_of(table, row)

    gains = read_numbers(table, "gain")
    found = Gains(table, gains, ("accuracy", "baseline"), "rule")
    compared = compare_rows(table, gains, ["gain_se", "accuracy_se"])
    less = [row for row in found.rows if compared[row] == LESS]
    than, said = "than the best simple rule", ""
    if found.own:
        row = found.own[0]
        said = f"{name(row)} finds more of {found.name(row)} {than}: {found.write(row)}"
        if len(found.own) > 1:
            said = (
                f"heads find more {than} in {len(found.own)} of {found.number}, such as {found.name(row)}: "
                f"{name(row)} {found.write(row)}"
            )
    elif found.whole is not None:
        said = f"{name(found.whole)} finds more of all links {than} ({found.write(found.whole)})"
        said += f"; no head does {found.none}" if found.none else ""
    elif found.none:
        said = f"no head finds significantly more {than} {found.none}"
    if not said or not less:
        return said
    where = found.count(less, said)
    return f"{said}; {where}{', ' * bool(where)}the best head finds less"


class Gains:
    """Which rows of what is found have a significant gain; the row of all links counts apart from others.

    Attributes:
        own: Those of a label of their own, the largest gain first.
        whole: The row of all links that has one, with the largest gain; None where there is none.
        rows: All of labels of their own, and those of all links where there are no others.
        number: How many these are, with what they are.
        none: Where nothing is significant, if that is so: "in any of 12 cases"; empty where a row has no p.
    """

    def __init__(
        self, table: HeadTable, gain: Sequence[float | None], columns: tuple[str, str], other: str
    ) -> None:
        self.table, self.columns, self.other = table, columns, other
        self.key = next(name for name in list_keys(table) if name not in {"model", "dataset"})
        self.labels = [format_cell(cell) for cell in read_cells(table, self.key)]
        some = find_passing(table, gain)
        several = set(self.labels) != {ALL}
        self.rows = [row for row, label in enumerate(self.labels) if not several or label != ALL]
        rows = self.rows
        self.own = [row for row in some if row in rows]
        self.whole = next((row for row in some if row not in rows), None)
        single = len({self.labels[row] for row in rows}) == len(rows)
        noun = {"relation": "relations", "mention": "kinds of mention"}.get(
            self.key, f"{clean(self.key).replace('_', ' ')}s"
        )
        self.number = f"{len(rows)} {noun if single else 'cases'}"
        p = read_numbers(table, "p_adjusted")
        tested = all(p[row] is not None for row in rows)
        where = f"in any of {self.number}" if len(rows) > 1 else f"for {self.name(rows[0])}"
        self.none = where if tested else ""

    def name(self, row: int) -> str:
        """Name what is looked for in a row."""
        label = self.labels[row]
        if label == ALL:
            return "all links"
        return name_relation(label) if self.key == RELATION else label_row(self.table, row, [self.key])

    def count(self, some: Sequence[int], said: str) -> str:
        """Count some of the rows: "in 8", or "in 8 of 12 cases" where nothing said yet has their number."""
        if len(self.rows) == 1:
            return ""
        return f"in {len(some)}" + ("" if self.number in said else f" of {self.number}")

    def write(self, row: int) -> str:
        """Write what both sides find: "0.42, rule 0.36"."""
        one, other = (write_number(read_numbers(self.table, name)[row] or 0.0) for name in self.columns)
        return f"{one}, {self.other} {other}"


def find_passing(table: HeadTable, gain: Sequence[float | None]) -> list[int]:
    """Find the rows whose gain is above 0 with an adjusted p below 0.05, the largest first."""
    p = read_numbers(table, "p_adjusted")
    some = [
        (-one, row)
        for row, (one, chance) in enumerate(zip(gain, p, strict=True))
        if one is not None and one > 0 and chance is not None and chance < SIGNIFICANT
    ]
    return [row for _, row in sorted(some)]
