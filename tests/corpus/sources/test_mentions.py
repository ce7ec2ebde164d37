"""The question that a mention asks: against plain rules, spelled out again here."""

import random

from attnprobe.corpus.sources.document import Span
from attnprobe.corpus.sources.links import (
    NEAREST,
    REACH,
    SAME_WORD,
    Mention,
    link_antecedent,
    link_mentions,
)


def mention(start, entity, last="w", *, length=2, kind="nominal"):
    return Mention(Span(start, start + length), last, entity, kind)


def test_nearest_right_one_is_the_target_and_the_others_are_right_too():
    others = [mention(0, "a"), mention(5, "b"), mention(10, "a"), mention(15, "c")]
    link = link_antecedent(mention(20, "a"), others, "pronoun")
    assert link.source == Span(20, 22)
    assert link.target == Span(10, 12)
    assert link.also == (Span(0, 2),)
    assert link.candidates == tuple(other.head for other in others)
    assert link.guesses[0] == (NEAREST, Span(15, 17))


def test_rules_guess_the_nearest_and_the_first_with_the_same_last_word():
    others = [mention(0, "a", "Dog"), mention(5, "b", "cat"), mention(10, "b", "DOG")]
    link = link_antecedent(mention(20, "b", "dog"), others, "")
    assert link.guesses == ((NEAREST, Span(10, 12)), (SAME_WORD, Span(0, 2)), (SAME_WORD, Span(10, 12)))
    assert link_antecedent(mention(20, "b", "cow"), others, "").guesses == ((NEAREST, Span(10, 12)),)


def test_what_follows_is_near_but_is_no_earlier_mention():
    others = [mention(0, "a", "dog"), mention(30, "b", "dog")]
    link = link_antecedent(mention(22, "a", "dog"), others, "")
    assert link.guesses == ((NEAREST, Span(30, 32)), (SAME_WORD, Span(0, 2)))


def test_mentions_that_share_characters_with_the_source_are_no_candidates():
    others = [mention(0, "a"), mention(5, "b"), mention(21, "a"), mention(19, "a", length=9)]
    link = link_antecedent(mention(20, "a"), others, "")
    assert link.candidates == (Span(0, 2), Span(5, 7))
    assert link.also == ()


def test_nothing_to_choose_from():
    assert link_antecedent(mention(9, "a"), [mention(0, "a")], "") is None
    assert (
        link_antecedent(mention(9, "a"), [mention(0, "a"), mention(0, "b")], "") is None
    )  # one head word for both
    assert link_antecedent(mention(9, "a"), [mention(0, "b"), mention(4, "c")], "") is None


def test_links_are_those_of_plain_rules():
    draw = random.Random(5)
    for _ in range(200):
        count = draw.randrange(12)
        found = [
            mention(3 * draw.randrange(10), draw.choice("abc"), draw.choice(["x", "X", "y"]))
            for _ in range(count)
        ]
        links, left_out = link_mentions(found)
        asking = unasked = 0
        expected = []
        for one in sorted(found, key=lambda one: one.head.start):
            before = [other for other in found if other.head.start < one.head.start]
            heads = sorted({other.head.start for other in before})
            right = sorted({other.head.start for other in before if other.entity == one.entity})
            if right and len(heads) > 1:
                same = sorted({o.head.start for o in before if o.last.lower() == one.last.lower()})
                expected.append((one.head.start, right[-1], right[:-1], heads, heads[-1], same))
                asking += 1
            # of mentions with one head word, a later one has an antecedent that nobody can point at
            unasked += bool(right) and len(heads) < 2
        seen = [
            (
                link.source.start,
                link.target.start,
                [span.start for span in link.also],
                [span.start for span in link.candidates],
                link.guesses[0][1].start,
                [span.start for rule, span in link.guesses if rule == SAME_WORD],
            )
            for link in links
        ]
        assert sorted(seen) == sorted(expected)
        assert left_out >= unasked


def test_an_antecedent_beyond_reach_is_left_out():
    far = [mention(0, "far"), *(mention(3 * place, place) for place in range(1, REACH + 1))]
    links, left_out = link_mentions([*far[:-1], mention(3 * REACH, "far")])
    assert (len(links), left_out) == (1, 0)
    assert len(links[0].candidates) == REACH
    assert link_mentions([*far, mention(3 * REACH + 3, "far")]) == ([], 1)
