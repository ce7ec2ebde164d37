"""A control: the same links between other words, of which a head can know no more than where they stand."""

from dataclasses import replace

from attnprobe.attention.annotation import TokenAnnotation, TokenLink, TokenSpan
from attnprobe.statistics.rules import NONE, Ends, Words

_MASK = (1 << 64) - 1


def move_links(annotation: TokenAnnotation) -> TokenAnnotation:
    """Move each link of a sequence to other words of the same text, at the same distance.

    Both ends move by the same number of words, drawn from all but 0 that leave them in their texts. So a head
    that looks at a place finds as many links of each label as before, and one that knows what words are to
    one another does not. Where a link names candidates, as many of them as were right are drawn instead. A
    link that can't be moved is left out. Draws depend on words and ends alone, so that jobs agree.

    References:
        Hewitt and Liang (2019), Designing and interpreting probes with control tasks, on selectivity.
    """
    queries = Words(annotation.words, annotation.second, annotation.forms)
    keys = queries if annotation.keys is None else Words(annotation.keys, forms=annotation.key_forms)
    seed = sum(annotation.forms) + len(annotation.words)
    links = []
    for link in annotation.links:
        if link.candidates:
            links.append(_draw_answers(link, seed))
            continue
        backward = link.asks == "backward"  # where the source is among the keys
        moved = _move(link, keys if backward else queries, queries if backward else keys, seed)
        if moved is not None:
            links.append(moved)
    return replace(annotation, links=tuple(links))


def _move(link: TokenLink, home: Words, other: Words, seed: int) -> TokenLink | None:
    source, target = home.within(link.source), other.within(link.target)
    if NONE in (source, target):
        return None
    # From how far back to how far ahead both may move within their texts.
    rooms = [(side.text_of(ends[0]), ends) for side, ends in ((home, source), (other, target))]
    least = max(text[0] - ends[0] for text, ends in rooms)
    most = min(text[1] - ends[1] for text, ends in rooms)
    if most <= least:
        return None
    step = least + _mix(seed, source[0], target[0]) % (most - least)
    step += step >= 0  # not where it is
    also = (other.within(span) for span in link.also)
    text = rooms[1][0]
    kept = [ends for ends in also if ends != NONE and text[0] <= ends[0] + step and ends[1] + step <= text[1]]
    return replace(
        link,
        source=_span(home, source, step),
        target=_span(other, target, step),
        also=tuple(_span(other, ends, step) for ends in kept),
        guesses=(),
    )


def _span(words: Words, ends: Ends, step: int) -> TokenSpan:
    return TokenSpan(words.ends[ends[0] + step][0], words.ends[ends[1] - 1 + step][1])


def _draw_answers(link: TokenLink, seed: int) -> TokenLink:
    places = range(len(link.candidates))
    drawn = sorted(places, key=lambda place: _mix(seed, link.source.start, place))[: 1 + len(link.also)]
    target, *also = (link.candidates[place] for place in drawn)
    return replace(link, target=target, also=tuple(also), guesses=())


def _mix(*numbers: int) -> int:
    """Mix numbers into one that looks random, the same in every run (splitmix64)."""
    mixed = 0
    for number in numbers:
        mixed = (mixed + number + 0x9E3779B97F4A7C15) & _MASK
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = ((mixed ^ (mixed >> shift)) * factor) & _MASK
        mixed ^= mixed >> 31
    return mixed
