"""What is asked about gold links: syntax, coreference, and links of one's own."""

from functools import partial

from attnprobe.statistics.links import FAMILY
from attnprobe.statistics.links.asking import OFFSETS, Asking, offsets_to
from attnprobe.statistics.links.questions import questions_of
from attnprobe.statistics.links.rules import SAME_CONTEXT, SAME_LEFT_CONTEXT, SAME_PLACE, SAME_TEXT
from attnprobe.statistics.links.tables import by_head_table, by_label_table
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.tally import Tally

#: The rules that a head has to beat, as the guesses of links name them.
NEAREST, SAME_LAST_WORD = "nearest", "same last word"
ASKING_COREFERENCE = Asking(
    "mention_to_antecedent", "", (NEAREST, SAME_LAST_WORD), label="mention", noun="kind of mention"
)
COREFERENCE = Statistic(
    "coreference", "share of links", partial(questions_of, asking=ASKING_COREFERENCE),
    scope="links", rows="label", sums=Tally, version=2, family=FAMILY, title="antecedents found", order=1,
)  # fmt: skip
BY_MENTION = Tabulation(
    "mention",
    partial(by_label_table, COREFERENCE, ASKING_COREFERENCE),
    "coreference: the best head for each kind of mention",
)
BY_MENTION_AND_HEAD = Tabulation(
    "mention and head",
    partial(by_head_table, COREFERENCE, ASKING_COREFERENCE),
    "coreference: how often each head finds an antecedent",
)


#: A fixed offset looks so many words far at most.
FURTHEST_LINK = 48
ASKING_LINKS = Asking(
    "source_to_target",
    "target_to_source",
    (*offsets_to(FURTHEST_LINK), SAME_TEXT, SAME_CONTEXT, SAME_LEFT_CONTEXT, SAME_PLACE),
    label="label",
)
LINKED = Statistic(
    "links", "share of links", partial(questions_of, asking=ASKING_LINKS), scope="links", rows="label",
    sums=Tally, version=2, family=FAMILY, title="links found", order=2,
)  # fmt: skip
BY_LABEL = Tabulation(
    "label", partial(by_label_table, LINKED, ASKING_LINKS), "links: the best head for each label"
)
BY_LABEL_AND_HEAD = Tabulation(
    "label and head", partial(by_head_table, LINKED, ASKING_LINKS), "links: how often each head finds a label"
)


ASKING_SYNTAX = Asking("dependent_to_head", "head_to_dependent", OFFSETS, label="relation")
SYNTAX = Statistic(
    "syntax", "share of links", partial(questions_of, asking=ASKING_SYNTAX), scope="links", rows="label",
    sums=Tally, version=2, family=FAMILY, title="dependencies found",
)  # fmt: skip
BY_RELATION = Tabulation(
    "relation", partial(by_label_table, SYNTAX, ASKING_SYNTAX), "syntax: the best head for each relation"
)
BY_RELATION_AND_HEAD = Tabulation(
    "relation and head",
    partial(by_head_table, SYNTAX, ASKING_SYNTAX),
    "syntax: how often each head finds a relation",
)
