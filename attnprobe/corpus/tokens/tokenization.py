"""From documents to sequences of token ids that the model takes whole."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from attnprobe.corpus.sources.document import Document, Label
from attnprobe.errors import AttnprobeError

#: Documents are handed to the tokenizer by this many, or by this many characters.
CHUNK_DOCUMENTS = 512
CHUNK_CHARACTERS = 1_000_000


class Tokenizer(Protocol):
    """What attnprobe asks of a tokenizer; every transformers tokenizer has it."""

    model_input_names: list[str]

    def __call__(self, *texts: Any, **options: Any) -> Mapping[str, Any]:
        """Tokenise a text, a list of texts, or texts and pairs."""
        ...

    def __len__(self) -> int:
        """Give the size of the vocabulary."""
        ...

    def decode(self, ids: Any, **options: Any) -> str:
        """Spell token ids out."""
        ...

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        """Name token ids."""
        ...


class NoTokenizer:
    """Stands where a checkpoint reads no text: whoever asks it anything is told so."""

    model_input_names: list[str] = []  # noqa: RUF012 - it never changes

    def __init__(self, name: str) -> None:
        """Speak for a checkpoint."""
        self._name = name

    def __len__(self) -> int:
        """Give the size of the vocabulary: none."""
        return 0

    def __call__(self, *texts: Any, **options: Any) -> Mapping[str, Any]:
        """Refuse."""
        raise self._refusal()

    def decode(self, ids: Any, **options: Any) -> str:
        """Refuse."""
        raise self._refusal()

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        """Refuse."""
        raise self._refusal()

    def _refusal(self) -> AttnprobeError:
        return AttnprobeError(f"{self._name} holds no tokenizer, so it can't be given text.")


@dataclass(frozen=True)
class Frame:
    """The special tokens a tokenizer puts around a text: ids before it and ids after it.

    Windows of a long document are framed by hand, so the frame is read off a probe and refused
    if the tokenizer does anything else.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Frame":
        """Compare a probe with and without special tokens."""
        bare = list(tokenizer("a b", add_special_tokens=False)["input_ids"])
        framed = list(tokenizer("a b")["input_ids"])
        for start in range(len(framed) - len(bare) + 1):
            if framed[start : start + len(bare)] == bare:
                return cls(tuple(framed[:start]), tuple(framed[start + len(bare) :]))
        raise AttnprobeError(
            "The tokenizer does not frame a text with special tokens before and after it, "
            "which is the only form attnprobe can cut into windows."
        )

    def __len__(self) -> int:
        """Number of special tokens around a text."""
        return len(self.before) + len(self.after)

    def around(self, ids: Sequence[int]) -> list[int]:
        """Frame token ids."""
        return [*self.before, *ids, *self.after]


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """A tokenised sequence: ids, where its second text begins (0 if there is none), its document's label."""

    ids: list[int]
    second: int = 0
    label: Label | None = None


@dataclass
class Reading:
    """What happened to the documents on the way, for the record and for the user.

    Attributes:
        documents: Documents read.
        windows: Windows that documents longer than the limit were cut into.
        cut: Documents that were cut into windows.
        truncated: Documents that lost their end.
        empty: Documents without a single token.
    """

    documents: int = 0
    windows: int = 0
    cut: int = 0
    truncated: int = 0
    empty: int = 0


class SequenceReader:
    """Tokenises documents into framed sequences of at most ``max_length`` tokens.

    A longer document is cut into windows that do not overlap, each framed like a text of its own;
    with ``truncate`` only the first is kept. A pair that is too long is truncated, longest first.

    Attributes:
        reading: Counts of what was read, cut, truncated and skipped so far.
    """

    def __init__(self, tokenizer: Tokenizer, max_length: int, *, truncate: bool = False) -> None:
        """Read the tokenizer's frame; refuse a limit with no room for text."""
        self.tokenizer = tokenizer
        self.frame = Frame.of(tokenizer)
        self.max_length = max_length
        self.truncate = truncate
        self.reading = Reading()
        if max_length <= len(self.frame):
            raise AttnprobeError(
                f"--max-length {max_length} leaves no room for text beside the "
                f"{len(self.frame)} special tokens; give at least {len(self.frame) + 1}."
            )

    def read(self, documents: Iterable[Document]) -> Iterator[TokenSequence]:
        """Tokenise, in the order of the documents."""
        for chunk in _chunks(documents):
            single = [d.text for d in chunk if d.pair is None]
            options = {"add_special_tokens": False, "verbose": False}
            tokenised = iter(self.tokenizer(single, **options)["input_ids"] if single else ())
            for document in chunk:
                self.reading.documents += 1
                if document.pair is not None:
                    yield from self._pair(document.text, document.pair, document.label)
                else:
                    yield from self._windows(next(tokenised), document.label)

    def _windows(self, ids: list[int], label: Label | None) -> Iterator[TokenSequence]:
        if not ids:
            self.reading.empty += 1
            return
        room = self.max_length - len(self.frame)
        pieces = [ids[start : start + room] for start in range(0, len(ids), room)]
        if len(pieces) > 1 and self.truncate:
            self.reading.truncated += 1
            pieces = pieces[:1]
        elif len(pieces) > 1:
            self.reading.cut += 1
            self.reading.windows += len(pieces)
        for piece in pieces:
            yield TokenSequence(self.frame.around(piece), label=label)

    def _pair(self, text: str, pair: str, label: Label | None) -> Iterator[TokenSequence]:
        options = {"return_token_type_ids": True, "return_special_tokens_mask": True, "verbose": False}
        encoded = self.tokenizer(text, pair, **options)
        if len(encoded["input_ids"]) > self.max_length:
            self.reading.truncated += 1
            options |= {"truncation": "longest_first", "max_length": self.max_length}
            encoded = self.tokenizer(text, pair, **options)
        if all(encoded["special_tokens_mask"]):
            self.reading.empty += 1
            return
        kinds = list(encoded["token_type_ids"])
        yield TokenSequence(list(encoded["input_ids"]), kinds.index(1) if 1 in kinds else 0, label)


def _chunks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    chunk, characters = [], 0
    for document in documents:
        chunk.append(document)
        characters += len(document.text)
        if len(chunk) >= CHUNK_DOCUMENTS or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
