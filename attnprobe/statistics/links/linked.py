"""Which heads find the other end of any gold link."""

from functools import partial

from attnprobe.statistics.links import FAMILY
from attnprobe.statistics.links.asking import Asking, offsets_to
from attnprobe.statistics.links.by_head import by_head_table
from attnprobe.statistics.links.by_label import by_label_table
from attnprobe.statistics.links.questions import questions_of
from attnprobe.statistics.links.rules import SAME_CONTEXT, SAME_LEFT_CONTEXT, SAME_PLACE, SAME_TEXT
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.tally import Tally

#: A fixed offset looks so many words far at most.
FURTHEST = 48
ASKING = Asking(
    "source_to_target",
    "target_to_source",
    (*offsets_to(FURTHEST), SAME_TEXT, SAME_CONTEXT, SAME_LEFT_CONTEXT, SAME_PLACE),
    label="label",
)
LINKED = Statistic(
    "links", "share of links", partial(questions_of, asking=ASKING), scope="links", rows="label",
    sums=Tally, version=2, family=FAMILY, title="links found", order=2,
)  # fmt: skip
BY_LABEL = Tabulation("label", partial(by_label_table, LINKED, ASKING), "links: the best head for each label")
BY_LABEL_AND_HEAD = Tabulation(
    "label and head", partial(by_head_table, LINKED, ASKING), "links: how often each head finds a label"
)
