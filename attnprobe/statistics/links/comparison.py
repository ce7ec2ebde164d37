"""Whether a head finds more than a rule: over links, and over the documents that they lie in."""

from dataclasses import dataclass

import numpy as np

from attnprobe.sums.significance import sign_flip
from attnprobe.sums.tally import SCORING, Tally


@dataclass(frozen=True)
class Compared:
    """Heads and rules on the scoring half.

    Attributes:
        error: (key, layer, head) standard errors of accuracy.
        clusters: (key, layer, 1, 1) documents with such a link.
        squares: (key, layer, head, rule) see ``Tally.disagreement``.
        around: The same.
        tally: The counts.
    """

    error: np.ndarray
    clusters: np.ndarray
    squares: np.ndarray
    around: np.ndarray
    tally: Tally

    @classmethod
    def of(cls, tally: Tally) -> "Compared":
        """Compare all of them."""
        return cls(tally.accuracy(SCORING)[1], *tally.disagreement(), tally)

    def chance(self, where: tuple[int, int, int, int]) -> float:
        """Give the p value, one-sided, that a head finds more than a rule: over documents.

        Where each sequence is a document, links are compared, see ``chance``; where some are parts of one,
        documents are, see ``sign_flip``.

        Args:
            where: Key, layer, head, rule.
        """
        key, layer, head, rule = where
        tally, squares = self.tally, round(float(self.squares[where]))
        right = int(tally.hits[key, layer, head, SCORING])
        guessed = int(tally.guessed[key, layer, rule, SCORING])
        apart = tally.ahead_by_group(where)
        if not len(apart):
            both = int(tally.both[where])
            return chance(right - both, guessed - both, squares)
        rest = squares - int(np.square(apart).sum())
        return sign_flip(apart, right - guessed - int(apart.sum()), rest)

    def gain_error(self, where: tuple[int, int, int, int], n: int) -> float:
        """Give the standard error of the share of ``n`` links by which a head is ahead of a rule.

        Args:
            where: Key, layer, head, rule.
            n: Links of the scoring half.

        Returns:
            That of a ratio over documents, see ``Tally.accuracy``; NaN below two documents.
        """
        clusters = self.clusters[where[:2]].item()
        if clusters < 2:
            return np.nan
        return float((self.around[where] * clusters / (clusters - 1)) ** 0.5 / n)


def chance(only_head: int, only_rule: int, squares: float) -> float:
    """Give the p value of McNemar's exact test, one-sided: that the head finds more than the rule.

    Of the b + c links that only one of the two answers rightly, b are the head's; if either were as likely,
    P(X >= b) with X binomial, of chance 1/2. Links of one document may agree, and then they say less than as
    many independent ones: with d_c by how many right answers the head is ahead in document c, both numbers
    are divided by the design effect

        max(1, sum_c d_c^2 / (b + c))

    which is 1 where no document has two such links. The binomial sum is then a regularised incomplete beta
    function.

    Args:
        only_head: b.
        only_rule: c.
        squares: sum_c d_c^2.

    References:
        McNemar (1947), Note on the sampling error of the difference between correlated proportions.
        Eliasziw and Donner (1991), Application of the McNemar test to non-independent matched pair data.

    >>> round(chance(9, 1, 10.0), 4), round(chance(9, 1, 40.0), 4), chance(0, 5, 5.0)
    (0.0107, 0.2712, 1.0)
    """
    if not only_head:
        return 1.0
    from scipy.special import betainc  # takes a while to import

    effect = max(1.0, squares / (only_head + only_rule))
    return float(betainc(only_head / effect, only_rule / effect + 1, 0.5))
