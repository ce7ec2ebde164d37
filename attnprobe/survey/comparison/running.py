"""One pass of two checkpoints over the same batches."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from attnprobe.corpus.batches.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.kernels.divergence import bound_rounding
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.input.corpus import CorpusOptions
from attnprobe.run.memory import Price, count_copies, find_itemsize, limit_cells_of_maps, price_statistics
from attnprobe.run.passes import open_run
from attnprobe.run.preparation import Documents, examine_part, prepare_corpus
from attnprobe.run.progress import Progress
from attnprobe.run.record import record_provenance
from attnprobe.run.versions import record_versions
from attnprobe.run.workers import Workers
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.base import Measurement, Sum
from attnprobe.sums.resampling import Jackknife
from attnprobe.survey.comparison.divergence import AT_A_TIME, Divergences
from attnprobe.survey.comparison.together import (
    SAME,
    Beside,
    Shared,
    by_tokens,
    by_words,
    check_media,
    common_parts,
    read_alike,
    settled,
    with_words,
)
from attnprobe.survey.measure import Measuring, measuring, summed, whole
from attnprobe.survey.recorder import Values
from attnprobe.survey.request import Part, answerable, check_modality, observed
from attnprobe.survey.survey import with_targets
from attnprobe.survey.tables import notes
from attnprobe.table.builder import Labels

#: What the sums of either model's statistics are called: its mark, a slash, and the statistic.
MARKS = ("a", "b")


@dataclass(frozen=True)
class Compared:
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
    def shared(self) -> Shared:
        """Which layers and heads the two share."""
        return self.divergences.shared

    def sums(self, side: int, statistic: Statistic) -> Any:
        """Give what was summed up of a statistic in either model."""
        return self.measurement.sums[f"{MARKS[side]}/{statistic.name}"]


def compared(
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
) -> Compared:
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
        progress: Who is told how far it is.
    """
    for checkpoint in checkpoints:
        check_modality(checkpoint, statistics)
    by_word = not read_alike(*checkpoints)
    checkpoints, said = common_parts(checkpoints, by_word=by_word)
    if labelled and said:
        raise AttnprobeError(f"{said[0].rstrip('.')}, which read no target texts; leave out --label-column.")
    part, targets = with_targets(checkpoints[0], Part(documents[0], statistics, options, labelled=labelled))
    first, texts, one = examine_part(checkpoints[0], part.documents, progress)
    second, same_texts, other = examine_part(checkpoints[1], documents[1], progress)
    names = first.name, second.name
    if first.modality != "text":
        check_media((first, second), one, other)
    shared, left = Shared.of(names, one, other)
    said += left
    if not pairs and not shared.alike:
        raise AttnprobeError(
            f"{names[0]} and {names[1]} have different numbers of layers or heads, so that heads have no "
            "partner of their number, only a nearest one; leave out --no-nearest."
        )
    statistics = answerable(list(statistics), one)
    evidence = [
        f"{checkpoint.name}: {sentence}"
        for checkpoint, architecture in ((first, one), (second, other))
        for sentence in observed(checkpoint, architecture, [list(statistics)], as_far_as_possible=False)[0]
    ]
    divergences = Divergences(shared, pairs)
    number = min(Workers.of(first, one, workers).number, Workers.of(second, other, workers).number)
    options = settled(part.options, first, second, by_word=by_word)
    question = {
        "command": " ".join(["compare", *(one.identity for one in statistics), *divergences.sums]),
        "second model": json.dumps(second.origin, sort_keys=True, default=str),
    }
    sizes = [shared.size(kind) for kind in shared.kinds]
    maps = one.layers * one.heads + other.layers * other.heads

    def price() -> Price:
        both = ((first, one), (second, other))
        each = [price_statistics(of, statistics, find_itemsize(checkpoint)) for checkpoint, of in both]
        width = find_itemsize(first)
        most = max(ours * (AT_A_TIME if pairs else 1) for ours, _ in sizes)
        found = sum(8 * ours * (theirs if pairs else 1) for ours, theirs in sizes)
        return each[0] + each[1] + Price(sequence=found, pair=width * maps, alone=2 * width * most)

    def ready(checkpoint: Checkpoint, architecture: Architecture, given: Any) -> Any:
        return prepare_corpus(
            checkpoint,
            architecture,
            with_words(given) if by_word else given,
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
            batches, beside = by_words(mine.corpus.batches, its.corpus.batches)
        else:
            batches, beside = mine.corpus.batches, by_tokens(mine.corpus.batches, second)
        with comparing((first, second), (one, other), statistics, divergences, beside) as asked:
            measurement = run.total(
                "comparing",
                batches,
                asked.measurement,
                partial(Measurement.from_arrays, kinds=asked.sums),
                workers=mine.workers,
                thread_context=asked.thread_context,
                question={"tokens of the second model": its.corpus.batches.digest},
            )
        record = record_provenance(first, one, mine.corpus, options, mine.workers)
        beside_it = record_provenance(second, other, its.corpus, options, mine.workers)
        record["other"] = {name: part for name, part in beside_it.items() if name not in record_versions()}
        rarity, read = mine.corpus.rarity, mine.corpus.sequences
    if by_word:
        seen = max(int(measurement.sums[name].count.max(initial=0)) for name in divergences.sums)
        left_out, wordless = read - measurement.sequences, measurement.sequences - seen
        said.insert(0, _by_word(names, left_out, wordless))
    ours = Measurement({one.name: measurement.sums[f"a/{one.name}"] for one in statistics})
    said += notes(statistics, ours, rarity, first.model.dtype)
    record |= {
        **facts,
        "comparison": {
            "by_word": by_word,
            "statistics": [statistic.identity for statistic in statistics],
            "evidence": evidence,
        },
    }
    return Compared(
        measurement,
        statistics,
        divergences,
        Labels(first.name, dataset, record, one.places, one.grid is not None, one.removed, said),
        second.name,
        by_word,
        rounding=max(bound_rounding(checkpoint.model.dtype) for checkpoint in (first, second)),
    )


@dataclass(frozen=True)
class Comparing:
    """Two models that are ready to be compared, batch by batch, in as many threads as there are.

    Attributes:
        sides: The models.
        divergences: Compares their heads.
        beside: Gives what the second model reads.
    """

    sides: tuple[Measuring, Measuring]
    divergences: Divergences
    beside: Beside

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
        found = whole(self.sides[0].halving.run(batch, self._part))
        sums = {
            name: self._constants.get(name) or summed(kind, found.pop(name), batch)
            for name, kind in self.sums.items()
        }
        return Measurement(sums, len(batch), batch.size)

    def _part(self, batch: Batch) -> Values:
        theirs = self.beside.batch(batch)
        first, ours = self.sides[0].part(batch), self.sides[0].maps()
        if self.sides[0] is self.sides[1]:  # whose next maps take the place of these
            ours = {kind: (maps.clone(), layout) for kind, (maps, layout) in ours.items()}
        second, others = self.sides[1].part(theirs), self.sides[1].maps()
        found = self.divergences.of(ours, others, self.beside.units(batch, theirs))
        for mark, values in zip(MARKS, (first, second), strict=True):
            found |= {f"{mark}/{name}": one for name, one in values.items()}
        return found

    @contextmanager
    def thread_context(self) -> Iterator[None]:
        """Let another thread run batches."""
        with ExitStack() as stack:
            for joining in {id(side): side.thread_context for side in self.sides}.values():
                stack.enter_context(joining())
            yield


@contextmanager
def comparing(
    checkpoints: tuple[Checkpoint, Checkpoint],
    architectures: tuple[Architecture, Architecture],
    statistics: Sequence[Statistic],
    divergences: Divergences,
    beside: Beside = SAME,
) -> Iterator[Comparing]:
    """Make two models ready; one that is compared with itself can be read by one reader only.

    Args:
        checkpoints: The models.
        architectures: What the dry run found of them.
        statistics: What is measured of both. Differences are of two means, with an error of their own kind,
            which blocks of documents give.
        divergences: Compares their heads.
        beside: What the second model reads; the same batches by default.
    """
    blocked = [replace(statistic, sums=Jackknife) for statistic in statistics]
    first, second = checkpoints
    with measuring(first, architectures[0], blocked, keep=True) as one:
        if first.body is second.body:
            yield Comparing((one, one), divergences, beside)
            return
        with measuring(second, architectures[1], blocked, keep=True) as other:
            yield Comparing((one, other), divergences, beside)


def _by_word(names: tuple[str, str], left: int, wordless: int) -> str:
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
