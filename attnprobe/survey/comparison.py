"""One pass of two checkpoints over the same batches, and how far apart heads of the two attend."""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attnprobe.corpus.batches import Batches
from attnprobe.errors import ModelError, UsageError
from attnprobe.findings.comparison import ModelComparison
from attnprobe.findings.partners import HeadGrid, SharedHeads, Within
from attnprobe.kernels.pairs import bound_rounding
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.check.observed import UnobservableError, check_observations
from attnprobe.model.checkpoint import Checkpoint, is_cut_short, resolve_max_length
from attnprobe.run.corpus import record_provenance
from attnprobe.run.examples import Documents
from attnprobe.run.options import CorpusOptions, record_versions
from attnprobe.run.passes import Workers, limit_cells, open_run
from attnprobe.run.preparation import examine_part, prepare_corpus
from attnprobe.run.progress import Progress
from attnprobe.run.repeated import RepeatedTokens
from attnprobe.statistics.statistic import Statistic
from attnprobe.sums.base import Measurement
from attnprobe.survey.checks import check_modality, drop_impossible, verify_needs, write_notes
from attnprobe.survey.pairing import (
    MARKS,
    NUMBERED,
    OUTPUTS,
    PAIRS,
    number_words,
    open_pair,
    pair_by_words,
)
from attnprobe.survey.survey import CorpusRequest
from attnprobe.table.builder import Labels

#: Two models, each with what the dry run found of it.
Models = tuple[tuple[Checkpoint, Architecture], tuple[Checkpoint, Architecture]]


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
    by_word = not _share_tokens(*checkpoints)
    checkpoints, notes = _drop_lone_decoders(checkpoints, by_word=by_word)
    if labelled and notes:
        raise UsageError(f"{notes[0].rstrip('.')}, which read no target texts; leave out --label-column.")
    request = CorpusRequest(documents[0], statistics, options, labelled=labelled)
    request = request.keep_targeted(checkpoints[0])
    assert not isinstance(request.documents, RepeatedTokens)
    first, texts, first_layers = examine_part(checkpoints[0], request.documents, progress)
    second, same_texts, second_layers = examine_part(checkpoints[1], documents[1], progress)
    models = (first, first_layers), (second, second_layers)
    shared, left_out = _share_heads(models, pairs=pairs or outputs, match=match)
    statistics, notes = drop_impossible(statistics, first_layers), [*notes, *left_out]
    evidence = [
        f"{checkpoint.name}: {sentence}"
        for checkpoint, of in models
        for sentence in verify_needs(checkpoint, of, [list(statistics)], refuse=True)[0]
        + (_check_outputs(checkpoint, of) if outputs else [])
    ]
    options = _fit_options(request.options, first, second, by_word=by_word)
    prepare = partial(
        prepare_corpus,
        options=options,
        cells=limit_cells(sum(of.layers * of.heads for _, of in models)),
        labelled=labelled,
        workers=min(Workers.of(*model, workers).number for model in models),
        progress=progress,
    )
    wanted = ["pairs"] * pairs + ["outputs"] * outputs
    question = {
        "command": " ".join(["compare", *wanted, *(one.identity for one in statistics)]),
        "second model": json.dumps(second.origin, sort_keys=True, default=str),
    }
    with (
        open_run(first, options, question, resume=resume, progress=progress) as run,
        prepare(first, first_layers, number_words(texts) if by_word else texts) as mine,  # type: ignore[arg-type]
        prepare(second, second_layers, number_words(same_texts)) if by_word else nullcontext(mine) as its,  # type: ignore[arg-type]
    ):
        batches, how = mine.batches, dict[str, Any](pairs=pairs, outputs=outputs)
        if by_word:
            batches, how["read_second"] = pair_by_words(batches, its.batches)
        elif isinstance(batches, Batches) and second.embeddings is not None:
            last = int(np.flatnonzero(batches.source.store.counts)[-1])
            if last >= second.embeddings:
                raise ModelError(
                    f"The texts have token {last}, but {second.name} knows only {second.embeddings}; its "
                    "tokenizer belongs to another model."
                )
        with open_pair(models, statistics, shared, **how) as evaluator:
            measurement = run.total(
                "comparing",
                batches,
                evaluator.measurement,
                partial(Measurement.from_arrays, kinds=evaluator.sums),
                workers=mine.workers,
                thread_context=evaluator.thread_context,
                question={"tokens of the second model": its.batches.digest},
            )
        record = record_provenance(first, first_layers, mine, options)
        beside = record_provenance(second, second_layers, its, options)
    notes += request.remarks()
    sums = measurement.sums
    if by_word:
        note = (
            f"{first.name} and {second.name} make different tokens of the texts, so that their maps are "
            "compared word by word, over the words that both see; columns are over the tokens of each."
        )
        read, jsd = measurement.sequences, [NUMBERED, *map(PAIRS.format, shared.kinds)]
        counts = [int(sums[name].count.max(initial=0)) for name in jsd if name in sums]
        left, wordless = record["corpus"]["sequences"] - read, read - max(counts, default=read)
        if left or wordless:
            note += f" Texts without tokens in {second.name}: {left:,}; without a shared word: {wordless:,}."
        notes.insert(0, note)
    notes += write_notes(statistics, mine.rarity, first.model.dtype)
    record |= {
        **facts,
        "other": {name: part for name, part in beside.items() if name not in record_versions()},
        "comparison": {
            "by_word": by_word,
            "statistics": [statistic.identity for statistic in statistics],
            "evidence": evidence,
        },
    }
    of_first, of_second = ({one.name: sums[f"{mark}/{one.name}"] for one in statistics} for mark in MARKS)
    return ModelComparison(
        shared,
        statistics,
        (of_first, of_second),
        measurement.sequences,
        numbered=sums.get(NUMBERED),
        pairs={kind: sums[PAIRS.format(kind)] for kind in shared.kinds if pairs},
        outputs={kind: sums[OUTPUTS.format(kind)] for kind in shared.kinds if outputs},
        labels=Labels(first.name, dataset, record, first_layers.places, first_layers.removed, notes),
        other=second.name,
        rounding=max(bound_rounding(checkpoint.model.dtype) for checkpoint in (first, second)),
    )


def _share_tokens(first: Checkpoint, second: Checkpoint) -> bool:
    """Tell whether two models make the same tokens of every text; True for images and sound, seen later."""
    if first.modality != "text":
        return True
    known: list[Any] = []
    for tokenizer in (first.tokenizer, second.tokenizer):
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            known.append((type(tokenizer).__name__, getattr(tokenizer, "get_vocab", dict)()))
        else:  # all but what a caller asked of it last
            known.append(json.loads(backend.to_str()) | {"truncation": None, "padding": None})
    alike = first.tokenizer is second.tokenizer or known[0] == known[1]
    return alike and first.prompts[""] == second.prompts[""]


def _drop_lone_decoders(
    checkpoints: tuple[Checkpoint, Checkpoint], *, by_word: bool
) -> tuple[tuple[Checkpoint, Checkpoint], list[str]]:
    """Leave decoders beside encoders out, with a note, where one model has none or they read other tokens."""
    decoding = [checkpoint for checkpoint in checkpoints if checkpoint.decodes]
    starts = {checkpoint.start for checkpoint in decoding}
    if not decoding or (len(decoding) == 2 and not by_word and len(starts) == 1):
        return checkpoints, []
    why = "The decoders read different tokens"
    if len(decoding) == 1:
        why = f"Only {decoding[0].name} has a decoder beside its encoder"
    first, second = (replace(one, encoder_only=True) if one.decodes else one for one in checkpoints)
    return (first, second), [f"{why}: only the encoders are compared."]


def _share_heads(models: Models, *, pairs: bool, match: Within | None) -> tuple[SharedHeads, list[str]]:
    """Find the heads that both have, with notes, or refuse; ``pairs`` lets numbers of partners differ."""
    (first, first_layers), (second, second_layers) = models
    names = first.name, second.name
    if first.modality != "text":
        prepared = []
        for checkpoint, of in models:
            if of.layer_heads:
                raise ModelError(
                    f"{checkpoint.name} has maps of other tokens in other layers, so that heads of two "
                    "models can't be compared map by map; measure each with census, or both with dynamics."
                )
            how = checkpoint.processor and checkpoint.processor.inner.to_dict()
            prepared.append((of.positions, of.grid, how))
        if prepared[0] != prepared[1]:
            raise ModelError(
                f"{names[0]} and {names[1]} prepare their input differently, so that their tokens are not "
                "the same; only models with one way of preparing it can be compared."
            )
    shared, left_out = SharedHeads.of(names, describe_heads(first_layers), describe_heads(second_layers))
    if match is not None:
        shared.check_layers(names, match)
    if not pairs and not shared.alike:
        raise UsageError(
            f"{first.name} and {second.name} have different numbers of layers or heads, so that heads have "
            "no partner of their number, only a nearest one; leave out --no-nearest."
        )
    return shared, left_out


def describe_heads(architecture: Architecture) -> HeadGrid:
    kept = [tuple(map(int, np.flatnonzero(layer))) for layer in architecture.kept]
    return HeadGrid(architecture.places, architecture.kinds, architecture.heads, kept)


def _fit_options(
    options: CorpusOptions, first: Checkpoint, second: Checkpoint, *, by_word: bool
) -> CorpusOptions:
    """Settle windows that both models take; of texts in different tokens, each reads the first window."""
    if first.modality != "text":
        return options
    if by_word:
        return replace(options, truncate=True)
    windows = [resolve_max_length(options.max_length, checkpoint) for checkpoint in (first, second)]
    short = any(is_cut_short(options.max_length, checkpoint) for checkpoint in (first, second))
    return replace(options, max_length=min(windows), truncate=options.truncate or short)


def _check_outputs(checkpoint: Checkpoint, architecture: Architecture) -> list[str]:
    """Verify that what heads give can be read, and is probabilities times values, or raise ModelError."""
    try:
        return check_observations(checkpoint, architecture, {"outputs", "values"})
    except UnobservableError as error:
        raise ModelError(
            f"Heads of {checkpoint.name} can't be matched by outputs: {error} Match them by maps, with "
            "--match model."
        ) from error
