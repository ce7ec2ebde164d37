"""Probing a checkpoint: one pass that keeps attention between words, probes that are fitted, their tables."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from attnprobe.corpus.batch import Batch
from attnprobe.errors import AttnprobeError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Run, open_run
from attnprobe.run.preparation import Documents, PreparedCorpus, examine_part, prepare_corpus
from attnprobe.run.progress import Progress
from attnprobe.run.record import record_provenance
from attnprobe.statistics.links import FEWEST, UNIT
from attnprobe.statistics.rules import ALL, LinkTask
from attnprobe.sums.blocked import find_share
from attnprobe.sums.inference import adjust, sign_flip
from attnprobe.survey.measure import open_evaluator
from attnprobe.survey.probe import Floats, ProbeData, Scored
from attnprobe.survey.word_maps import AskedCorpus, ask_words
from attnprobe.table.builder import FEW_DOCUMENTS, Labels, TableBuilder
from attnprobe.table.naming import join_names
from attnprobe.table.numbers import format_number
from attnprobe.table.table import Column, HeadTable

#: The most of the free memory that attention between words may take.
_SHARE = 0.5
#: What is counted by document, of the links of a label.
_NUMBERS = ("asked", "probe", "head", "rule")


@dataclass(frozen=True)
class ProbePlan:
    """What is asked of a probe; ``penalty`` is lambda."""

    task: LinkTask
    by: Literal["label", "head"] = "label"
    folds: int = 5
    penalty: float = 100.0

    @property
    def question(self) -> dict[str, str]:
        """What the state of a run depends on: fitting begins when all is read."""
        return {"command": f"probe {self.task.label}"}


def probe_checkpoint(
    checkpoint: Checkpoint,
    documents: Documents,
    plan: ProbePlan,
    options: CorpusOptions,
    *,
    dataset: str,
    facts: Mapping[str, Any],
    resume: Path | None = None,
    workers: int | None = None,
    progress: Progress,
) -> HeadTable:
    """Read attention between words in one pass, fit probes to it, and tabulate what they find.

    Of a model with an encoder and a decoder, the encoder is read. ``resume`` is a file that keeps the state
    of the run, attention between words included.
    """
    notes = []
    if checkpoint.decodes:
        checkpoint = replace(checkpoint, encoder_only=True)
        notes.append("Heads of the encoder are probed; those of the decoder are left out.")
    checkpoint, documents, architecture = examine_part(checkpoint, documents, progress)
    with (
        open_run(checkpoint, options, plan.question, resume=resume, progress=progress) as run,
        prepare_corpus(
            checkpoint,
            architecture,
            documents,
            options,
            workers=workers,
            progress=progress,
        ) as ready,
    ):
        read = _read(run, checkpoint, architecture, ready, plan)
        record = record_provenance(checkpoint, architecture, ready.corpus, options, ready.workers)
        progress.stage("fitting probes", None)
        data = ProbeData(read, plan.penalty)
        _check_documents(data, dataset)
        labels = Labels(
            checkpoint.name, dataset, {**record, **facts}, architecture.places, removed=architecture.removed
        )
        heads = [(layer, head) for layer, head in np.argwhere(architecture.standing).tolist()]
        notes += _note_left_out(data)
        if plan.by == "head":
            return tabulate_heads(data, data.fit(data.every), plan.task, labels, heads, notes)
        folds = min(plan.folds, data.documents)
        hit, fold = data.cross_fit(folds)
        return tabulate_labels(Scored(data, hit, fold), plan.task, labels, heads, notes)


def _read(
    run: Run,
    checkpoint: Checkpoint,
    architecture: Architecture,
    ready: PreparedCorpus,
    plan: ProbePlan,
) -> AskedCorpus:
    """Read attention between the words of all batches, as far as the memory holds it."""
    statistic, free, taken = ask_words(plan.task), _find_free_memory(), 0

    def read(batch: Batch) -> AskedCorpus:
        nonlocal taken
        asked: Any = evaluator.values(batch)[statistic.name]
        taken += sum(part.maps.nbytes + part.cells.nbytes for part in asked.batches)
        if free and taken > _SHARE * free:
            raise AttnprobeError(
                f"Attention between words takes more than half of the {free / 2**30:.1f} GiB of memory that "
                "are free; read fewer texts (--sample N, --limit N), or give a smaller --max-length."
            )
        return asked

    with open_evaluator(checkpoint, architecture, [statistic]) as evaluator:
        return run.total(
            "reading words",
            ready.corpus.batches,
            read,
            AskedCorpus.from_arrays,
            workers=ready.workers,
            thread_context=evaluator.thread_context,
        )


def _find_free_memory() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0


def _check_documents(data: ProbeData, dataset: str) -> None:
    if not len(data):
        raise AttnprobeError(f"{dataset} has no link that can be asked for.")
    if data.documents < 2:
        raise AttnprobeError(
            f"All links of {dataset} are of one document, and a probe is fitted to some documents and scored "
            "on others; give more documents."
        )


def _note_left_out(data: ProbeData) -> Iterator[str]:
    same, _, certain = np.sum([batch.left_out for batch in data.corpus.batches], 0).tolist()
    for number, reason in (
        (same, "both ends of the link have the same tokens"),
        (certain, "every candidate is right"),
    ):
        if number:
            yield f"{number:,} {'link was' if number == 1 else 'links were'} left out: {reason}."


def choose_labels(scored: Scored, fewest: int, *, named: bool) -> tuple[list[str], list[str]]:
    """List the labels that have a row, all links first, and say which are left out.

    There is no row of all where labels were ``named``, or where the only one says the same.
    """
    several = [label for label in scored.entries if label != ALL]
    kept = [label for label in several if len(scored.entries[label]) >= fewest]
    alone = len(several) == 1 and len(scored.entries[several[0]]) == len(scored.entries[ALL])
    shown = [*([] if (named and several) or (alone and kept) else [ALL]), *kept]
    return shown, [label for label in several if label not in kept]


def tabulate_labels(
    scored: Scored, task: LinkTask, labels: Labels, heads: Sequence[tuple[int, int]], notes: Sequence[str]
) -> HeadTable:
    """Tabulate each label: what the probe finds of it, the best head, and the best rule.

    Probe and head are scored on other documents than they are chosen on. The rule is the best over all links,
    and at least chance where candidates are named, so that ``baseline`` is rather too high than too low.
    """
    request = labels.provenance.get("asked", {})
    fewest, named = int(request.get("min_links", FEWEST)), request.get("labels") is not None
    shown, rare = choose_labels(scored, fewest, named=named)
    rows = [scored.entries[label] for label in shown]
    best, rule = scored.choose_heads(shown), scored.choose_rules(shown, task)
    sums = [
        scored.sum_documents(questions, scored.hit[questions], head.hit, other.hit)
        for questions, head, other in zip(rows, best, rule, strict=True)
    ]
    build = TableBuilder(labels, len(shown))
    build.key(task.label, shown)
    build.count("n", np.array([len(questions) for questions in rows], np.int64), "links")

    def measure(name: str, weights: Mapping[str, int], title: str, *, headline: bool = False) -> None:
        flat = np.array([weights.get(one, 0) for one in _NUMBERS])
        shares = [find_share(one @ flat, one[:, 0]) for one in sums]
        values = np.array([(share.value, share.error) for share in shares]).reshape(-1, 2)
        build.measure(name, UNIT, *values.T, headline=headline, title=title)

    measure("accuracy", {"probe": 1}, "links that all heads together find", headline=True)
    count = len(heads)
    places = [None if one.named is None else heads[one.named % count] for one in best]
    ways = [None if one.named is None else name_way(task, one.named >= count) for one in best]
    build.add(Column("direction", role="text"), ways)
    build.add(
        Column("layer", role="count"),
        [None if place is None else labels.places[place[0]].layer for place in places],
    )
    build.add(Column("head", role="count"), [None if place is None else place[1] for place in places])
    build.add(
        Column("chosen", "share of folds", title="folds that chose the head"), [one.share for one in best]
    )
    measure("best_head_accuracy", {"head": 1}, "links that the best head finds")
    measure("gain", {"probe": 1, "head": -1}, "gain over the best head")
    p = np.array([sign_flip(one[:, 1] - one[:, 2]) for one in sums])
    alike = {questions.tobytes(): number for number, questions in enumerate(rows)}
    once, where = np.unique([alike[questions.tobytes()] for questions in rows], return_inverse=True)
    adjusted = adjust(p[once])[where]  # rows about the same links count once
    build.test(p, adjusted)
    measure("baseline", {"rule": 1}, "links that the best rule finds")
    names = [None if one.named is None else task.name_of(one.named) for one in rule]
    build.add(Column("baseline_rule", role="text"), names)
    remarks = [*_note_few_documents(scored)]
    if rare:
        remarks.append(f"Left out, with fewer than {fewest} links: {join_names(rare, 8)}.")
    return build.table("probe: what all heads know together", [*remarks, *notes])


def tabulate_heads(
    data: ProbeData, probe: Floats, task: LinkTask, labels: Labels, heads: Sequence[tuple[int, int]],
    notes: Sequence[str],
) -> HeadTable:  # fmt: skip
    """Tabulate the weights of a probe that is fitted to all links, a row for each head and direction.

    ``weight`` is that of attention as it is: u of heads from who is asked, v of heads to it. ``share`` is
    |weight| times the spread of that attention over candidates, divided by the sum of these over all rows.
    """
    count = len(heads)
    order = [
        way * count + number
        for _, number in sorted((place, number) for number, place in enumerate(heads))
        for way in (0, 1)
    ]
    build = TableBuilder(labels, 2 * count)
    build.layers([heads[one % count][0] for one in order])
    build.key("head", [heads[one % count][1] for one in order])
    build.key("direction", [name_way(task, one >= count) for one in order])
    build.count("n", np.full(2 * count, len(data)), "links")
    sizes = np.abs(probe) * (data.spread > 0)
    weights, share = probe * data.scale, sizes / max(float(sizes.sum()), np.finfo(float).tiny)
    build.add(Column("weight", "log odds", title="weight of attention"), weights[order])
    build.add(Column("share", "share of weight", headline=True, title="share of the weight"), share[order])
    return build.table("probe: what each head weighs", notes)


def name_way(task: LinkTask, backward: bool) -> str:
    """Name who attends to whom; of mentions, whose links are asked one way only, the other way round too."""
    if not backward:
        return task.forward
    return task.backward or "_to_".join(reversed(task.forward.split("_to_")))


def _note_few_documents(scored: Scored) -> Iterator[str]:
    if scored.data.documents < FEW_DOCUMENTS / 2:
        least = format_number(0.5**scored.data.documents, digits=2)
        yield f"Links are of {scored.data.documents} documents, so that no p is below {least}."
