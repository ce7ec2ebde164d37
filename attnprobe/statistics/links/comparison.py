"""Whether a head finds more than a rule: over links, and over the documents that they lie in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attnprobe.attention.kinds import Kind
from attnprobe.statistics.links.asking import ALL, INPUT, Asking
from attnprobe.sums.resampling import sign_flip
from attnprobe.sums.tally import SCORING, Tally
from attnprobe.table.builder import Labels

#: Labels of fewer links say too little of a head to be shown.
FEWEST = 20
#: So many labels are named in a note.
_NAMED = 8


@dataclass(frozen=True)
class Cell:
    """What is asked in one kind of attention.

    Attributes:
        place: The place of its label and direction in the tally.
        label: The label.
        direction: Who is asked.
        kind: The kind of attention; None where the model has only one.
        layers: The places of its layers.
        position: Where a decoder beside an encoder is asked; empty for any other.
    """

    place: int
    label: str
    direction: str
    kind: Kind | None
    layers: Sequence[int]
    position: str = ""


def fewest_of(labels: Labels) -> int:
    """Give how many links a label needs to be shown, as it was asked for."""
    return int(labels.provenance.get("asked", {}).get("min_links", FEWEST))


def cells_of(tally: Tally, labels: Labels, asking: Asking) -> tuple[list[Cell], list[str]]:
    """List what is shown, all links first, then labels by the number of their links.

    Where labels were chosen, there is no row of all: it would be one of those alone.

    Returns:
        The cells, and what has to be said of those that are left out.
    """
    kinds = [place.kind for place in labels.places]
    directions = [asking.forward, asking.backward]
    fewest, rare, found = fewest_of(labels), dict[str, int](), list[tuple[int, Cell]]()
    places = {key: place for place, key in enumerate(tally.keys)}
    named = {label for label, *_ in tally.keys} - {ALL}
    chosen = labels.provenance.get("asked", {}).get("labels") is not None
    for kind in dict.fromkeys(kinds):
        layers = [layer for layer, other in enumerate(kinds) if other is kind]
        for place, (label, direction, *position) in enumerate(tally.keys):
            if label == ALL and chosen and named:
                continue
            number = int(tally.asked[place, layers[0]].sum())
            if not number:
                continue
            if label == ALL and len(named) == 1:
                alone = places.get((next(iter(named)), direction, *position))
                if alone is not None and tally.asked[alone, layers[0]].sum() == number:
                    continue  # the one label says the same
            if number < fewest and label != ALL:
                rare[label] = max(number, rare.get(label, 0))
                continue
            found.append((number, Cell(place, label, direction, kind, layers, "".join(position))))
    shown = {cell.label for _, cell in found}
    most = {label: max(number for number, cell in found if cell.label == label) for label in shown}
    found.sort(
        key=lambda one: (
            list(Kind).index(one[1].kind) if one[1].kind else 0,
            one[1].label != ALL,
            -most[one[1].label],
            one[1].label,
            directions.index(one[1].direction),
            one[1].position == INPUT,
        )
    )
    if not tally.keys:
        return [], ["No text has a link that is asked for.", *_left_out(tally)]
    gone = {label: number for label, number in rare.items() if label not in shown}
    return [cell for _, cell in found], [*_rare(gone, fewest, asking), *_left_out(tally)]


def _rare(gone: dict[str, int], fewest: int, asking: Asking) -> Iterator[str]:
    if not gone:
        return
    named = sorted(gone, key=lambda label: (-gone[label], label))
    listed = ", ".join(named[:_NAMED]) + (", ..." if len(named) > _NAMED else "")
    verb = "is" if len(named) == 1 else "are"
    said = f"{len(named)} {asking.counted(len(named))} with fewer than {fewest} links"
    yield f"{said} {verb} left out: {listed}."


def _left_out(tally: Tally) -> Iterator[str]:
    same, unseen, certain = tally.left_out.tolist()
    for number, reason in (
        (same, "both ends of the link have the same tokens"),
        (unseen, "a decoder sees only what comes before a word, and the answer comes after it"),
        (certain, "every candidate in sight is right"),
    ):
        if number:
            yield f"{number:,} {'question was' if number == 1 else 'questions were'} left out: {reason}."


def first_alike(tally: Tally, cells: Sequence[Cell]) -> list[int]:
    """Give, for each cell, the number of the first that is asked the very same links.

    Of these, every head and every rule answers as many rightly, on either half.
    """
    known: dict[tuple[object, ...], int] = {}
    found = []
    for number, cell in enumerate(cells):
        counts = (tally.asked, tally.hits, tally.guessed)
        links = tuple(count[cell.place, cell.layers].tobytes() for count in counts)
        found.append(known.setdefault((cell.direction, cell.kind, *links), number))
    return found


def removed_of(labels: Labels, tally: Tally) -> np.ndarray:
    """Tell which heads the checkpoint lacks, (layer, head)."""
    _, layers, heads, _ = tally.hits.shape
    gone = np.zeros((layers, heads), bool)
    for layer, head in labels.removed:
        gone[layer, head] = True
    return gone


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
