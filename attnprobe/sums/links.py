"""Counts of links and right answers, and cross-fitting: each fold is scored with what is best on the others.

Every link is scored, and none of them chose what it scores. But any two folds share most of the links that
they choose by, so that errors and p values that take the choice for given are too small, down to half of what
they should be. So the choice is made anew with every draw of signs.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.base import Arrays, Sum
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.inference import Estimate, PermutationTest

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
#: Of counts that no corpus takes to 2^31, so that 64 blocks take no more room than 32 of whole numbers.
Counts = NDArray[np.int32]
#: What is counted: a label, the name of a direction and, of some decoders, the position that is asked.
Key = tuple[str, ...]

#: What ends the keys of those links alone whose ends are not neighbours.
FAR = "far"
#: The fields that are counted key by key.
_BY_KEY = ("number", "hits", "guessed", "chance")


@dataclass(frozen=True)
class LinkCounts(Sum):
    """How many links each block of documents has, and how many of them each head and rule answers rightly.

    Links and what rules answer are alike in all layers of a kind of attention.
    """

    keys: tuple[Key, ...]  # those that end in ``FAR`` behind the others
    left_out: Ints  # questions that were not asked, see ``Questions``
    kinds: Ints  # (layer,) which kind of attention a layer has
    number: Counts  # (key, kind, block) links
    hits: Counts  # (key, layer, head, block)
    guessed: Counts  # (key, kind, rule, block)
    chance: Floats  # (key, kind, block) right answers by chance, where links name candidates

    @classmethod
    def empty(cls, keys: Sequence[Key], kinds: Sequence[int], heads: int, rules: int) -> "LinkCounts":
        """Begin to count in layers of kinds of attention that are numbered from 0."""
        number = len(keys), len(set(kinds))
        return cls(
            tuple(keys),
            np.zeros(3, np.int64),
            np.array(kinds, np.int64),
            np.zeros((*number, BLOCKS), np.int32),
            np.zeros((len(keys), len(kinds), heads, BLOCKS), np.int32),
            np.zeros((*number, rules, BLOCKS), np.int32),
            np.zeros((*number, BLOCKS)),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Layers, and heads of each."""
        _, layers, heads, _ = self.hits.shape
        return layers, heads

    @property
    def links(self) -> Ints:
        """How many there are, (key, layer)."""
        return self.number.sum(-1, dtype=np.int64)[:, self.kinds]

    @property
    def near(self) -> tuple[Key, ...]:
        """The keys but those of links at a distance, which are the last."""
        return tuple(key for key in self.keys if key[-1] != FAR)

    @property
    def documents(self) -> int:
        """Blocks of documents with links of the key of which most blocks have some."""
        return int((self.number > 0).sum(-1).max(initial=0))

    def __add__(self, other: Self) -> Self:
        keys = self.keys if self.keys == other.keys else order_keys((*self.keys, *other.keys))
        ours, theirs = (side._rename_keys(side.keys, keys) for side in (self, other))
        counts = {name: getattr(ours, name) + getattr(theirs, name) for name in _BY_KEY}
        return replace(ours, left_out=self.left_out + other.left_out, **counts)

    def take_group(self, name: str) -> Self:
        """Give the counts of one group of documents, where each key begins with the name of its group."""
        counts = self._rename_keys([key[1:] if key[0] == name else None for key in self.keys])
        return replace(counts, left_out=np.zeros_like(self.left_out))

    def join_groups(self) -> Self:
        """Give the counts over all groups of documents, where each key begins with the name of its group."""
        return self._rename_keys([key[1:] for key in self.keys])

    def _rename_keys(self, names: Sequence[Key | None], keys: tuple[Key, ...] | None = None) -> Self:
        """Rename each key, among ``keys`` if given: counts of one name add up, those of None are left out."""
        keys = order_keys(name for name in names if name is not None) if keys is None else keys
        if tuple(names) == keys == self.keys:
            return self
        counts = {name: getattr(self, name) for name in _BY_KEY}
        renamed = {name: np.zeros((len(keys), *old.shape[1:]), old.dtype) for name, old in counts.items()}
        place = {key: at for at, key in enumerate(keys)}
        kept = [(place[name], old) for old, name in enumerate(names) if name is not None]
        for field, array in renamed.items():
            for new, old in kept:
                array[new] += counts[field][old]
        return replace(self, keys=keys, **renamed)

    def arrays(self) -> dict[str, NDArray[Any]]:
        # numpy's strings are all as long as the longest, and end before a NUL.
        return {**super().arrays(), "keys": np.frombuffer(json.dumps(self.keys).encode(), np.uint8)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, **known: Any) -> Self:
        keys = tuple(tuple(map(str, key)) for key in json.loads(arrays["keys"].tobytes()))
        return super().from_arrays(arrays, keys=keys, **known)


def order_keys(keys: Iterable[Key]) -> tuple[Key, ...]:
    """Give each key once, those of links at a distance last."""
    return tuple(sorted(dict.fromkeys(keys), key=lambda key: key[-1] == FAR))


# Cross-fitting

#: So many folds of the documents, where nobody says otherwise.
FOLDS = 5
#: Errors are over so many draws of signs; those of a test come in parts of so many.
DRAWS, _AT_ONCE = 1000, 2000
#: Candidates that are so many standard errors of the difference behind the best may as well be as good; those
#: that are so many behind are chosen in no draw.
_TIED, _HOPELESS = 3.0, 8.0


def assign_folds(folds: int) -> Ints:
    """Give the fold of each block of documents."""
    return np.arange(BLOCKS) * folds // BLOCKS


def draw_signs(random: np.random.Generator, number: int) -> Floats:
    """Draw signs of all blocks, (draw, block)."""
    return random.choice([-1.0, 1.0], (number, BLOCKS))


@dataclass(frozen=True)
class Links:
    """Links (block,), and right answers of candidates, such as heads, to them (candidate, block)."""

    number: Ints
    hits: NDArray[Any]

    @cached_property
    def total(self) -> int:
        return int(self.number.sum())

    @cached_property
    def shares(self) -> Floats:
        """The share of the links that each candidate answers rightly, (candidate,)."""
        return self.hits.sum(1) / self.total

    @cached_property
    def residuals(self) -> Floats:
        """Right answers beyond each candidate's share of the links, (candidate, block)."""
        return self.hits - self.hits.sum(1, keepdims=True) / self.total * self.number


@dataclass(frozen=True)
class CrossFit:
    """Candidates: each fold is scored with the one that answers most on the others; the first of a tie.

    If there are ``others``, such as links at a distance, these are scored with whom ``links`` choose.
    """

    links: Links
    folds: int
    others: Links | None = None

    @classmethod
    def fixed(cls, number: Ints, hits: NDArray[Any]) -> "CrossFit":
        """Score one candidate, (block,)."""
        return cls(Links(number, hits[None]), 1)

    def keep_choice(self, others: Links) -> "CrossFit":
        """Score other links with those whom these chose; in draws, too."""
        return self.fixed(others.number, self.answers_of(others.hits))

    @property
    def scored(self) -> Links:
        return self.links if self.others is None else self.others

    @cached_property
    def filled(self) -> Bools:
        return np.bincount(assign_folds(self.folds), self.links.number, self.folds) > 0

    @property
    def possible(self) -> bool:
        """Whether there is a fold to choose by and another to score."""
        return int(self.filled.sum()) > 1 and len(self.links.hits) > 0

    @cached_property
    def chosen(self) -> Ints:
        """Whom the other folds choose for each, (fold,)."""
        by_fold = np.zeros((self.folds, len(self.links.hits)))
        np.add.at(by_fold, assign_folds(self.folds), self.links.hits.T)
        return (by_fold.sum(0) - by_fold).argmax(1)

    @cached_property
    def named(self) -> int:
        """The candidate that most folds choose; of equals that with most right answers, then the first."""
        times = np.bincount(self.chosen[self.filled], minlength=len(self.links.hits))
        return int(np.lexsort((-self.links.hits.sum(1), -times))[0])

    @property
    def agreement(self) -> float:
        """The share of the folds with links that choose this one."""
        return float((self.chosen[self.filled] == self.named).mean())

    def answers_of(self, hits: NDArray[Any]) -> NDArray[Any]:
        """Give the answers (candidate, block) of whom the other folds choose, (block,)."""
        return hits[self.chosen[assign_folds(self.folds)], np.arange(BLOCKS)]

    @property
    def share(self) -> float:
        return float(self.answers_of(self.scored.hits).sum() / self.scored.total)

    def draw(self, signs: Floats, *, tied: bool = False) -> Floats:
        """Draw shares of links, less their expected values, under random signs of blocks, (draw,).

        With h_mb right answers of candidate m to the n_b links of block b, and a_m its share of all links, a
        draw uses s_b (h_mb - a_m n_b) - n_b d_m, with signs s_b and d_m the distance of m from the best, and
        chooses anew for each fold. ``tied`` sets d_m to 0 if it is less than three standard errors of the
        difference: such candidates may be equally good, and choosing among these adds most noise.

        References:
            Wu (1986), Jackknife, bootstrap and other resampling methods, on errors by random signs.
            Hansen (2005), A test for superior predictive ability, on which are taken to be equally good.
        """
        residuals, behind = self.links.residuals, self.links.shares.max() - self.links.shares
        error = np.sqrt(np.square(residuals - residuals[behind.argmin()]).sum(1)) / self.links.total
        distance = np.divide(behind, error, out=np.where(behind > 0, np.inf, 0.0), where=error > 0)
        near = distance <= _HOPELESS
        behind = np.where(tied & (distance <= _TIED), 0.0, behind)
        parts = values = self._draw_folds(signs, self.links, near, behind)
        if self.others is not None:
            shares = self.others.shares[near]
            values = self._draw_folds(signs, self.others, near, shares.max() - self.others.shares)
        chosen = (parts.sum(0) - parts).argmax(2)
        return np.take_along_axis(values, chosen[..., None], 2).sum((0, 2)) / self.scored.total

    def _draw_folds(self, signs: Floats, links: Links, near: Bools, behind: Floats) -> Floats:
        """Draw right answers of some candidates in each fold, (fold, draw, candidate)."""
        residuals, fold = links.residuals[near], assign_folds(self.folds)
        parts = [fold == one for one in range(self.folds)]
        return np.stack(
            [
                signs[:, part] @ residuals[:, part].T - links.number[part].sum() * behind[near]
                for part in parts
            ]
        )


@dataclass(frozen=True)
class Difference:
    """The share that a head answers rightly, less that of a rule or a control, if there is one."""

    head: CrossFit
    baseline: CrossFit | None = None

    @property
    def value(self) -> float:
        return self.head.share - (0.0 if self.baseline is None else self.baseline.share)

    def draw(self, signs: Floats, *, tied: bool = False) -> Floats:
        draws = self.head.draw(signs, tied=tied)
        return draws if self.baseline is None else draws - self.baseline.draw(signs, tied=tied)

    @property
    def estimate(self) -> Estimate:
        """The value with its standard error over blocks of documents; NaN below two of them.

        With C blocks that have links, it is sqrt(C / (C - 1)) times the standard deviation over ``DRAWS``
        draws of signs, see ``CrossFit.draw``. If all draws choose the same head, it is the error of a ratio
        over blocks.
        """
        links = self.head.scored.number + (0 if self.baseline is None else self.baseline.scored.number)
        blocks, error = int((links > 0).sum()), np.nan
        if blocks > 1:
            draws = self.draw(draw_signs(np.random.default_rng(0), DRAWS))
            error = draws.std() * (blocks / (blocks - 1)) ** 0.5
        return Estimate(np.array(self.value), np.array(error), np.array(blocks))

    def p(self, tests: int) -> float:
        """Test whether the value is above 0, one-sided, by sign flips over blocks of documents.

        With v the value, N links, and a draw d_s of the difference, p = P(d_s + v sum_b s_b n_b / N >= v): a
        sign-flip test in which heads and rules are chosen anew in each draw. Since v N is a whole number of
        links, half a link less is required. Over C blocks, the least p is about 2^-C. ``tests`` such p values
        are adjusted together, see ``PermutationTest``.

        References:
            Canay, Romano and Shaikh (2017), Randomization tests under an approximate symmetry assumption.
        """
        value, links = self.value, self.head.scored

        def draw(random: np.random.Generator, number: int) -> Floats:
            signs = draw_signs(random, number)
            return self.draw(signs, tied=True) + value * (signs @ links.number) / links.total

        test = PermutationTest.for_tests(tests, seed=0)
        return test.p_of(draw, value - 0.5 / links.total, _AT_ONCE, one_sided=True)
