"""What kind of token each id is: special, separator, punctuation, or an ordinary token."""

import re
import string
import unicodedata

import numpy as np
from numpy.typing import NDArray

from attnprobe.corpus.tokens.tokenization import Frame, Tokenizer

#: How vocabularies call what is no piece of text: [unused12], <extra_id_0>, <0x0A>, <|user|>, madeupword0002.
_NO_TEXT = re.compile(r"\[[A-Za-z]+[ _-]?\d*\]|<[^<>\s]+>|madeupword\d+")


class TokenKinds:
    """Looks token ids up; each id is spelled out once, when it first occurs.

    A token is punctuation when it is ordinary and every character of it is punctuation or an
    ASCII symbol, whatever mark of word beginning or continuation the tokenizer adds to it.
    """

    def __init__(self, tokenizer: Tokenizer, frame: Frame, start: int | None = None) -> None:
        """Read the special ids off the tokenizer; ``start`` is what a decoder begins with."""
        self._tokenizer = tokenizer
        self._leads = bool(frame.before) or start is not None
        self._separators = {*frame.after, *_ids(tokenizer, "sep_token_id", "eos_token_id")}
        self._framing = {*frame.before, *self._separators}
        self._framing |= _ids(tokenizer, "cls_token_id", "bos_token_id", "pad_token_id")
        self._framing |= set() if start is None else {start}
        self._special = self._framing | special_ids(tokenizer)
        self._punctuation: dict[int, bool] = {}

    @property
    def framing(self) -> frozenset[int]:
        """Ids of boundary tokens, which are no candidates for rare tokens."""
        return frozenset(self._framing)

    def first(self, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Mark the leading special token of each row of ids (batch, position)."""
        marked = np.zeros(ids.shape, bool)
        marked[:, 0] = self._leads
        return marked

    def separator(self, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Mark separators."""
        return np.isin(ids, list(self._separators))

    def special(self, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Mark every token that stands for no text, such as boundary tokens and masks."""
        return np.isin(ids, list(self._special))

    def punctuation(self, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Mark punctuation."""
        types, place = np.unique(ids, return_inverse=True)
        for unseen in (int(t) for t in types if int(t) not in self._punctuation):
            spelled = surface(self._tokenizer, unseen)
            self._punctuation[unseen] = unseen not in self._framing and is_punctuation(spelled)
        return np.array([self._punctuation[int(t)] for t in types])[place].reshape(ids.shape)


def special_ids(tokenizer: Tokenizer) -> set[int]:
    """List the special tokens of a tokenizer, without the one that stands for unknown text."""
    return {*getattr(tokenizer, "all_special_ids", ())} - _ids(tokenizer, "unk_token_id")


def ordinary_ids(tokenizer: Tokenizer, known: int) -> list[int]:
    """List the ids of pieces of text.

    Without special tokens, tokens that were added to the vocabulary, and those that are named like none of a
    text: [unused12], <extra_id_0>.

    Args:
        tokenizer: Whose vocabulary it is.
        known: Ids from here on are none that the model has embeddings for.
    """
    added = {*getattr(tokenizer, "added_tokens_decoder", ())}
    left = {*getattr(tokenizer, "all_special_ids", ()), *added}
    names = tokenizer.convert_ids_to_tokens(list(range(min(known, len(tokenizer)))))
    return [
        token
        for token, name in enumerate(names)
        if token not in left and name and not _NO_TEXT.fullmatch(name)
    ]


def surface(tokenizer: Tokenizer, token: int) -> str:
    """Spell a token without marks of word beginning (a space) or continuation (##)."""
    return tokenizer.decode([token]).strip().removeprefix("##")


def is_punctuation(text: str) -> bool:
    """Tell whether a text is nothing but punctuation.

    >>> [is_punctuation(t) for t in (",", "...", "a.", "")]
    [True, True, False, False]
    """
    return bool(text) and all(
        unicodedata.category(character).startswith("P") or character in string.punctuation
        for character in text
    )


def _ids(tokenizer: Tokenizer, *names: str) -> set[int]:
    return {value for name in names if (value := getattr(tokenizer, name, None)) is not None}
