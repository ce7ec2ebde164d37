"""Word alignment: how far the most attended words of a head are those that people aligned."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.tokens import TokenAnnotation
from attnprobe.corpus.document import POSSIBLE, SEVERAL
from attnprobe.statistics import best_heads
from attnprobe.statistics.best_heads import NAME_COLUMNS, LinkAnswers, LinkCondition
from attnprobe.statistics.links import FAMILY, UNIT
from attnprobe.statistics.questions import QuestionBuilder, Questions
from attnprobe.statistics.rules import INPUT, NONE, OUTPUT, SAME_PLACE, Ends, Words
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement
from attnprobe.sums.blocked import find_share
from attnprobe.sums.links import CrossFit, Key, LinkCounts, Links
from attnprobe.table.builder import Labels, measure_columns, p_columns
from attnprobe.table.table import Column, HeadTable

if TYPE_CHECKING:
    from attnprobe.attention.layout import Layout


Bools = NDArray[np.bool_]

#: What is counted of pairs of texts: the pairs, the words that ask, |A|, and the sure links, |S|. Right are
#: |A & P| of the words, and |A & S| of the sure links.
PAIRS, WORDS, SURE = "pairs of texts", "words", "sure links"
#: The two directions: words of the second text, or of the target, ask those of the first; or the other way.
BACKWARD, FORWARD = "target_to_source", "source_to_target"
#: The rates of an alignment.
RATES = ("aer", "precision", "recall")


def ask_alignment(layout: Layout) -> Questions:
    """Alignment error rate of each head.

    A has one link for each query word: to the word of the other text that the head attends to most. Attention
    to a word is the sum over its tokens, attention from a word the mean over its tokens, and special tokens
    are no words. With the sure links S and the possible links P, which include S,

        AER = 1 - (|A & S| + |A & P|) / (|A| + |S|)

    over all pairs of texts together; precision is |A & P| / |A|, recall |A & S| / |S|. A pair without a link
    counts; a cut pair does not. Words that share all their tokens are one.

    The queries of an encoder-decoder model are the positions where the decoder predicts a word, or where it
    reads it, one position later. For two texts that are read as one, queries are in the second text, and,
    except in a decoder, also in the first.

    Limits: 0 to 1; a head can't reach 0 if a query word has no link, or several sure ones.

    Source: Och and Ney (2003), A systematic comparison of various statistical alignment models, for the error
    rate; Kobayashi et al. (2020), section 5, for heads.
    """
    builder = QuestionBuilder()
    for sequence, annotation in enumerate(layout.annotations):
        sides = [] if annotation is None else list(_find_sides(layout, annotation))
        if annotation is not None and annotation.cut:
            builder.left_out[0] += bool(sides)
            continue
        for way, before, asking, answering, sure, possible in sides:
            begin = builder.offer(answering)
            ends = [(place, place + 1) for place in range(begin, begin + len(answering))]
            # The words at the same share of the length of the other text.
            places = begin + ((np.arange(len(asking)) + 0.5) / len(asking) * len(answering)).astype(np.int64)
            for asker, (start, stop) in enumerate(asking):
                row, pairs = len(builder.rows), [(PAIRS, *way)] if asker == 0 else []
                builder.rows.append((sequence, start - before, stop - before, begin, ends[-1][1], 0, 0))
                aligned = [ends[answer] for answer in np.flatnonzero(possible[asker])]
                builder.ask(sequence, row, aligned, [(WORDS, *way), *pairs])
                for answer in np.flatnonzero(sure[asker]):
                    builder.ask(sequence, row, [ends[answer]], [(SURE, *way)])
                builder.choices.append(np.full((1 + sure[asker].sum(), 1), places[asker]))
    return builder.build((SAME_PLACE,))


def _find_sides(
    layout: Layout, annotation: TokenAnnotation
) -> Iterator[tuple[Key, int, list[Ends], list[Ends], Bools, Bools]]:
    """Find who asks whom in a sequence: nobody where it holds one text alone.

    Yields the direction and, in a decoder, the position; how many places before it a word is asked; the
    words that ask, those that answer, and which of them are aligned for sure, and which at all.
    """
    ends = [(link, other) for link in annotation.links for other in (link.target, *link.also)]
    pairs = list[tuple[Ends, Ends, str]]()
    if layout.crossed:
        if annotation.same or not annotation.keys or not annotation.words:  # the decoder reads the same
            return
        asking, answering = Words(annotation.words), Words(annotation.keys)
        for link, other in ends:
            asker, answer = (other, link.source) if link.asks == "backward" else (link.source, other)
            pairs.append((asking.within(asker), answering.within(answer), link.label))
        sure, possible = _mark_gold(pairs, len(asking.ends), len(answering.ends))
        for position, before in ((OUTPUT, 1), (INPUT, 0)):
            yield (BACKWARD, position), before, asking.ends, answering.ends, sure, possible
        return
    words = Words(annotation.words, annotation.second)
    first, second = words.ends[: words.second], words.ends[words.second :]
    if not (first and second):
        return
    for link, other in ends:
        low, high = sorted((words.within(link.source), words.within(other)))
        if low != NONE and low[0] < words.second <= high[0]:
            pairs.append(((high[0] - words.second, high[1] - words.second), low, link.label))
    sure, possible = _mark_gold(pairs, len(second), len(first))
    yield (BACKWARD,), 0, second, first, sure, possible
    if not layout.causal:
        yield (FORWARD,), 0, first, second, sure.T, possible.T


def _mark_gold(pairs: list[tuple[Ends, Ends, str]], askers: int, answers: int) -> tuple[Bools, Bools]:
    """Mark pairs (asker, answer) aligned for sure, and at all; a span stands for each of its words."""
    sure, possible = np.zeros((2, askers, answers), bool)
    for asker, answer, label in pairs:
        cells = slice(*asker), slice(*answer)
        possible[cells] = True
        sure[cells] |= POSSIBLE not in label.split(SEVERAL)
    return sure, possible


AER = Statistic(
    "aer", "error rate", ask_alignment, scope="links", rows="label", sums=LinkCounts, family=FAMILY,
    title="alignment error rate", version=2, order=4,
)  # fmt: skip


# Rates


def compute_rates(words: Links, sure: Links) -> dict[str, NDArray[np.float64]]:
    """Compute ``RATES`` of each candidate by what is right of the words that ask and of the sure links."""
    rates = dict[str, NDArray[np.float64]]()
    for name, links in zip(RATES, (join_links(words, sure), words, sure), strict=True):
        share = find_share(links.hits, links.number)
        rates[name], rates[f"{name}_se"] = share.value, share.error
    return rates | {"aer": 1 - rates["aer"]}


def join_links(words: Links, sure: Links) -> Links:
    """Join what the error rate is of."""
    return Links(words.number + sure.number, words.hits + sure.hits)


def _read_pairs(
    counts: LinkCounts,
    keys: Sequence[Key],
    layers: Sequence[int],
    removed: Collection[tuple[int, int]] = (),
) -> tuple[LinkAnswers, LinkAnswers, CrossFit, int]:
    """Read answers for words (``keys``) and sure links, the same-place rule over both, and count pairs."""
    words = best_heads.read_answers(counts, keys, layers, removed)
    sure = best_heads.read_answers(counts, [(SURE, *way) for _, *way in keys], layers, removed)
    place = CrossFit.fixed(words.number + sure.number, words.rules[0] + sure.rules[0])
    pairs = counts.links[counts.keys.index((PAIRS, *keys[0][1:])), layers[0]]
    return words, sure, place, int(pairs)


def _list_conditions(counts: LinkCounts, labels: Labels) -> list[LinkCondition]:
    return [each for each in best_heads.list_conditions(counts, labels) if each.label == WORDS]


def _list_rate_columns() -> list[Column]:
    return [
        *measure_columns("aer", AER.unit, AER.title, headline=True),
        *measure_columns("precision", UNIT, "precision"),
        *measure_columns("recall", UNIT, "recall"),
        Column("baseline", AER.unit, title=f"error rate of the {SAME_PLACE}"),
    ]


# Tables


def best_table(title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels) -> HeadTable:
    """Tabulate the head with the least alignment error rate for each direction.

    It is cross-fitted as in ``LinkTables.by_label``, in a decoder beside an encoder with its ``position``.
    ``baseline`` is the error rate of the words at the same relative place, and ``gain`` by how much that is
    higher. Errors and p are over blocks of documents. ``aer_selected`` is the least error rate of any head
    over all documents.
    """
    counts: LinkCounts = measurement.sums[AER.name]
    conditions = _list_conditions(counts, labels)
    rows = [
        {"alignment": "head", **score_best_head(counts, condition, labels, len(conditions))}
        for condition in conditions
    ]
    columns = [
        Column("alignment", role="key"),
        Column("attention", role="key"),
        Column("direction", role="key"),
        Column("n", PAIRS, role="count"),
        *NAME_COLUMNS,
        *_list_rate_columns(),
        *measure_columns("gain", AER.unit, f"gain over the {SAME_PLACE}"),
        *p_columns(),
        Column("aer_selected", AER.unit, title="error rate where the head was chosen"),
        Column("chosen", "share", title="folds that chose the head"),
    ]
    return best_heads.tabulate_best(title, labels, columns, rows, list(_note_left_out(counts)))


def score_best_head(
    counts: LinkCounts, condition: LinkCondition, labels: Labels, tests: int
) -> dict[str, Any]:
    """Score the head with the least error rate, cross-fitted; of a tie, the first: cells of a row."""
    row = best_heads.name_condition(condition)
    words, sure, place, pairs = _read_pairs(counts, condition.keys, condition.layers, labels.absent)
    fit = best_heads.cross_fit(join_links(words, sure), labels)
    if fit is None:
        return row | {"n": 0}
    row |= best_heads.score_best("aer", fit, place, words.candidates, labels, tests) | {"n": pairs}
    row |= {name: 1 - row[name] for name in ("aer", "aer_selected", "baseline")}
    for name, links in (("precision", words), ("recall", sure)):
        row |= best_heads.score_share(name, replace(fit, others=links))
    return row


def by_head_table(title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels) -> HeadTable:
    """Tabulate the alignment error rate of every head, over all documents."""
    counts: LinkCounts = measurement.sums[AER.name]

    def measure(key: Key, layer: int) -> dict[str, Any]:
        words, sure, place, pairs = _read_pairs(counts, [key], [layer])
        return {"n": pairs, "baseline": 1 - place.share, **compute_rates(words, sure)}

    columns, conditions = (
        [Column("n", PAIRS, role="count"), *_list_rate_columns()],
        _list_conditions(counts, labels),
    )
    notes = list(_note_left_out(counts))
    return best_heads.tabulate_heads(title, labels, columns, conditions, counts.shape[1], measure, notes)


def _note_left_out(counts: LinkCounts) -> Iterator[str]:
    if not counts.keys:
        yield (
            "No sequence holds a pair of texts, with words in both: error rates are of alignments between a "
            "text and a target that a decoder reads, or a second text."
        )
    if cut := int(counts.left_out[0]):
        yield f"Pairs left out, as only a part of one of the two texts is in the sequence: {cut:,}."


BEST_ALIGNMENTS = Tabulation(
    "alignment", best_table, "links: the alignments with the fewest errors", stacked=True
)
BY_HEAD = Tabulation("alignment and head", by_head_table, "links: the alignment of each head", stacked=True)
