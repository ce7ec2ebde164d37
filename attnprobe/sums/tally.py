"""Counts of right answers: per label, direction, layer and head, beside those of simple rules."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.answers import Answers
from attnprobe.sums.base import Arrays, Sum
from attnprobe.sums.groups import Groups

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
#: What is counted: a label, the name of a direction and, of some decoders, the position that is asked.
Key = tuple[str, ...]

#: What ends the keys of those links alone whose ends are not neighbours.
FAR = "far"
#: The half of the documents on which heads and rules are chosen, and the one on which they are scored.
CHOOSING, SCORING = 0, 1
#: What is not counted of links at a distance.
_NEAR = ("both", "agreed")
#: What does not depend on keys.
_WHOLE = ("left_out", "groups", "kinds", "blocks")


@dataclass(frozen=True)
class Tally(Sum):
    """How many links there are and how many each head answers, cell by cell. Two of them add up.

    Halves are halves of the documents: where one of them chooses, heads and rules are chosen on the first and
    scored on the second. Of any folds that choose for one another, ``blocks`` holds what is needed.

    Attributes:
        keys: The labels and directions; behind them, each that ends in ``FAR``.
        asked: (key, layer, half) links.
        hits: (key, layer, head, half) links that a head answers rightly.
        clusters: (key, layer, half) sequences with such a link, those in ``groups`` not counted.
        asked_squared: (key, layer, half) sum over these sequences of n_c^2, n_c their links.
        hits_squared: (key, layer, head, half) sum of h_c^2, h_c their right answers.
        products: (key, layer, head, half) sum of h_c n_c.
        guessed: (key, layer, rule, half) links that a rule answers rightly.
        both: (key, layer, head, rule) links of the scoring half that head and rule answer rightly; this and
            ``agreed`` for the keys in ``compared``.
        agreed: (key, layer, head, rule) sum over sequences of the scoring half of h_c g_c, g_c the right
            answers of a rule.
        guessed_squared: (key, layer, rule) sum of g_c^2 there.
        guess_products: (key, layer, rule) sum of g_c n_c there.
        left_out: Questions that were not asked: both ends of the link are the same tokens; no right answer
            is in sight; every candidate in sight is right.
        kinds: (layer,) which kind of attention a layer has, as a place among the model's. What is asked and
            what rules answer is alike in all layers of a kind.
        groups: Links (group, key, kind) and right answers (group, key, ...) of documents of several
            sequences, such as sentences or windows: those of the heads of all layers, and behind them those
            of the rules in each kind; see ``group_hits`` and ``group_guesses``. Names are doubled, and odd on
            the scoring half, so that a group lies in one half.
        blocks: Links and right answers in each block of documents, cut or whole.
    """

    keys: tuple[Key, ...]
    asked: Ints
    hits: Ints
    clusters: Ints
    asked_squared: Ints
    hits_squared: Ints
    products: Ints
    guessed: Ints
    both: Ints
    agreed: Ints
    guessed_squared: Ints
    guess_products: Ints
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
        shapes = {
            "asked": (2,), "hits": (heads, 2), "clusters": (2,), "asked_squared": (2,),
            "hits_squared": (heads, 2), "products": (heads, 2), "guessed": (rules, 2), "both": (heads, rules),
            "agreed": (heads, rules), "guessed_squared": (rules,), "guess_products": (rules,),
        }  # fmt: skip
        by_group = Groups(
            groups,
            np.zeros((len(groups), len(keys), number)),
            np.zeros((len(groups), len(keys), layers * heads + number * rules)),
        )
        rows = {name: _count_near(keys) if name in _NEAR else len(keys) for name in shapes}
        return cls(
            tuple(keys),
            **{name: np.zeros((rows[name], layers, *shape), np.int64) for name, shape in shapes.items()},
            left_out=np.zeros(3, np.int64),
            kinds=np.array(kinds, np.int64),
            groups=by_group,
            blocks=Answers.empty(len(keys), number, layers, heads, rules),
        )

    @property
    def compared(self) -> tuple[Key, ...]:
        """The keys for which heads are compared with rules: all but those of links at a distance."""
        return self.keys[: len(self.both)]

    @property
    def group_hits(self) -> Floats:
        """Right answers of heads in documents of several sequences, (group, key, layer, head)."""
        layers, heads = self.hits.shape[1:3]
        return self.groups.total[..., : layers * heads].reshape(*self.groups.count.shape[:2], layers, heads)

    @property
    def group_guesses(self) -> Floats:
        """Right answers of rules there, (group, key, kind, rule)."""
        layers, heads, rules = self.both.shape[1:]
        return self.groups.total[..., layers * heads :].reshape(*self.groups.count.shape, rules)

    @property
    def documents(self) -> int:
        """Documents with links of the key of which most documents have some."""
        return int(self.count_documents().max(initial=0))

    def count_documents(self, half: int | None = None) -> Floats:
        """Count the documents that have links of a key, on one half or on both, (key, layer)."""
        halves = [CHOOSING, SCORING] if half is None else [half]
        mine = np.isin(self.groups.keys % 2, halves)
        return self.clusters[..., halves].sum(-1) + (self.groups.count[mine][:, :, self.kinds] > 0).sum(0)

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
        own = Groups(groups.keys[there], groups.count[there], groups.total[there])
        return replace(found, groups=own, left_out=np.zeros_like(self.left_out))

    def join_strata(self) -> Self:
        """Give the counts over all groups of documents, where each key begins with the name of its group."""
        return self._rename_keys([key[1:] for key in self.keys])

    def _rename_keys(self, names: Sequence[Key | None]) -> Self:
        """Give keys other names, and add up those that become one; without those that get None."""
        keys = order_keys(name for name in names if name is not None)
        place = {key: at for at, key in enumerate(keys)}

        def add_up(values: NDArray, axis: int = 0) -> NDArray:  # type: ignore[type-arg]
            there = names[: values.shape[axis]]
            kept = np.array([at for at, name in enumerate(there) if name is not None], np.int64)
            to = np.array([place[name] for name in there if name is not None], np.int64)
            order = np.argsort(to, kind="stable")
            found, starts = values.take(kept[order], axis), np.flatnonzero(np.diff(to[order], prepend=-1))
            return np.add.reduceat(found, starts, axis) if len(starts) < len(order) else found

        groups = Groups(self.groups.keys, add_up(self.groups.count, 1), add_up(self.groups.total, 1))
        counts = {name: add_up(getattr(self, name)) for name in (*self._plain, *_NEAR)}
        blocks = Answers(*(add_up(getattr(self.blocks, one.name)) for one in fields(Answers)))
        return replace(self, keys=keys, groups=groups, blocks=blocks, **counts)

    @property
    def _plain(self) -> list[str]:
        """The fields whose first axis are all keys."""
        return [one.name for one in fields(self) if one.name not in {"keys", *_WHOLE, *_NEAR}]

    def arrays(self) -> dict[str, NDArray[Any]]:
        # numpy's strings are all as long as the longest, and end before a NUL.
        return {**super().arrays(), "keys": np.frombuffer(json.dumps(self.keys).encode(), np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, **known: Any) -> Self:
        keys = tuple(tuple(map(str, key)) for key in json.loads(arrays["keys"].tobytes()))
        (_, layers, heads, rules), number = arrays["both"].shape, len(keys)
        kinds = len(np.unique(arrays["kinds"]))
        groups = Groups.within(arrays, (number, kinds), (number, layers * heads + kinds * rules))
        return super().from_arrays(arrays, keys=keys, groups=groups, **known)

    def accuracy(self, half: int | None = None) -> tuple[Floats, Floats]:
        """Give the share of links that each head answers rightly, and its standard error.

        With h_c right answers to the n_c links of document c, N = sum n_c, r = sum h_c / N, and C documents
        that have such a link, the error is that of a ratio:

            SE^2 = C / (C - 1)  sum_c (h_c - r n_c)^2 / N^2

        Args:
            half: On one half of the documents; on all of them by default.

        Returns:
            Two arrays (key, layer, head); NaN without a link, the error also below two documents.

        References:
            Cochran (1977), Sampling techniques, section 6.4.
        """
        halves = [CHOOSING, SCORING] if half is None else [half]
        asked = self.asked[..., halves].sum(-1)[..., None].astype(np.float64)
        hits = self.hits[..., halves].sum(-1).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = hits / asked
            squares = (
                self.hits_squared[..., halves].sum(-1)
                - 2 * share * self.products[..., halves].sum(-1)
                + np.square(share) * self.asked_squared[..., halves].sum(-1)[..., None]
            )
            clusters = self.clusters[..., halves].sum(-1)[..., None]
            mine = np.isin(self.groups.keys % 2, halves)
            if mine.any():
                count = self.groups.count[mine][:, :, self.kinds, None]
                apart = self.group_hits[mine] - np.nan_to_num(share) * count
                squares = squares + np.square(apart).sum(0)
                clusters = clusters + (count > 0).sum(0)
            error = np.sqrt(np.maximum(squares, 0) * clusters / (clusters - 1)) / asked
        return share, np.where((clusters > 1) & (asked > 0), error, np.nan)

    def disagreement(self) -> tuple[Ints, Floats, Floats]:
        """Compare heads with rules over the documents of the scoring half.

        With d_c = h_c - g_c, by how many right answers the head is ahead of the rule in document c: the
        number of documents with such a link (key, layer, 1, 1); sum of d_c^2 and sum of (d_c - D n_c)^2,
        where D = sum d_c / sum n_c, (key, layer, head, rule).
        """
        near = len(self.both)
        hits, guessed = self.hits[:near, ..., SCORING, None], self.guessed[:near, :, None, :, SCORING]
        asked = self.asked[:near, :, SCORING, None, None].astype(np.float64)
        ahead = np.divide(hits - guessed, asked, out=np.zeros(self.both.shape), where=asked > 0)
        agreed, by_head, by_rule, by_link, mixed_head, mixed_rule, clusters = self._scored()
        squares = by_head[..., None] - 2 * agreed + by_rule[:, :, None]
        mixed = mixed_head[..., None] - mixed_rule[:, :, None]
        around = squares - 2 * ahead * mixed + ahead**2 * by_link[..., None, None]
        return clusters[..., None, None].astype(np.int64), squares, np.maximum(around, 0)

    def _scored(self) -> tuple[Floats, ...]:
        """Sum h_c g_c, h_c^2, g_c^2, n_c^2, h_c n_c, g_c n_c and 1 over all documents of the scoring half.

        Whole numbers below 2^53, so that floating point holds them exactly.
        """
        near = len(self.both)
        found = (
            self.agreed,
            self.hits_squared[:near, ..., SCORING],
            self.guessed_squared[:near],
            self.asked_squared[:near, ..., SCORING],
            self.products[:near, ..., SCORING],
            self.guess_products[:near],
            self.clusters[:near, ..., SCORING],
        )
        mine = self.groups.keys % 2 == SCORING
        if not mine.any():
            return tuple(one.astype(np.float64) for one in found)
        right, guessed = self.group_hits[mine, :near].transpose(1, 2, 3, 0), self.group_guesses[mine, :near]
        guessed, asked = guessed.transpose(1, 2, 0, 3), self.groups.count[mine, :near].transpose(1, 2, 0)
        of_kind = (
            np.square(guessed).sum(2),
            np.square(asked).sum(2),
            (guessed * asked[..., None]).sum(2),
            (asked > 0).sum(2),
        )
        guesses, links, mixed, number = (one[:, self.kinds] for one in of_kind)
        agreed = np.stack([right[:, at] @ guessed[:, kind] for at, kind in enumerate(self.kinds)], 1)
        with_links = (right * asked[:, self.kinds, None]).sum(-1)
        more = (agreed, np.square(right).sum(-1), guesses, links, with_links, mixed, number)
        return tuple(one + other for one, other in zip(found, more, strict=True))

    def ahead_by_group(self, where: tuple[int, int, int, int]) -> Ints:
        """Give by how many right answers a head is ahead of a rule in each group of the scoring half.

        ``where`` is key, layer, head and rule; only groups count that are asked such a link.
        """
        key, layer, head, rule = where
        kind = self.kinds[layer]
        mine = (self.groups.keys % 2 == SCORING) & (self.groups.count[:, key, kind] > 0)
        apart = self.group_hits[mine, key, layer, head] - self.group_guesses[mine, key, kind, rule]
        return apart.round().astype(np.int64)

    def _over(self, keys: tuple[Key, ...]) -> Self:
        if keys == self.keys:
            return self
        place = {key: at for at, key in enumerate(keys)}
        at = np.array([place[key] for key in self.keys], np.int64)

        def spread(values: NDArray, axis: int = 0, number: int = len(keys)) -> NDArray:  # type: ignore[type-arg]
            shape = list(values.shape)
            there = at[: shape[axis]]
            shape[axis] = number
            whole = np.zeros(shape, values.dtype)
            whole[(slice(None),) * axis + (there,)] = values
            return whole

        counts = {name: spread(getattr(self, name), number=_count_near(keys)) for name in _NEAR}
        counts |= {name: spread(getattr(self, name)) for name in self._plain}
        groups = Groups(self.groups.keys, spread(self.groups.count, 1), spread(self.groups.total, 1))
        blocks = self.blocks.over(at, len(keys))
        return replace(self, keys=keys, groups=groups, blocks=blocks, **counts)


def order_keys(keys: Iterable[Key]) -> tuple[Key, ...]:
    """Give each key once, those of links at a distance last."""
    return tuple(sorted(dict.fromkeys(keys), key=lambda key: key[-1] == FAR))


def _count_near(keys: Sequence[Key]) -> int:
    return sum(key[-1] != FAR for key in keys)
