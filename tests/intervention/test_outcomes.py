"""What examples gave under cuts, put together from parts in any order, and kept in files."""

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from attnprobe.intervention.objectives.objective import Answer
from attnprobe.intervention.trials import Outcomes
from attnprobe.sums.base import pack, unpack

EXAMPLES, CUTS = 23, 7
NAMES = ("loss", "prediction", "text")
#: Of many lengths; nothing, spaces, lines and letters of several bytes are text too.
TEXTS = [
    "",
    " ",
    "a",
    "line\nline",
    "ärger",
    "東京。",
    "😀 wave",
    "tail  ",
    "longer than all the others " * 3,
]

Ints = NDArray[np.int64]
DRAW = np.random.default_rng(0)
LOSS = DRAW.gamma(2.0, size=(1 + CUTS, EXAMPLES)).astype(np.float32)
PREDICTION = DRAW.integers(5, size=(1 + CUTS, EXAMPLES))
TEXT = DRAW.choice(np.array(TEXTS, object), (1 + CUTS, EXAMPLES))


def answers(members: Ints, cuts: Sequence[int]) -> list[Answer]:
    return [
        Answer(
            torch.from_numpy(LOSS[cut, members]),
            {"prediction": torch.from_numpy(PREDICTION[cut, members])},
            TEXT[cut, members].tolist(),
        )
        for cut in cuts
    ]


def part(members: Ints, cuts: Sequence[int] = range(1 + CUTS), names: Sequence[str] = NAMES) -> Outcomes:
    return Outcomes.of(members, cuts, answers(members, cuts), names)


def batches(size: int, seed: int = 0) -> list[Ints]:
    order = np.random.default_rng(seed).permutation(EXAMPLES)
    return np.split(order, range(size, EXAMPLES, size))


def is_whole(found: Outcomes, cuts: Sequence[int] = range(1 + CUTS)) -> None:
    """Every example has what it gave, in the order of the examples."""
    for cut in cuts:
        outcome = found.select_cut(cut, np.arange(EXAMPLES))
        assert outcome.keys() == set(NAMES)
        np.testing.assert_array_equal(outcome["loss"], LOSS[cut])
        np.testing.assert_array_equal(outcome["prediction"], PREDICTION[cut])
        assert outcome["loss"].dtype == np.float32
        assert outcome["text"].dtype == object
        assert outcome["text"].tolist() == TEXT[cut].tolist()
        assert all(type(text) is str for text in outcome["text"])


def kept(found: Outcomes) -> Outcomes:
    """Put it into a file and take it out again."""
    return Outcomes.from_arrays(unpack(pack(found.arrays())))


@pytest.mark.parametrize("size", [1, 4, EXAMPLES])
def test_batches_in_any_order(size: int):
    parts = [part(members) for members in batches(size)]
    is_whole(reduce(add, parts))
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(parts))
        is_whole(reduce(add, (parts[place] for place in order)))


def test_rounds_of_cuts_in_any_order():
    """Processes share batches and cuts; the untouched model is in every round."""
    rounds = [(0, 1, 2, 3), (0, 4, 5), (0, 6, 7)]
    parts = [part(members, cuts) for members in batches(9) for cuts in rounds]
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(parts))
        one, *others = (parts[place] for place in order)
        middle = len(others) // 2
        is_whole(reduce(add, others[:middle], one) + kept(reduce(add, others[middle:])))


@pytest.mark.parametrize("size", [1, 4, EXAMPLES])
def test_arrays(size: int):
    found = reduce(add, (part(members) for members in batches(size)))
    again = kept(found)
    is_whole(again)
    is_whole(kept(again))
    assert len(again.parts) == 1  # examples of like cuts lie side by side
    for name, array in again.arrays().items():
        assert array.dtype.kind != "O", name
        np.testing.assert_array_equal(array, found.arrays()[name], err_msg=name)


def test_several_numbers_an_example():
    """Counts and labels are rows; they come back as they were, from a file too."""
    draw = np.random.default_rng(4)
    rows = draw.integers(0, 9, (2, EXAMPLES, 3)).astype(np.float32)

    def of(members: NDArray[np.int64]) -> Outcomes:
        answers = [
            Answer(torch.zeros(len(members)), {"words": torch.from_numpy(one[members])}) for one in rows
        ]
        return Outcomes.of(members, [0, 1], answers, ["words"])

    found = kept(of(np.array([5, 1, 9]))) + of(np.array([2]))
    for cut in (0, 1):
        outcome = found.select_cut(cut, np.array([1, 2, 5, 9]))["words"]
        np.testing.assert_array_equal(outcome, rows[cut][[1, 2, 5, 9]])


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
