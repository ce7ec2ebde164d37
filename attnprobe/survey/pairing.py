"""Two models that read the same texts, token by token or word by word: how far apart their heads attend."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.kinds import Kind
from attnprobe.attention.tokens import TokenAnnotation, TokenSpan
from attnprobe.corpus.batch import Batch, BatchReader
from attnprobe.corpus.document import Annotation, Document, Where
from attnprobe.corpus.links import complete_words
from attnprobe.findings.partners import Places, SharedHeads
from attnprobe.kernels.pairs import divergence_between
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.statistics.statistic import Statistic, mean_over_queries
from attnprobe.sums.base import Measurement, Sum
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.cross_moments import CrossMoments
from attnprobe.survey.measure import Evaluator, open_evaluator, sum_values
from attnprobe.survey.recorder import ByKind, Values

#: A stretch of words, by the tokens of either model.
Unit = tuple[TokenSpan, TokenSpan]
#: For each sequence, the words that both models see; None where both have the same tokens.
Units = Sequence[Sequence[Unit]] | None
#: From a batch of the first model to that of the second, and the words that both see.
ReadSecond = Callable[[Batch], tuple[Batch, Units]]
#: The marks of the two models, which begin the names of the sums of their statistics: "a/entropy".
MARKS = ("a", "b")
#: Names of sums: the divergence of heads of the same number, that of all pairs of heads of a kind, and the
#: products of their outputs.
NUMBERED, PAIRS, OUTPUTS = "jsd", "jsd of pairs, {}", "outputs, {}"
#: Heads that are compared with all others at a time, to save memory.
AT_A_TIME = 16


def number_words(documents: Iterable[Document]) -> Iterator[Document]:
    """Yield documents numbered, with all their words and without links, tags and answers, to be paired."""
    for number, document in enumerate(documents):
        sides: dict[Where, str | None] = {"text": document.text, "pair": document.pair}
        texts: dict[Where, str] = {where: text for where, text in sides.items() if text is not None}
        bare = replace(document.annotation or Annotation(), links=(), tags=(), answers=None)
        words = replace(complete_words(bare, texts), numbered=True, number=number)
        yield replace(document, annotation=words)


def pair_words(first: TokenAnnotation, second: TokenAnnotation) -> list[Unit]:
    """Give the words that two sequences of one document both hold; those that share a token count as one.

    >>> first = TokenAnnotation(numbered=(TokenSpan(1, 3), TokenSpan(3, 4), TokenSpan(4, 5)))
    >>> second = TokenAnnotation(numbered=(TokenSpan(1, 2), TokenSpan(2, 3), TokenSpan(2, 3)))
    >>> [(a.start, a.stop, b.start, b.stop) for a, b in pair_words(first, second)]
    [(1, 3, 1, 2), (3, 5, 2, 3)]
    """
    units: list[Unit] = []
    for pair in zip(first.numbered, second.numbered, strict=True):
        if pair[0] is None or pair[1] is None:
            continue
        unit: Unit = pair  # type: ignore[assignment]
        if units and any(word.start < last.stop for word, last in zip(unit, units[-1], strict=True)):
            joined = zip(units.pop(), unit, strict=True)
            ends = [(min(a.start, b.start), max(a.stop, b.stop)) for a, b in joined]
            unit = TokenSpan(*ends[0]), TokenSpan(*ends[1])
        units.append(unit)
    return units


def pool_words(maps: Tensor, words: Sequence[TokenSpan]) -> Tensor:
    """Sum attention between tokens into attention between words.

    Attention to a word is the sum over its tokens, attention from a word their mean (Clark et al. 2019,
    section 4.1). All tokens outside words, such as special tokens, are one more key, so rows still sum to 1.

    ``maps`` are (head, query, key); the result is (head, word, word + 1).
    """
    member = torch.zeros(len(words), maps.shape[-1], dtype=maps.dtype)
    for number, word in enumerate(words):
        member[number, word.start : word.stop] = 1
    member = member.to(maps.device)
    rows = (member / member.sum(1, keepdim=True)) @ maps
    to_words = rows @ member.T
    rest = (rows.sum(-1, keepdim=True) - to_words.sum(-1, keepdim=True)).clamp_min(0)
    return torch.cat([to_words, rest], -1)


def pair_by_words(first: BatchReader, second: BatchReader) -> tuple[BatchReader, ReadSecond]:
    """Pair the sequences of each document that both models have tokens for.

    Returns:
        Batches of the first whose partners in the second are equally long too, and a function that reads the
        partners of such a batch.
    """

    def number_documents(batches: BatchReader) -> list[int]:
        known = (batches.annotation(member) for member in range(len(batches.lengths)))
        return [-1 if one is None or one.number is None else one.number for one in known]

    theirs = {number: member for member, number in enumerate(number_documents(second))}
    partner = np.array([theirs.get(number, -1) for number in number_documents(first)], np.int64)
    plan, lengths = list[NDArray[np.int64]](), second.lengths
    for members in first.plan:
        both = members[partner[members] >= 0]
        other = lengths[partner[both]]
        plan += [both[other == length] for length in np.unique(other)[::-1]]

    def read_partners(batch: Batch) -> tuple[Batch, Units]:
        other = second.read(partner[batch.members])
        pairs = zip(batch.annotations, other.annotations, strict=True)
        return other, [pair_words(one, two) if one and two else [] for one, two in pairs]

    return first.follow(plan), read_partners


def compare_maps(
    shared: SharedHeads, ours: ByKind, theirs: ByKind, units: Units = None, *, pairs: bool
) -> Values:
    """Compute the Jensen-Shannon divergence of two heads' rows of attention for every counted query.

    The value of a head is the mean over the queries of a sequence, in nats, from 0 to ln 2. Both heads have
    the same queries and keys. With ``pairs``, every head is compared with every other, not only with that of
    its number; with ``units``, over the words that both models see.

    Returns:
        (sequence, layer, head) of the first model, and for each kind (sequence, head, other head). NaN for
        removed heads and for layers of other kinds.
    """
    values: Values = {}
    for kind in shared.kinds:
        numbered = shared.numbered(kind)
        if not numbered and not pairs:
            continue
        (maps, layout), (others, _) = ours[kind], theirs[kind]
        others = others.to(maps.device, maps.dtype)
        compare = partial(_compare_heads, shared, kind, pairs=pairs)
        if units is None:
            cells = compare(maps, others, partial(mean_over_queries, layout=layout))
        else:
            parts = []
            for first, second, words in zip(maps, others, units, strict=True):
                rows = pool_words(first, [mine for mine, _ in words])[None]
                other_rows = pool_words(second, [its for _, its in words])[None]
                parts.append(compare(rows, other_rows, lambda values: values.nanmean(-1)))
            cells = torch.cat(parts)
        divergence = cells.cpu().numpy()
        if pairs:
            values[PAIRS.format(kind)] = divergence
            divergence = divergence.diagonal(0, 1, 2)
        if numbered:
            first, layers = shared.first, shared.first.layers(kind)
            empty = np.full((len(divergence), len(first.kinds), first.heads), np.nan)
            whole = values.setdefault(NUMBERED, empty)
            whole[:, layers] = divergence.reshape(len(divergence), len(layers), first.heads)  # type: ignore[index]
    return values


def _compare_heads(
    shared: SharedHeads,
    kind: Kind,
    maps: Tensor,
    others: Tensor,
    mean: Callable[[Tensor], Tensor],
    *,
    pairs: bool,
) -> Tensor:
    """Average divergences: (sequence, head, other head), or (sequence, head) without pairs."""
    (places, heads), (other_places, other_heads) = shared.find_kept(kind)
    size = shared.size(kind)
    whole = maps.new_full((len(maps), *(size if pairs else size[:1])), torch.nan)
    if pairs:
        maps, others = _pick(maps, places), _pick(others, other_places)
        parts = (divergence_between(maps, part) for part in others.split(AT_A_TIME, 1))
        values = torch.cat([mean(part).unflatten(1, (maps.shape[1], -1)) for part in parts], 2)
        whole[:, torch.from_numpy(heads)[:, None], torch.from_numpy(other_heads)] = values.to(whole)
    else:
        both, mine, its = np.intersect1d(heads, other_heads, return_indices=True)
        maps, others = _pick(maps, places[mine]), _pick(others, other_places[its])
        whole[:, torch.from_numpy(both)] = mean(divergence_between(maps, others, numbered=True)).to(whole)
    return whole


def _pick(maps: Tensor, places: NDArray[np.intp]) -> Tensor:
    # All of them cost nothing.
    return maps if len(places) == maps.shape[1] else maps[:, torch.from_numpy(places)]


def compare_outputs(shared: SharedHeads, ours: ByKind, theirs: ByKind, units: Units) -> Values:
    """Sum the products of the outputs of every pair of heads, for linear CKA: a value for each kind.

    They are summed over the tokens that count as queries, or with ``units`` over the words that both models
    see, each with the mean of its tokens. Outputs of removed heads count as 0.
    """
    values: Values = {}
    for kind in shared.kinds:
        (given, layout), (other, _) = ours[kind], theirs[kind]
        other = other.to(given.device)
        if units is None:
            asking = layout.queries.asking.to(given.device)
            vectors = given[asking], other[asking]
        else:
            mine, its = ([[unit[side] for unit in row] for row in units] for side in (0, 1))
            vectors = _average_words(given, mine), _average_words(other, its)
        sides = zip(vectors, shared.find_kept(kind), shared.size(kind), strict=True)
        values[OUTPUTS.format(kind)] = CrossMoments.of_tokens(*(_spread_heads(*side) for side in sides))
    return values


def _average_words(given: Tensor, words: Sequence[Sequence[TokenSpan]]) -> Tensor:
    """Average (sequence, token, head, width) over the tokens of each word: (word, head, width)."""
    rows = zip(given, words, strict=True)
    averages = [row[word.start : word.stop].mean(0) for row, listed in rows for word in listed]
    return torch.stack(averages) if averages else given.new_zeros(0, *given.shape[2:])


def _spread_heads(vectors: Tensor, kept: tuple[Places, Places], size: int) -> Tensor:
    """Put what heads give, (token, head, width), in the places of all heads of a kind."""
    vectors, (places, numbers) = vectors.to(torch.promote_types(vectors.dtype, torch.float32)), kept
    placed = vectors.new_zeros(len(vectors), size, vectors.shape[2])
    placed[:, torch.from_numpy(numbers)] = vectors[:, torch.from_numpy(places)]
    return placed


def _mark(sides: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Join what is known of each model's statistics, under marked names."""
    named = zip(MARKS, sides, strict=True)
    return {f"{mark}/{name}": part for mark, side in named for name, part in side.items()}


@dataclass(frozen=True)
class PairEvaluator:
    """Two models that are ready to be compared, batch by batch, in as many threads as there are."""

    sides: tuple[Evaluator, Evaluator]
    shared: SharedHeads
    read_second: ReadSecond
    pairs: bool  # whether every head is compared with every other, not only with that of its number
    outputs: bool  # whether what heads give is compared, too

    @cached_property
    def sums(self) -> dict[str, type[Sum]]:
        """The class that sums each value, by the name of the value."""
        kinds = self.shared.kinds
        sums: dict[str, type[Sum]] = {NUMBERED: Clustered} if any(map(self.shared.numbered, kinds)) else {}
        sums |= {PAIRS.format(kind): Clustered for kind in kinds if self.pairs}
        sums |= {OUTPUTS.format(kind): CrossMoments for kind in kinds if self.outputs}
        return sums | _mark({one.name: one.sums for one in side.statistics} for side in self.sides)

    def measurement(self, batch: Batch) -> Measurement:
        """Run a batch with both models, and sum up what is found."""
        return self.sides[0].halving.total(batch, self._measure_part)

    def _measure_part(self, batch: Batch) -> Measurement:
        theirs, units = self.read_second(batch)
        first, second = self.sides
        values, ours, given = first.evaluate(batch), first.recorder.maps(), first.recorder.outputs()
        if first is second:  # whose next maps take the place of these
            ours = {kind: (maps.clone(), layout) for kind, (maps, layout) in ours.items()}
        values = _mark((values, second.evaluate(theirs)))
        values |= compare_maps(self.shared, ours, second.recorder.maps(), units, pairs=self.pairs)
        if self.outputs:
            values |= compare_outputs(self.shared, given, second.recorder.outputs(), units)
        constants = _mark(side.constants for side in self.sides)
        kinds = {name: kind for name, kind in self.sums.items() if name not in constants}
        return sum_values(values, kinds, constants, batch)

    @contextmanager
    def thread_context(self) -> Iterator[None]:
        with ExitStack() as stack:
            for enter in {id(side): side.thread_context for side in self.sides}.values():
                stack.enter_context(enter())
            yield


@contextmanager
def open_pair(
    models: Sequence[tuple[Checkpoint, Architecture]],
    statistics: Sequence[Statistic],
    shared: SharedHeads,
    *,
    read_second: ReadSecond = lambda batch: (batch, None),
    pairs: bool,
    outputs: bool = False,
) -> Iterator[PairEvaluator]:
    """Make two models ready to be compared; a model that is compared with itself has one evaluator.

    Statistics are kept by blocks of documents, which give the error of the difference of two means.
    """
    blocked = [replace(statistic, sums=Blocked) for statistic in statistics]
    with ExitStack() as stack:
        sides = [
            stack.enter_context(open_evaluator(*model, blocked, keep=True, keep_outputs=outputs))
            for model in (models if models[0][0].body is not models[1][0].body else models[:1])
        ]
        yield PairEvaluator((sides[0], sides[-1]), shared, read_second, pairs, outputs)
