"""Mentions, and the question that each of them asks: which of the others is its antecedent?"""

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from attnprobe.corpus.sources.document import Link, Span
from attnprobe.errors import AttnprobeWarning

#: Kinds of mention, as the labels of links have them.
PRONOUN, PROPER, NOMINAL, OTHER = "pronoun", "proper", "nominal", "other"
#: What simple rules are called.
NEAREST, SAME_WORD = "nearest", "same last word"
#: How many mentions back an antecedent is looked for in a document. A window of text holds fewer, and memory
#: would grow with the square of their number.
REACH = 1000


@dataclass(frozen=True, slots=True)
class Mention:
    """Something that is spoken of.

    Attributes:
        head: Its head word, which stands for it.
        last: Its last word.
        entity: What it speaks of; mentions of one entity corefer.
        kind: What its head word is: a pronoun, a proper noun, a noun.
    """

    head: Span
    last: str
    entity: Hashable
    kind: str = OTHER


def link_antecedent(source: Mention, others: Sequence[Mention], label: str) -> Link | None:
    """Ask a mention for its antecedent among others.

    The head words of the others are the candidates; those that share characters with the head word of the
    source are left out. All of the same entity are right; the target is the nearest of them. Simple rules
    guess too: the nearest candidate, by the characters between, and the first earlier mention that ends in
    the same word, letter case set aside. If that one does not lie in the window of text that a model reads,
    the first one that does is the guess of the rule: they are given one after the other.

    Args:
        source: The mention that asks.
        others: Those it can choose from, in the order of their head words.
        label: Of the link.

    Returns:
        The link, or None where nothing is asked: none of the candidates is right, or there is only one.
    """
    apart = [one for one in others if _measure_gap(one.head, source.head) >= 0]
    candidates = tuple(dict.fromkeys(one.head for one in apart))
    right = {one.head: None for one in apart if one.entity == source.entity}
    if not right or len(candidates) < 2:
        return None

    def distance(span: Span) -> int:
        return _measure_gap(span, source.head)

    target = min(right, key=distance)
    word = source.last.casefold()
    same = dict.fromkeys(
        one.head for one in apart if one.head.stop <= source.head.start and one.last.casefold() == word
    )
    guesses = ((NEAREST, min(candidates, key=distance)), *((SAME_WORD, span) for span in same))
    also = tuple(span for span in right if span != target)
    return Link(source.head, target, label, candidates, also, guesses)


def link_mentions(mentions: Sequence[Mention]) -> tuple[list[Link], int]:
    """Ask every mention of a text for its antecedent among the ``REACH`` before it.

    Before a mention stand those whose head words stand before its own.

    Returns:
        A link for each mention that has an antecedent, and how many of them ask nothing: fewer than two
        candidates, or no antecedent within reach.
    """
    links, left_out, known = [], 0, set()
    ordered = sorted(mentions, key=lambda one: one.head.start)
    for place, source in enumerate(ordered):
        link = link_antecedent(source, ordered[max(0, place - REACH) : place], source.kind)
        if link is not None:
            links.append(link)
        elif source.entity in known:
            left_out += 1
        known.add(source.entity)
    return links, left_out


def _measure_gap(one: Span, other: Span) -> int:
    """Count the characters between two spans; negative where they share some."""
    return max(other.start - one.stop, one.start - other.stop)


def warn_left_out(name: str, what: str, left_out: Mapping[str, int]) -> None:
    """Warn of how many rows or the like were left out of a file, by reason: "in which nobody is meant"."""
    reasons = [f"{n:,} {what}{'s' * (n != 1)} {reason}" for reason, n in left_out.items() if n]
    if reasons:
        warnings.warn(f"left out of {name}: {'; '.join(reasons)}.", AttnprobeWarning, stacklevel=3)
