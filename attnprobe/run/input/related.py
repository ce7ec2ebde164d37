"""From examples that are about several texts to what a model reads: texts one by one, or pairs of them."""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from attnprobe.corpus.sources.document import Document, Pair, Passage, Query, Role, Triplet, Use, Uses
from attnprobe.errors import AttnprobeError

#: Chooses some of the examples, such as the first ones.
Choose = Callable[[Iterable[Document]], Iterable[Document]]
#: Passages that are drawn for a query where the data name none that does not answer it.
DRAWN = 15


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


class _Search:
    """The queries of some documents that are chosen, and then the passages behind them."""

    def __init__(self, documents: Iterable[Document], choose: Choose) -> None:
        self._rest = iter(documents)
        self._passages: list[Document] = []
        self._choose = choose

    def queries(self) -> Iterator[Document]:
        every = self._take()
        yield from self._choose(every)
        for _ in every:  # those that were not chosen
            pass

    def _take(self) -> Iterator[Document]:
        for document in self._rest:
            if isinstance(document.label, Passage):
                self._passages.append(document)
                return
            yield document

    def passages(self) -> Iterator[tuple[str, Document]]:
        for document in chain(self._passages, self._rest):
            assert isinstance(document.label, Passage)
            yield document.label.name, document


def _split_queries(documents: Iterable[Document], choose: Choose) -> Iterator[Document]:
    """Number the queries, and note at each passage which of them it answers."""
    search, numbers = _Search(documents, choose), _Numbers()
    answers: dict[str, list[Use]] = {}
    for example, document in enumerate(search.queries()):
        label, number = document.label, numbers.number(document.group)
        assert isinstance(label, Query)
        found = [(name, grade) for name, grade in label.judged if grade > 0 and name != label.name]
        for passage, grade in found:
            answers.setdefault(passage, []).append(Use(example, number, 1, float(grade)))
        use = Use(example, number, 0, float(len(found)))
        yield _read_alone(document, label.name, [use], "query")
    for name, document in search.passages():
        yield _read_alone(document, name, answers.pop(name, []), "document")


def _read_alone(document: Document, name: str, uses: Sequence[Use], role: Role) -> Document:
    return Document(document.text, label=Uses(tuple(uses), name), group=document.group, role=role)


class CandidatePairs:
    """Queries, each paired with the passages that a reranker is to put into their order.

    The candidates of a query are the passages that it has a judgement of, whatever it says, and those that
    are listed for it. Where none of these fails to answer it, up to 15 that the data name for other queries
    are drawn, by ``seed`` and the name of the query. The passage with the query's name is no candidate.
    """

    def __init__(self, documents: Iterable[Document], choose: Choose, seed: int) -> None:
        self._documents, self._choose, self._seed = documents, choose, seed
        self._unanswered = self._lost = self._drawn = 0

    def __iter__(self) -> Iterator[Document]:
        """Give the pairs of each query, labelled with ``Uses`` of the passage's name and grade."""
        search = _Search(self._documents, self._choose)
        queries = [(document, *_list_candidates(document)) for document in search.queries()]
        wanted = {name for _, grades, _ in queries for name in grades}
        texts = {name: document.text for name, document in search.passages() if name in wanted}
        pool, numbers, example = sorted(texts), _Numbers(), 0
        for document, every, name in queries:
            grades = {one: grade for one, grade in every.items() if one in texts}
            found, asked = (sum(grade > 0 for grade in some.values()) for some in (grades, every))
            if found == len(grades):
                drawn = self._draw(pool, name, grades)
                grades |= dict.fromkeys(drawn, 0)
                self._drawn += bool(found and drawn)
            if not found or found == len(grades):
                self._unanswered += 1
                continue
            self._lost += asked - found
            number = numbers.number(document.group)
            # Pairs of a query are parts of one document, or of its own.
            group = document.group if document.group is not None else f"query\0{name}"
            for one in sorted(grades):
                uses = Uses((Use(example, number, 0, float(grades[one])),), one)
                yield Document(document.text, texts[one], label=uses, group=group)
            example += 1

    def _draw(self, pool: Sequence[str], name: str, own: Mapping[str, int]) -> list[str]:
        """Draw passages of other queries."""
        draw = random.Random(f"{self._seed} {name}")
        some = draw.sample(range(len(pool)), min(len(pool), DRAWN + len(own) + 1))
        return [pool[place] for place in some if pool[place] not in own and pool[place] != name][:DRAWN]

    def remarks(self) -> list[str]:
        """Say what was left out and drawn, once all were read."""
        found = []
        if self._unanswered:
            what = "query is" if self._unanswered == 1 else "queries are"
            found.append(
                f"{self._unanswered:,} {what} left out: no passage that answers, or none that does not."
            )
        if self._lost:
            what = "answer is" if self._lost == 1 else "answers are"
            found.append(f"{self._lost:,} {what} left out: not among the passages.")
        if self._drawn:
            found.append(
                f"For {self._drawn:,} of the queries, the data name no passage that does not answer; up to "
                f"{DRAWN} that are named for others were drawn for each."
            )
        return found


def _list_candidates(document: Document) -> tuple[dict[str, int], str]:
    """List the candidates of a query with their grades, 0 for those that don't answer; and its name."""
    label = document.label
    assert isinstance(label, Query)
    every = dict.fromkeys(label.listed, 0) | {name: max(0, grade) for name, grade in label.judged}
    every.pop(label.name, None)
    return every, label.name
