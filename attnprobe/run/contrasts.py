"""Pairs of texts as tokens: where the answer of each is read off, and which pairs are left out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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

#: What is read off the model: a class of the text or a number; the token behind a mask, the next token or the
#: tokens of a target text; or the probability of the text itself.
Reads = Literal["class", "number", "mask", "next", "target", "text"]
#: How a mask may be written, whatever the tokenizer calls it.
MASKS = ("[MASK]", "<mask>")
#: The reasons for which pairs are left out.
_WHY = {
    "incomplete": "a text or the answer is missing",
    "long": "a text is longer than {} tokens",
    "unequal": "their texts have different numbers of tokens",
}


@dataclass(frozen=True, slots=True)
class Readout:
    """Where an answer is read off the clean and the corrupted text, and the two answers that are compared."""

    places: tuple[int, int] = (0, 0)
    answer: Any = None
    other: Any = None


@dataclass(frozen=True)
class ContrastCorpus(Corpus):
    """A tokenised corpus of pairs; ``targets`` are the tokens that a decoder is to answer with."""

    readouts: Sequence[Readout] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    targets: Sequence[list[int]] = ()

    def describe(self, checkpoint: Checkpoint) -> Iterator[str]:
        return describe_counts(self.counts, self.max_length)


def describe_counts(counts: Mapping[str, int], max_length: int) -> Iterator[str]:
    """Tell how many pairs were left out, a sentence for each reason."""
    for name, why in _WHY.items():
        if counts[name]:
            yield f"{counts[name]:,} of {counts['pairs']:,} pairs left out: {why.format(max_length)}."


def read_contrasts(reader: TokenReader, documents: Iterable[Document], reads: Reads) -> ContrastCorpus:
    """Tokenise pairs and plan their batches, or refuse data in which no pair can be used."""
    checkpoint = reader.checkpoint
    pairs = ContrastReader(checkpoint, reads, reader.max_length)
    clean, corrupted, beside = (reader.open_store() for _ in range(3))
    sequences = pairs.read(reader.count(documents))
    while chunk := list(islice(sequences, CHUNK_DOCUMENTS)):
        clean.extend(reader.check(both[0] for both in chunk))
        corrupted.extend(reader.check(both[1] for both in chunk))
    if not len(clean):
        raise DataError(f"No pair can be used: {' '.join(describe_counts(pairs.counts, reader.max_length))}")
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
    reading = Reading(documents=pairs.counts["pairs"])
    known = {"counts": pairs.counts, "targets": pairs.targets, "readouts": pairs.readouts}
    return ContrastCorpus(batches, reading, reader.max_length, **known)


class ContrastReader:
    """Tokenises pairs, finds where their answers are read off, and counts the pairs that are left out."""

    def __init__(self, checkpoint: Checkpoint, reads: Reads, max_length: int) -> None:
        self.counts = dict.fromkeys(("pairs", *_WHY), 0)
        self.readouts: list[Readout] = []
        self.targets: list[list[int]] = []
        self._checkpoint, self._reads, self._max_length = checkpoint, reads, max_length
        self._tokenizer: Any = checkpoint.tokenizer
        self._texts = SequenceReader(self._tokenizer, max_length)
        self.frame = self._texts.frame
        self._mask: Any = getattr(self._tokenizer, "mask_token", None)
        if reads == "mask" and self._mask is None:
            raise ModelError(f"The tokenizer of {checkpoint.name} has no mask token that could be filled.")
        self._numbers = DocumentNumbers()

    def read(self, documents: Iterable[Document]) -> Iterator[tuple[TokenSequence, TokenSequence]]:
        """Yield both texts of each kept pair, the clean one first; add to readouts, targets and counts."""
        waiting = iter(documents)
        while chunk := list(islice(waiting, CHUNK_DOCUMENTS)):
            self.counts["pairs"] += len(chunk)
            kept = [pair for document in chunk if (pair := self._read_pair(document)) is not None]
            self.counts["incomplete"] += len(chunk) - len(kept)
            clean = self._tokenise([self._mark(document.text) for document, _ in kept])
            corrupted = self._tokenise([self._mark(contrast.corrupted) for _, contrast in kept])
            for (document, contrast), *both in zip(kept, clean, corrupted, strict=True):
                if reason := self._find_reason(*both):
                    self.counts[reason] += 1
                    continue
                ids = [self.frame.around(side) for side in both]
                self.readouts.append(self._find_readout(document.text, contrast, ids))
                name = document.digest
                number = self._numbers.number(None if document.part_of is None else name)
                first, second = (TokenSequence(side, document=number, name=name) for side in ids)
                yield first, second

    def _read_pair(self, document: Document) -> tuple[Document, Contrast] | None:
        contrast = document.label
        assert isinstance(contrast, Contrast)
        answered = contrast.answer is not None or self._reads in {"number", "text"}
        return (document, contrast) if document.text and contrast.corrupted and answered else None

    def _find_reason(self, clean: list[int], corrupted: list[int]) -> str | None:
        """Find the reason for which a pair is left out, if any."""
        if not clean or not corrupted:
            return "incomplete"
        if len(clean) != len(corrupted):
            return "unequal"
        return "long" if len(clean) + len(self.frame) > self._max_length else None

    def _mark(self, text: str) -> str:
        """Write masks as the tokenizer does; where the next token is read off, cut the text at the mask."""
        for spelled in MASKS:
            if self._reads == "next":
                text = text.partition(spelled)[0].rstrip() or text
            elif self._reads == "mask":
                text = text.replace(spelled, self._mask)
        return text

    def _tokenise(self, texts: Sequence[str]) -> list[list[int]]:
        return self._texts.tokenise(texts)["input_ids"]

    def _find_readout(self, text: str, contrast: Contrast, ids: Sequence[list[int]]) -> Readout:
        """Find what is compared and at which positions, or refuse two answers that are the same token."""
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
        """Find the position that predicts a word: that of the only mask, or the last token of the text."""
        if self._reads != "mask":
            return len(ids) - len(self.frame.after) - 1
        masks = [place for place, token in enumerate(ids) if token == self._tokenizer.mask_token_id]
        if len(masks) != 1:
            raise DataError(
                f"The text {shorten(repr(text))} has {len(masks) or 'no'} masks; {self._checkpoint.name} "
                f"fills one: write {self._mask} for the word that is asked for."
            )
        return masks[0]

    def _find_token(self, text: str, word: str) -> int:
        """Find the token of a word at the mask or behind the text, or refuse one that is not one token."""
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
        if token is not None and token != getattr(self._tokenizer, "unk_token_id", None):
            return token
        raise DataError(
            f"The answer {shorten(repr(word))} is not one token to {self._checkpoint.name}, and one is "
            "predicted; give a word of its vocabulary."
        )

    def _find_target(self, contrast: Contrast) -> Readout:
        """Add a target to ``targets``, up to where the other target differs, if there is one."""
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
