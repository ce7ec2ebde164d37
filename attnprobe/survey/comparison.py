"""One pass of two checkpoints over the same batches, and how far apart heads of the two attend."""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from attnprobe.errors import AttnprobeError
from attnprobe.findings.comparison import ModelComparison
from attnprobe.findings.partners import SharedHeads, Within
from attnprobe.kernels.divergence import bound_rounding
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.memory import limit_cells_of_maps
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Workers, open_run
from attnprobe.run.preparation import Documents, examine_part, prepare_corpus
from attnprobe.run.progress import Progress
from attnprobe.run.record import record_provenance, record_versions
from attnprobe.run.repeated import RepeatedTokens
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.base import Measurement
from attnprobe.survey.checks import check_modality, drop_impossible, verify_needs, write_notes
from attnprobe.survey.pair_measures import (
    MARKS,
    NUMBERED,
    Divergences,
    OutputMoments,
    check_outputs,
    name_outputs,
    name_pairs,
    open_pair,
)
from attnprobe.survey.pairing import (
    check_media,
    describe_heads,
    drop_lone_decoders,
    fit_options,
    number_words,
    pair_by_tokens,
    pair_by_words,
    share_tokens,
)
from attnprobe.survey.survey import CorpusRequest
from attnprobe.table.builder import Labels


def compare_checkpoints(
    checkpoints: tuple[Checkpoint, Checkpoint],
    documents: tuple[Documents, Documents],
    options: CorpusOptions,
    statistics: Sequence[Statistic],
    *,
    pairs: bool,
    outputs: bool = False,
    match: Within | None = None,
    dataset: str,
    facts: Mapping[str, Any],
    labelled: bool = False,
    resume: Path | None = None,
    workers: int | None = None,
    progress: Progress,
) -> ModelComparison:
    """Verify the capture of both models, and pass once over the texts with each, batch by batch.

    The second ``documents`` are read where the two models make different tokens of the texts. ``pairs``
    compares every head with every other, not only with that of its number; ``outputs`` compares what they
    give, too; ``match`` says where heads are going to be matched.
    """
    for checkpoint in checkpoints:
        check_modality(checkpoint, statistics)
    by_word = not share_tokens(*checkpoints)
    checkpoints, notes = drop_lone_decoders(checkpoints, by_word=by_word)
    if labelled and notes:
        raise AttnprobeError(f"{notes[0].rstrip('.')}, which read no target texts; leave out --label-column.")
    request = CorpusRequest(documents[0], statistics, options, labelled=labelled)
    request = request.keep_targeted(checkpoints[0])
    assert not isinstance(request.documents, RepeatedTokens)
    first, texts, one = examine_part(checkpoints[0], request.documents, progress)
    second, same_texts, other = examine_part(checkpoints[1], documents[1], progress)
    models = (first, one), (second, other)
    shared, left_out = _share_heads(models, pairs=pairs or outputs, match=match)
    notes += left_out
    statistics = drop_impossible(list(statistics), one)
    evidence = _verify(models, statistics, outputs=outputs)
    divergences = Divergences(shared, pairs)
    moments = OutputMoments(shared) if outputs else None
    options = fit_options(request.options, first, second, by_word=by_word)
    names_of_sums = [*divergences.sums, *(moments.sums if moments is not None else ())]
    question = {
        "command": " ".join(["compare", *(one.identity for one in statistics), *names_of_sums]),
        "second model": json.dumps(second.origin, sort_keys=True, default=str),
    }
    prepare = partial(
        prepare_corpus,
        options=options,
        cells=limit_cells_of_maps(sum(of.layers * of.heads for _, of in models)),
        labelled=labelled,
        workers=min(Workers.of(*model, workers).number for model in models),
        progress=progress,
    )
    with (
        open_run(first, options, question, resume=resume, progress=progress) as run,
        prepare(first, one, number_words(texts) if by_word else texts) as mine,  # type: ignore[arg-type]
        prepare(second, other, number_words(same_texts)) if by_word else nullcontext(mine) as its,  # type: ignore[arg-type]
    ):
        if by_word:
            batches, beside = pair_by_words(mine.corpus.batches, its.corpus.batches)
        else:
            batches, beside = mine.corpus.batches, pair_by_tokens(mine.corpus.batches, second)
        with open_pair((first, second), (one, other), statistics, divergences, beside, moments) as evaluator:
            measurement = run.total(
                "comparing",
                batches,
                evaluator.measurement,
                partial(Measurement.from_arrays, kinds=evaluator.sums),
                workers=mine.workers,
                thread_context=evaluator.thread_context,
                question={"tokens of the second model": its.corpus.batches.digest},
            )
        record = record_provenance(first, one, mine.corpus, options, mine.workers)
        beside_record = record_provenance(second, other, its.corpus, options, mine.workers)
    notes += request.remarks()
    if by_word:
        counts = [int(measurement.sums[name].count.max(initial=0)) for name in divergences.sums]
        wordless = measurement.sequences - max(counts, default=measurement.sequences)
        left = record["corpus"]["sequences"] - measurement.sequences
        notes = [_explain_words((first.name, second.name), left, wordless), *notes]
    notes += write_notes(statistics, mine.corpus.rarity, first.model.dtype)
    record |= {
        **facts,
        "other": {name: part for name, part in beside_record.items() if name not in record_versions()},
        "comparison": {
            "by_word": by_word,
            "statistics": [statistic.identity for statistic in statistics],
            "evidence": evidence,
        },
    }
    sums = measurement.sums
    return ModelComparison(
        shared,
        statistics,
        (
            {one.name: sums[f"{MARKS[0]}/{one.name}"] for one in statistics},
            {one.name: sums[f"{MARKS[1]}/{one.name}"] for one in statistics},
        ),
        measurement.sequences,
        numbered=sums.get(NUMBERED),
        pairs={kind: sums[name_pairs(kind)] for kind in shared.kinds if pairs},
        outputs={kind: sums[name_outputs(kind)] for kind in shared.kinds if outputs},
        labels=Labels(first.name, dataset, record, one.places, one.grid is not None, one.removed, notes),
        other=second.name,
        rounding=max(bound_rounding(checkpoint.model.dtype) for checkpoint in (first, second)),
    )


#: A model with what the dry run found of it.
Verified = tuple[Checkpoint, Architecture]


def _share_heads(
    models: tuple[Verified, Verified], *, pairs: bool, match: Within | None
) -> tuple[SharedHeads, list[str]]:
    """Find the heads that both have; ``pairs`` says whether they have partners of another number, too."""
    (first, one), (second, other) = models
    if first.modality != "text":
        check_media((first, second), one, other)
    names = first.name, second.name
    shared, left_out = SharedHeads.of(names, describe_heads(one), describe_heads(other))
    if match is not None:
        shared.check_layers(names, match)
    if not pairs and not shared.alike:
        raise AttnprobeError(
            f"{first.name} and {second.name} have different numbers of layers or heads, so that heads have "
            "no partner of their number, only a nearest one; leave out --no-nearest."
        )
    return shared, left_out


def _verify(models: Sequence[Verified], statistics: Sequence[Statistic], *, outputs: bool) -> list[str]:
    return [
        f"{checkpoint.name}: {sentence}"
        for checkpoint, of in models
        for sentence in verify_needs(checkpoint, of, [list(statistics)], as_far_as_possible=False)[0]
        + (check_outputs(checkpoint, of) if outputs else [])
    ]


def _explain_words(names: tuple[str, str], left: int, wordless: int) -> str:
    note = (
        f"{names[0]} and {names[1]} make different tokens of the texts, so that their maps are compared word "
        f"by word, over the words that both see; columns are over the tokens of each."
    )
    if left or wordless:
        note += f" Texts without tokens in {names[1]}: {left:,}; without a word that both see: {wordless:,}."
    return note
