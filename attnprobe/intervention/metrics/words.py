"""Words of answers and of entities: which of them are right."""

import importlib.util
import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from attnprobe.errors import AttnprobeError

#: How a label begins that is of an entity, in the schemes that seqeval reads: IOB1, IOB2, IOE, IOBES.
_BEGINNINGS = ("B", "I", "E", "S")
#: The label of a word that is of none.
_NONE = "O"


def has_entities(names: Iterable[str]) -> bool:
    """Tell whether some label is of an entity, such as B-PER; NOUN is of the word itself."""
    return any(_in_scheme(name) != _NONE for name in names)


def require_seqeval() -> None:
    if importlib.util.find_spec("seqeval") is None:
        raise AttnprobeError(
            "F1 of entities needs seqeval: pip install seqeval, or pass --metric accuracy for "
            "the share of words."
        )


def count_entities(predicted: Sequence[str], gold: Sequence[str]) -> tuple[int, int, int]:
    """Count the entities of a text that are right, predicted, and there.

    An entity is right if its first word, its last word and its type are. Labels of no known scheme, such as
    a padding label, are of no entity.

    References:
        Nakayama (2018), seqeval; Tjong Kim Sang and Buchholz (2000), conlleval.
    """
    from seqeval.metrics.sequence_labeling import get_entities  # takes a second: it imports scikit-learn

    ours, theirs = (
        set(get_entities([_in_scheme(label) for label in labels])) for labels in (predicted, gold)
    )
    return len(ours & theirs), len(ours), len(theirs)


def _in_scheme(label: str) -> str:
    return label if label[:1] in _BEGINNINGS and label[1:2] in {"", "-"} else _NONE


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@lru_cache(maxsize=1 << 16)
def normalise_answer(answer: str) -> str:
    """Lower the letters, and drop punctuation, articles and superfluous blanks.

    >>> normalise_answer("The  Denver Broncos!")
    'denver broncos'

    References:
        ``normalize_answer`` of the official evaluation script of SQuAD 2.0, evaluate-v2.0.py.
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(predicted: str, answers: Sequence[str]) -> bool:
    """Tell whether an answer is one of those that people gave; none at all if they gave none."""
    return any(normalise_answer(predicted) == normalise_answer(answer) for answer in _drop_empty(answers))


def answer_f1(predicted: str, answers: Sequence[str]) -> float:
    """Compute F1 of the words of an answer, with the one of people's that it fits best.

    >>> answer_f1("the Denver Broncos", ["Broncos of Denver", "a horse"])
    0.8

    References:
        ``compute_f1`` of evaluate-v2.0.py.
    """
    words = normalise_answer(predicted).split()
    return max(_f1_of_words(words, normalise_answer(answer).split()) for answer in _drop_empty(answers))


def _drop_empty(answers: Sequence[str]) -> Sequence[str]:
    return [answer for answer in answers if normalise_answer(answer)] or [""]


def _f1_of_words(predicted: list[str], answer: list[str]) -> float:
    if not predicted or not answer:
        return float(predicted == answer)
    shared = sum((Counter(predicted) & Counter(answer)).values())
    return 2 * shared / (len(predicted) + len(answer))
