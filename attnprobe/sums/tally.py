"""Counts of right answers: per label, direction, layer and head, beside those of simple rules."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.answers import Answers
from attnprobe.sums.base import Arrays, Sum
from attnprobe.sums.clustered import Groups

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
#: What is counted: a label, the name of a direction and, of some decoders, the position that is asked.
Key = tuple[str, ...]

#: What ends the keys of those links alone whose ends are not neighbours.
FAR = "far"
#: What does not depend on keys, or is made of other sums.
_WHOLE = ("keys", "left_out", "groups", "kinds", "blocks")


@dataclass(frozen=True)
class Tally(Sum):
    """How many links there are and how many each head answers, cell by cell. Two of them add up.

    Attributes:
        keys: The labels and directions; behind them, each that ends in ``FAR``.
        clusters: (key, layer) sequences with such a link, those in ``groups`` not counted.
        asked_squared: (key, layer) sum over these sequences of n_c^2, n_c their links.
        hits_squared: (key, layer, head) sum of h_c^2, h_c their right answers.
        products: (key, layer, head) sum of h_c n_c.
        left_out: Questions that were not asked: both ends of the link are the same tokens; no right answer
            is in sight; every candidate in sight is right.
        kinds: (layer,) which kind of attention a layer has, as a place among the model's. What is asked and
            what rules answer is alike in all layers of a kind.
        groups: Links (group, key, kind) and right answers (group, key, layer and head) of documents of
            several sequences, such as sentences or windows; see ``group_hits``.
        blocks: Links and right answers in each block of documents.
    """

    keys: tuple[Key, ...]
    clusters: Ints
    asked_squared: Ints
    hits_squared: Ints
    products: Ints
    left_out: Ints
    kinds: Ints
    groups: Groups
    blocks: Answers

    @classmethod
    def empty(
        cls, keys: Sequence[Key], kinds: Sequence[int], heads: int, rules: int, groups: Ints
    ) -> "Tally":
        """Begin to count in layers of some kinds of attention, from 0 up.

        ``groups`` names documents of several sequences, see ``fold_names``.
        """
        layers, number = len(kinds), len(set(kinds))
        shapes = {"clusters": (), "asked_squared": (), "hits_squared": (heads,), "products": (heads,)}
        return cls(
            tuple(keys),
            **{name: np.zeros((len(keys), layers, *shape), np.int64) for name, shape in shapes.items()},
            left_out=np.zeros(3, np.int64),
            kinds=np.array(kinds, np.int64),
            groups=Groups(
                groups,
                np.zeros((len(groups), len(keys), number)),
                np.zeros((len(groups), len(keys), layers * heads)),
            ),
            blocks=Answers.empty(len(keys), number, layers, heads, rules),
        )

    @property
    def asked(self) -> Ints:
        """Links, (key, layer)."""
        return self.blocks.asked.sum(-1, dtype=np.int64)[:, self.kinds]

    @property
    def hits(self) -> Ints:
        """Links that a head answers rightly, (key, layer, head)."""
        return self.blocks.hits.sum(-1, dtype=np.int64)

    @property
    def near(self) -> tuple[Key, ...]:
        """The keys but those of links at a distance."""
        return tuple(key for key in self.keys if key[-1] != FAR)

    @property
    def group_hits(self) -> Floats:
        """Right answers of heads in documents of several sequences, (group, key, layer, head)."""
        return self.groups.total.reshape(*self.groups.count.shape[:2], *self.products.shape[1:])

    @property
    def documents(self) -> int:
        """Documents with links of the key of which most documents have some."""
        return int(self.count_documents().max(initial=0))

    def count_documents(self) -> Ints:
        """Count the documents that have links of a key, (key, layer)."""
        return self.clusters + (self.groups.count[:, :, self.kinds] > 0).sum(0)

    def __add__(self, other: Self) -> Self:
        keys = self.keys if self.keys == other.keys else order_keys((*self.keys, *other.keys))
        ours, theirs = self._over(keys), other._over(keys)
        names = [field.name for field in fields(self) if field.name not in {"keys", "kinds"}]
        return replace(ours, **{name: getattr(ours, name) + getattr(theirs, name) for name in names})

    def take_stratum(self, name: str) -> Self:
        """Give the counts of one group of documents, where each key begins with the name of its group.

        Questions that were not asked are not told apart by group, and are none here.
        """
        found = self._rename_keys([key[1:] if key[0] == name else None for key in self.keys])
        groups = found.groups
        there = groups.count.any((1, 2))
        kept = Groups(groups.keys[there], groups.count[there], groups.total[there])
        return replace(found, groups=kept, left_out=np.zeros_like(self.left_out))

    def join_strata(self) -> Self:
        """Give the counts over all groups of documents, where each key begins with the name of its group."""
        return self._rename_keys([key[1:] for key in self.keys])

    def _rename_keys(self, names: Sequence[Key | None]) -> Self:
        """Give keys other names, and add up those that become one; without those that get None."""
        keys = order_keys(name for name in names if name is not None)
        place = {key: at for at, key in enumerate(keys)}
        kept = np.array([at for at, name in enumerate(names) if name is not None], np.int64)
        to = np.array([place[name] for name in names if name is not None], np.int64)
        order = np.argsort(to, kind="stable")
        starts = np.flatnonzero(np.diff(to[order], prepend=-1))

        def add_up(values: NDArray, axis: int = 0) -> NDArray:  # type: ignore[type-arg]
            found = values.take(kept[order], axis)
            return np.add.reduceat(found, starts, axis) if len(starts) < len(order) else found

        groups = Groups(self.groups.keys, add_up(self.groups.count, 1), add_up(self.groups.total, 1))
        blocks = Answers(*(add_up(getattr(self.blocks, one.name)) for one in fields(Answers)))
        counts = {name: add_up(getattr(self, name)) for name in self._plain}
        return replace(self, keys=keys, groups=groups, blocks=blocks, **counts)

    @property
    def _plain(self) -> list[str]:
        return [one.name for one in fields(self) if one.name not in _WHOLE]

    def arrays(self) -> dict[str, NDArray[Any]]:
        # numpy's strings are all as long as the longest, and end before a NUL.
        return {**super().arrays(), "keys": np.frombuffer(json.dumps(self.keys).encode(), np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, **known: Any) -> Self:
        keys = tuple(tuple(map(str, key)) for key in json.loads(arrays["keys"].tobytes()))
        _, layers, heads = arrays["products"].shape
        kinds, number = len(np.unique(arrays["kinds"])), len(keys)
        groups = Groups.within(arrays, (number, kinds), (number, layers * heads))
        return super().from_arrays(arrays, keys=keys, groups=groups, **known)

    def accuracy(self) -> tuple[Floats, Floats]:
        """Give the share of links that each head answers rightly, and its standard error.

        With h_c right answers to the n_c links of document c, N = sum n_c, r = sum h_c / N, and C documents
        that have such a link, the error is that of a ratio:

            SE^2 = C / (C - 1)  sum_c (h_c - r n_c)^2 / N^2

        Returns:
            Two arrays (key, layer, head); NaN without a link, the error also below two documents.

        References:
            Cochran (1977), Sampling techniques, section 6.4.
        """
        asked = self.asked[..., None].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = self.hits / asked
            squares = (
                self.hits_squared
                - 2 * share * self.products
                + np.square(share) * self.asked_squared[..., None]
            )
            clusters = self.count_documents()[..., None]
            if len(self.groups):
                count = self.groups.count[:, :, self.kinds, None]
                squares += np.square(self.group_hits - np.nan_to_num(share) * count).sum(0)
            error = np.sqrt(np.maximum(squares, 0) * clusters / (clusters - 1)) / asked
        return share, np.where((clusters > 1) & (asked > 0), error, np.nan)

    def _over(self, keys: tuple[Key, ...]) -> Self:
        if keys == self.keys:
            return self
        place = {key: at for at, key in enumerate(keys)}
        at = np.array([place[key] for key in self.keys], np.int64)

        def spread(values: NDArray, axis: int = 0) -> NDArray:  # type: ignore[type-arg]
            shape = list(values.shape)
            shape[axis] = len(keys)
            whole = np.zeros(shape, values.dtype)
            whole[(slice(None),) * axis + (at,)] = values
            return whole

        counts = {name: spread(getattr(self, name)) for name in self._plain}
        groups = Groups(self.groups.keys, spread(self.groups.count, 1), spread(self.groups.total, 1))
        return replace(self, keys=keys, groups=groups, blocks=self.blocks.over(at, len(keys)), **counts)


def order_keys(keys: Iterable[Key]) -> tuple[Key, ...]:
    """Give each key once, those of links at a distance last."""
    return tuple(sorted(dict.fromkeys(keys), key=lambda key: key[-1] == FAR))
