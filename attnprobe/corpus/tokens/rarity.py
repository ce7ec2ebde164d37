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
class Rarity:
    """Frequency ranks of token types.

    Attributes:
        rank: For each token id, 0 for the most frequent type; -1 for special tokens.
        rare: For each token id, whether it is a rare type.
    """

    rank: NDArray[np.int64]
    rare: NDArray[np.bool_]

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

    Types are sorted by how often they occur in the corpus, or by given frequencies and then by
    occurrence. Of equals, the higher id counts as rarer: tokenizers number their types roughly by
    frequency. From the rarest up, types are rare as long as together they make up no more than a
    tenth of the occurrences of ordinary tokens. The order of the corpus plays no part.

    Args:
        counts: Occurrences of each token id.
        special: Ids that are no candidates.
        frequencies: Known frequencies of each id on any scale, 0 for unknown ones.

    >>> rank_types(np.array([9, 0, 1, 90]), frozenset({1})).rank
    array([ 1, -1,  2,  0])
    """
    ordinary = np.ones(len(counts), bool)
    ordinary[[token for token in special if token < len(counts)]] = False
    ids = np.flatnonzero(ordinary)
    known = np.zeros(len(counts)) if frequencies is None else frequencies
    order = ids[np.lexsort((ids, -counts[ids], -known[ids]))]

    rank = np.full(len(counts), -1, np.int64)
    rank[order] = np.arange(len(order))
    from_rarest = order[::-1]
    together = counts[from_rarest].cumsum()
    rare = np.zeros(len(counts), bool)
    rare[from_rarest[together <= RARE_SHARE * counts[ids].sum()]] = True
    return Rarity(rank, rare)


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
