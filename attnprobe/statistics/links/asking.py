"""What is asked of heads about gold links, and what simple rules would answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.annotation import TokenLink
from attnprobe.corpus.sources.document import SEVERAL
from attnprobe.sums.resampling import SIGNIFICANT

#: The label that stands for all links together.
ALL = "all"
#: Where a decoder beside an encoder is asked: where it predicts a word, or a place later, where it reads it.
OUTPUT, INPUT = "output", "input"
#: A fixed offset looks so many words far at most, where dependencies are asked for.
FURTHEST = 10
#: How it is tested that a head finds more than a rule, in the words of a note.
TESTED = f"(one-sided test over documents, Holm, p < {SIGNIFICANT})"


def offsets_to(furthest: int) -> tuple[str, ...]:
    """Name fixed offsets, in words, as rules that answer a link.

    >>> offsets_to(1)
    ('-1', '0', '1')
    """
    return tuple(str(offset) for offset in range(-furthest, furthest + 1))


OFFSETS = offsets_to(FURTHEST)


@dataclass(frozen=True)
class Asking:
    """Which questions are asked of a link.

    Attributes:
        forward: What it is called when the source looks for the target.
        backward: What it is called when the target looks for the source; empty where that is not asked.
        rules: What heads are compared with: fixed offsets, then rules that have a name.
        label: What a label is called: the column of a table.
        noun: What a label is called in a sentence, where that is another word than the column's.
    """

    forward: str
    backward: str
    rules: tuple[str, ...]
    label: str
    noun: str = ""

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The fixed offsets among the rules, which come first."""
        return tuple(int(rule) for rule in self.rules if rule.lstrip("-").isdecimal())

    @property
    def named(self) -> tuple[str, ...]:
        """The rules that have a name."""
        return self.rules[len(self.offsets) :]

    def offset_of(self, rule: int | None) -> int | None:
        """Give the fixed offset that a rule is, by its place; None where it is none."""
        return None if rule is None or rule >= len(self.offsets) else self.offsets[rule]

    def name_of(self, rule: int) -> str:
        """Name a rule by its place: "offset +1", "same text"."""
        return f"offset {self.offsets[rule]:+d}" if rule < len(self.offsets) else self.rules[rule]

    @cached_property
    def nearest_first(self) -> Sequence[int]:
        """Order the rules as ties are decided: the nearest offset first, of two the earlier; then names."""
        offsets = sorted(range(len(self.offsets)), key=lambda place: abs(self.offsets[place]))
        return (*offsets, *range(len(offsets), len(self.rules)))

    def best_rule(self, right: NDArray[np.int64]) -> int:
        """Choose the rule with most right answers (rule,); ties go as ``nearest_first`` says."""
        return max(self.nearest_first, key=lambda rule: right[rule])

    def counted(self, number: int) -> str:
        """Call labels what they are called in a sentence: "relation", "relations", "kinds of mention"."""
        first, *rest = (self.noun or self.label).split()
        return " ".join([first if number == 1 else f"{first}s", *rest])

    def directions(self, link: TokenLink) -> Iterator[tuple[str, bool]]:
        """Name the questions that are asked of a link, and say whether the source is who is asked."""
        if link.asks != "backward":
            yield self.forward, True
        # Candidates are answers to the source's question, and nobody named any to the target's.
        if link.asks != "forward" and self.backward and not link.candidates:
            yield self.backward, False


def labels_of(link: TokenLink) -> Sequence[str]:
    """Name what a link counts for: each of its labels, and all."""
    return [ALL, *(part for part in dict.fromkeys(link.label.split(SEVERAL)) if part not in {"", ALL})]
