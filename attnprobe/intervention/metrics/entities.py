"""Entities that labels of words spell out, by seqeval."""

import importlib.util
from collections.abc import Iterable, Sequence

from attnprobe.errors import AttnprobeError

#: How a label begins that is of an entity, in the schemes that seqeval reads: IOB1, IOB2, IOE, IOBES.
_BEGINNINGS = ("B", "I", "E", "S")
#: The label of a word that is of none.
_NONE = "O"


def has_entities(names: Iterable[str]) -> bool:
    """Tell whether some label is of an entity, such as B-PER; NOUN is of the word itself."""
    return any(_in_scheme(name) != _NONE for name in names)


def require_seqeval() -> None:
    """Refuse where seqeval is not installed.

    Raises:
        AttnprobeError: With what to install, or to use instead.
    """
    if importlib.util.find_spec("seqeval") is None:
        raise AttnprobeError(
            "F1 of entities needs seqeval: pip install seqeval, or pass --metric accuracy for "
            "the share of words."
        )


def count_entities(said: Sequence[str], gold: Sequence[str]) -> tuple[int, int, int]:
    """Count the entities of a text that are right, predicted, and there.

    An entity is right if its first word, its last word and its type are. Labels of no known scheme, such as
    a padding label, are of no entity.

    Args:
        said: The label that each word was given.
        gold: Its right one.

    References:
        Nakayama (2018), seqeval; Tjong Kim Sang and Buchholz (2000), conlleval.
    """
    from seqeval.metrics.sequence_labeling import get_entities  # takes a second: it imports scikit-learn

    ours, theirs = (set(get_entities([_in_scheme(label) for label in labels])) for labels in (said, gold))
    return len(ours & theirs), len(ours), len(theirs)


def _in_scheme(label: str) -> str:
    return label if label[:1] in _BEGINNINGS and label[1:2] in {"", "-"} else _NONE
