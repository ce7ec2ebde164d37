"""Which heads find the other end of any gold link."""

from functools import partial

from attnprobe.statistics.links import FAMILY
from attnprobe.statistics.links.asking import OFFSETS, Asking
from attnprobe.statistics.links.by_head import by_head_table
from attnprobe.statistics.links.by_label import by_label_table
from attnprobe.statistics.links.questions import questions_of
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.tally import Tally

ASKING = Asking("source_to_target", "target_to_source", OFFSETS, label="label", rule="offset")
LINKED = Statistic(
    "links", "share of links", partial(questions_of, asking=ASKING), scope="links", rows="label",
    sums=Tally, version=2, family=FAMILY, title="links found", order=2,
)  # fmt: skip
BY_LABEL = Tabulation("label", partial(by_label_table, LINKED, ASKING), "links: the best head for each label")
BY_LABEL_AND_HEAD = Tabulation(
    "label and head", partial(by_head_table, LINKED, ASKING), "links: how often each head finds a label"
)
