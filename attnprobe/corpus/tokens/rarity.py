"""Which tokens of a corpus are rare, and which token of a sequence is the rarest."""

import gzip
import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.corpus.tokens.vocabulary import surface
from attnprobe.errors import AttnprobeError

#: Rare types make up this share of the corpus's token occurrences, counted from the rarest up.
RARE_SHARE = 0.1


@dataclass(frozen=True)
class Ties:
    """The types that occur equally often where the rare ones end, and so can't be told apart.

    Attributes:
        types: How many they are.
        occurrences: How often each occurs in the corpus.
        share: Which part of each counts as rare, more than 0 and less than 1.
        once: Share of the corpus's occurrences that types make up which occur once.
    """

    types: int
    occurrences: int
    share: float
    once: float


@dataclass(frozen=True)
class Rarity:
    """How frequent token types are.

    Attributes:
        rank: For each token id, how many types are more frequent, so that equals share a rank; -1 for
            special tokens.
        order: For each token id, a place of its own in the order of ranks; -1 for special tokens.
        rare: For each token id, which part of it counts as rare: 1, 0, or between them in a tie.
        ties: The types that share the last place among the rare, if more than one does.
        types: How many types occur.
        given: Whether frequencies were given.
    """

    rank: NDArray[np.int64]
    order: NDArray[np.int64]
    rare: NDArray[np.float32]
    ties: Ties | None = None
    types: int = 0
    given: bool = False

    @property
    def decided(self) -> bool:
        """Whether the text is large enough to say what is rare: types that occur once don't have to tie."""
        return self.ties is None or self.ties.occurrences > 1

    @property
    def digest(self) -> str:
        """Name the ranks and what is rare: equal only where all of them are."""
        return hashlib.sha256(self.rank.tobytes() + self.rare.tobytes()).hexdigest()


def rank_types(
    counts: NDArray[np.int64],
    special: frozenset[int],
    frequencies: NDArray[np.float64] | None = None,
) -> Rarity:
    """Rank the token types of a corpus and mark the rare ones.

    Types are ranked by how often they occur in the corpus, or by given frequencies and then by
    occurrence; equals share a rank. From the rarest up, types are rare until together they make up a
    tenth of the occurrences of ordinary tokens. Where equals cross that line, each of them counts in
    part, w = (a tenth of N - occurrences of rarer types) / occurrences of the equals: that is the mean
    over all orders in which the tie could be broken. Neither ids nor the order of the corpus play a part.

    Args:
        counts: Occurrences of each token id.
        special: Ids that are no candidates.
        frequencies: Known frequencies of each id on any scale, 0 for unknown ones.

    >>> rank_types(np.array([9, 0, 1, 90]), frozenset({1})).rank
    array([ 1, -1,  2,  0])
    >>> rank_types(np.array([84, 8, 4, 4]), frozenset()).rare
    array([0.  , 0.25, 1.  , 1.  ], dtype=float32)
    """
    ordinary = np.ones(len(counts), bool)
    ordinary[[token for token in special if token < len(counts)]] = False
    ids = np.flatnonzero(ordinary)
    known = (np.zeros(len(counts)) if frequencies is None else frequencies)[ids]
    occurring = counts[ids]
    by_frequency = np.lexsort((-occurring, -known))
    changes = (np.diff(occurring[by_frequency]) != 0) | (np.diff(known[by_frequency]) != 0)
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(ids)), bool), changes]))
    sizes = np.diff(np.append(starts, len(ids)))

    rank, order = np.full((2, len(counts)), -1, np.int64)
    order[ids[by_frequency]] = np.arange(len(ids))
    rank[ids[by_frequency]] = np.repeat(starts, sizes)

    each = occurring[by_frequency][starts]
    together = each * sizes
    rarer = together[::-1].cumsum()[::-1] - together
    room = RARE_SHARE * occurring.sum() - rarer
    # What does not occur at all takes no room.
    part = np.clip(np.divide(room, together, out=np.ones(len(each)), where=together > 0), 0, 1)
    rare = np.zeros(len(counts), np.float32)
    rare[ids[by_frequency]] = np.repeat(part, sizes)

    ties = None
    split = np.flatnonzero((part > 0) & (part < 1) & (sizes > 1))
    if split.size:
        at = int(split[0])
        once = float(together[each == 1].sum() / occurring.sum())
        ties = Ties(int(sizes[at]), int(each[at]), float(part[at]), once)
    return Rarity(rank, order, rare, ties, int((occurring > 0).sum()), frequencies is not None)


def read_frequencies(path: Path, tokenizer: Tokenizer, vocabulary: int) -> NDArray[np.float64]:
    """Read token frequencies: token, tab, number on each line, optionally gzipped.

    A token is looked up as the tokenizer names it (``##ing``), else as it is spelled (``the``).
    Tokens that the file does not list have frequency 0.
    """
    listed = _read_table(path)
    names = tokenizer.convert_ids_to_tokens(list(range(vocabulary)))
    found = np.zeros(vocabulary)
    for token, name in enumerate(names):
        if name in listed:
            found[token] = listed[name]
        elif name is not None and not name.startswith("##"):
            found[token] = listed.get(surface(tokenizer, token), 0.0)
    if not found.any():
        raise AttnprobeError(f"{path}: none of its words is a token of this model; is it the right file?")
    return found


def _read_table(path: Path) -> dict[str, float]:
    opener = gzip.open if path.suffix == ".gz" else open
    listed: dict[str, float] = {}
    try:
        with opener(path, "rt", encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                token, _, value = line.rstrip("\r\n").rpartition("\t")
                try:
                    frequency = float(value)
                except ValueError:
                    frequency = math.nan
                if token and math.isfinite(frequency) and frequency >= 0:
                    listed[token] = max(frequency, listed.get(token, 0.0))
                elif line.strip() and number > 1:  # the first line may be a header
                    raise AttnprobeError(
                        f"{path}, line {number}: expected a token, a tab and a frequency of at least 0."
                    )
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise AttnprobeError(f"{path} can't be read as a list of frequencies: {error}.") from error
    return listed
