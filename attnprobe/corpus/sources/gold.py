"""Labels that are lists: one for each word, or the answers to a question, as in SQuAD's own files."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attnprobe.corpus.sources.document import Asked, Tagged
from attnprobe.corpus.sources.streams import shorten
from attnprobe.errors import DataError

#: Columns of words, each a list, where no column of text is named.
USUAL_WORD_COLUMNS = ("tokens", "words")
#: Columns of their labels, where none is named.
USUAL_TAG_COLUMNS = ("ner_tags", "tags", "pos_tags", "upos", "labels", "label")
#: Columns of questions, of the texts that answer them, and of the answers, as SQuAD has them.
QUESTION, CONTEXT, ANSWERS = "question", "context", "answers"
#: Marks a word that does not count, as torch's cross entropy has it.
IGNORED = -100


def read_words(cell: Any) -> list[str] | None:
    """Give the words of a cell, or None where it is no list of strings."""
    words = isinstance(cell, list | tuple) and all(isinstance(word, str) for word in cell)
    return list(cell) if words else None


def read_tags(words: Sequence[str], tags: Any, names: Sequence[str], where: str) -> Tagged | None:
    """Put words and their labels together; blank words, which give no token, are left out with theirs.

    Returns:
        Both, or None where not one word has a label.
    """
    if tags is None:
        return None
    if not isinstance(tags, list | tuple):
        raise DataError(
            f"{where} has a list of words, but {shorten(repr(tags))} for their labels; give a label for each "
            "word"
        )
    if len(words) != len(tags):
        raise DataError(
            f"{where} has {len(words)} words, but {len(tags)} labels; give one label for each word"
        )
    named = [_read_tag(tag, names, where) for tag in tags]
    kept = [(word, tag) for word, tag in zip(words, named, strict=True) if word.strip()]
    if all(tag is None for _, tag in kept):
        return None
    return Tagged(tuple(word for word, _ in kept), tuple(tag for _, tag in kept))


def _read_tag(tag: Any, names: Sequence[str], where: str) -> str | int | None:
    if isinstance(tag, str):
        if not tag.strip():
            raise DataError(f"{where} has a blank label; give one label for each word")
        return tag
    if isinstance(tag, int) and not isinstance(tag, bool):
        if tag == IGNORED:
            return None
        return names[tag] if 0 <= tag < len(names) else tag
    raise DataError(f"{where} has the label {shorten(repr(tag))}; labels are strings or whole numbers")


def read_labels(cell: Sequence[Any], names: Sequence[str], where: str) -> tuple[str | int | float, ...]:
    """Read a list of labels; numbers that have names are named, unless they are a row of 0 and 1."""
    found = [int(one) if isinstance(one, bool) else one for one in cell]
    for one in found:
        if not isinstance(one, str | int | float) or (isinstance(one, float) and math.isnan(one)):
            raise DataError(f"{where} has the label {shorten(repr(one))}; labels are strings or numbers")
    if len(found) == len(names) and all(one in (0, 1) for one in found):
        return tuple(found)
    return tuple(names[one] if isinstance(one, int) and 0 <= one < len(names) else one for one in found)


def read_answers(context: str | None, cell: Any, where: str) -> Asked | None:
    """Read the answers to a question, as SQuAD has them.

    ``cell``: an object with ``text`` and ``answer_start``, each a list or one of them; or a list of such
    objects. Empty lists say that the context does not answer.

    Returns:
        The answers, or None where nobody said whether there is one.
    """
    if cell is None or context is None:
        return None
    answers: list[tuple[Any, Any]] = []
    for part in _make_list(cell):
        if not isinstance(part, Mapping) or not {"text", "answer_start"} <= part.keys():
            raise DataError(
                f"{where} has {shorten(repr(part))} for an answer; an answer is an object with text and "
                "answer_start"
            )
        texts, starts = _make_list(part["text"]), _make_list(part["answer_start"])
        if len(texts) != len(starts):
            raise DataError(f"{where} has {len(texts)} answers, but {len(starts)} places of answers")
        answers += zip(texts, starts, strict=True)
    kept = [(text, start) for text, start in answers if not (isinstance(text, str) and not text.strip())]
    for text, start in kept:
        _check_place(text, start, context, where)
    return Asked(context, tuple(text for text, _ in kept), tuple(start for _, start in kept))


def _make_list(cell: Any) -> list[Any]:
    return list(cell) if isinstance(cell, list | tuple) else [cell]


def _check_place(text: Any, start: Any, context: str, where: str) -> None:
    if not isinstance(text, str) or not isinstance(start, int) or isinstance(start, bool):
        raise DataError(
            f"{where} has the answer {shorten(repr(text))} at {shorten(repr(start))}; an answer is a text, "
            "and its place a whole number"
        )
    if start < 0 or context[start : start + len(text)] != text:
        raise DataError(
            f"{where}: the answer {shorten(repr(text))} does not stand at character {start} of its context; "
            "count from 0, in Unicode code points"
        )


def find_class_names(features: Any) -> dict[str, tuple[str, ...]]:
    """Name the classes of columns that hold lists of class numbers.

    Args:
        features: The features of a Hugging Face dataset, or the same as its parquet files have them in JSON;
            anything else names nothing.
    """
    found = {}
    for column, feature in features.items() if isinstance(features, Mapping) else ():
        inner = feature[0] if isinstance(feature, list) and feature else _get_field(feature, "feature")
        names = _get_field(inner, "names")
        if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
            found[str(column)] = tuple(names)
    return found


def _get_field(feature: Any, name: str) -> Any:
    return feature.get(name) if isinstance(feature, Mapping) else getattr(feature, name, None)
