"""The words of one side of a sequence, by numbers: among them questions are asked and answered."""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from attnprobe.attention.annotation import TokenSpan
from attnprobe.kernels.words import Ints

#: The first of a range, and the one behind its last.
Ends = tuple[int, int]
#: Nothing, as a range.
NONE: Ends = (0, 0)


class Words:
    """The words of one side of a sequence, each once, in their order.

    Attributes:
        ends: The first token of each word, and the one behind its last.
        second: The number of the first word of the second of two texts; 0 where there is one text.
        forms: What stands for the spelling of each word: two are spelled alike if it is the same; empty
            where that is not known.
    """

    def __init__(self, words: Sequence[TokenSpan], second: int = 0, forms: Sequence[int] = ()) -> None:
        """Number words; ``second`` is the position at which the second of two texts begins."""
        self.ends: list[Ends] = sorted({(word.start, word.stop) for word in words})
        self._place = {ends: place for place, ends in enumerate(self.ends)}
        self.second = sum(start < second for start, _ in self.ends) if second else 0
        spelled = {
            (word.start, word.stop): form for word, form in zip(words, forms, strict=False)
        }  # words of the same tokens are one
        self.forms: Ints = np.array([spelled[ends] for ends in self.ends] if forms else [], np.int64)

    def text_of(self, word: int) -> Ends:
        """Give the words of the text that a word is of; of two texts, words count from either's beginning."""
        behind = bool(self.second) and word >= self.second
        return (self.second, len(self.ends)) if behind else (0, self.second or len(self.ends))

    def within(self, span: TokenSpan) -> Ends:
        """Find the words of a span: the one that is the span, else those that lie in it, or touch it."""
        place = self._place.get((span.start, span.stop))
        if place is not None:
            return place, place + 1
        first = bisect_left(self.ends, (span.start, span.start))
        there = [
            at
            for at in range(first, bisect_left(self.ends, (span.stop, span.stop)))
            if self.ends[at][1] <= span.stop
        ] or [at for at, (start, stop) in enumerate(self.ends) if start < span.stop and stop > span.start]
        return (there[0], there[-1] + 1) if there else NONE

    def choices(self, own: Ends, in_sight: int | None) -> set[int]:
        """Tell which of the words could be chosen: none of the asker's own, and none that it does not see.

        Args:
            own: The words that are the asker itself.
            in_sight: Words that end behind this token are not seen; None where all are.
        """
        seen = (at for at, (_, stop) in enumerate(self.ends) if in_sight is None or stop <= in_sight)
        return {at for at in seen if not own[0] <= at < own[1]}
