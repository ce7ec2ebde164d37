"""Which heads find the antecedent of a mention."""

from functools import partial

from attnprobe.statistics.links import FAMILY
from attnprobe.statistics.links.asking import Asking
from attnprobe.statistics.links.by_head import by_head_table
from attnprobe.statistics.links.by_label import by_label_table
from attnprobe.statistics.links.questions import questions_of
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.tally import Tally

#: The rules that a head has to beat, as the guesses of links name them.
NEAREST, SAME_LAST_WORD = "nearest", "same last word"
ASKING = Asking(
    "mention_to_antecedent", "", (NEAREST, SAME_LAST_WORD), label="mention", noun="kind of mention"
)
COREFERENCE = Statistic(
    "coreference", "share of links", partial(questions_of, asking=ASKING), scope="links", rows="label",
    sums=Tally, version=2, family=FAMILY, title="antecedents found", order=1,
)  # fmt: skip
BY_MENTION = Tabulation(
    "mention",
    partial(by_label_table, COREFERENCE, ASKING),
    "coreference: the best head for each kind of mention",
)
BY_MENTION_AND_HEAD = Tabulation(
    "mention and head",
    partial(by_head_table, COREFERENCE, ASKING),
    "coreference: how often each head finds an antecedent",
)
