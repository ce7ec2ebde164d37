"""What roles look like: of the strongest head of each, the sentence in which it is clearest, with its marks.

A few sentences are an illustration. The number of a role is that of its table, over all documents. What heads
find of gold links is evidence, too.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprobe.reports.report_page.measures import (
    Head,
    Heads,
    format_number,
    format_with_error,
    is_number,
    read_heads,
)
from attnprobe.reports.view import make_visible
from attnprobe.sums.resampling import SIGNIFICANT
from attnprobe.survey.tokens import SequenceAttention, Side
from attnprobe.table.cells import clean
from attnprobe.table.head_table import HeadTable
from attnprobe.table.naming import LETTERS, MIXED, find_role_kind

#: Distances from the token that attends to the one that is attended to, of roles that are one.
_OFFSETS = {"previous": -1, "self": 0, "next": 1}
#: Roles that are about one token that all others look at.
_OF_A_TOKEN = ("delimiter", "sink")
#: Roles that no few sentences show: random tokens, or no token more than others.
_NOT_SHOWN = ("induction", "duplicate", "broad")
#: Most characters of a token, and most relations in a list.
_LONGEST, _MOST_RELATIONS = 40, 20

Floats = NDArray[np.float64]


class Relation(NamedTuple):
    """A kind of gold links, and the head that finds most of them, as a row of its table has it.

    Attributes:
        name: The relation, with its direction where the table has one.
        head: The number of the head; None where there is none.
        links: How many links there are.
        accuracy: The share that the head finds, with its error.
        rule: The share that the best rule finds, and the rule.
        gain: What the head finds beyond it, with its error.
        significant: Whether the adjusted p of the gain is below 0.05.
    """

    name: str
    head: int | None
    links: str
    accuracy: str
    rule: str
    gain: str
    significant: bool


class Word(NamedTuple):
    """A token of a sentence, and what it does there: ``from``, ``to``, ``both``, or nothing."""

    text: str
    mark: str


class Example(NamedTuple):
    """A role, its strongest head, and the sentence in which that head is clearest.

    Attributes:
        role: The role, such as "syntactic: det".
        head: The number of the head.
        value: The evidence of the table, with its error; of all documents.
        sentence: The number of the sentence.
        words: Its tokens.
        origin: The token that attends.
        target: The one that it attends to.
        share: How much of its attention that is.
    """

    role: str
    head: int
    value: str
    sentence: int
    words: Sequence[Word]
    origin: str
    target: str
    share: str


def find_examples(heads: Heads, table: HeadTable, seen: Sequence[SequenceAttention]) -> list[Example]:
    """Find an example of each role that a few sentences can show, in the order of the roles.

    The strongest head of a kind of role is the one whose evidence has the largest value; of equals, the
    first. It is clearest where the mean of what the role is about is largest: of an offset, over all tokens
    that have one there; of a delimiter or a sink, over all tokens, for the token that gets most; of any other
    role, the largest attention of a word to another. Marked are the token that attends most so, and where it
    looks.
    """
    roles = [None if one is None else str(one) for one in heads.sort_cells(table, "role")]
    values, errors = (heads.sort_cells(table, name) for name in ("value", "value_se"))
    found = []
    for kind in LETTERS:
        ours = [
            (float(value), -place)
            for place, (role, value) in enumerate(zip(roles, values, strict=True))
            if role is not None and find_role_kind(role) == kind and is_number(value)
        ]
        if not ours or kind in (*_NOT_SHOWN, MIXED):
            continue
        place = -max(ours)[1]
        role = str(roles[place])
        value = format_with_error(values[place], errors[place])
        clear = [
            (score, -number, number, maps, link)
            for number, maps, score, link in _measure(heads, place, role, seen)
        ]
        if clear:
            *_, number, maps, link = max(clear, key=lambda one: one[:2])
            found.append(_mark(role, (place, value), number, maps, link))
    return found


class _Map(NamedTuple):
    """The attention of a head in a sentence, (query, key), and what its tokens are called."""

    rows: Floats
    queries: Side
    keys: Side

    @property
    def words(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Tell the tokens on both sides that hold a letter or a digit, and stand for text."""
        found = (
            np.array([any(map(str.isalnum, label)) for label in side.labels], bool) & ~side.special
            for side in (self.queries, self.keys)
        )
        return next(found), next(found)


def _measure(
    heads: Heads, place: int, role: str, seen: Sequence[SequenceAttention]
) -> Iterator[tuple[int, _Map, float, tuple[int, int]]]:
    """Measure for each sentence how clear a head is there, and find its clearest link."""
    for number, sequence in enumerate(seen):
        found = _find_map(heads.every[place], sequence)
        measured = None if found is None else measure_clearness(found.rows, role, found.words)
        if found is not None and measured is not None:
            yield number, found, *measured


def measure_clearness(
    rows: Floats, role: str, words: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None
) -> tuple[float, tuple[int, int]] | None:
    """Measure how clear a role is in a map (query, key), and find the link that shows it best.

    ``words`` tells the tokens on both sides that are words: a role that is about words is shown by these.

    >>> rows = np.array([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.2, 0.7, 0.1]])
    >>> [measure_clearness(rows, role) for role in ("previous", "sink", "coreference")]
    [(0.8, (1, 0)), (0.7, (1, 0)), (0.9, (1, 0))]
    """
    kind, (queries, keys) = find_role_kind(role), rows.shape
    if kind in _OFFSETS or kind == "offset":
        offset = _OFFSETS[kind] if kind in _OFFSETS else int(role.removeprefix("offset"))
        some = [
            (rows[query, query + offset], query) for query in range(queries) if 0 <= query + offset < keys
        ]
        if not some:
            return None
        query = max(some, key=lambda one: (one[0], -one[1]))[1]
        return round(float(np.mean([one for one, _ in some])), 12), (query, query + offset)
    if kind in _OF_A_TOKEN:
        key = 0 if kind == "sink" else int(rows.mean(0).argmax())
        others = [query for query in range(queries) if query != key] or [0]
        query = max(others, key=lambda one: (rows[one, key], -one))
        return round(float(rows[:, key].mean()), 12), (query, key)
    apart = rows.copy()
    if queries == keys:
        np.fill_diagonal(apart, -1.0)
    if words is not None:
        apart[~(words[0][:, None] & words[1])] = -1.0
    if apart.max() < 0:
        return None
    query, key = map(int, np.unravel_index(int(apart.argmax()), apart.shape))
    return round(float(apart[query, key]), 12), (query, key)


def _find_map(head: Head, sequence: SequenceAttention) -> _Map | None:
    """Find the map of a head; None where the sentence has none."""
    kind, layer, number = head
    for maps in sequence.maps:
        if kind in ("", maps.kind.value) and layer in maps.layers and number < maps.rows.shape[1]:
            rows = maps.rows[maps.layers.index(layer), number].astype(np.float64)
            return _Map(rows, maps.queries, maps.keys)
    return None


def _mark(role: str, head: tuple[int, str], number: int, maps: _Map, link: tuple[int, int]) -> Example:
    query, key = link
    origins, targets = (
        [make_visible(label)[:_LONGEST] for label in side.labels] for side in (maps.queries, maps.keys)
    )
    marks = {key: "to"}
    if maps.queries.labels == maps.keys.labels:
        marks[query] = "both" if query == key else "from"
    words = [Word(text, marks.get(at, "")) for at, text in enumerate(targets)]
    share = format_number(float(maps.rows[query, key]), 2)
    return Example(clean(role), *head, number, words, origins[query], targets[key], share)


def list_relations(heads: Heads, table: HeadTable) -> list[Relation]:
    """List the gold links of a table by what a head finds beyond the best rule, at most so many."""
    cells = {
        name: table.data.get(name) or [None] * len(table)
        for name in ("relation", "direction", "position", "n", "accuracy", "accuracy_se", "baseline",
                     "baseline_rule", "gain", "gain_se", "p_adjusted")
    }  # fmt: skip
    found = []
    for row, head in enumerate(read_heads(table)):
        one = {name: column[row] for name, column in cells.items()}
        gain, p = one["gain"], one["p_adjusted"]
        if not is_number(gain):
            continue
        words = [one["relation"], one["direction"], one["position"]]
        name = ", ".join(clean(str(word)).replace("_", " ") for word in words if word)
        rule = f" ({clean(str(one['baseline_rule']))})" if one["baseline_rule"] else ""
        shares = [format_with_error(one[part], one[f"{part}_se"]) for part in ("accuracy", "gain")]
        relation = Relation(
            name, heads.find(head), format_number(one["n"], 9), shares[0],
            f"{format_number(one['baseline'])}{rule}", shares[1], is_number(p) and p < SIGNIFICANT,
        )  # fmt: skip
        found.append((-gain, row, relation))
    return [relation for *_, relation in sorted(found)[:_MOST_RELATIONS]]
