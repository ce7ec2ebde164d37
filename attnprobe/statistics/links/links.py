"""What is asked about gold links: syntax, coreference, and links of one's own."""

from functools import partial

from attnprobe.statistics.links import FAMILY
from attnprobe.statistics.links.questions import questions_of
from attnprobe.statistics.links.rules import (
    OFFSETS,
    SAME_CONTEXT,
    SAME_LEFT_CONTEXT,
    SAME_PLACE,
    SAME_TEXT,
    Asking,
    offsets_to,
)
from attnprobe.statistics.links.tables import by_head_table, by_label_table
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.tally import Tally

#: The rules that a head has to beat, as the guesses of links name them.
NEAREST, SAME_LAST_WORD = "nearest", "same last word"
#: A fixed offset looks so many words far at most.
FURTHEST_LINK = 48

ASKING_SYNTAX = Asking("dependent_to_head", "head_to_dependent", OFFSETS, label="relation")
ASKING_COREFERENCE = Asking(
    "mention_to_antecedent", "", (NEAREST, SAME_LAST_WORD), label="mention", noun="kind of mention"
)
_RULES = (*offsets_to(FURTHEST_LINK), SAME_TEXT, SAME_CONTEXT, SAME_LEFT_CONTEXT, SAME_PLACE)
ASKING_LINKS = Asking("source_to_target", "target_to_source", _RULES, label="label")


def _define(
    name: str, asking: Asking, title: str, noun: str, order: int
) -> tuple[Statistic, Tabulation, Tabulation]:
    """Give the statistic of some links, its table of labels, and its table of labels and heads."""
    found = Statistic(
        name, "share of links", partial(questions_of, asking=asking), scope="links", rows="label",
        sums=Tally, version=2, family=FAMILY, title=title, order=order,
    )  # fmt: skip
    best = f"{name}: the best head for each {asking.counted(1)}"
    return (
        found,
        Tabulation(asking.label, partial(by_label_table, found, asking), best),
        Tabulation(
            f"{asking.label} and head",
            partial(by_head_table, found, asking),
            f"{name}: how often each head finds {noun}",
        ),
    )


SYNTAX, BY_RELATION, BY_RELATION_AND_HEAD = _define(
    "syntax", ASKING_SYNTAX, "dependencies found", "a relation", 0
)
COREFERENCE, BY_MENTION, BY_MENTION_AND_HEAD = _define(
    "coreference", ASKING_COREFERENCE, "antecedents found", "an antecedent", 1
)
LINKED, BY_LABEL, BY_LABEL_AND_HEAD = _define("links", ASKING_LINKS, "links found", "a label", 2)
