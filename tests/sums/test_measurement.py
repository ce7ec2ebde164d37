"""Measurements add up, statistic by statistic, and survive being written down."""

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attnprobe.sums.base import (
    Arrays,
    Measurement,
    Sum,
    add_prefix,
    compute_digest,
    pack,
    select_prefix,
    unpack,
)
from attnprobe.sums.groups import Clustered


@dataclass(frozen=True)
class Largest:
    """A sum of one's own: the largest value, in arrays of its own names and types."""

    most: NDArray[np.float32]
    seen: int

    @classmethod
    def of(cls, values: NDArray[np.float64], clusters: NDArray[np.int64] | None = None) -> "Largest":
        return cls(values.max(0).astype(np.float32), len(values))

    def __add__(self, other: "Largest") -> "Largest":
        return Largest(np.maximum(self.most, other.most), self.seen + other.seen)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"deep/most": self.most, "seen": np.array(self.seen)}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Largest":
        return cls(arrays["deep/most"], int(arrays["seen"]))


#: One name begins like another, and one is that of what a measurement keeps itself.
KINDS: dict[str, type[Sum]] = {"jsd": Clustered, "jsd_mean": Largest, "seen": Clustered}


def measured(sequences: int, seed: int, *, alone: bool = False) -> Measurement:
    draw = np.random.default_rng(seed)
    clusters = np.full(sequences, -1) if alone else draw.integers(500, 510, sequences)
    sums = {name: kind.of(draw.random((sequences, 2, 3)), clusters) for name, kind in KINDS.items()}
    return Measurement(sums, sequences, 2**60 + sequences)


def same(one: Measurement, other: Measurement) -> None:
    assert (one.sequences, one.tokens) == (other.sequences, other.tokens)
    ours, theirs = one.arrays(), other.arrays()
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert (array.dtype, array.shape) == (theirs[name].dtype, theirs[name].shape)
        assert array.tobytes() == theirs[name].tobytes()


def test_addition():
    parts = [measured(5, seed) for seed in range(4)]
    found = reduce(add, parts)
    assert (found.sequences, found.tokens) == (20, 4 * 2**60 + 20)
    for name in KINDS:
        expected = reduce(add, (part.sums[name] for part in parts))
        for key, array in expected.arrays().items():
            np.testing.assert_array_equal(found.sums[name].arrays()[key], array)


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("written", [False, True])
def test_arrays(alone: bool, written: bool):
    """Each sum gets what it gave, whatever its arrays are called, and goes on adding."""
    found, more = measured(7, 0, alone=alone), measured(6, 1)
    arrays = found.arrays()
    assert {name.partition("/")[0] for name in arrays} == {*KINDS, "seen"}
    again = Measurement.from_arrays(unpack(pack(arrays)) if written else arrays, KINDS)
    same(again, found)
    same(again + more, found + more)
    assert isinstance(again.sums["jsd_mean"], Largest)


def test_some_of_the_sums():
    found = measured(7, 0)
    part = Measurement.from_arrays(found.arrays(), {"jsd": Clustered})
    assert list(part.sums) == ["jsd"]
    np.testing.assert_array_equal(part.sums["jsd"].average, found.sums["jsd"].average)


@pytest.mark.parametrize("other", [("jsd",), ("jsd", "jsd_mean", "entropy"), ()])
def test_others_are_refused(other: tuple[str, ...]):
    found = measured(3, 0)
    strange = Measurement(dict.fromkeys(other, found.sums["jsd"]), 3, 9)
    for one, two in ((found, strange), (strange, found)):
        with pytest.raises(ValueError, match="only measurements of the same statistics add up"):
            one + two


def test_order_of_statistics_does_not_matter():
    one, two = measured(3, 0), measured(3, 1)
    turned = Measurement(dict(reversed(two.sums.items())), two.sequences, two.tokens)
    same(one + turned, one + two)


def test_names_of_arrays():
    arrays = {"a": np.arange(2), "a/b": np.arange(3)}
    assert select_prefix(add_prefix("x", arrays), "x").keys() == arrays.keys()
    assert select_prefix(add_prefix("xy", arrays), "x") == {}
    assert select_prefix(add_prefix("x", arrays), "x/a").keys() == {"b"}


def test_digest_is_of_the_content():
    array = np.arange(12.0).reshape(3, 4)
    assert compute_digest(array, array[:1]) == compute_digest(array.copy(), array[:1].copy())
    assert compute_digest(array.T) == compute_digest(np.ascontiguousarray(array.T)) != compute_digest(array)
    assert compute_digest(array) != compute_digest(array + 1)
