"""What is asked of heads about gold links, and what simple rules would answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.annotation import TokenLink
from attnprobe.corpus.sources.annotation import SEVERAL

#: The label that stands for all links together.
ALL = "all"
#: A fixed offset looks so many words far at most.
FURTHEST = 10
#: Fixed offsets, as rules that answer a link.
OFFSETS = tuple(str(offset) for offset in range(-FURTHEST, FURTHEST + 1))


@dataclass(frozen=True)
class Asking:
    """Which questions are asked of a link.

    Attributes:
        forward: What it is called when the source looks for the target.
        backward: What it is called when the target looks for the source; empty where that is not asked.
        rules: What heads are compared with; fixed offsets, or rules whose guesses come with the links.
        label: What a label is called: the column of a table.
        rule: What a rule is called: the end of a column's name.
        noun: What a label is called in a sentence, where that is another word than the column's.
    """

    forward: str
    backward: str
    rules: tuple[str, ...]
    label: str
    rule: str
    noun: str = ""

    @property
    def by_offset(self) -> bool:
        """Whether heads are compared with fixed offsets."""
        return self.rules == OFFSETS

    @property
    def nearest_first(self) -> Sequence[int]:
        """Order the rules as ties are decided: the nearest offset first, of two the earlier one."""
        places = range(len(self.rules))
        return sorted(places, key=lambda place: abs(place - FURTHEST)) if self.by_offset else places

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
