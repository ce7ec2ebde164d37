"""How well an answer fits those that people gave, as SQuAD's own script has it."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@lru_cache(maxsize=1 << 16)
def normalised(answer: str) -> str:
    """Lower the letters, and drop punctuation, articles and superfluous blanks.

    >>> normalised("The  Denver Broncos!")
    'denver broncos'

    References:
        ``normalize_answer`` of the official evaluation script of SQuAD 2.0, evaluate-v2.0.py.
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(said: str, answers: Sequence[str]) -> bool:
    """Whether an answer is one of those that people gave; none at all if they gave none."""
    return any(normalised(said) == normalised(answer) for answer in _known(answers))


def overlap(said: str, answers: Sequence[str]) -> float:
    """Give F1 of the words of an answer, with the one of people's that it fits best.

    >>> overlap("the Denver Broncos", ["Broncos of Denver", "a horse"])
    0.8

    References:
        ``compute_f1`` of evaluate-v2.0.py.
    """
    return max(_f1(normalised(said).split(), normalised(answer).split()) for answer in _known(answers))


def _known(answers: Sequence[str]) -> Sequence[str]:
    return [answer for answer in answers if normalised(answer)] or [""]


def _f1(said: list[str], answer: list[str]) -> float:
    if not said or not answer:
        return float(said == answer)
    shared = sum((Counter(said) & Counter(answer)).values())
    return 2 * shared / (len(said) + len(answer))
