"""One pass of two checkpoints over the same batches, and how far apart heads of the two attend."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from attnprobe.corpus.batches import BatchReader
from attnprobe.corpus.sources.media import MediaFolder
from attnprobe.corpus.sources.order import Order
from attnprobe.errors import AttnprobeError
from attnprobe.kernels.divergence import bound_rounding
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.memory import Price, count_copies, find_itemsize, limit_cells_of_maps, price_statistics
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Run, Workers, open_run
from attnprobe.run.preparation import (
    Documents,
    PreparedCorpus,
    describe_reading,
    examine_part,
    prepare_corpus,
)
from attnprobe.run.progress import Progress
from attnprobe.run.record import record_provenance, record_versions
from attnprobe.run.repeated import RepeatedTokens
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.base import Measurement
from attnprobe.sums.documents import BLOCKS
from attnprobe.survey.divergences import AT_A_TIME, Divergences
from attnprobe.survey.head_outputs import (
    Alignment,
    OutputMoments,
    OutputPulls,
    check_outputs,
    price_outputs,
)
from attnprobe.survey.needs import check_modality, drop_counted, drop_impossible, verify_needs
from attnprobe.survey.pair_meter import MARKS, PairMeter, open_pair
from attnprobe.survey.pairing import (
    SharedHeads,
    Within,
    check_media,
    drop_lone_decoders,
    fit_options,
    number_words,
    pair_by_tokens,
    pair_by_words,
    share_tokens,
)
from attnprobe.survey.survey import CorpusRequest, keep_targeted
from attnprobe.survey.tables import write_notes
from attnprobe.survey.until import Round, read_until_enough
from attnprobe.table.builder import Labels
from attnprobe.table.head_table import HeadTable


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
        alignment: Which heads give alike, if that was asked for.
    """

    measurement: Measurement
    statistics: Sequence[Statistic]
    divergences: Divergences
    labels: Labels
    other: str
    by_word: bool
    rounding: float
    alignment: Alignment | None = None

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
    outputs: Within | None = None,
    dataset: str,
    facts: Mapping[str, Any],
    labelled: bool = False,
    order: Order | None = None,
    tabulate: Callable[[Comparison], HeadTable] | None = None,
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
        outputs: Where heads are matched by what they give; the texts are then read twice.
        dataset: What the ``dataset`` column says.
        facts: What the caller adds to the provenance.
        labelled: Whether labels are target texts, for the decoders beside both encoders.
        order: The random order in which documents are read, where the options say how precise it is to be.
        tabulate: Makes the table that is to be so precise.
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
    assert not isinstance(request.documents, RepeatedTokens)
    first, texts, one = examine_part(checkpoints[0], request.documents, progress)
    second, same_texts, other = examine_part(checkpoints[1], documents[1], progress)
    models = (first, one), (second, other)
    shared, left = _share_heads(models, pairs=pairs, outputs=outputs)
    said += left
    statistics = drop_impossible(list(statistics), one)
    if options.targets:
        said += drop_counted([statistics])
    evidence = _verify(models, statistics, outputs=outputs is not None)
    divergences = Divergences(shared, pairs)
    moments = None if outputs is None else OutputMoments(shared)
    options = fit_options(request.options, first, second, by_word=by_word)
    names_of_sums = [*divergences.sums, *(moments.sums if moments is not None else ())]
    question = {
        "command": " ".join(["compare", *(one.identity for one in statistics), *names_of_sums]),
        "second model": json.dumps(second.origin, sort_keys=True, default=str),
    }
    two = _TwoModels(
        models, options, statistics, divergences, moments, outputs, by_word, labelled, dataset, facts,
        evidence, min(Workers.of(*model, workers).number for model in models), progress,
    )  # fmt: skip
    with open_run(first, options, question, resume=resume, progress=progress) as run:
        if not options.targets:
            found, alignment = two.measure(run, (texts, same_texts))
            notes = [*said, *(targets.remarks() if targets is not None else [])]
            return two.finish(found, alignment, notes)
        assert order is not None
        assert tabulate is not None

        def measure(some: Documents, number: int, title: str) -> Round:
            some = some if isinstance(some, MediaFolder) else list(some)  # which both models read
            return two.measure(run, (some, some), f", look {number + 1}", title)[0]

        enough = read_until_enough(
            texts,
            options,
            order,
            measure,
            lambda rounds: tabulate(two.finish(rounds)),
            most=lambda _: BLOCKS,
            progress=progress,
        )
        for sentence in describe_reading(enough.found.corpus):
            progress.say(sentence)
        notes = [*said, *(targets.remarks() if targets is not None else []), *enough.notes()]
        record = {**enough.found.record, "until": enough.record}
        return two.finish(replace(enough.found, record=record), None, notes)


#: A model with what the dry run found of it.
Verified = tuple[Checkpoint, Architecture]


@dataclass(frozen=True)
class _TwoModels:
    """Two models that were verified, and what is asked of them; see ``compare_checkpoints``."""

    models: tuple[Verified, Verified]
    options: CorpusOptions
    statistics: Sequence[Statistic]
    divergences: Divergences
    moments: OutputMoments | None
    outputs: Within | None
    by_word: bool
    labelled: bool
    dataset: str
    facts: Mapping[str, Any]
    evidence: Sequence[str]
    workers: int
    progress: Progress

    def prepare(self, side: int, given: Documents) -> AbstractContextManager[PreparedCorpus]:
        """Tokenise texts as one of the models reads them."""
        maps = sum(of.layers * of.heads for _, of in self.models)
        until = bool(self.options.targets)  # then what is read of the texts is chosen round by round
        return prepare_corpus(
            *self.models[side],
            number_words(given) if self.by_word else given,  # type: ignore[arg-type]
            replace(self.options, limit=None, sample=None) if until else self.options,
            price=partial(_price, self.models, self.statistics, self.divergences, self.moments),
            copies=count_copies(self.statistics),
            cells=limit_cells_of_maps(maps),
            labelled=self.labelled,
            describe=not until,
            workers=self.workers,
            progress=self.progress,
        )

    def measure(
        self, run: Run, given: tuple[Documents, Documents], stage: str = "", title: str = ""
    ) -> tuple[Round, Alignment | None]:
        """Pass over texts with both models; once more where heads are matched by what they give."""
        (first, one), (second, other) = self.models
        both = (first, second), (one, other)
        with (
            self.prepare(0, given[0]) as mine,
            self.prepare(1, given[1]) if self.by_word else nullcontext(mine) as its,
        ):
            if self.by_word:
                batches, beside = pair_by_words(mine.corpus.batches, its.corpus.batches)
            else:
                batches, beside = mine.corpus.batches, pair_by_tokens(mine.corpus.batches, second)
            tokens = {"tokens of the second model": its.corpus.batches.digest}
            total = partial(_total, run, batches, mine.workers, tokens)
            with open_pair(*both, self.statistics, self.divergences, beside, self.moments) as meter:
                measurement, alignment = total(f"comparing{stage}", meter, title=title), None
            if self.outputs is not None:
                pulls = OutputPulls.of(self.divergences.shared, measurement, self.outputs)
                with open_pair(*both, [], None, beside, pulls) as meter:
                    found = total("errors of matched outputs", meter, within=self.outputs)
                    alignment = pulls.align(found, self.outputs)
            record = record_provenance(first, one, mine.corpus, self.options, mine.workers)
            record["other"] = record_provenance(second, other, its.corpus, self.options, mine.workers)
            return Round(measurement, record, mine.corpus), alignment

    def finish(
        self, found: Round, alignment: Alignment | None = None, notes: Sequence[str] = ()
    ) -> Comparison:
        """Put together what was found; the notes say what happened on the way."""
        (first, one), (second, _) = self.models
        measurement, record = found.sums, {**found.record}
        if self.by_word:
            counts = [int(measurement.sums[name].count.max(initial=0)) for name in self.divergences.sums]
            wordless = measurement.sequences - max(counts, default=measurement.sequences)
            left = record["corpus"]["sequences"] - measurement.sequences
            notes = [_explain_words((first.name, second.name), left, wordless), *notes]
        ours = Measurement({one.name: measurement.sums[f"a/{one.name}"] for one in self.statistics})
        rarity = None if self.options.targets else found.corpus.rarity
        notes = [*notes, *write_notes(self.statistics, ours, rarity, first.model.dtype)]
        record |= {
            **self.facts,
            "other": {name: part for name, part in record["other"].items() if name not in record_versions()},
            "comparison": {
                "by_word": self.by_word,
                "statistics": [statistic.identity for statistic in self.statistics],
                "evidence": self.evidence,
            },
        }
        return Comparison(
            measurement,
            self.statistics,
            self.divergences,
            Labels(first.name, self.dataset, record, one.places, one.grid is not None, one.removed, notes),
            second.name,
            self.by_word,
            rounding=max(bound_rounding(checkpoint.model.dtype) for checkpoint, _ in self.models),
            alignment=alignment,
        )


def _share_heads(
    models: tuple[Verified, Verified], *, pairs: bool, outputs: Within | None
) -> tuple[SharedHeads, list[str]]:
    """Find out which heads two models share, and say what they don't; refuse what can't be compared."""
    (first, one), (second, other) = models
    if first.modality != "text":
        check_media((first, second), one, other)
    shared, left = SharedHeads.of((first.name, second.name), one, other)
    if outputs is not None:
        shared.check_layers((first.name, second.name), outputs)
    elif not pairs and not shared.alike:
        raise AttnprobeError(
            f"{first.name} and {second.name} have different numbers of layers or heads, so that heads have "
            "no partner of their number, only a nearest one; leave out --no-nearest."
        )
    return shared, left


def _verify(models: Sequence[Verified], statistics: Sequence[Statistic], *, outputs: bool) -> list[str]:
    """Verify that all that is needed of both models can be had; say what was verified."""
    return [
        f"{checkpoint.name}: {sentence}"
        for checkpoint, of in models
        for sentence in verify_needs(checkpoint, of, [list(statistics)], as_far_as_possible=False)[0]
        + (check_outputs(checkpoint, of) if outputs else [])
    ]


def _price(
    models: Sequence[Verified],
    statistics: Sequence[Statistic],
    divergences: "Divergences",
    moments: OutputMoments | None,
) -> Price:
    each = [price_statistics(of, statistics, find_itemsize(checkpoint)) for checkpoint, of in models]
    shared, pairs, width = divergences.shared, divergences.pairs, find_itemsize(models[0][0])
    sizes = [shared.size(kind) for kind in shared.kinds]
    most = max(ours * (AT_A_TIME if pairs else 1) for ours, _ in sizes)
    found = sum(8 * ours * (theirs if pairs else 1) for ours, theirs in sizes)
    maps = sum(of.layers * of.heads for _, of in models)
    paid = each[0] + each[1] + Price(sequence=found, pair=width * maps, alone=2 * width * most)
    return paid if moments is None else paid + price_outputs(shared, width)


def _total(
    run: Run,
    batches: BatchReader,
    workers: Workers,
    question: Mapping[str, str],
    name: str,
    meter: "PairMeter",
    title: str = "",
    **more: str,
) -> Measurement:
    """Pass over the batches with both models, and add up what is found."""
    return run.total(
        name,
        batches,
        meter.measurement,
        partial(Measurement.from_arrays, kinds=meter.sums),
        workers=workers,
        thread_context=meter.thread_context,
        question={**question, **more},
        title=title,
    )


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
