"""From examples that are about several texts to the texts themselves, each of which a model reads once."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from attnprobe.corpus.sources.document import Document, Pair, Passage, Query, Role, Triplet, Use, Uses
from attnprobe.errors import AttnprobeError

#: Chooses some of the examples, such as the first ones.
Choose = Callable[[Iterable[Document]], Iterable[Document]]


def split_examples(documents: Iterable[Document], choose: Choose) -> Iterator[Document]:
    """Give each text of some examples once, with the examples that it is a part of.

    Where queries look for passages, ``choose`` chooses among the queries, and all passages stay.

    Args:
        documents: Pairs, triplets, or queries with the passages behind them: see ``relate_rows``.
        choose: Which of the examples are kept.

    Yields:
        The texts, labelled with ``Uses``. Of pairs and triplets they come in the order in which they stand
        in the examples, equal ones once, and a pair's score is said of both. Queries come before the
        passages: of a query is said how many passages answer it, of such a passage how well it does.
    """
    rest = iter(documents)
    first = next(rest, None)
    if first is None:
        return
    every = chain([first], rest)
    if isinstance(first.label, Query | Passage):
        yield from _split_queries(every, choose)
    else:
        yield from _split_rows(choose(every))


class _Numbers:
    """Numbers documents: examples of one group are of one document."""

    def __init__(self) -> None:
        self._groups: dict[str, int] = {}
        self._next = 0

    def number(self, group: str | None) -> int:
        found = self._next if group is None else self._groups.setdefault(group, self._next)
        self._next += found == self._next
        return found


def _split_rows(documents: Iterable[Document]) -> Iterator[Document]:
    """Split pairs and triplets."""
    numbers = _Numbers()
    texts: dict[str, tuple[str | None, list[Use]]] = {}
    for example, document in enumerate(documents):
        number = numbers.number(document.group)
        for place, (text, said) in enumerate(_list_parts(document)):
            uses = texts.setdefault(text, (document.group, []))[1]
            uses.append(Use(example, number, place, said))
    for text, (group, uses) in texts.items():
        yield Document(text, label=Uses(tuple(uses)), group=group)


def _list_parts(document: Document) -> Sequence[tuple[str, float]]:
    """List the texts of an example, each with the number that goes with it."""
    label = document.label
    if isinstance(label, Triplet):
        return [(text, 0.0) for text in (document.text, label.positive, label.negative)]
    assert isinstance(label, Pair)
    try:
        score = float(label.score)
    except (ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise AttnprobeError(f"The score {str(label.score)[:60]!r} of a pair is not a number.")
    return [(document.text, score), (label.other, score)]


def _split_queries(documents: Iterable[Document], choose: Choose) -> Iterator[Document]:
    """Number the queries, and note at each passage which of them it answers."""
    rest = iter(documents)
    passages: list[Document] = []

    def take_queries() -> Iterator[Document]:
        for document in rest:
            if isinstance(document.label, Passage):
                passages.append(document)
                return
            yield document

    numbers = _Numbers()
    answers: dict[str, list[Use]] = {}
    queries = take_queries()
    for example, document in enumerate(choose(queries)):
        label, number = document.label, numbers.number(document.group)
        assert isinstance(label, Query)
        found = [(name, grade) for name, grade in label.judged if grade > 0 and name != label.name]
        for passage, grade in found:
            answers.setdefault(passage, []).append(Use(example, number, 1, float(grade)))
        use = Use(example, number, 0, float(len(found)))
        yield _read_alone(document, label.name, [use], "query")
    for _ in queries:  # those that were not chosen
        pass
    for document in chain(passages, rest):
        label = document.label
        assert isinstance(label, Passage)
        yield _read_alone(document, label.name, answers.pop(label.name, []), "document")


def _read_alone(document: Document, name: str, uses: Sequence[Use], role: Role) -> Document:
    return Document(document.text, label=Uses(tuple(uses), name), group=document.group, role=role)
