"""What examples gave under masks, put together from parts in any order, and kept in files."""

from functools import reduce
from operator import add

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from attnprobe.intervention.objectives.objective import Answer
from attnprobe.intervention.trials import MaskedAnswers
from attnprobe.sums.base import pack, unpack

EXAMPLES, MASKS = 23, 8
NAMES = ("loss", "words")

Ints = NDArray[np.int64]
DRAW = np.random.default_rng(0)
LOSS = DRAW.gamma(2.0, size=(MASKS, EXAMPLES)).astype(np.float32)
WORDS = DRAW.integers(9, size=(MASKS, EXAMPLES, 3))  # several numbers an example


def part(members: Ints) -> MaskedAnswers:
    answers = [
        Answer(
            torch.from_numpy(LOSS[mask, members]),
            {"words": torch.from_numpy(WORDS[mask, members])},
        )
        for mask in range(MASKS)
    ]
    return MaskedAnswers.of(members, answers, NAMES)


def kept(found: MaskedAnswers) -> MaskedAnswers:
    """Put it into a file and take it out again."""
    return MaskedAnswers.from_arrays(unpack(pack(found.arrays())))


@pytest.mark.parametrize("size", [1, 4, EXAMPLES])
def test_batches_in_any_order(size: int):
    """Every example has what it gave, in the order of the examples, also where some come from a file."""
    order = np.random.default_rng(size).permutation(EXAMPLES)
    parts = [part(members) for members in np.split(order, range(size, EXAMPLES, size))]
    mixed = reduce(add, [kept(one) if place % 2 else one for place, one in enumerate(parts)])
    for found in (reduce(add, parts), mixed, kept(kept(reduce(add, parts[::-1])))):
        for mask, values in enumerate(found.iterate_masks()):
            assert values.keys() == set(NAMES)
            np.testing.assert_array_equal(values["loss"], LOSS[mask])
            np.testing.assert_array_equal(values["words"], WORDS[mask])
            assert values["loss"].dtype == np.float32
        assert mask == MASKS - 1


def test_what_takes_its_time_is_worked_out_when_it_is_asked_for():
    asked = []

    def late() -> torch.Tensor:
        asked.append(1)
        return torch.ones(2, dtype=torch.float64)

    answer = Answer(torch.zeros(2), {"f1": late})
    answer.value("loss")
    assert asked == []
    assert answer.value("f1").tolist() == [1, 1]
    assert asked == [1]
