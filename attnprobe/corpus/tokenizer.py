"""Tokenizers: the special tokens around a text, the kinds of tokens, and how rare their types are."""

import hashlib
import math
import re
import string
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.corpus.streams import decode_lines, open_file, shorten, strip_ends
from attnprobe.errors import AttnprobeError, DataError, first_line

#: Names of tokens that are no pieces of text: [unused12], <extra_id_0>, <0x0A>, <|user|>, madeupword0002.
_NO_TEXT = re.compile(r"\[[A-Za-z]+[ _-]?\d*\]|<[^<>\s]+>|madeupword\d+")
#: So many tokens of the vocabulary are tried as a probe where the usual one gives no token.
_MOST_PROBES = 2000
_CHECKED_TEXTS = 16
#: A tokenizer of transformers, or what behaves like one.
Tokenizer = Any


class NoTokenizer:
    """Stands for the tokenizer of a checkpoint that has none; to use it is an error."""

    model_input_names: list[str] = []  # noqa: RUF012 - it never changes

    def __init__(self, name: str) -> None:
        self._name = name

    def __len__(self) -> int:
        return 0

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise DataError(f"{self._name} holds no tokenizer, so it can't be given text.")

    decode = convert_ids_to_tokens = __call__


def tokenize(tokenizer: Tokenizer, *texts: Any, **options: Any) -> Mapping[str, Any]:
    """Tokenise; errors of the tokenizer become a sentence."""
    try:
        return tokenizer(*texts, **options)
    except AttnprobeError:
        raise
    except Exception as error:  # tokenizers raises no class of its own
        raise DataError(f"The tokenizer fails on the texts: {first_line(error)}.") from error


def ask_offsets(tokenizer: Any) -> dict[str, bool]:
    """Give the option for the characters of tokens; a tokenizer without it is refused."""
    if not getattr(tokenizer, "is_fast", False):
        raise DataError(
            f"The tokenizer ({type(tokenizer).__name__}) has no fast form (tokenizer.json), which words and "
            "links need."
        )
    return {"return_offsets_mapping": True}


@dataclass(frozen=True)
class Frame:
    """The special tokens that a tokenizer puts around a text, and we around each window of a long one."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Frame":
        """Find the frame by tokenising a probe with and without special tokens."""
        special = set(getattr(tokenizer, "all_special_ids", ()))
        ordinary = (token for token in range(len(tokenizer)) if token not in special)
        spelled = (tokenizer.decode([token]).strip() for token in islice(ordinary, _MOST_PROBES))
        failure = DataError(
            "The tokenizer does not frame a text with special tokens before and after it, as windows need."
        )
        for text in chain(("a b",), filter(None, spelled)):
            try:
                framed = list(tokenize(tokenizer, text)["input_ids"])
                bare = list(tokenize(tokenizer, text, add_special_tokens=False)["input_ids"])
            except AttnprobeError as error:  # such as for want of an unknown token
                failure = error
                continue
            if bare and special.isdisjoint(bare):
                start = framed.index(bare[0]) if bare[0] in framed else 0
                frame = cls(tuple(framed[:start]), tuple(framed[start + len(bare) :]))
                if frame.around(bare) == framed and {*frame.before, *frame.after}.isdisjoint(bare):
                    return frame
                break
        raise failure

    def check(self, tokenizer: Tokenizer, texts: Sequence[str], ids: Sequence[Sequence[int]]) -> None:
        """Refuse a tokenizer that frames one of the first texts in another way."""
        for text, bare in islice(zip(texts, ids, strict=True), _CHECKED_TEXTS):
            if bare and list(tokenize(tokenizer, text, verbose=False)["input_ids"]) != self.around(bare):
                other = "between the special tokens of other texts, so that it can't be cut into windows"
                raise DataError(f"The tokenizer does not put {shorten(repr(text))} {other}.")

    def __len__(self) -> int:
        return len(self.before) + len(self.after)

    def around(self, ids: Sequence[int]) -> list[int]:
        return [*self.before, *ids, *self.after]


class TokenKinds:
    """Marks ids by their kinds; ``start`` is the token that a decoder begins with.

    An ordinary token is punctuation if all its characters are punctuation or ASCII symbols.
    """

    def __init__(self, tokenizer: Tokenizer, frame: Frame, start: int | None = None) -> None:
        self._tokenizer = tokenizer
        self._leads = bool(frame.before) or start is not None
        separators = {*frame.after, *_find_ids(tokenizer, "sep_token_id", "eos_token_id")}
        beside = _find_ids(tokenizer, "cls_token_id", "bos_token_id", "pad_token_id")
        # Tokens at boundaries, which are never rare.
        self.framing = frozenset({*frame.before, *separators, *beside, start} - {None})
        self._separators, self._special = [*separators], [*self.framing | find_special_ids(tokenizer)]
        self._punctuation: dict[int, bool] = {}

    def first(self, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
        marked = np.zeros(ids.shape, bool)
        marked[:, 0] = self._leads
        return marked

    def separator(self, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
        return np.isin(ids, self._separators)

    def special(self, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Mark all tokens that are no text, such as those at boundaries and masks."""
        return np.isin(ids, self._special)

    def punctuation(self, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
        types, place = np.unique(ids, return_inverse=True)
        for unseen in set(types.tolist()) - self._punctuation.keys():
            spelled = spell_token(self._tokenizer, unseen)
            self._punctuation[unseen] = unseen not in self.framing and is_punctuation(spelled)
        return np.array([self._punctuation[t] for t in types.tolist()])[place].reshape(ids.shape)


def find_special_ids(tokenizer: Tokenizer) -> set[int]:
    """List the special tokens of a tokenizer but for the unknown token, which is text."""
    return {*getattr(tokenizer, "all_special_ids", ())} - _find_ids(tokenizer, "unk_token_id")


def list_ordinary_ids(tokenizer: Tokenizer, known: int) -> list[int]:
    """List the ids of pieces of text among the first ``known`` ids, those with embeddings."""
    left = {*getattr(tokenizer, "all_special_ids", ()), *getattr(tokenizer, "added_tokens_decoder", ())}
    names = enumerate(tokenizer.convert_ids_to_tokens(list(range(min(known, len(tokenizer))))))
    return [token for token, name in names if token not in left and name and not _NO_TEXT.fullmatch(name)]


def spell_token(tokenizer: Tokenizer, token: int) -> str:
    """Spell a token without marks of a word's beginning (a blank) or continuation (##)."""
    return tokenizer.decode([token]).strip().removeprefix("##")


def is_punctuation(text: str) -> bool:
    marks = (sign in string.punctuation or unicodedata.category(sign).startswith("P") for sign in text)
    return bool(text) and all(marks)


def _find_ids(tokenizer: Tokenizer, *names: str) -> set[int]:
    return {value for name in names if (value := getattr(tokenizer, name, None)) is not None}


#: The rarest types, which together make up this share of a corpus, are rare.
RARE_SHARE = 0.1


@dataclass(frozen=True)
class Rarity:
    """The ranks of token types by frequency, each (id,); -1 for special tokens."""

    rank: NDArray[np.int64]  # the number of more frequent types
    order: NDArray[np.int64]  # their order, with ties broken
    rare: NDArray[np.float32]  # the part of each type that counts as rare
    once: float | None = None  # the share of tokens of types that occur once, if these are rare in part

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.rank.tobytes() + self.rare.tobytes()).hexdigest()


def rank_types(
    counts: NDArray[np.int64], special: frozenset[int], frequencies: NDArray[np.float64] | None = None
) -> Rarity:
    """Rank the token types of a corpus and mark the rare ones.

    Types are ranked by their occurrences, or first by given ``frequencies`` (of each id on any scale, 0 if
    unknown); equals share a rank. The rarest types are rare as long as together they make up a tenth of
    the N occurrences of ordinary tokens. Equals that cross that line count in part, each by
    w = (N / 10 - occurrences of rarer types) / occurrences of the equals.

    >>> rank_types(np.array([84, 8, 4, 4]), frozenset()).rare
    array([0.  , 0.25, 1.  , 1.  ], dtype=float32)
    """
    ordinary = np.ones(len(counts), bool)
    ordinary[[token for token in special if token < len(counts)]] = False
    ids = np.flatnonzero(ordinary)
    known = (np.zeros(len(counts)) if frequencies is None else frequencies)[ids]
    by_frequency = np.lexsort((-counts[ids], -known))
    ids, known = ids[by_frequency], known[by_frequency]
    occurring = counts[ids]
    changes = (np.diff(occurring) != 0) | (np.diff(known) != 0)
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(ids)), bool), changes]))
    sizes = np.diff(np.append(starts, len(ids)))

    rank, order = np.full((2, len(counts)), -1, np.int64)
    order[ids], rank[ids] = np.arange(len(ids)), np.repeat(starts, sizes)
    each = occurring[starts]
    together = each * sizes
    rarer = together[::-1].cumsum()[::-1] - together
    room = RARE_SHARE * occurring.sum() - rarer
    # Types that do not occur take no room.
    part = np.clip(np.divide(room, together, out=np.ones(len(each)), where=together > 0), 0, 1)
    rare = np.zeros(len(counts), np.float32)
    rare[ids] = np.repeat(part, sizes)

    tied = (part > 0) & (part < 1) & (sizes > 1) & (each == 1)
    undecided = frequencies is None and tied.any()
    once = float(together[each == 1].sum() / occurring.sum()) if undecided else None
    return Rarity(rank, order, rare, once)


def read_frequencies(path: Path, tokenizer: Tokenizer, vocabulary: int) -> NDArray[np.float64]:
    """Read the frequency of each token id, 0 if none is listed, from lines of token, tab and number.

    A token is looked up by its name in the tokenizer (``##ing``), or else by its spelling (``the``).
    """
    listed: dict[str, float] = {}
    with open_file(path, str(path)) as stream:
        for number, line in enumerate(strip_ends(decode_lines(stream, str(path))), 1):
            token, _, value = line.rpartition("\t")
            try:
                frequency = float(value)
            except ValueError:
                frequency = math.nan
            if token and math.isfinite(frequency) and frequency >= 0:
                listed[token] = max(frequency, listed.get(token, 0.0))
            elif line.strip() and number > 1:  # the first line may be a header
                raise DataError(f"{path}, line {number}: expected a token, a tab and a frequency from 0 on.")
    names = tokenizer.convert_ids_to_tokens(list(range(vocabulary)))
    frequencies = np.zeros(vocabulary)
    for token, name in enumerate(names):
        if name in listed:
            frequencies[token] = listed[name]
        elif name is not None and not name.startswith("##"):
            frequencies[token] = listed.get(spell_token(tokenizer, token), 0.0)
    if not frequencies.any():
        raise DataError(f"{path}: none of its words is a token of this model; is it the right file?")
    return frequencies
