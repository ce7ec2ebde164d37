"""One pass of two checkpoints over the same batches, and how far apart heads of the two attend."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Layout
from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.kernels.divergence import bound_rounding, divergence_between
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.memory import Price, count_copies, find_itemsize, limit_cells_of_maps, price_statistics
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Workers, open_run
from attnprobe.run.preparation import Documents, examine_part, prepare_corpus
from attnprobe.run.progress import Progress
from attnprobe.run.record import record_provenance, record_versions
from attnprobe.statistics.statistic import Statistic, mean_over_queries
from attnprobe.sums.base import Measurement, Sum
from attnprobe.sums.groups import Clustered
from attnprobe.sums.resampling import Jackknife
from attnprobe.survey.measure import Meter, join_parts, open_meter, sum_sequences
from attnprobe.survey.pairing import (
    SAME,
    SecondReader,
    SharedHeads,
    Unit,
    check_media,
    drop_lone_decoders,
    fit_options,
    number_words,
    pair_by_tokens,
    pair_by_words,
    pool_words,
    share_tokens,
)
from attnprobe.survey.recorder import Values
from attnprobe.survey.survey import (
    CorpusRequest,
    check_modality,
    drop_impossible,
    keep_targeted,
    verify_needs,
)
from attnprobe.survey.tables import write_notes
from attnprobe.table.builder import Labels

#: Maps of a batch, (batch, head of any layer, query, key), kind by kind.
Maps = Mapping[Kind, tuple[Tensor, Layout]]
#: Divergence of heads of one number, (layer, head); and its mean over the heads of a layer.
NUMBERED, OF_LAYERS = "jsd", "jsd of layers"
#: Heads that are compared with all others at a time, so that what is found needs little memory.
AT_A_TIME = 16
#: What the sums of either model's statistics are called: its mark, a slash, and the statistic.
MARKS = ("a", "b")


def name_pairs(kind: Kind) -> str:
    """Name the divergences of all heads of a kind from all heads of the other model."""
    return f"jsd of pairs, {kind}"


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
        names = [NUMBERED, OF_LAYERS] if any(map(self.shared.numbered, self.shared.kinds)) else []
        names += [name_pairs(kind) for kind in self.shared.kinds] if self.pairs else []
        return dict.fromkeys(names, Clustered)

    def compare(self, ours: Maps, theirs: Maps, units: Sequence[Sequence[Unit]] | None = None) -> Values:
        """For every query that counts, give the Jensen-Shannon divergence of what two heads attend to.

        A head's number is the mean over the queries of a sequence, in nats, from 0 to ln 2. Both heads have
        the same queries and the same keys.

        Args:
            ours: Those of the first model.
            theirs: Those of the second.
            units: For each sequence, the words that both see; None where both have the same tokens.

        Returns:
            (sequence, layer, head) of the first model; (sequence, layer); and for each kind (sequence, head,
            other head). NaN for removed heads and for layers of other kinds.
        """
        found: dict[str, list[Tensor]] = {}
        for kind in self.shared.kinds:
            (maps, layout), (others, _) = ours[kind], theirs[kind]
            others = others.to(maps.device, maps.dtype)
            if units is None:
                self._compare(kind, maps, others, layout, found)
                continue
            parts: dict[str, list[Tensor]] = {}
            for one, other, words in zip(maps, others, units, strict=True):
                self._compare_words(kind, one, other, words, parts)
            for name, values in parts.items():
                found.setdefault(name, []).append(torch.cat(values))
        return self._place(found)

    def _compare_words(
        self, kind: Kind, one: Tensor, other: Tensor, words: Sequence[Unit], found: dict[str, list[Tensor]]
    ) -> None:
        if not words:
            self._leave_empty(kind, one, found)
            return
        mine, its = map(list, zip(*words, strict=True))
        maps, others = pool_words(one, mine), pool_words(other, its)
        self._compare(kind, maps[None], others[None], None, found)

    def _compare(
        self, kind: Kind, maps: Tensor, others: Tensor, layout: Layout | None, found: dict[str, list[Tensor]]
    ) -> None:
        (places, heads), (other_places, other_heads) = self.shared.find_kept(kind)

        def mean(values: Tensor) -> Tensor:
            return values.nanmean(-1) if layout is None else mean_over_queries(values, layout)

        if self.pairs:
            maps, others = _pick(maps, places), _pick(others, other_places)
            some = (divergence_between(maps, part) for part in others.split(AT_A_TIME, 1))
            values = torch.cat([mean(part).unflatten(1, (maps.shape[1], -1)) for part in some], 2)
            whole = values.new_full((len(values), *self.shared.size(kind)), torch.nan)
            whole[:, torch.from_numpy(heads)[:, None], torch.from_numpy(other_heads)] = values
            found.setdefault(name_pairs(kind), []).append(whole)
            if self.shared.numbered(kind):
                found.setdefault(kind, []).append(whole.diagonal(0, 1, 2))
        elif self.shared.numbered(kind):
            both, mine, their = np.intersect1d(heads, other_heads, return_indices=True)
            maps, others = _pick(maps, places[mine]), _pick(others, other_places[their])
            values = mean(divergence_between(maps, others, numbered=True))
            whole = values.new_full((len(values), self.shared.size(kind)[0]), torch.nan)
            whole[:, torch.from_numpy(both)] = values
            found.setdefault(kind, []).append(whole)

    def _leave_empty(self, kind: Kind, maps: Tensor, found: dict[str, list[Tensor]]) -> None:
        """Say that a sequence has no word that both see."""
        size = self.shared.size(kind)
        if self.pairs:
            found.setdefault(name_pairs(kind), []).append(maps.new_full((1, *size), torch.nan))
        if self.shared.numbered(kind):
            found.setdefault(kind, []).append(maps.new_full((1, size[0]), torch.nan))

    def _place(self, found: dict[str, list[Tensor]]) -> Values:
        """Put heads of one number in the places of their layers, whatever the kind."""
        values: Values = {name: torch.cat(found[name]).cpu().numpy() for name in self.sums if name in found}
        if NUMBERED in self.sums:
            first, heads = self.shared.first, self.shared.first.heads
            batch = len(next(iter(found.values()))[0])
            whole = np.full((batch, first.layers, heads), np.nan)
            for kind in self.shared.kinds:
                if kind in found:
                    layers = self.shared.layers(kind)[0]
                    whole[:, layers] = torch.cat(found[kind]).cpu().numpy().reshape(batch, len(layers), heads)
            values[NUMBERED], values[OF_LAYERS] = whole, _average_heads(whole)
        return values


def _pick(maps: Tensor, places: NDArray[np.intp]) -> Tensor:
    # All of them cost nothing.
    return maps if len(places) == maps.shape[1] else maps[:, torch.from_numpy(places)]


def _average_heads(values: NDArray[np.float64]) -> NDArray[np.float64]:
    known = ~np.isnan(values)
    total, number = np.where(known, values, 0).sum(-1), known.sum(-1)
    return np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)


@dataclass(frozen=True)
class Comparison:
    """What was found of two checkpoints over the same texts.

    Attributes:
        measurement: The sums of both models' statistics, ``a/NAME`` and ``b/NAME``, and of divergences.
        statistics: What was measured of both.
        divergences: Which heads were compared with which.
        labels: Names and provenance for the table, those of the first model.
        other: The name of the second.
        by_word: Whether the two make different tokens of the texts.
        rounding: The divergence, in nats, that rounding may put between heads that attend alike.
    """

    measurement: Measurement
    statistics: Sequence[Statistic]
    divergences: Divergences
    labels: Labels
    other: str
    by_word: bool
    rounding: float

    @property
    def shared(self) -> SharedHeads:
        return self.divergences.shared

    def sums(self, side: int, statistic: Statistic) -> Any:
        return self.measurement.sums[f"{MARKS[side]}/{statistic.name}"]


def compare_checkpoints(
    checkpoints: tuple[Checkpoint, Checkpoint],
    documents: tuple[Documents, Documents],
    options: CorpusOptions,
    statistics: Sequence[Statistic],
    *,
    pairs: bool,
    dataset: str,
    facts: Mapping[str, Any],
    labelled: bool = False,
    resume: Path | None = None,
    workers: int | None = None,
    progress: Progress,
) -> Comparison:
    """Verify the capture of both models, and pass once over the texts with each, batch by batch.

    Args:
        checkpoints: The two models.
        documents: The texts, for either; the second is read where the two make different tokens of them.
        options: How text becomes sequences.
        statistics: What is measured of both.
        pairs: Whether every head is compared with every other, or only with that of its number.
        dataset: What the ``dataset`` column says.
        facts: What the caller adds to the provenance.
        labelled: Whether labels are target texts, for the decoders beside both encoders.
        resume: A file that keeps the state of the run, so that it can go on after it was stopped.
        workers: How many batches are in flight.
        progress: Is told how far it is.
    """
    for checkpoint in checkpoints:
        check_modality(checkpoint, statistics)
    by_word = not share_tokens(*checkpoints)
    checkpoints, said = drop_lone_decoders(checkpoints, by_word=by_word)
    if labelled and said:
        raise AttnprobeError(f"{said[0].rstrip('.')}, which read no target texts; leave out --label-column.")
    request, targets = keep_targeted(
        checkpoints[0], CorpusRequest(documents[0], statistics, options, labelled=labelled)
    )
    first, texts, one = examine_part(checkpoints[0], request.documents, progress)
    second, same_texts, other = examine_part(checkpoints[1], documents[1], progress)
    names = first.name, second.name
    if first.modality != "text":
        check_media((first, second), one, other)
    shared, left = SharedHeads.of(names, one, other)
    said += left
    if not pairs and not shared.alike:
        raise AttnprobeError(
            f"{names[0]} and {names[1]} have different numbers of layers or heads, so that heads have no "
            "partner of their number, only a nearest one; leave out --no-nearest."
        )
    statistics = drop_impossible(list(statistics), one)
    models = (first, one), (second, other)
    evidence = [
        f"{checkpoint.name}: {sentence}"
        for checkpoint, of in models
        for sentence in verify_needs(checkpoint, of, [list(statistics)], as_far_as_possible=False)[0]
    ]
    divergences = Divergences(shared, pairs)
    number = min(Workers.of(*model, workers).number for model in models)
    options = fit_options(request.options, first, second, by_word=by_word)
    question = {
        "command": " ".join(["compare", *(one.identity for one in statistics), *divergences.sums]),
        "second model": json.dumps(second.origin, sort_keys=True, default=str),
    }
    sizes = [shared.size(kind) for kind in shared.kinds]
    maps = one.layers * one.heads + other.layers * other.heads

    def price() -> Price:
        each = [price_statistics(of, statistics, find_itemsize(checkpoint)) for checkpoint, of in models]
        width = find_itemsize(first)
        most = max(ours * (AT_A_TIME if pairs else 1) for ours, _ in sizes)
        found = sum(8 * ours * (theirs if pairs else 1) for ours, theirs in sizes)
        return each[0] + each[1] + Price(sequence=found, pair=width * maps, alone=2 * width * most)

    def ready(checkpoint: Checkpoint, architecture: Architecture, given: Any) -> Any:
        return prepare_corpus(
            checkpoint,
            architecture,
            number_words(given) if by_word else given,
            options,
            price=price,
            copies=count_copies(statistics),
            cells=limit_cells_of_maps(maps),
            labelled=labelled,
            workers=number,
            progress=progress,
        )

    with (
        open_run(first, options, question, resume=resume, progress=progress) as run,
        ready(first, one, texts) as mine,
        ready(second, other, same_texts) if by_word else nullcontext(mine) as its,
    ):
        said += targets.remarks() if targets is not None else []
        if by_word:
            batches, beside = pair_by_words(mine.corpus.batches, its.corpus.batches)
        else:
            batches, beside = mine.corpus.batches, pair_by_tokens(mine.corpus.batches, second)
        with open_pair((first, second), (one, other), statistics, divergences, beside) as meter:
            measurement = run.total(
                "comparing",
                batches,
                meter.measurement,
                partial(Measurement.from_arrays, kinds=meter.sums),
                workers=mine.workers,
                thread_context=meter.thread_context,
                question={"tokens of the second model": its.corpus.batches.digest},
            )
        record = record_provenance(first, one, mine.corpus, options, mine.workers)
        beside_it = record_provenance(second, other, its.corpus, options, mine.workers)
        record["other"] = {name: part for name, part in beside_it.items() if name not in record_versions()}
        rarity, read = mine.corpus.rarity, mine.corpus.sequences
    if by_word:
        seen = max(int(measurement.sums[name].count.max(initial=0)) for name in divergences.sums)
        left_out, wordless = read - measurement.sequences, measurement.sequences - seen
        said.insert(0, _explain_words(names, left_out, wordless))
    ours = Measurement({one.name: measurement.sums[f"a/{one.name}"] for one in statistics})
    said += write_notes(statistics, ours, rarity, first.model.dtype)
    record |= {
        **facts,
        "comparison": {
            "by_word": by_word,
            "statistics": [statistic.identity for statistic in statistics],
            "evidence": evidence,
        },
    }
    return Comparison(
        measurement,
        statistics,
        divergences,
        Labels(first.name, dataset, record, one.places, one.grid is not None, one.removed, said),
        second.name,
        by_word,
        rounding=max(bound_rounding(checkpoint.model.dtype) for checkpoint in (first, second)),
    )


@dataclass(frozen=True)
class PairMeter:
    """Two models that are ready to be compared, batch by batch, in as many threads as there are.

    Attributes:
        sides: The models.
        divergences: Compares their heads.
        beside: Gives what the second model reads.
    """

    sides: tuple[Meter, Meter]
    divergences: Divergences
    beside: SecondReader

    @cached_property
    def sums(self) -> dict[str, type[Sum]]:
        """What is kept of each of the numbers, by its name."""
        found: dict[str, type[Sum]] = dict(self.divergences.sums)
        for mark, side in zip(MARKS, self.sides, strict=True):
            found |= {f"{mark}/{one.name}": one.sums for one in side.statistics}
        return found

    @cached_property
    def _constants(self) -> dict[str, Any]:
        sides = zip(MARKS, self.sides, strict=True)
        return {f"{mark}/{name}": one for mark, side in sides for name, one in side.constants.items()}

    def measurement(self, batch: Batch) -> Measurement:
        """Run a batch with both models, and sum up what is found."""
        found = join_parts(self.sides[0].halving.run(batch, self._part))
        sums = {
            name: self._constants.get(name) or sum_sequences(kind, found.pop(name), batch)
            for name, kind in self.sums.items()
        }
        return Measurement(sums, len(batch), batch.size)

    def _part(self, batch: Batch) -> Values:
        theirs = self.beside.batch(batch)
        first, ours = self.sides[0].part(batch), self.sides[0].maps()
        if self.sides[0] is self.sides[1]:  # whose next maps take the place of these
            ours = {kind: (maps.clone(), layout) for kind, (maps, layout) in ours.items()}
        second, others = self.sides[1].part(theirs), self.sides[1].maps()
        found = self.divergences.compare(ours, others, self.beside.units(batch, theirs))
        for mark, values in zip(MARKS, (first, second), strict=True):
            found |= {f"{mark}/{name}": one for name, one in values.items()}
        return found

    @contextmanager
    def thread_context(self) -> Iterator[None]:
        with ExitStack() as stack:
            for joining in {id(side): side.thread_context for side in self.sides}.values():
                stack.enter_context(joining())
            yield


@contextmanager
def open_pair(
    checkpoints: tuple[Checkpoint, Checkpoint],
    architectures: tuple[Architecture, Architecture],
    statistics: Sequence[Statistic],
    divergences: Divergences,
    beside: SecondReader = SAME,
) -> Iterator[PairMeter]:
    """Make two models ready; one that is compared with itself can be read by one reader only.

    Differences are of two means, with an error of their own kind, which blocks of documents give.
    """
    blocked = [replace(statistic, sums=Jackknife) for statistic in statistics]
    first, second = checkpoints
    with open_meter(first, architectures[0], blocked, keep=True) as one:
        if first.body is second.body:
            yield PairMeter((one, one), divergences, beside)
            return
        with open_meter(second, architectures[1], blocked, keep=True) as other:
            yield PairMeter((one, other), divergences, beside)


def _explain_words(names: tuple[str, str], left: int, wordless: int) -> str:
    said = (
        f"{names[0]} and {names[1]} make different tokens of the texts, so that their maps are compared word "
        f"by word, over the words that both see; columns are over the tokens of each."
    )
    if left:
        texts, are = ("text", "is") if left == 1 else ("texts", "are")
        said += f" {left:,} {texts} that only {names[0]} has tokens for {are} left out."
    if wordless:
        texts, have = ("text", "has") if wordless == 1 else ("texts", "have")
        said += f" {wordless:,} {texts} {have} no word that both see whole, and no divergence."
    return said
