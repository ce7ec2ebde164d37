"""Cross-fitting: what is best is chosen on all folds of the documents but one, and scored on that one.

Every link is scored, and none of them chose what it scores. But any two folds share most of the links that
they choose by, so that errors and p values that take the choice for given are too small, down to half of what
they should be. So the choice is made anew with every draw of signs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.inference import PermutationTest

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

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


@dataclass(frozen=True)
class CrossFit:
    """Candidates, such as heads, of which each fold is scored with the one that answers most on the others.

    Attributes:
        asked: (block,) links of each block of documents.
        hits: (candidate, block) right answers; of candidates that are equally good, the first is chosen.
        folds: How many there are, see ``assign_folds``.
    """

    asked: Ints
    hits: Ints
    folds: int

    @cached_property
    def by_fold(self) -> Ints:
        """Right answers of each candidate in each fold, (fold, candidate)."""
        return np.add.reduceat(self.hits, self._starts, -1).T

    @cached_property
    def scored(self) -> NDArray[np.bool_]:
        """Which folds have links, (fold,)."""
        return np.add.reduceat(self.asked, self._starts) > 0

    @property
    def possible(self) -> bool:
        """Whether there is a fold to choose by and another to score."""
        return int(self.scored.sum()) > 1 and len(self.hits) > 0

    @cached_property
    def chosen(self) -> Ints:
        """Whom the other folds choose for each, (fold,)."""
        return (self.by_fold.sum(0) - self.by_fold).argmax(1)

    @property
    def right(self) -> int:
        """Links that are answered rightly, each by whom the other folds chose."""
        return int(self.by_fold[np.arange(self.folds), self.chosen].sum())

    @cached_property
    def links(self) -> int:
        return int(self.asked.sum())

    @property
    def share(self) -> float:
        """Links that are answered rightly, of all."""
        return self.right / self.links

    @cached_property
    def named(self) -> int:
        """The candidate that most folds choose; of equals the one with most right answers, then the first."""
        times = np.bincount(self.chosen[self.scored], minlength=len(self.hits))
        return int(np.lexsort((-self.hits.sum(1), -times))[0])

    @property
    def times(self) -> int:
        """In how many folds that have links this one is chosen."""
        return int((self.chosen[self.scored] == self.named).sum())

    def answers_of(self, others: Ints) -> Ints:
        """Give answers of another kind, (candidate, block), of whom the other folds choose, (block,)."""
        return others[self.chosen[assign_folds(self.folds)], np.arange(BLOCKS)]

    def draw(self, signs: Floats, *, tied: bool = False, other: "Transferred | None" = None) -> Floats:
        """Give the share of links, less what all are expected to find, as it might have come out, (draw,).

        With h_mb right answers of candidate m to the n_b links of block b, and a_m its share of all links, a
        draw is made of s_b (h_mb - a_m n_b) - n_b d_m, with signs s_b, and d_m by how much m is behind the
        best, and chooses anew for each fold.

        Args:
            signs: (draw, block) each 1 or -1.
            tied: Take d_m to be 0 where it is less than three standard errors of the difference: all of them
                may be equally good, which is where choosing adds most noise.
            other: Other links that are scored with what these choose.

        References:
            Wu (1986), Jackknife, bootstrap and other resampling methods, on errors by random signs.
            Hansen (2005), A test for superior predictive ability, on which are taken to be equally good.
        """
        residuals, behind, ties, some = self._residuals
        if tied:
            behind = np.where(ties, 0.0, behind)
        parts, scored = self._add_up(signs, residuals, behind, self.asked), self.asked
        values = parts
        if other is not None:
            left, apart = _subtract_shares(other.asked, other.hits[some])
            values, scored = self._add_up(signs, left, apart, other.asked), other.asked
        total, draws = np.sum(parts, 0), np.arange(len(signs))
        found = np.zeros(len(signs))
        for part, value in zip(parts, values, strict=True):
            found += value[draws, (total - part).argmax(1)]
        return found / scored.sum()

    def _add_up(self, signs: Floats, residuals: Floats, behind: Floats, asked: Ints) -> list[Floats]:
        """Draw right answers of each fold, (draw, candidate)."""
        here = [assign_folds(self.folds) == one for one in range(self.folds)]
        return [signs[:, one] @ residuals[one] - asked[one].sum() * behind for one in here]

    @cached_property
    def _residuals(self) -> tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        """Residuals of some (block, candidate), how far each is behind, who ties, and who they are."""
        residuals, behind = _subtract_shares(self.asked, self.hits)
        best = int(behind.argmin())
        error = np.sqrt(np.square(residuals - residuals[:, [best]]).sum(0)) / self.links
        some = behind <= _HOPELESS * error
        return residuals[:, some], behind[some], (behind <= _TIED * error)[some], some

    @cached_property
    def _starts(self) -> Ints:
        return np.searchsorted(assign_folds(self.folds), np.arange(self.folds))


@dataclass(frozen=True)
class Transferred:
    """Other links to the same candidates, answered by whom each fold has chosen.

    Attributes:
        by: What chooses.
        asked: (block,) other links, such as those at a distance.
        hits: (candidate, block) right answers to them.
    """

    by: CrossFit
    asked: Ints
    hits: Ints

    @property
    def share(self) -> float:
        return int(self.by.answers_of(self.hits).sum()) / int(self.asked.sum())

    def draw(self, signs: Floats, *, tied: bool = False) -> Floats:
        return self.by.draw(signs, tied=tied, other=self)


@dataclass(frozen=True)
class Fixed:
    """Links and right answers of one that was not chosen by folds, (block,)."""

    asked: Ints
    hits: NDArray[Any]

    @property
    def share(self) -> float:
        return float(self.hits.sum() / self.asked.sum())

    def draw(self, signs: Floats, *, tied: bool = False) -> Floats:
        """Draw the share less what is expected, as ``CrossFit.draw`` does."""
        return signs @ (self.hits - self.share * self.asked) / self.asked.sum()


def _subtract_shares(asked: Ints, hits: Ints) -> tuple[Floats, Floats]:
    """Give answers beyond each candidate's share, (block, candidate), and how far it is behind."""
    right = hits.T.astype(np.float64)
    shares = right.sum(0) / asked.sum()
    return right - asked[:, None] * shares, shares.max() - shares


def draw_signs(draw: np.random.Generator, number: int) -> Floats:
    """Draw signs of all blocks, (draw, block)."""
    return draw.choice([-1.0, 1.0], (number, BLOCKS))


@dataclass(frozen=True)
class Contrast:
    """What is found of the same documents by several, each with a weight: a head less a rule, or a control.

    Attributes:
        sides: What is found, cross-fitted each for itself.
        weights: One each.
    """

    sides: Sequence[CrossFit | Transferred | Fixed]
    weights: Sequence[float]

    @property
    def value(self) -> float:
        return sum(weight * side.share for side, weight in zip(self.sides, self.weights, strict=True))

    @property
    def blocks(self) -> int:
        """Blocks of documents with links."""
        return int(np.any([side.asked > 0 for side in self.sides], 0).sum())

    def draw(self, signs: Floats, *, tied: bool = False) -> Floats:
        parts = (
            weight * side.draw(signs, tied=tied)
            for side, weight in zip(self.sides, self.weights, strict=True)
        )
        return sum(parts, np.zeros(len(signs)))

    @property
    def error(self) -> float:
        """The standard error, over blocks of documents; NaN below two of them.

        With C blocks that have links, it is sqrt(C / (C - 1)) times the standard deviation over ``DRAWS``
        draws of signs, see ``CrossFit.draw``. Where all of them choose the same, that is the error of a
        ratio, as ``Tally.accuracy`` has it, with blocks for documents.
        """
        number = self.blocks
        if number < 2:
            return np.nan
        found = self.draw(draw_signs(np.random.default_rng(0), DRAWS))
        return float(found.std() * (number / (number - 1)) ** 0.5)

    def chance(self, tests: int) -> float:
        """Give the p value, one-sided, that the value is above 0: by signs over blocks of documents.

        With v the value, N links, and a draw d_s of the contrast, it is P(d_s + v sum_b s_b n_b / N >= v):
        the sign-flip test, in which heads and rules are chosen anew with each draw. A v of links is a whole
        number, so that half a link less is asked for. Over C blocks, the least p is about 2^-C.

        Args:
            tests: How many such p values are adjusted together, see ``PermutationTest``.

        References:
            Canay, Romano and Shaikh (2017), Randomization tests under an approximate symmetry assumption.
        """
        value, asked = self.value, self.sides[0].asked
        links = int(asked.sum())

        def draws(draw: np.random.Generator, number: int) -> Floats:
            signs = draw_signs(draw, number)
            return self.draw(signs, tied=True) + value * (signs @ asked) / links

        least = value - 0.5 / links
        return PermutationTest.for_tests(tests, seed=0).p_of(draws, least, _AT_ONCE, one_sided=True)
