"""What heads find, compared with something else: significantly more, less, or neither."""

from collections.abc import Sequence

from attnprobe.reports.columns import read_numbers
from attnprobe.reports.scales import read_spreads
from attnprobe.sums.inference import SIGNIFICANT
from attnprobe.table.head_table import HeadTable

#: What is found, by whether it is significantly more than what it is compared with.
MORE, SAME, LESS = 1, 0, -1
#: The label of all links, which stands first.
ALL = "all"
#: How wide a letter is on average, as a share of its size.
LETTER = 0.52


def compare_rows(table: HeadTable, gains: Sequence[float | None]) -> list[int]:
    """Compare in each row: more by an adjusted one-sided p below 0.05."""
    p = read_numbers(table, "p_adjusted")
    compared = []
    for gain, spread, chance in zip(gains, read_spreads(table, "gain"), p, strict=True):
        if gain is not None and gain > 0 and chance is not None and chance < SIGNIFICANT:
            compared.append(MORE)
        elif gain is not None and spread is not None and gain + spread < 0:
            compared.append(LESS)
        else:
            compared.append(SAME)
    return compared
