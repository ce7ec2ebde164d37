"""From pairs of texts to tokens: both sides of a pair, where its answer is read off, and what is left out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

from attnprobe.corpus.batches import Batches
from attnprobe.corpus.document import Contrast, Document, DocumentNumbers
from attnprobe.corpus.streams import shorten
from attnprobe.corpus.tokens import CHUNK_DOCUMENTS, Reading, SequenceReader, TokenSequence
from attnprobe.errors import DataError, ModelError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.corpus import Corpus, TokenReader
from attnprobe.run.examples import tokenise_targets

#: What is read off the model: a class of the text, or a number; the token behind a mask, the next token, the
#: tokens of a target text; or how probable the text itself is.
Reads = Literal["class", "number", "mask", "next", "target", "text"]
#: How people write a mask, whatever the tokenizer calls it.
MASKS = ("[MASK]", "<mask>")


@dataclass(frozen=True, slots=True)
class Readout:
    """Where an answer is read off the model, and what it is compared with."""

    places: tuple[int, int] = (0, 0)
    answer: Any = None
    other: Any = None


@dataclass
class PairCounts:
    """What happened to pairs on their way to tokens."""

    pairs: int = 0
    incomplete: int = 0
    unequal: int = 0
    long: int = 0

    def describe(self, window: int) -> Iterator[str]:
        """Say what was left out, a sentence each."""
        for number, why in (
            (self.incomplete, "a text or the answer is missing"),
            (self.long, f"a text is longer than {window} tokens"),
            (self.unequal, "their texts have different numbers of tokens"),
        ):
            if number:
                yield f"{number:,} of {self.pairs:,} pairs left out: {why}."


@dataclass(frozen=True)
class ContrastCorpus(Corpus):
    """A tokenised corpus of pairs; ``targets`` are what a decoder is to answer."""

    readouts: Sequence[Readout] = ()
    counts: PairCounts = field(default_factory=PairCounts)
    targets: Sequence[list[int]] = ()

    def describe(self, checkpoint: Checkpoint) -> Iterator[str]:
        return self.counts.describe(self.window)


def read_contrasts(reader: TokenReader, documents: Iterable[Document], reads: Reads) -> ContrastCorpus:
    """Tokenise pairs into stores, and plan their batches."""
    checkpoint = reader.checkpoint
    pairs = ContrastReader(checkpoint, reads, reader.window)
    clean, corrupted, beside = (reader.open_store() for _ in range(3))
    sequences = pairs.read(reader.count(documents))
    while chunk := list(islice(sequences, CHUNK_DOCUMENTS)):
        clean.extend(reader.check(both[0] for both in chunk))
        corrupted.extend(reader.check(both[1] for both in chunk))
    if not len(clean):
        raise DataError(f"No pair can be used: {' '.join(pairs.counts.describe(reader.window))}")
    source, targets = reader.describe(clean, pairs.frame), None
    if reads == "target":
        beside.extend(TokenSequence(checkpoint.shift_right(target)) for target in pairs.targets)
        targets = reader.describe_targets(beside)
    batches = Batches(
        source,
        budget=reader.limits["budget"],
        corrupted=replace(source, store=corrupted),
        targets=targets,
        content=map(repr, pairs.readouts),
    )
    reading = Reading(documents=pairs.counts.pairs)
    known = {"counts": pairs.counts, "targets": pairs.targets, "readouts": pairs.readouts}
    return ContrastCorpus(batches, reading, reader.window, **known)


class ContrastReader:
    """Tokenises pairs, finds where the answer of each is read off, and counts what is left out."""

    def __init__(self, checkpoint: Checkpoint, reads: Reads, window: int) -> None:
        self.counts = PairCounts()
        self.readouts: list[Readout] = []
        self.targets: list[list[int]] = []
        self._checkpoint, self._reads, self._window = checkpoint, reads, window
        self._tokenizer: Any = checkpoint.tokenizer
        self._texts = SequenceReader(self._tokenizer, window)
        self.frame = self._texts.frame
        self._mask: Any = getattr(self._tokenizer, "mask_token", None)
        if reads == "mask" and self._mask is None:
            raise ModelError(f"The tokenizer of {checkpoint.name} has no mask token that could be filled.")
        self._numbers = DocumentNumbers()

    def read(self, documents: Iterable[Document]) -> Iterator[tuple[TokenSequence, TokenSequence]]:
        """Yield the tokens of both texts of each pair that is kept, the clean one first."""
        waiting = iter(documents)
        while chunk := list(islice(waiting, CHUNK_DOCUMENTS)):
            self.counts.pairs += len(chunk)
            pairs = [(document, _contrast(document)) for document in chunk]
            kept = [pair for pair in pairs if self._is_complete(*pair)]
            self.counts.incomplete += len(chunk) - len(kept)
            clean = self._tokenise([self._mark(document.text) for document, _ in kept])
            corrupted = self._tokenise([self._mark(contrast.corrupted) for _, contrast in kept])
            for (document, contrast), *both in zip(kept, clean, corrupted, strict=True):
                ids = [self.frame.around(one) for one in both]
                if self._is_usable(*both):
                    self.readouts.append(self._find_answer(document.text, contrast, ids))
                    name = document.digest
                    number = self._numbers.number(None if document.part_of is None else name)
                    yield (
                        TokenSequence(ids[0], document=number, name=name),
                        TokenSequence(ids[1], document=number, name=name),
                    )

    def _is_complete(self, document: Document, contrast: Contrast) -> bool:
        answered = contrast.answer is not None or self._reads in {"number", "text"}
        return bool(document.text and contrast.corrupted) and answered

    def _is_usable(self, clean: list[int], corrupted: list[int]) -> bool:
        """Count a pair whose tokens can't be compared one by one, and refuse it."""
        empty, unequal = not clean or not corrupted, len(clean) != len(corrupted)
        long = len(clean) + len(self.frame) > self._window
        self.counts.incomplete += empty
        self.counts.unequal += not empty and unequal
        self.counts.long += not empty and not unequal and long
        return not (empty or unequal or long)

    def _mark(self, text: str) -> str:
        """Write masks as the tokenizer does; where the next word is asked for, end before the mask."""
        for spelled in MASKS:
            if self._reads == "next":
                text = text.partition(spelled)[0].rstrip() or text
            elif self._reads == "mask":
                text = text.replace(spelled, self._mask)
        return text

    def _tokenise(self, texts: Sequence[str]) -> list[list[int]]:
        return self._texts.tokenise(texts)["input_ids"]

    # What is right

    def _find_answer(self, text: str, contrast: Contrast, ids: Sequence[list[int]]) -> Readout:
        if self._reads == "class":
            return Readout(answer=contrast.answer, other=contrast.other)
        if self._reads in {"text", "number"}:
            return Readout()
        if self._reads == "target":
            return self._find_target(contrast)
        places = self._find_place(text, ids[0]), self._find_place(contrast.corrupted, ids[1])
        answer, other = (
            None if word is None else self._find_token(self._mark(text), str(word))
            for word in (contrast.answer, contrast.other)
        )
        if answer is not None and answer == other:
            raise DataError(
                f"Both answers to {shorten(repr(text))} are the same to {self._checkpoint.name}; give two "
                "that differ."
            )
        return Readout(places, answer, other)

    def _find_place(self, text: str, ids: list[int]) -> int:
        """Find where words are predicted: at the mask, or where a text ends."""
        if self._reads != "mask":
            return len(ids) - len(self.frame.after) - 1
        masks = [place for place, token in enumerate(ids) if token == self._tokenizer.mask_token_id]
        if len(masks) != 1:
            number = "no mask" if not masks else f"{len(masks)} masks"
            raise DataError(
                f"The text {shorten(repr(text))} has {number}; {self._checkpoint.name} fills one: write "
                f"{self._mask} for the word that is asked for."
            )
        return masks[0]

    def _find_token(self, text: str, word: str) -> int:
        """Find the one token of a word that takes the place of the mask, or stands behind the text."""
        (bare,) = self._tokenise([text])
        if self._reads == "mask":
            place = bare.index(self._tokenizer.mask_token_id)
            after, written = bare[place + 1 :], [text.replace(self._mask, word)]
        else:
            place, after = len(bare), []
            written = [text + word] if word[:1].isspace() else [f"{text} {word}", text + word]
        tried = [
            ids[place : len(ids) - len(after)]
            for ids in self._tokenise(written)
            if ids[:place] == bare[:place] and ids[len(ids) - len(after) :] == after
        ]
        tried += self._tokenise([f" {word.strip()}", word])
        token = next((ids[0] for ids in tried if len(ids) == 1), None)
        unknown = getattr(self._tokenizer, "unk_token_id", None)
        if token is not None and token != unknown:
            return token
        least = min((ids for ids in tried if ids), key=len, default=[])
        if unknown in least or not least:
            raise DataError(
                f"{self._checkpoint.name} does not know the answer {shorten(repr(word))}; give a word of its "
                "vocabulary."
            )
        pieces = ", ".join(map(repr, self._tokenizer.convert_ids_to_tokens(least[:8])))
        raise DataError(
            f"The answer {shorten(repr(word))} is {len(least)} tokens to {self._checkpoint.name} ({pieces}), "
            "and one is predicted; give a word that is one token."
        )

    def _find_target(self, contrast: Contrast) -> Readout:
        """Tokenise the target; with another beside, up to where the two part."""
        (target,) = tokenise_targets(self._checkpoint, [str(contrast.answer)])
        if contrast.other is None:
            self.targets.append(target)
            return Readout(answer=-1)
        (other,) = tokenise_targets(self._checkpoint, [str(contrast.other)])
        pairs = enumerate(zip(target, other, strict=False))
        place = next((place for place, (ours, theirs) in pairs if ours != theirs), None)
        if place is None:
            raise DataError(
                f"Of the targets {shorten(repr(contrast.answer))} and {shorten(repr(contrast.other))}, one "
                "begins with the other, so no token tells them apart; give two that differ."
            )
        self.targets.append(target[: place + 1])
        return Readout((place, place), target[place], other[place])


def _contrast(document: Document) -> Contrast:
    assert isinstance(document.label, Contrast)
    return document.label
