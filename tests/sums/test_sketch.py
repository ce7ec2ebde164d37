"""Which documents two corpora have in common, from few numbers."""

import numpy as np
import pytest

from attnprobe.sums.groups import names_of
from attnprobe.sums.sketch import SIZE, Sketch


def names(start: int, stop: int) -> np.ndarray:
    return names_of(np.arange(start, stop))


def test_small_corpora_are_compared_exactly():
    one, other = Sketch.of(names(0, 100)), Sketch.of(names(60, 200))
    assert one.shared(other) == (40.0, False)
    assert one.shared(Sketch.of(names(100, 200))) == (0.0, False)
    assert one.shared(Sketch.of(names(20, 60))) == (40.0, True)


@pytest.mark.parametrize("ends", [((0, 20_000), (15_000, 40_000)), ((0, 200), (100, 30_000))])
def test_large_corpora_are_estimated(ends: tuple[tuple[int, int], tuple[int, int]]):
    """Within four standard errors of what a draw of so many names gives."""
    (a, b), (c, d) = ends
    shared, every = Sketch.of(names(a, b)).shared(Sketch.of(names(c, d)))
    drawn = SIZE / max(b - a, d - c)
    assert not every
    assert abs(shared - (b - c)) < 4 * ((b - c) / drawn) ** 0.5


def test_a_part_of_a_large_corpus():
    assert Sketch.of(names(0, 30_000)).shared(Sketch.of(names(0, 20_000)))[1]


def test_sketches_add_up_and_are_written_down():
    whole = Sketch.of(names(0, 3000))
    both = Sketch.of(names(0, 1000)) + Sketch.of(names(800, 3000))
    np.testing.assert_array_equal(both.names, whole.names)
    np.testing.assert_array_equal(Sketch.unpacked(both.packed()).names, whole.names)
    assert len(whole.names) == SIZE
