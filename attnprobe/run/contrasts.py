"""From pairs of texts to tokens: both sides of a pair, where its answer is read off, and what is left out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from attnprobe.corpus.batch import TokenisedTexts
from attnprobe.corpus.batches import ContrastBatches, Readout
from attnprobe.corpus.sources.document import Contrast, Document
from attnprobe.corpus.sources.opening import select
from attnprobe.corpus.sources.streams import shorten
from attnprobe.corpus.store import SequenceStore
from attnprobe.corpus.tokens import CHUNK_DOCUMENTS, Frame, Reading, TokenSequence, tokenize
from attnprobe.corpus.vocabulary import TokenKinds, rank_types
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint, resolve_window
from attnprobe.run.examples import refuse_unknown_ids, tokenise_targets
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import BATCH_TOKENS_ACCELERATOR, Corpus

#: What is read off the model: a class of the text, or a number; the token behind a mask, the next token, the
#: tokens of a target text; or how probable the text itself is.
Asked = Literal["class", "number", "mask", "next", "target", "text"]
#: How people write a mask, whatever the tokenizer calls it.
MASKS = ("[MASK]", "<mask>")


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
                yield f"{number:,} of {self.pairs:,} pairs {'is' if number == 1 else 'are'} left out: {why}."


class ContrastReader:
    """Tokenises pairs, finds where the answer of each is read off, and counts what is left out."""

    def __init__(self, checkpoint: Checkpoint, asked: Asked, window: int) -> None:
        self.counts = PairCounts()
        self.readouts: list[Readout] = []
        self.targets: list[list[int]] = []
        self._checkpoint, self._asked, self._window = checkpoint, asked, window
        self._tokenizer: Any = checkpoint.tokenizer
        self.frame, self._checked = Frame.of(self._tokenizer), False
        if window <= len(self.frame):
            raise AttnprobeError(
                f"--max-length {window} leaves no room for text beside {len(self.frame)} special tokens; "
                f"give at least {len(self.frame) + 1}."
            )
        self._mask = getattr(self._tokenizer, "mask_token", None)
        if asked == "mask" and self._mask is None:
            raise AttnprobeError(
                f"The tokenizer of {checkpoint.name} has no mask token that could be filled."
            )
        self._numbers: dict[int, int] = {}

    def read(self, documents: Iterable[Document]) -> Iterator[tuple[TokenSequence, TokenSequence]]:
        """Yield the tokens of both texts of each pair that is kept, the clean one first."""
        waiting = iter(documents)
        while chunk := list(islice(waiting, CHUNK_DOCUMENTS)):
            kept = [document for document in chunk if self._is_complete(document)]
            texts = [self._mark(document.text) for document in kept]
            clean = self._tokenise(texts)
            if not self._checked and kept:
                self.frame.check(self._tokenizer, texts, clean)
                self._checked = True
            corrupted = self._tokenise([self._mark(_contrast(document).corrupted) for document in kept])
            for document, *both in zip(kept, clean, corrupted, strict=True):
                if (found := self._pair(document, *both)) is not None:
                    yield found

    def _is_complete(self, document: Document) -> bool:
        contrast = _contrast(document)
        self.counts.pairs += 1
        whole = bool(document.text and contrast.corrupted)
        whole &= contrast.answer is not None or self._asked in {"number", "text"}
        self.counts.incomplete += not whole
        return whole

    def _mark(self, text: str) -> str:
        """Write masks as the tokenizer does; where the next word is asked for, end before the mask."""
        if self._asked == "next":
            for spelled in MASKS:
                text = text.partition(spelled)[0].rstrip() or text
            return text
        if self._asked != "mask":
            return text
        assert self._mask is not None
        for spelled in MASKS:
            text = text.replace(spelled, self._mask)
        return text

    def _tokenise(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        found = tokenize(self._tokenizer, list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return [list(ids) for ids in found]

    def _pair(
        self, document: Document, clean: list[int], corrupted: list[int]
    ) -> tuple[TokenSequence, TokenSequence] | None:
        """Frame the tokens of a pair and find its answer; None where it is left out."""
        if not clean or not corrupted:
            self.counts.incomplete += 1
            return None
        if len(clean) != len(corrupted):
            self.counts.unequal += 1
            return None
        both = [self.frame.around(ids) for ids in (clean, corrupted)]
        if max(map(len, both)) > self._window:
            self.counts.long += 1
            return None
        contrast = _contrast(document)
        if self._asked == "class":
            self.readouts.append(Readout(answer=contrast.answer, other=contrast.other))
        elif self._asked in {"text", "number"}:
            self.readouts.append(Readout())
        elif self._asked == "target":
            self.readouts.append(self._find_target(contrast))
        else:
            self.readouts.append(self._find_words(document, both))
        name = document.digest
        # A pair that is a document of its own has a number of its own, whatever it says.
        key = name if document.group is not None else -len(self._numbers) - 1
        number = self._numbers.setdefault(key, len(self._numbers))
        return TokenSequence(both[0], document=number, name=name), TokenSequence(
            both[1], document=number, name=name
        )

    # What is right

    def _find_words(self, document: Document, both: Sequence[list[int]]) -> Readout:
        """Find the tokens of words that could stand at a mask, or come next, and where they are predicted."""
        contrast = _contrast(document)
        places = self._find_place(document.text, both[0]), self._find_place(contrast.corrupted, both[1])
        answer, other = (
            None if word is None else self._find_token(self._mark(document.text), str(word))
            for word in (contrast.answer, contrast.other)
        )
        if answer is not None and answer == other:
            raise AttnprobeError(
                f"Both answers to {shorten(repr(document.text))} are the same to {self._checkpoint.name}; "
                "give two that differ."
            )
        return Readout(places, answer, other)

    def _find_place(self, text: str, ids: list[int]) -> int:
        """Find where words are predicted: at the mask, or where a text ends."""
        if self._asked != "mask":
            return len(ids) - len(self.frame.after) - 1
        masks = [place for place, token in enumerate(ids) if token == self._tokenizer.mask_token_id]
        if len(masks) != 1:
            number = "no mask" if not masks else f"{len(masks)} masks"
            raise AttnprobeError(
                f"The text {shorten(repr(text))} has {number}; {self._checkpoint.name} fills one: write "
                f"{self._mask} for the word that is asked for."
            )
        return masks[0]

    def _find_token(self, text: str, word: str) -> int:
        if self._asked == "mask":
            assert self._mask is not None
            (bare,), marked = self._tokenise([text]), self._tokenizer.mask_token_id
            place = bare.index(marked)
            tried = self._tokenise([text.replace(self._mask, word)])
            inside = [
                ids for ids in tried if ids[:place] == bare[:place] and ids[place + 1 :] == bare[place + 1 :]
            ]
            found = [ids[place : len(ids) - (len(bare) - place - 1)] for ids in inside]
        else:
            (bare,) = self._tokenise([text])
            tried = self._tokenise([text + word] if word[:1].isspace() else [f"{text} {word}", text + word])
            found = [ids[len(bare) :] for ids in tried if ids[: len(bare)] == bare]
        found += self._tokenise([f" {word.strip()}", word])
        one = next((ids[0] for ids in found if len(ids) == 1), None)
        unknown = getattr(self._tokenizer, "unk_token_id", None)
        if one is not None and one != unknown:
            return one
        least = min((ids for ids in found if ids), key=len, default=[])
        if unknown in least or not least:
            raise AttnprobeError(
                f"{self._checkpoint.name} does not know the answer {shorten(repr(word))}; give a word of its "
                "vocabulary."
            )
        pieces = ", ".join(map(repr, self._tokenizer.convert_ids_to_tokens(least[:8])))
        raise AttnprobeError(
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
        parts = (place for place, (one, two) in enumerate(zip(target, other, strict=False)) if one != two)
        place = next(parts, None)
        if place is None:
            raise AttnprobeError(
                f"Of the targets {shorten(repr(contrast.answer))} and {shorten(repr(contrast.other))}, one "
                "begins with the other, so no token tells them apart; give two that differ."
            )
        self.targets.append(target[: place + 1])
        return Readout((place, place), target[place], other[place])


def _contrast(document: Document) -> Contrast:
    assert isinstance(document.label, Contrast)
    return document.label


@dataclass(frozen=True)
class ContrastCorpus:
    """A tokenised corpus of pairs."""

    corpus: Corpus
    batches: ContrastBatches
    counts: PairCounts
    targets: Sequence[list[int]]


@contextmanager
def tokenise_contrasts(
    checkpoint: Checkpoint,
    documents: Iterable[Document],
    options: CorpusOptions,
    asked: Asked,
    *,
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[ContrastCorpus]:
    """Tokenise pairs into temporary stores, and plan batches.

    ``options``: which of them are read, and how many tokens make a batch.
    """
    window = resolve_window(options.max_length, checkpoint)
    reader = ContrastReader(checkpoint, asked, window)
    vocabulary = max(len(checkpoint.tokenizer), checkpoint.model.config.get_text_config().vocab_size)
    kinds = TokenKinds(checkpoint.tokenizer, reader.frame)
    with (
        SequenceStore(vocabulary) as clean,
        SequenceStore(vocabulary) as corrupted,
        SequenceStore(vocabulary) as read,
    ):
        for one, two in reader.read(select(documents, options.limit, options.sample, options.seed)):
            progress(1)
            refuse_unknown_ids([*one.ids, *two.ids], checkpoint)
            clean.extend([one])
            corrupted.extend([two])
            if asked == "target":
                read.extend([TokenSequence(checkpoint.shift_right(reader.targets[-1]))])
        if not len(clean):
            raise AttnprobeError(_explain_none(reader.counts, window))
        rarity = rank_types(clean.counts, kinds.framing)
        sides = [TokenisedTexts(store, kinds, rarity) for store in (clean, corrupted)]
        targets = None
        if asked == "target":
            tokenizer = checkpoint.target_tokenizer or checkpoint.tokenizer
            own = TokenKinds(tokenizer, Frame.of(tokenizer), checkpoint.start)
            targets = TokenisedTexts(read, own, rank_types(read.counts, own.framing))
        batches = ContrastBatches(
            sides[0],
            sides[1],
            reader.readouts,
            budget=options.batch_tokens or BATCH_TOKENS_ACCELERATOR,
            targets=targets,
        )
        reading = Reading(documents=reader.counts.pairs)
        yield ContrastCorpus(Corpus(batches, reading, window), batches, reader.counts, reader.targets)


def _explain_none(counts: PairCounts, window: int) -> str:
    """Say why no pair is left, and what to do."""
    none = (
        "The only pair can't be used" if counts.pairs == 1 else f"None of {counts.pairs:,} pairs can be used"
    )
    if counts.unequal:
        return f"{none}: the texts have different numbers of tokens; swap words of one token."
    if counts.long:
        return f"{none}: a text is longer than {window} tokens."
    return f"{none}: a text or the answer is missing."
