"""Two models that are measured together: how far apart their heads attend, and what they give in common."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.annotation import TokenSpan
from attnprobe.attention.kinds import Kind
from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.findings.partners import Places, SharedHeads
from attnprobe.kernels.divergence import divergence_between
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.observations import UnobservableError, check_observations
from attnprobe.statistics.statistic import Statistic, mean_over_queries
from attnprobe.sums.base import Measurement, Sum
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.cross_moments import CrossMoments
from attnprobe.survey.measure import Evaluator, join_parts, open_evaluator, sum_sequences
from attnprobe.survey.pairing import SAME, SecondReader, Unit, pool_words
from attnprobe.survey.recorder import ByKind, Values

#: What the sums of either model's statistics are called: its mark, a slash, and the statistic.
MARKS = ("a", "b")
#: Divergence of heads of one number, (layer, head).
NUMBERED = "jsd"
#: Heads that are compared with all others at a time, so that what is found needs little memory.
AT_A_TIME = 16
Part = TypeVar("Part")


def name_pairs(kind: Kind) -> str:
    """Name the divergences of all heads of a kind from all heads of the other model."""
    return f"jsd of pairs, {kind}"


def name_outputs(kind: Kind) -> str:
    """Name the sums over outputs of all heads of a kind."""
    return f"outputs, {kind}"


@dataclass(frozen=True)
class Divergences:
    """Compares the heads of two models by the Jensen-Shannon divergence.

    Attributes:
        shared: Which heads there are.
        pairs: Whether every head is compared with every other, or only with that of its number.
    """

    shared: SharedHeads
    pairs: bool

    @property
    def sums(self) -> dict[str, type[Clustered]]:
        """What is kept over sequences, by name."""
        names = [NUMBERED] if any(map(self.shared.numbered, self.shared.kinds)) else []
        names += [name_pairs(kind) for kind in self.shared.kinds] if self.pairs else []
        return dict.fromkeys(names, Clustered)

    def compare(self, ours: ByKind, theirs: ByKind, units: Sequence[Sequence[Unit]] | None = None) -> Values:
        """For every query that counts, give the Jensen-Shannon divergence of what two heads attend to.

        A head's number is the mean over the queries of a sequence, in nats, from 0 to ln 2. Both heads have
        the same queries and the same keys.

        Args:
            ours: Maps of the first model, kind by kind.
            theirs: Those of the second.
            units: For each sequence, the words that both see; None where both have the same tokens.

        Returns:
            (sequence, layer, head) of the first model, and for each kind (sequence, head,
            other head). NaN for removed heads and for layers of other kinds.
        """
        values: Values = {}
        for kind in self.shared.kinds:
            numbered = self.shared.numbered(kind)
            if not numbered and not self.pairs:
                continue
            (maps, layout), (others, _) = ours[kind], theirs[kind]
            others = others.to(maps.device, maps.dtype)
            if units is None:
                mean = partial(mean_over_queries, layout=layout)
                cells = self._compare(kind, maps, others, mean)
            else:
                rows = zip(maps, others, units, strict=True)
                cells = torch.cat([self._compare_words(kind, *row) for row in rows])
            found = cells.cpu().numpy()
            if self.pairs:
                values[name_pairs(kind)] = found
                found = found.diagonal(0, 1, 2)
            if numbered:
                first, layers = self.shared.first, self.shared.first.layers(kind)
                empty = np.full((len(found), len(first.kinds), first.heads), np.nan)
                whole = values.setdefault(NUMBERED, empty)
                whole[:, layers] = found.reshape(len(found), len(layers), first.heads)  # type: ignore[index]
        return values

    def _compare_words(self, kind: Kind, one: Tensor, other: Tensor, words: Sequence[Unit]) -> Tensor:
        if not words:
            return one.new_full((1, *self._shape(kind)), torch.nan)
        mine, its = map(list, zip(*words, strict=True))
        maps, others = pool_words(one, mine), pool_words(other, its)
        return self._compare(kind, maps[None], others[None], lambda values: values.nanmean(-1))

    def _compare(self, kind: Kind, maps: Tensor, others: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
        """Give (sequence, head, other head), or (sequence, head) without pairs."""
        (places, heads), (other_places, other_heads) = self.shared.find_kept(kind)
        whole = maps.new_full((len(maps), *self._shape(kind)), torch.nan)
        if self.pairs:
            maps, others = _pick(maps, places), _pick(others, other_places)
            parts = (divergence_between(maps, part) for part in others.split(AT_A_TIME, 1))
            values = torch.cat([mean(part).unflatten(1, (maps.shape[1], -1)) for part in parts], 2)
            whole[:, torch.from_numpy(heads)[:, None], torch.from_numpy(other_heads)] = values.to(whole)
        else:
            both, mine, its = np.intersect1d(heads, other_heads, return_indices=True)
            maps, others = _pick(maps, places[mine]), _pick(others, other_places[its])
            values = mean(divergence_between(maps, others, numbered=True))
            whole[:, torch.from_numpy(both)] = values.to(whole)
        return whole

    def _shape(self, kind: Kind) -> tuple[int, ...]:
        size = self.shared.size(kind)
        return size if self.pairs else size[:1]


def _pick(maps: Tensor, places: NDArray[np.intp]) -> Tensor:
    # All of them cost nothing.
    return maps if len(places) == maps.shape[1] else maps[:, torch.from_numpy(places)]


@dataclass(frozen=True)
class OutputMoments:
    """Sums up what every pair of heads gives in common to the same tokens, for their linear CKA."""

    shared: SharedHeads

    @property
    def sums(self) -> Mapping[str, type[Sum]]:
        return {name_outputs(kind): CrossMoments for kind in self.shared.kinds}

    def compare(self, ours: ByKind, theirs: ByKind, units: Sequence[Sequence[Unit]] | None) -> Values:
        """Compare what heads give to tokens that ask, or to words that both models see.

        A word has the mean of what its tokens are given. Removed heads give 0.
        """
        values: Values = {}
        for kind in self.shared.kinds:
            (given, layout), (other, _) = ours[kind], theirs[kind]
            other = other.to(given.device)
            if units is None:
                asking = layout.queries.asking.to(given.device)
                vectors = given[asking], other[asking]
            else:
                words = [(row, *pair) for row, pairs in enumerate(units) for pair in pairs]
                first = _average_words(given, [(row, span) for row, span, _ in words])
                vectors = first, _average_words(other, [(row, span) for row, _, span in words])
            sides = zip(vectors, self.shared.find_kept(kind), self.shared.size(kind), strict=True)
            placed = [_place_heads(side, *where, size) for side, where, size in sides]
            values[name_outputs(kind)] = CrossMoments.of_tokens(*placed)
        return values


def _average_words(given: Tensor, spans: Sequence[tuple[int, TokenSpan]]) -> Tensor:
    """Average (sequence, token, head, width) over the tokens of each word: (word, head, width)."""
    if not spans:
        return given.new_zeros(0, *given.shape[2:])
    return torch.stack([given[row, span.start : span.stop].mean(0) for row, span in spans])


def _place_heads(vectors: Tensor, places: Places, numbers: Places, size: int) -> Tensor:
    """Put what heads give, (token, head, width), in the places of all heads of a kind."""
    vectors = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
    if len(numbers) == size == vectors.shape[1]:
        return vectors
    placed = vectors.new_zeros(len(vectors), size, vectors.shape[2])
    placed[:, torch.from_numpy(numbers)] = vectors[:, torch.from_numpy(places)]
    return placed


def check_outputs(checkpoint: Checkpoint, architecture: Architecture) -> list[str]:
    """Verify that what heads give can be read, and is probabilities times values.

    Raises:
        AttnprobeError: Naming why not.
    """
    try:
        return check_observations(checkpoint, architecture, {"outputs", "values"})
    except UnobservableError as error:
        raise AttnprobeError(
            f"Heads of {checkpoint.name} can't be matched by outputs: {error} Match them by maps, with "
            "--match model."
        ) from error


def _mark(sides: Iterable[Mapping[str, Part]]) -> dict[str, Part]:
    """Join what is known of each model's statistics, by the names of their sums."""
    named = zip(MARKS, sides, strict=True)
    return {f"{mark}/{name}": part for mark, side in named for name, part in side.items()}


@dataclass(frozen=True)
class PairEvaluator:
    """Two models that are ready to be compared, batch by batch, in as many threads as there are.

    Attributes:
        sides: The models.
        divergences: Compares the maps of their heads.
        beside: Gives what the second model reads.
        outputs: Compares what their heads give, if that is asked for.
    """

    sides: tuple[Evaluator, Evaluator]
    divergences: Divergences
    beside: SecondReader
    outputs: OutputMoments | None = None

    @cached_property
    def sums(self) -> dict[str, type[Sum]]:
        """What is kept of each of the numbers, by its name."""
        kinds: dict[str, type[Sum]] = {**self.divergences.sums}
        kinds |= {} if self.outputs is None else self.outputs.sums
        return kinds | _mark({one.name: one.sums for one in side.statistics} for side in self.sides)

    def measurement(self, batch: Batch) -> Measurement:
        """Run a batch with both models, and sum up what is found."""
        values = join_parts(self.sides[0].halving.run(batch, self._evaluate_part))
        sums: dict[str, Sum] = {**_mark(side.constants for side in self.sides)}
        for name, kind in self.sums.items():
            if name not in sums:
                sums[name] = sum_sequences(kind, values.pop(name), batch)
        return Measurement(sums, len(batch), batch.size)

    def _evaluate_part(self, batch: Batch) -> Values:
        theirs = self.beside.batch(batch)
        one, other = self.sides
        first, ours, given = one.evaluate_part(batch), one.recorder.maps(), one.recorder.outputs()
        if one is other:  # whose next maps take the place of these
            ours = {kind: (maps.clone(), layout) for kind, (maps, layout) in ours.items()}
        second, units = other.evaluate_part(theirs), self.beside.units(batch, theirs)
        values = self.divergences.compare(ours, other.recorder.maps(), units)
        if self.outputs is not None:
            values |= self.outputs.compare(given, other.recorder.outputs(), units)
        return values | _mark((first, second))

    @contextmanager
    def thread_context(self) -> Iterator[None]:
        with ExitStack() as stack:
            for enter in {id(side): side.thread_context for side in self.sides}.values():
                stack.enter_context(enter())
            yield


@contextmanager
def open_pair(
    checkpoints: tuple[Checkpoint, Checkpoint],
    architectures: tuple[Architecture, Architecture],
    statistics: Sequence[Statistic],
    divergences: Divergences,
    beside: SecondReader = SAME,
    outputs: OutputMoments | None = None,
) -> Iterator[PairEvaluator]:
    """Make two models ready; one that is compared with itself can be read by one reader only.

    Differences are of two means, with an error of their own kind, which blocks of documents give.
    """
    blocked = [replace(statistic, sums=Blocked) for statistic in statistics]
    first, second = checkpoints
    kept = {"keep": True, "keep_outputs": outputs is not None}
    with ExitStack() as stack:
        one = other = stack.enter_context(open_evaluator(first, architectures[0], blocked, **kept))
        if first.body is not second.body:
            other = stack.enter_context(open_evaluator(second, architectures[1], blocked, **kept))
        yield PairEvaluator((one, other), divergences, beside, outputs)
