"""Which documents two corpora have in common, from few numbers."""

import numpy as np
import pytest

from attnprobe.sums.documents import SIZE, Sketch, name_documents


def names(start: int, stop: int) -> np.ndarray:
    return name_documents(np.arange(start, stop))


def test_small_corpora_are_compared_exactly():
    one = Sketch.of(names(0, 100))
    for other, number, every in (((60, 200), 40, False), ((100, 200), 0, False), ((20, 60), 40, True)):
        found = one.compare(Sketch.of(names(*other)))
        assert (found.number, found.every, found.exact) == (number, every, True)
    assert one.compare(Sketch.of(names(7, 8))).every  # one document, which is all there are


@pytest.mark.parametrize("ends", [((0, 40_000), (30_000, 80_000)), ((0, 4000), (2000, 60_000))])
def test_large_corpora_are_estimated(ends: tuple[tuple[int, int], tuple[int, int]]):
    """Within four standard errors of what a draw of so many names gives."""
    (a, b), (c, d) = ends
    found = Sketch.of(names(a, b)).compare(Sketch.of(names(c, d)))
    drawn = SIZE / max(b - a, d - c)
    assert not found.every
    assert not found.exact
    assert abs(found.number - (b - c)) < 4 * ((b - c) / drawn) ** 0.5


def test_a_part_of_a_large_corpus():
    assert Sketch.of(names(0, 30_000)).compare(Sketch.of(names(0, 20_000))).every


def test_a_few_names_that_agree_are_not_every_document():
    """300 documents, of which 30,000 others have a fifth: refused in none of 300 draws."""
    few = 0
    for trial in range(300):
        start = 40_000 * trial
        small = names(start, start + 300)
        large = np.concatenate([small[:60], names(start + 1000, start + 30_940)])
        large = np.partition(large, SIZE)[:SIZE]  # the least, which are all that a sketch keeps
        found = Sketch.of(small).compare(Sketch.of(large))
        assert not found.every
        few += found.compared < 60
    assert few > 200  # most of its names are out of sight


def test_what_is_out_of_sight_is_said_to_be():
    """All of 100 documents lie in 100,000 others, and some four of them can be compared."""
    large = names(0, 100_000)
    sketch = Sketch.of(large)
    seen = [Sketch.of(large[start : start + 100]).compare(sketch) for start in range(0, 10_000, 100)]
    assert all(one.seen == one.compared and not one.exact and not one.every for one in seen)
    assert 3 < np.mean([one.compared for one in seen]) < 5.2


def test_few_documents_take_little_room():
    assert len(Sketch.of(names(0, 40)).pack()) < 450
    assert len(Sketch.of(names(0, 100_000)).pack()) < 44_000


def test_sketches_add_up_and_are_written_down():
    whole = Sketch.of(names(0, 9000))
    both = Sketch.of(names(0, 6000)) + Sketch.of(names(4000, 9000))
    np.testing.assert_array_equal(both.names, whole.names)
    np.testing.assert_array_equal(Sketch.unpack(both.pack()).names, whole.names)
    assert len(whole.names) == SIZE
