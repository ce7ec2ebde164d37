"""What is asked of a tokenizer, and the special tokens that it puts around a text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Protocol

from attnprobe.corpus.streams import check_unicode, shorten
from attnprobe.errors import AttnprobeError, DataError, first_line

#: Tokens of the vocabulary that are tried as a probe where the usual one gives no token.
_MOST_PROBES = 2000
#: So many first texts are checked, each up to so many characters.
_CHECKED_TEXTS, _CHECKED_CHARACTERS = 16, 20_000


class Tokenizer(Protocol):
    """What is asked of a tokenizer; every one of transformers has it."""

    model_input_names: list[str]

    def __call__(self, *texts: Any, **options: Any) -> Mapping[str, Any]: ...

    def __len__(self) -> int: ...

    def decode(self, ids: Any, **options: Any) -> str: ...

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]: ...


class NoTokenizer:
    """Stands in for the tokenizer of a checkpoint without one; any use is refused."""

    model_input_names: list[str] = []  # noqa: RUF012 - it never changes

    def __init__(self, name: str) -> None:
        self._name = name

    def __len__(self) -> int:
        return 0

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise DataError(f"{self._name} holds no tokenizer, so it can't be given text.")

    decode = convert_ids_to_tokens = __call__


def tokenize(tokenizer: Tokenizer, *texts: Any, **options: Any) -> Mapping[str, Any]:
    """Tokenise, or say in one sentence why the tokenizer fails."""
    try:
        return tokenizer(*texts, **options)
    except AttnprobeError:
        raise
    except Exception as error:  # what comes from tokenizers has no class of its own
        given = [*texts, options.get("text_target") or ""]
        for text in chain.from_iterable([one] if isinstance(one, str) else one for one in given):
            check_unicode(text, f"The text {shorten(repr(text))}")
        raise DataError(f"The tokenizer fails on the texts: {first_line(error)}.") from error


def ask_offsets(tokenizer: Any) -> dict[str, bool]:
    """Ask for the characters of tokens, or refuse a tokenizer that can't say them."""
    if not getattr(tokenizer, "is_fast", False):
        raise DataError(
            f"The tokenizer ({type(tokenizer).__name__}) has no fast form (tokenizer.json), so it can't say "
            "which characters a token covers, as words and links need."
        )
    return {"return_offsets_mapping": True}


@dataclass(frozen=True)
class Frame:
    """The special tokens a tokenizer puts around a text, by which windows of a long document are framed."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Frame":
        """Compare a probe, none of whose tokens frames a text, with and without special tokens."""
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
            except AttnprobeError as error:  # such as where it has no token for what it does not know
                failure = error
                continue
            if bare and special.isdisjoint(bare):
                for start in range(len(framed) - len(bare) + 1):
                    frame = cls(tuple(framed[:start]), tuple(framed[start + len(bare) :]))
                    if frame.around(bare) == framed and {*frame.before, *frame.after}.isdisjoint(bare):
                        return frame
                break
        raise failure

    def check(self, tokenizer: Tokenizer, texts: Sequence[str], ids: Sequence[Sequence[int]]) -> None:
        """Hold the ids of the first texts, with the frame around them, against ``tokenizer(text)``."""
        for text, bare in islice(zip(texts, ids, strict=True), _CHECKED_TEXTS):
            checked = bare and len(text) <= _CHECKED_CHARACTERS
            if checked and list(tokenize(tokenizer, text, verbose=False)["input_ids"]) != self.around(bare):
                raise DataError(
                    f"The tokenizer does not put {shorten(repr(text))} between the special tokens that it "
                    "puts around other texts, so that it can't be cut into windows."
                )

    def __len__(self) -> int:
        return len(self.before) + len(self.after)

    def around(self, ids: Sequence[int]) -> list[int]:
        return [*self.before, *ids, *self.after]
