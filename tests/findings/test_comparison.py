"""Which head is the nearest, from divergences that are given."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from attnprobe.attention.kinds import Kind
from attnprobe.findings.partners import find_nearest
from attnprobe.sums.clustered import Clustered
from attnprobe.survey.divergences import name_pairs


def compared(apart: np.ndarray) -> Any:
    """Make a comparison of two encoders of one layer from the divergences (head, head)."""
    ours, theirs = (SimpleNamespace(layers=1, heads=heads) for heads in apart.shape)
    shared = SimpleNamespace(first=ours, second=theirs, kinds=(Kind.ENCODER,), layers=lambda _: ([0], [0]))
    sums = {name_pairs(Kind.ENCODER): Clustered.of(np.stack([apart, apart]))}
    return SimpleNamespace(shared=shared, measurement=SimpleNamespace(sums=sums))


def test_of_equals_the_nearest_is_that_of_the_same_number():
    """Heads may be copies of each other; a model is still its own nearest, head by head."""
    apart = np.array([
        [0.0, 0.0, 0.3, 0.0],
        [0.0, 0.0, 0.3, 0.0],
        [0.1, 0.3, 0.2, 0.1],
        [np.nan, 0.0, 0.3, 0.0],
    ])  # fmt: skip
    found = find_nearest(compared(apart))
    assert found.head.tolist() == [0, 1, 0, 3]
    np.testing.assert_allclose(found.jsd, [0, 0, 0.1, 0])


def test_where_nothing_is_known_there_is_none():
    found = find_nearest(compared(np.array([[np.nan, np.nan], [0.2, 0.1]])))
    assert found.head.tolist() == [-1, 1]
