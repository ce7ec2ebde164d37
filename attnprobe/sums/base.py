"""What a sum is: anything that adds up over batches, processes, machines and jobs; moments are the first."""

import base64
import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprobe.errors import DataError

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Sum:
    """What is kept of the sequences seen so far; its size does not depend on their number.

    A sum is a dataclass of arrays and of other sums, which add up field by field, unless it has a formula of
    its own. State, torchrun, merge and records know ``+``, ``arrays`` and ``from_arrays`` alone.

    Most sums have ``of(values, clusters, documents)``, and ``of(a) + of(b)`` equals ``of(a and b together)``
    up to rounding. ``values`` are (sequence, ...), NaN where undefined; ``clusters`` names the document of
    each sequence, -1 or None where it is a document of its own; ``documents`` is the name of its document,
    which is the same in every job.
    """

    #: Fields whose arrays are named as if they were those of the sum itself.
    FLAT: ClassVar[tuple[str, ...]] = ()

    def __add__(self, other: Any) -> Self:
        names = [field.name for field in fields(self)]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))

    @property
    def documents(self) -> int | None:
        """Of how many documents it is, at least; None where they are not told apart."""
        return None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give the arrays, by name, that are needed to go on adding."""
        arrays: dict[str, NDArray[Any]] = {}
        for each in fields(self):
            part = getattr(self, each.name)
            if not isinstance(part, Sum):
                arrays[each.name] = part
            elif each.name in self.FLAT:
                arrays |= part.arrays()
            else:
                arrays |= add_prefix(each.name, part.arrays())
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays, **known: Any) -> Self:
        """Restore a sum from its ``arrays()``; ``known`` are fields that a subclass restores itself."""
        for each in fields(cls):
            if each.name in known:
                continue
            if isinstance(each.type, type) and issubclass(each.type, Sum):
                part = arrays if each.name in cls.FLAT else select_prefix(arrays, each.name)
                known[each.name] = each.type.from_arrays(part)
            else:
                known[each.name] = arrays[each.name]
        return cls(**known)


def compute_digest(*arrays: NDArray[Any]) -> str:
    """Give the SHA-256 of arrays, in their order."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def add_prefix(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def select_prefix(arrays: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    start = f"{prefix}/"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


_SEEN, _GROUPS = "seen", "groups"


@dataclass(frozen=True)
class Measurement:
    """The sums of several statistics over the sequences seen so far. Two of them add up.

    Attributes:
        sums: For each statistic, what is kept; cells (layer, head or pair, ...).
        sequences: Sequences seen.
        tokens: Tokens seen.
        groups: The same by group of documents, where groups were asked for.
    """

    sums: Mapping[str, Any]
    sequences: int = 0
    tokens: int = 0
    groups: Mapping[str, "Measurement"] = field(default_factory=dict)

    @property
    def documents(self) -> int:
        """Of how many documents the sums are, at least; sequences where no sum tells them apart."""
        counts = [each.documents for each in self.sums.values() if each.documents is not None]
        return max(counts, default=self.sequences)

    def of(self, names: Iterable[str]) -> "Measurement":
        """Give a measurement of these statistics alone, in each group too."""
        kept = list(names)
        sums = {name: self.sums[name] for name in kept}
        groups = {name: group.of(kept) for name, group in self.groups.items()}
        return Measurement(sums, self.sequences, self.tokens, groups)

    def arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {_SEEN: np.array([self.sequences, self.tokens], np.int64)}
        for name, part in self.sums.items():
            arrays |= add_prefix(name, part.arrays())
        if self.groups:
            # numpy's strings are all as long as the longest, and end before a NUL.
            arrays[_GROUPS] = np.frombuffer(json.dumps([*self.groups]).encode(), np.uint8)
            for place, group in enumerate(self.groups.values()):
                arrays |= add_prefix(f"{_GROUPS}/{place}", group.arrays())
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays, kinds: Mapping[str, type[Sum]]) -> "Measurement":
        sums = {name: kind.from_arrays(select_prefix(arrays, name)) for name, kind in kinds.items()}
        sequences, tokens = arrays[_SEEN].astype(int).tolist()
        names = json.loads(arrays[_GROUPS].tobytes()) if _GROUPS in arrays else []
        groups = {
            str(name): cls.from_arrays(select_prefix(arrays, f"{_GROUPS}/{place}"), kinds)
            for place, name in enumerate(names)
        }
        return cls(sums, sequences, tokens, groups)

    def join(self, other: "Measurement") -> "Measurement":
        """Put what was measured of other statistics beside this, which goes on counting its own sequences."""
        groups = {name: group.join(other.groups[name]) for name, group in self.groups.items()}
        return Measurement({**self.sums, **other.sums}, self.sequences, self.tokens, groups)

    def __add__(self, other: "Measurement") -> "Measurement":
        merged = {name: self.sums[name] + other.sums[name] for name in self.sums}
        sequences, tokens = self.sequences + other.sequences, self.tokens + other.tokens
        return Measurement(merged, sequences, tokens, self.add_groups(other))

    def add_groups(self, other: "Measurement") -> dict[str, "Measurement"]:
        """Add up what was measured of each group, in either or in both."""
        groups = dict(self.groups)
        for name, group in other.groups.items():
            groups[name] = groups[name] + group if name in groups else group
        return groups


def pack(arrays: Arrays) -> str:
    """Pack the arrays of a sum exactly: numpy's npz, in base64."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return base64.b64encode(buffer.getvalue()).decode()


def unpack(text: Any) -> Mapping[str, NDArray[Any]]:
    """Restore the arrays from what ``pack`` gave; raises ValueError for anything else."""
    try:
        content = base64.b64decode(text, validate=True)
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return dict(arrays)
    except (KeyError, TypeError, ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError("it holds no sums") from error


@dataclass(frozen=True)
class Moments(Sum):
    """Count, mean and sum of squared deviations of a sample, cell by cell, in float64.

    NaN is no observation. The mean of none is 0 here, and NaN as ``average``.

    References:
        Chan, Golub and LeVeque (1983), Algorithms for computing the sample variance.

    >>> both = Moments.of([1.0, 2.0]) + Moments.of([3.0, float("nan")])
    >>> both.count.item(), both.average.item(), both.variance.item()
    (3.0, 2.0, 1.0)
    """

    count: NDArray[np.float64]
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def of(cls, values: ArrayLike, clusters: Any = None, documents: Any = None) -> "Moments":
        """Take the moments over the first axis of ``values``, as if each were a document of its own."""
        sample = np.asarray(values, dtype=np.float64)
        seen = ~np.isnan(sample)
        count = seen.sum(0, dtype=np.float64)
        mean = np.divide(sample.sum(0, where=seen), count, out=np.zeros_like(count), where=count > 0)
        with np.errstate(invalid="ignore"):  # a mean of infinite values has no variance
            deviations = np.where(seen, sample - mean, 0.0)
        return cls(count, mean, np.square(deviations).sum(0))

    def __add__(self, other: Self) -> Self:
        count = self.count + other.count
        share = np.divide(other.count, count, out=np.zeros_like(count), where=count > 0)
        with np.errstate(invalid="ignore"):
            distance = other.mean - self.mean
            mean = self.mean + distance * share
            squares = self.squares + other.squares + np.square(distance) * self.count * share
        return type(self)(count, mean, squares)

    @property
    def average(self) -> NDArray[np.float64]:
        """The mean, NaN where nothing was observed."""
        return np.where(self.count > 0, self.mean, np.nan)

    @property
    def variance(self) -> NDArray[np.float64]:
        """The unbiased sample variance, NaN below two observations."""
        nothing = np.full_like(self.squares, np.nan)
        return np.divide(self.squares, self.count - 1, out=nothing, where=self.count > 1)

    @property
    def standard_error(self) -> NDArray[np.float64]:
        """The standard error of the mean, sqrt(variance / count), NaN below two observations."""
        return np.sqrt(self.variance / np.maximum(self.count, 1))


#: By how much processors may differ in the same computation.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Constant(Sum):
    """Numbers that no sequence changes. Two of them add up to the same, and only if they are the same.

    >>> constant = Constant.of([2.0, float("nan")])
    >>> (constant + constant).values
    array([ 2., nan])
    """

    values: NDArray[np.float64]

    @classmethod
    def of(cls, values: ArrayLike) -> "Constant":
        return cls(np.array(values, np.float64))

    def __add__(self, other: Self) -> Self:
        alike = self.values.shape == other.values.shape
        if not alike or not np.allclose(self.values, other.values, _ROUNDING, _ROUNDING, equal_nan=True):
            raise DataError(
                "What depends on the weights alone differs between parts that are to be added up: they are "
                "of different models."
            )
        return self

    @property
    def average(self) -> NDArray[np.float64]:
        return self.values

    @property
    def count(self) -> NDArray[np.float64]:
        """Whether there is a number, cell by cell: 1 or 0."""
        return (~np.isnan(self.values)).astype(np.float64)
