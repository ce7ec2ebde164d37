"""From documents to sequences of tokens: framed, cut into windows, with their words and links."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat, takewhile
from typing import Any

from attnprobe.attention.tokens import TokenAnnotation, TokenAnswers
from attnprobe.corpus.document import Document, DocumentNumbers, Label, Where
from attnprobe.corpus.spans import (
    Alignment,
    Offsets,
    PendingLinks,
    Window,
    find_spans,
    split_annotation,
    tag_tokens,
)
from attnprobe.corpus.tokenizer import Frame, Tokenizer, ask_offsets, find_special_ids, tokenize
from attnprobe.errors import DataError

#: Documents are tokenised in chunks of at most so many, or of about so many characters.
CHUNK_DOCUMENTS = 512
CHUNK_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """A tokenised sequence."""

    ids: list[int]
    second: int = 0  # the place where the second text of a pair begins; 0 without one
    label: Label | None = None
    document: int = 0  # its number
    name: int = 0  # its digest
    group: str | None = None
    annotation: TokenAnnotation | None = None
    awaited: PendingLinks | None = None
    crossed: TokenAnnotation | None = None  # of attention from a decoder's text


@dataclass
class Reading:
    """Counts of documents, and of what was cut, left out or lost on reading them."""

    documents: int = 0
    windows: int = 0
    cut: int = 0
    truncated: int = 0
    empty: int = 0
    links: int = 0
    links_lost: int = 0
    links_unasked: int = 0
    spelled: int = 0
    spelled_token: str = ""
    words: int = 0
    words_lost: int = 0
    unanswered: int = 0

    def __add__(self, other: "Reading") -> "Reading":
        counts = {
            key: count + getattr(other, key) for key, count in vars(self).items() if key != "spelled_token"
        }
        return Reading(**counts, spelled_token=self.spelled_token or other.spelled_token)


class SequenceReader:
    """Tokenises documents into framed sequences of at most ``max_length`` tokens.

    Longer documents are cut into windows that do not overlap, of which ``truncate`` keeps the first. Pairs
    that are too long are truncated, longest first. The prompt of a document's role stands before each window;
    characters are counted from behind it.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_length: int,
        *,
        truncate: bool = False,
        prompts: Mapping[str, str] | None = None,
    ) -> None:
        self.tokenizer, self.max_length, self.truncate = tokenizer, max_length, truncate
        self._prompts = prompts or {"": ""}
        self._prompt_ids = {
            text: list(tokenize(tokenizer, text, add_special_tokens=False)["input_ids"]) if text else []
            for text in self._prompts.values()
        }
        self.frame, self._checked = Frame.of(tokenizer), False
        self._special = find_special_ids(tokenizer)
        self.reading = Reading()
        self._numbers = DocumentNumbers()  # of those that give a sequence
        longest = max(map(len, self._prompt_ids.values()))
        taken = len(self.frame) + longest
        if max_length <= taken:
            beside = f"{len(self.frame)} special tokens" + f" and the {longest} of the prompt" * bool(longest)
            lacks = f"--max-length {max_length} leaves no room for text beside the {beside}"
            raise DataError(f"{lacks}; give at least {taken + 1}.")

    def read(self, documents: Iterable[Document]) -> Iterator[TokenSequence]:
        for chunk in _split_chunks(documents):
            single = [self._find_prompt(each) + each.text for each in chunk if each.pair is None]
            annotated = any(document.annotation is not None for document in chunk)
            tokenised = self.tokenise(single, **ask_offsets(self.tokenizer) if annotated else {})
            encoded = zip(tokenised["input_ids"], tokenised.get("offset_mapping", repeat(())), strict=False)
            for document in chunk:
                self.reading.documents += 1
                if document.pair is not None:
                    sequences = self._read_pair(document)
                else:
                    sequences = self._read_windows(document, *next(encoded))
                if sequences:
                    name = document.digest
                    number = self._numbers.number(None if document.part_of is None else name)
                    known = {"document": number, "name": name, "group": document.group}
                    for sequence in sequences:
                        yield replace(sequence, label=document.label, **known)

    def _find_prompt(self, document: Document) -> str:
        return self._prompts.get(document.role, self._prompts[""])

    def tokenise(self, texts: Sequence[str], **options: Any) -> Mapping[str, Any]:
        """Tokenise texts without special tokens; the first call refuses a tokenizer that frames otherwise."""
        if not texts:
            return {"input_ids": ()}
        tokenised = tokenize(self.tokenizer, texts, add_special_tokens=False, verbose=False, **options)
        if not self._checked:
            self.frame.check(self.tokenizer, texts, tokenised["input_ids"])
            self._checked = True
        return tokenised

    def _read_windows(self, document: Document, ids: list[int], offsets: Offsets) -> list[TokenSequence]:
        """Cut a text into windows; if words have labels, keep the first only, or none if it has no label."""
        annotation, counts, text = document.annotation, self.reading, self._find_prompt(document)
        prompt = self._prompt_ids[text]
        shared = takewhile(lambda pair: pair[0] == pair[1], zip(ids[:-1], prompt, strict=False))
        begun = len(list(shared))  # the tokens of the prompt that did not merge with the text
        room = self.max_length - len(self.frame) - begun
        at = len(self.frame.before) + begun
        if text:  # count characters from where the text begins behind the prompt
            offsets = [(start - len(text), stop - len(text)) for start, stop in offsets]
        if annotation is not None and annotation.tags:
            tags = tag_tokens(annotation.tags, offsets[begun:], room, at)
            counts.words += len(annotation.tags)
            counts.words_lost += len(annotation.tags) - len(tags)
            counts.truncated += len(ids) - begun > room
            counts.empty += not ids
            tagged = TokenAnnotation(tags=tags)
            return [TokenSequence(self.frame.around(ids[: begun + room]), annotation=tagged)] if tags else []
        if ids == prompt:
            return self._count_empty(document)
        self._count_special(ids[begun:])
        starts = list(range(begun, len(ids), room))
        if len(starts) > 1 and self.truncate:
            counts.truncated += 1
            starts = starts[:1]
        elif len(starts) > 1:
            counts.cut += 1
            counts.windows += len(starts)
        pieces = [self.frame.around([*ids[:begun], *ids[start : start + room]]) for start in starts]
        alignment = Alignment({"text": offsets})
        windows = [Window(alignment, start, min(start + room, len(ids)), at) for start in starts]
        return self._make_sequences(document, pieces, windows)

    def _read_pair(self, document: Document) -> list[TokenSequence]:
        """Read two texts as one sequence; blank ones, or a question whose answers are cut off, give none."""
        annotation, whole, before = document.annotation, None, self._prompts[""]
        answers = annotation and annotation.answers
        options: dict[str, Any] = {"return_token_type_ids": True, "return_special_tokens_mask": True}
        options |= {"verbose": False} | ({} if annotation is None else ask_offsets(self.tokenizer))
        texts = before + document.text, document.pair
        encoded: Any = tokenize(self.tokenizer, *texts, **options)
        if len(encoded["input_ids"]) > self.max_length:
            self.reading.truncated += 1
            if annotation is not None:
                whole = Alignment(_read_pair_offsets(encoded, before))
            sides = None if answers is None else encoded.sequence_ids(0)
            if sides and len(sides) - sides.count(1) >= self.max_length:  # the question leaves no room
                self.reading.unanswered += 1
                return []
            truncation = "longest_first" if answers is None else "only_second"
            options |= {"truncation": truncation, "max_length": self.max_length}
            encoded = tokenize(self.tokenizer, *texts, **options)
        ids, types = list(encoded["input_ids"]), list(encoded["token_type_ids"])
        second = types.index(1) if 1 in types else 0
        offsets = {} if annotation is None else _read_pair_offsets(encoded, before)
        alignment = Alignment(offsets, whole)
        if answers is not None:
            ends = zip(encoded.sequence_ids(0), offsets["pair"], strict=True)
            spans = find_spans(alignment.tokens, answers)
            if answers and not spans:
                self.reading.unanswered += 1
                return []
            answered = TokenAnswers(spans, tuple(pair if side == 1 else None for side, pair in ends))
            return [TokenSequence(ids, second, annotation=TokenAnnotation(answers=answered))]
        added = encoded["special_tokens_mask"]
        text_ids = [token for token, special in zip(ids, added, strict=True) if not special]
        if not text_ids:
            return self._count_empty(document)
        self._count_special(text_ids)
        return self._make_sequences(document, [ids], [Window(alignment, 0, len(ids), 0)], second)

    def _make_sequences(
        self, document: Document, pieces: list[list[int]], windows: Sequence[Window], second: int = 0
    ) -> list[TokenSequence]:
        annotation = document.annotation
        if annotation is None:
            return [TokenSequence(piece, second) for piece in pieces]
        texts: dict[Where, str] = {"text": document.text, "pair": document.pair or ""}
        sequences = []
        inside = split_annotation(annotation, windows, texts)
        for ids, window, here in zip(pieces, windows, inside, strict=True):
            awaited = PendingLinks(annotation, window) if annotation.elsewhere else None
            sequences.append(TokenSequence(ids, second, annotation=here, awaited=awaited))
            self.reading.links_lost -= len(here.links)
        self.reading.links += len(annotation.links)
        # Links of a decoder's text are counted later.
        self.reading.links_lost += sum(not link.elsewhere for link in annotation.links)
        return sequences

    def _count_empty(self, document: Document) -> list[TokenSequence]:
        """Count a document without tokens, and its links as lost; it has no sequences."""
        links = 0 if document.annotation is None else len(document.annotation.links)
        self.reading.empty += 1
        self.reading.links += links
        self.reading.links_lost += links
        return []

    def _count_special(self, ids: list[int]) -> None:
        """Count a document if its text spells out a special token, the first of which is noted."""
        first = next((token for token in ids if token in self._special), None)
        if first is not None:
            self.reading.spelled += 1
            name = self.tokenizer.convert_ids_to_tokens([first])[0]
            self.reading.spelled_token = self.reading.spelled_token or name


def _read_pair_offsets(encoded: Any, prompt: str) -> dict[Where, list[tuple[int, int]]]:
    """Find the offsets of all tokens in each text, without its prompt; (0, 0) for those of the other."""
    offsets: dict[Where, list[tuple[int, int]]] = {"text": [], "pair": []}
    for side, (start, stop) in zip(encoded.sequence_ids(0), encoded["offset_mapping"], strict=True):
        offsets["text"].append((start - len(prompt), stop - len(prompt)) if side == 0 else (0, 0))
        offsets["pair"].append((start, stop) if side == 1 else (0, 0))
    return offsets


def _split_chunks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    chunk, characters = [], 0
    for document in documents:
        chunk.append(document)
        characters += len(document.text)
        if len(chunk) >= CHUNK_DOCUMENTS or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    yield chunk
