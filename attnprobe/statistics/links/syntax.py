"""Which heads find the other end of a dependency."""

from functools import partial

from attnprobe.statistics.links import FAMILY
from attnprobe.statistics.links.asking import OFFSETS, Asking
from attnprobe.statistics.links.by_head import by_head_table
from attnprobe.statistics.links.by_label import by_label_table
from attnprobe.statistics.links.questions import questions_of
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.tally import Tally

ASKING = Asking("dependent_to_head", "head_to_dependent", OFFSETS, label="relation")
SYNTAX = Statistic(
    "syntax", "share of links", partial(questions_of, asking=ASKING), scope="links", rows="label",
    sums=Tally, version=2, family=FAMILY, title="dependencies found",
)  # fmt: skip
BY_RELATION = Tabulation(
    "relation", partial(by_label_table, SYNTAX, ASKING), "syntax: the best head for each relation"
)
BY_RELATION_AND_HEAD = Tabulation(
    "relation and head",
    partial(by_head_table, SYNTAX, ASKING),
    "syntax: how often each head finds a relation",
)
