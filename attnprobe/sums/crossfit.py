"""Cross-fitting: what is best is chosen on all folds of the documents but one, and scored on that one.

Every link is scored, and none of them chose what it scores. But any two folds share most of the links that
they choose by, so that errors and p values that take the choice for given are too small, down to half of what
they should be. So the choice is made anew with every draw of signs.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.inference import Estimate, PermutationTest

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: So many folds of the documents, where nobody says otherwise.
FOLDS = 5
#: Errors are over so many draws of signs.
DRAWS = 1000
#: Draws of a test come in parts of so many.
_AT_ONCE = 2000
#: Candidates that are so many standard errors of the difference behind the best may as well be as good.
_TIED = 3.0
#: Those that are so many behind are chosen in no draw.
_HOPELESS = 8.0


def assign_folds(folds: int) -> Ints:
    """Give the fold of each block of documents; two folds are the halves.

    >>> assign_folds(5)[[0, 12, 13, 63]].tolist()
    [0, 0, 1, 4]
    """
    return np.arange(BLOCKS) * folds // BLOCKS


def draw_signs(random: np.random.Generator, number: int) -> Floats:
    """Draw signs of all blocks, (draw, block)."""
    return random.choice([-1.0, 1.0], (number, BLOCKS))


@dataclass(frozen=True)
class Links:
    """Links of each block of documents, and right answers of candidates, such as heads, to them.

    Attributes:
        number: (block,) links.
        hits: (candidate, block) right answers.
    """

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
    """Candidates of which each fold is scored with the one that answers most on the others.

    Attributes:
        links: What they are chosen by; of candidates that are equally good, the first is chosen.
        folds: How many there are, see ``assign_folds``.
        others: Other links to the same candidates, such as those at a distance, if these are scored instead.
    """

    links: Links
    folds: int
    others: Links | None = None

    @classmethod
    def fixed(cls, number: Ints, hits: NDArray[Any]) -> "CrossFit":
        """Score one that was not chosen by folds, (block,)."""
        return cls(Links(number, hits[None]), 1)

    def keep_choice(self, others: Links) -> "CrossFit":
        """Score other links with those whom these chose, and choose nobody anew."""
        return self.fixed(others.number, self.answers_of(others.hits))

    def transfer(self, others: Links) -> "CrossFit":
        """Score other links with those whom these choose."""
        return replace(self, others=others)

    @property
    def scored(self) -> Links:
        return self.links if self.others is None else self.others

    @cached_property
    def filled(self) -> Bools:
        """Which folds have links to choose by, (fold,)."""
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
        """The candidate that most folds choose; of equals the one with most right answers, then the first."""
        times = np.bincount(self.chosen[self.filled], minlength=len(self.links.hits))
        return int(np.lexsort((-self.links.hits.sum(1), -times))[0])

    @property
    def agreement(self) -> float:
        """The share of the folds with links that choose this one."""
        return float((self.chosen[self.filled] == self.named).mean())

    def answers_of(self, hits: NDArray[Any]) -> NDArray[Any]:
        """Give answers of another kind, (candidate, block), of whom the other folds choose, (block,)."""
        return hits[self.chosen[assign_folds(self.folds)], np.arange(BLOCKS)]

    @property
    def share(self) -> float:
        """Links that are answered rightly, each by whom the other folds chose, of all."""
        return float(self.answers_of(self.scored.hits).sum() / self.scored.total)

    def draw(self, signs: Floats, *, tied: bool = False) -> Floats:
        """Give the share of links, less what all are expected to find, as it might have come out, (draw,).

        With h_mb right answers of candidate m to the n_b links of block b, and a_m its share of all links, a
        draw is made of s_b (h_mb - a_m n_b) - n_b d_m, with signs s_b, and d_m by how much m is behind the
        best, and chooses anew for each fold. ``tied`` takes d_m to be 0 where it is less than three standard
        errors of the difference: all of them may be equally good, which is where choosing adds most noise.

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
    """The share that a head answers rightly, less that of a baseline over the same documents.

    A baseline is a rule, or a control; without one, it is the share of the head.
    """

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
        draws of signs, see ``CrossFit.draw``. Where all of them choose the same, that is the error of a
        ratio, with blocks for documents.
        """
        links = self.head.scored.number + (0 if self.baseline is None else self.baseline.scored.number)
        blocks, error = int((links > 0).sum()), np.nan
        if blocks > 1:
            draws = self.draw(draw_signs(np.random.default_rng(0), DRAWS))
            error = draws.std() * (blocks / (blocks - 1)) ** 0.5
        return Estimate(np.array(self.value), np.array(error), np.array(blocks))

    def p(self, tests: int) -> float:
        """Give the p value, one-sided, that the value is above 0: by signs over blocks of documents.

        With v the value, N links, and a draw d_s of the difference, it is P(d_s + v sum_b s_b n_b / N >= v):
        the sign-flip test, in which heads and rules are chosen anew with each draw. A v of links is a whole
        number, so that half a link less is asked for. Over C blocks, the least p is about 2^-C. ``tests``
        such p values are adjusted together, see ``PermutationTest``.

        References:
            Canay, Romano and Shaikh (2017), Randomization tests under an approximate symmetry assumption.
        """
        value, links = self.value, self.head.scored

        def draw(random: np.random.Generator, number: int) -> Floats:
            signs = draw_signs(random, number)
            return self.draw(signs, tied=True) + value * (signs @ links.number) / links.total

        test = PermutationTest.for_tests(tests, seed=0)
        return test.p_of(draw, value - 0.5 / links.total, _AT_ONCE, one_sided=True)
