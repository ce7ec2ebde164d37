"""Links as a control: moved to other words at the same distance, alike in every run."""

from collections import Counter

import numpy as np

from attnprobe.attention.tokens import TokenAnnotation, TokenLink, TokenSpan
from attnprobe.statistics.questions import move_links

WORDS = 12


def words(number=WORDS, first=1):
    """Give words of two tokens each."""
    return tuple(TokenSpan(first + 2 * at, first + 2 * at + 2) for at in range(number))


def drawn(random, **more):
    """Draw links between words, of two labels."""
    spans = words()
    ends = [random.choice(WORDS, 2, replace=False) for _ in range(20)]
    links = [TokenLink(spans[a], spans[b], "odd" if a % 2 else "even") for a, b in ends]
    forms = tuple(int(one) for one in random.integers(0, 1 << 60, WORDS))
    return TokenAnnotation(spans, tuple(links), forms=forms, **more)


def distances(annotation):
    place = {span: at for at, span in enumerate(annotation.words)}
    return [(link.label, place[link.target] - place[link.source]) for link in annotation.links]


def test_every_distance_of_every_label_stays():
    random = np.random.default_rng(0)
    for _ in range(20):
        annotation = drawn(random)
        far = [
            abs(distance) == WORDS - 1 for _, distance in distances(annotation)
        ]  # from one end to the other
        there = [link for link, is_far in zip(annotation.links, far, strict=True) if not is_far]
        moved = move_links(annotation)
        assert distances(moved) == distances(annotation._replace(links=tuple(there)))
        assert all(is_far.source != link.source for is_far, link in zip(moved.links, there, strict=True))


def test_all_places_are_as_likely():
    random = np.random.default_rng(1)
    spans = words()
    place = {span: at for at, span in enumerate(spans)}
    times = Counter()
    for _ in range(2200):
        link = TokenLink(spans[3], spans[4], "x", also=(spans[1], spans[6]))
        (moved,) = move_links(drawn(random)._replace(links=(link,))).links
        times[source := place[moved.source]] += 1
        # The other answers move with the first, as far as the text goes.
        assert [place[span] for span in moved.also] == [
            at for at in (source - 2, source + 3) if 0 <= at < WORDS
        ]
    assert set(times) == {*range(WORDS - 1)} - {3}
    assert max(abs(number - 220) for number in times.values()) < 4 * 220**0.5


def test_of_two_texts_each_end_stays_in_its_own():
    spans = words()
    second = spans[7].start
    links = (TokenLink(spans[2], spans[9], "across"), TokenLink(spans[8], spans[10], "within"))
    for seed in range(30):
        forms = (seed,) * WORDS
        moved = move_links(TokenAnnotation(spans, links, second=second, forms=forms))
        for link, moved_link in zip(links, moved.links, strict=True):
            for name in ("source", "target"):
                assert (getattr(link, name).start < second) == (getattr(moved_link, name).start < second)
            assert moved_link.target.start - moved_link.source.start == link.target.start - link.source.start


def test_answers_are_drawn_among_candidates():
    spans = words()
    link = TokenLink(spans[10], spans[2], "x", tuple(spans[:8]), also=(spans[3],))
    times = Counter()
    for seed in range(800):
        (moved,) = move_links(TokenAnnotation(spans, (link,), forms=(seed,) * WORDS)).links
        assert (moved.source, moved.candidates) == (link.source, link.candidates)
        answers = {moved.target, *moved.also}
        assert len(answers) == 2
        times.update(answers)
    assert set(times) == set(spans[:8])
    assert max(abs(number - 200) for number in times.values()) < 4 * 200**0.5
