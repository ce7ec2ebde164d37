"""The table of patching: pairs of texts, and the effect of patching every head on what is measured."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.corpus.batch import TokenisedTexts
from attnprobe.corpus.batches import Batches
from attnprobe.corpus.document import Contrast, Document
from attnprobe.corpus.source import EMBEDDED
from attnprobe.errors import DataError, ModelError, UsageError
from attnprobe.findings.noise import block_record
from attnprobe.intervention.objectives.contrast import MEASURES, WITHOUT_ANSWER, ContrastMeasure
from attnprobe.intervention.patching.passes import Floats, PatchedPairs, PatchPlan, measure_pairs
from attnprobe.intervention.request import peek_first
from attnprobe.intervention.task import TaskData, TaskModel, TaskSession, limit_batches
from attnprobe.model.reading.gates import freeze_weights
from attnprobe.run.contrasts import ContrastCorpus
from attnprobe.run.passes import Run
from attnprobe.run.preparation import prepare_corpus
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.inference import CONFIDENCE, Correction, Estimate, adjust
from attnprobe.table.builder import TableBuilder
from attnprobe.table.numbers import format_number, format_with_error
from attnprobe.table.table import Column, HeadTable
from attnprobe.tasks import Gold


def run_patching(
    session: TaskSession, plan: PatchPlan, *, fast: bool, top: int, correction: Correction
) -> HeadTable:
    """Patch every head, or with ``fast`` the ``top`` heads by attribution, in every pair of texts."""
    if (objective := session.task.objective) not in {None, *MEASURES}:
        raise UsageError(
            f"patch reads nothing off for --objective {objective}; choose one of {', '.join(MEASURES)}."
        )
    answered, documents = peek_answers(session.source.documents)
    model = session.choose(Gold.CLASS if answered else Gold.NONE)
    measure = choose_measure(model, answered=answered)
    if session.source.name == EMBEDDED and measure.reads not in {"mask", "next"}:
        raise UsageError(
            f"The pairs that ship with attnprobe ask for a word, and {model.checkpoint.name} gives none; "
            "give pairs of your own with --dataset."
        )
    question = {"measure": measure.about, **vars(plan), "--fast": fast, "--top": top}
    with (
        session.open_run(model, "patch", question) as run,
        bind_pairs(session, model, documents, measure, run) as data,
    ):
        pairs = measure_pairs(data, plan, fast=fast, top=top)
        return tabulate_patching(data, plan, pairs, fast=fast, correction=correction)


def peek_answers(documents: Iterable[Document]) -> tuple[bool, Iterator[Document]]:
    """Tell whether any of the first pairs has an answer; return that and all pairs, or refuse empty data."""
    first, documents = peek_first(documents)
    if not first:
        raise DataError("The data hold no pairs of texts; give at least one.")
    labels = (document.label for document in first)
    return any(isinstance(label, Contrast) and label.answer is not None for label in labels), documents


def choose_measure(model: TaskModel, *, answered: bool) -> type[ContrastMeasure]:
    """Choose what is measured, by the objective and by whether pairs have answers, or refuse the pairs."""
    name, objective = model.checkpoint.name, model.objective
    measure = (MEASURES if answered else WITHOUT_ANSWER).get(objective)
    if measure is not None:
        return measure
    if objective == "masked-lm":
        raise ModelError(
            f"{name} fills masks, and the probability of a whole text takes a pass for each of its tokens; "
            f"write {getattr(model.checkpoint.tokenizer, 'mask_token', '[MASK]')} for one word of both "
            "texts, and give columns answer and other."
        )
    raise ModelError(
        f"{name} is asked for {objective}, of which nothing is read off for a pair of texts; give pairs with "
        f"an answer, and a checkpoint with a head for one of {', '.join(MEASURES)}."
    )


@contextmanager
def bind_pairs(
    session: TaskSession,
    model: TaskModel,
    documents: Iterable[Document],
    measure: type[ContrastMeasure],
    run: Run,
) -> Iterator[TaskData]:
    """Tokenise pairs, and bind what is measured to them while the weights are frozen."""
    checkpoint = model.checkpoint
    options = limit_batches(session.options, checkpoint)
    with prepare_corpus(
        checkpoint,
        model.architecture,
        documents,
        options,
        contrasts=measure.reads,
        workers=session.workers,
        progress=run.progress,
    ) as corpus:
        assert isinstance(corpus, ContrastCorpus)
        objective = measure(checkpoint, corpus.readouts, corpus.targets)
        facts = {"measure": objective.described, "pairs": corpus.counts}
        record = session.record_task(model, corpus, options, **facts)
        with freeze_weights(checkpoint):
            yield TaskData(model, corpus, objective, run, "", session.source.name, record)


def tabulate_patching(
    data: TaskData,
    plan: PatchPlan,
    pairs: PatchedPairs,
    *,
    fast: bool = False,
    correction: Correction = "holm",
) -> HeadTable:
    """Tabulate the effects of all heads, one row a head, or a head and position."""
    assert isinstance(data.objective, ContrastMeasure)
    unit, batches = data.objective.unit, data.corpus.batches
    clusters, documents = batches.clusters[pairs.members], batches.documents[pairs.members]
    effects, attributions, gap = (
        Clustered.of(values, clusters).estimate for values in (pairs.effect, pairs.attribution, pairs.gap)
    )
    share = compute_share(pairs.effect, pairs.gap, documents)
    counted = (np.isfinite(pairs.effect) | np.isfinite(pairs.attribution)).sum(0)
    p = np.where(pairs.fixed, np.nan, effects.p())
    adjusted = adjust_tests(p, (counted > 0) & ~pairs.fixed, correction)
    clean, corrupted = (pairs.base, pairs.source) if plan.noising else (pairs.source, pairs.base)
    record = {
        "method": "noising" if plan.noising else "denoising",
        "pairs": len(pairs.members),
        "clean": float(clean.mean()),
        "corrupted": float(corrupted.mean()),
        "total_effect": float(gap.value),
        "total_effect_se": float(gap.error),
    }
    labels = data.labels().with_record({"patching": record})
    if not plan.positions and not fast:
        blocks = Blocked.of(pairs.effect, documents=documents)
        labels = labels.with_record(block_record("effect", labels.places, blocks, effects.value))
    cells = np.nonzero((counted > 0) | (not plan.positions))
    layer, head, *position = cells
    build = TableBuilder(labels, len(layer))
    build.key("objective", [data.objective.name] * len(layer))
    build.key("method", [record["method"]] * len(layer))
    build.layers(layer.tolist())
    build.key("head", head)
    if plan.positions:
        build.key("position", position[0])
        tokens = name_tokens(data, plan, counted.shape[2])
        named = [tokens[first][second] for first, second in zip(layer, position[0], strict=True)]
        build.add(Column("token", role="text"), named)

    def add(name: str, unit: str, estimate: Estimate, title: str, *, headline: bool = False) -> None:
        value, error = estimate.value[cells], estimate.error[cells]
        build.measure(name, unit, value, error, headline=headline, title=title)

    build.count("n", counted[cells], "pairs")
    add("effect", unit, effects, "effect of patching", headline=True)
    add("recovered", "share of gap", share, "share of the gap")
    build.test(p[cells], adjusted[cells], headline=not fast)
    add("attribution", unit, attributions, "first order of the effect")
    title = "patching of heads at each position" if plan.positions else "patching of heads"
    return build.table(title, _describe_gap(data.objective.described, clean, corrupted, gap))


def compute_share(effect: Floats, gap: Floats, documents: NDArray[np.int64]) -> Estimate:
    """Divide the sum of effects (pair, ...) by the sum of gaps (pair,), of the pairs that have both.

    The error is the jackknife's over blocks of documents. It is not the error of the test of the effect
    against 0: a share several errors from 0 may have an effect that is not significant, if effects and gaps
    vary together.

    References:
        Cochran (1977), Sampling techniques, section 6.4.
    """
    gaps = np.where(np.isnan(effect), np.nan, gap.reshape(-1, *[1] * (effect.ndim - 1)))

    def divide(means: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = means[..., 0] / means[..., 1]
        return np.where(np.isfinite(shares), shares, np.nan)

    return Blocked.of(np.stack([effect, gaps], -1), documents=documents).apply(divide)


def adjust_tests(p: Floats, tested: NDArray[np.bool_], correction: Correction) -> Floats:
    """Adjust p for all heads that could have been tested: those not chosen count with p = 1."""
    filled = np.where(tested & np.isnan(p), 1.0, p)
    return np.where(np.isnan(p), np.nan, adjust(filled.ravel(), correction).reshape(p.shape))


def name_tokens(data: TaskData, plan: PatchPlan, positions: int) -> list[list[str | None]]:
    """Name, for each layer and position, the token that most pairs have there; None where they differ."""
    batches, checkpoint = data.corpus.batches, data.model.checkpoint
    assert isinstance(batches, Batches)
    assert batches.corrupted is not None

    def name_side(side: TokenisedTexts, tokenizer: Any) -> list[str | None]:
        rows = [side.store.ids(int(member)).tolist() for member in batches.members]
        named: list[str | None] = []
        for place in range(positions):
            there = Counter(row[place] for row in rows if place < len(row))
            token, count = there.most_common(1)[0] if there else (0, 0)
            usual = count > there.total() / 2
            named.append(tokenizer.convert_ids_to_tokens([token])[0] if usual else None)
        return named

    read = name_side(batches.source if plan.noising else batches.corrupted, checkpoint.tokenizer)
    if batches.targets is None:
        return [read] * data.model.shape[0]
    written = name_side(batches.targets, checkpoint.target_tokenizer or checkpoint.tokenizer)
    kinds = data.model.architecture.kinds
    return [written if kind in {Kind.DECODER, Kind.CROSS} else read for kind in kinds]


def _describe_gap(what: str, clean: Floats, corrupted: Floats, gap: Estimate) -> list[str]:
    """Describe m, its means over clean and corrupted texts, and the gap between them."""
    pairs, sides = len(clean), [format_number(side.mean()) for side in (clean, corrupted)]
    size = np.sign(clean.mean() - corrupted.mean()) * np.abs(gap.value)
    notes = [
        f"m is {what}: {sides[0]} for clean texts, {sides[1]} for corrupted ones. The gap is "
        f"{format_with_error(float(size), float(gap.error))}, over {pairs:,} pair{'s' * (pairs > 1)}."
    ]
    if gap.p() > 1 - CONFIDENCE:
        notes.append("The gap is no larger than its error allows for, so shares of it say little.")
    return notes
