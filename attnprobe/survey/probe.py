"""The probe: a softmax over candidate words of the weighted attention of all heads, both ways.

One pass keeps attention between words; probes are fitted to it, and compared with single heads and rules.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.corpus.batch import Batch
from attnprobe.errors import DataError, UsageError
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.corpus import Corpus, label_heads, record_provenance
from attnprobe.run.examples import Documents
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Run, open_run
from attnprobe.run.preparation import examine_part, prepare_corpus
from attnprobe.run.progress import Progress
from attnprobe.statistics.links import FEWEST, UNIT
from attnprobe.statistics.rules import ALL, LinkTask
from attnprobe.sums.blocked import find_share
from attnprobe.sums.inference import sign_flip
from attnprobe.survey.measure import open_evaluator
from attnprobe.survey.word_maps import AskedCorpus, Bools, Ints, ask_words
from attnprobe.table.builder import FEW_DOCUMENTS, Labels, TableBuilder, measure_columns, p_columns
from attnprobe.table.naming import join_names
from attnprobe.table.numbers import format_number
from attnprobe.table.table import Column, HeadTable

Floats = NDArray[np.float64]
#: (layer, head) of the heads that are there.
Heads = Sequence[tuple[int, int]]
Notes = Sequence[str]

#: L-BFGS goes on until no component of the gradient per question is larger, the loss falls by no larger part
#: of it, or for so many steps.
TOLERANCE, CHANGE, STEPS = 1e-4, 1e-12, 500
#: Scores of candidates are added up in this type.
PRECISION = torch.float32


def probe_checkpoint(
    checkpoint: Checkpoint,
    documents: Documents,
    task: LinkTask,
    options: CorpusOptions,
    *,
    by: Literal["label", "head"] = "label",
    folds: int = 5,
    penalty: float = 100.0,
    dataset: str,
    facts: Mapping[str, Any],
    resume: Path | None = None,
    workers: int | None = None,
    progress: Progress,
) -> HeadTable:
    """Read attention between words in one pass, fit probes to it, and tabulate what they find.

    Of a model with an encoder and a decoder, the encoder is read. ``penalty`` is lambda of ``ProbeData.fit``.
    ``resume`` is a file that keeps the state of the run, attention between words included.
    """
    notes = []
    if checkpoint.decodes:
        checkpoint = replace(checkpoint, encoder_only=True)
        notes.append("Heads of the encoder are probed; those of the decoder are left out.")
    checkpoint, documents, architecture = examine_part(checkpoint, documents, progress)
    question = {"command": f"probe {task.label}"}  # fitting begins when all is read
    with (
        open_run(checkpoint, options, question, resume=resume, progress=progress) as run,
        prepare_corpus(
            checkpoint, architecture, documents, options, workers=workers, progress=progress
        ) as corpus,
    ):
        data = ProbeData(_read_words(run, checkpoint, architecture, corpus, task), penalty)
        record = record_provenance(checkpoint, architecture, corpus, options)
        progress.stage("fitting probes", None)
        if not len(data):
            raise DataError(f"{dataset} has no link that can be asked for.")
        if data.documents < 2:
            raise DataError(
                f"All links of {dataset} are of one document, and a probe is fitted to some documents and "
                "scored on others; give more documents."
            )
        labels = label_heads(checkpoint, architecture, dataset, {**record, **facts})
        heads = [(layer, head) for layer, head in np.argwhere(architecture.kept).tolist()]
        same, _, certain = np.sum([batch.left_out for batch in data.corpus.batches], 0).tolist()
        left_out = {"both ends of the link have the same tokens": same, "every candidate is right": certain}
        for reason, number in left_out.items():
            links = "link was" if number == 1 else "links were"
            notes += [f"{number:,} {links} left out: {reason}."] if number else []
        if by == "head":
            return tabulate_heads(data, data.fit(data.every), task, labels, heads, notes)
        answers = data.cross_fit(min(folds, data.documents))
        return tabulate_labels(data, answers, task, labels, heads, notes)


def _read_words(
    run: Run, checkpoint: Checkpoint, architecture: Architecture, corpus: Corpus, task: LinkTask
) -> AskedCorpus:
    """Read attention between the words of all batches, or refuse more than half of the free memory holds."""
    statistic, taken = ask_words(task), 0
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # a system that does not tell
        free = 0

    def read(part: Batch) -> Any:
        nonlocal taken
        answers: Any = evaluator.evaluate(part)[statistic.name]
        taken += sum(one.codes.nbytes for one in answers.batches)
        if free and taken > free / 2:
            raise UsageError(
                f"Attention between words takes more than half of the {free / 2**30:.1f} GiB of memory that "
                "are free; read fewer texts (--sample N, --limit N), or give a smaller --max-length."
            )
        return answers

    with open_evaluator(checkpoint, architecture, [statistic]) as evaluator:
        return run.total(
            "reading words",
            corpus.batches,
            lambda batch: evaluator.halving.total(batch, read),
            AskedCorpus.from_arrays,
            workers=corpus.workers,
            thread_context=evaluator.thread_context,
        )


@dataclass(frozen=True)
class ProbeData:
    """Questions of a corpus, and how probes are fitted to them."""

    corpus: AskedCorpus
    penalty: float  # lambda, see ``fit``

    @cached_property
    def ends(self) -> Ints:
        """Where the questions of each batch end, among all."""
        return np.cumsum([len(batch) for batch in self.corpus.batches])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def join(self, name: str) -> NDArray[Any]:
        """Put a field of the questions of all batches together, (question, ...)."""
        return np.concatenate([getattr(batch, name) for batch in self.corpus.batches])

    @cached_property
    def document(self) -> Ints:
        """The document of each question, numbered in the order of their names, which is as good as random."""
        return np.unique(self.join("document"), return_inverse=True)[1]

    @property
    def documents(self) -> int:
        return int(self.document.max(initial=-1)) + 1

    @property
    def features(self) -> int:
        return self.corpus.batches[0].codes.shape[2]

    @cached_property
    def spread(self) -> Floats:
        """The standard deviation of each feature over the candidates of a question (root mean square)."""
        total = torch.zeros(self.features, dtype=torch.float64)
        for attention, present, _ in self._read(self.every, torch.float64):
            number = present.sum(1)[:, None]
            total += (attention.square().sum(1) / number - (attention.sum(1) / number).square()).sum(0)
        return np.sqrt(total.clamp_min(0).numpy() / len(self))

    @cached_property
    def scale(self) -> Floats:
        """One over the spread; 0 for what never varies."""
        return np.divide(1.0, self.spread, out=np.zeros_like(self.spread), where=self.spread > 0)

    @property
    def every(self) -> Bools:
        return np.ones(len(self), np.bool_)

    def fit(self, questions: Bools) -> Floats:
        """Fit a probe to chosen questions (question,), and return its weights.

        Weights (feature,) are for attention divided by its standard deviation: heads from the query word
        first, then heads to it. The fit minimises, over all weights w,

            - sum over questions of mean ln p(right answer) + lambda / 2 |w|^2

        which is convex. Candidate j for query word i has the score

            s_ij = sum_h (u_h a_h[i, j] + v_h a_h[j, i]),    p(j | i) = exp s_ij / sum over candidates

        With one right answer, the mean is its ln p. At w = 0, a question informs a weight as much as lambda =
        1, so the penalty counts as much as lambda questions.
        """
        from scipy.optimize import minimize  # takes a while to import

        number = max(1, int(questions.sum()))

        def compute_loss(weights: Floats) -> tuple[float, Floats]:
            value, derivative = 0.0, torch.zeros(self.features, dtype=torch.float64)
            for attention, log_p, right in self._score(weights, questions):
                share = right / right.sum(1, keepdim=True)
                value -= float((share * log_p.where(right, 0)).sum())
                pull = (log_p.exp() - share).to(attention.dtype)
                derivative += attention.flatten(0, 1).T @ pull.flatten()
            gradient = derivative.numpy() * self.scale + self.penalty * weights
            return (value + self.penalty / 2 * float(weights @ weights)) / number, gradient / number

        options = {"maxiter": STEPS, "gtol": TOLERANCE, "ftol": CHANGE, "maxcor": 20}
        start = np.zeros(self.features)
        return minimize(compute_loss, start, jac=True, method="L-BFGS-B", options=options).x

    def answer(self, weights: Floats, questions: Bools) -> Bools:
        """Choose the candidate with the highest score for some questions, and tell where it is right."""
        parts = [
            right.gather(1, log_p.argmax(1, keepdim=True))[:, 0].numpy()
            for _, log_p, right in self._score(weights, questions)
        ]
        return np.concatenate([np.zeros(0, np.bool_), *parts])

    def _score(self, weights: Floats, questions: Bools) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Give attention, ln p of each candidate, (question, candidate), and which are right."""
        scaled = torch.from_numpy(weights * self.scale).to(PRECISION)
        for attention, present, right in self._read(questions, PRECISION):
            scores = (attention @ scaled).double().masked_fill(~present, -torch.inf)
            yield attention, scores.log_softmax(1), right

    def _read(self, questions: Bools, precision: torch.dtype) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        chosen = np.split(questions, self.ends[:-1])
        for batch, which in zip(self.corpus.batches, chosen, strict=True):
            yield from batch.read(np.flatnonzero(which), precision)

    def cross_fit(self, folds: int) -> tuple[Bools, Ints]:
        """Answer each fold of documents by a probe fitted to the others; return right answers and folds."""
        fold = self.document % folds
        hit = self.every
        for left_out in range(folds):
            hit[fold == left_out] = self.answer(self.fit(fold != left_out), fold == left_out)
        return hit, fold

    @cached_property
    def entries(self) -> dict[str, Ints]:
        """The questions of each label: of all, then of labels by the number of their links."""
        sizes = [len(batch.entry) for batch in self.corpus.batches]
        question = self.join("entry") + np.repeat([0, *self.ends[:-1]], sizes)
        label = self.join("label")
        entries = {str(name): question[label == name] for name in np.unique(label)}
        order = sorted(entries, key=lambda name: (name != ALL, -len(entries[name]), name))
        return {name: entries[name] for name in order}

    def choose_head(self, questions: Ints, fold: Ints) -> tuple[int | None, Bools, float]:
        """Choose for each fold the head and direction, a feature, that finds most links in the other folds.

        Returns:
            The feature that most folds choose, None where none finds any; the answers of the features of the
            folds; the share of folds that choose it.
        """
        hits, folds = self.join("heads")[questions], fold[questions]
        counts = np.zeros((int(fold.max()) + 1, self.features), np.int64)
        np.add.at(counts, folds, hits)
        total = counts.sum(0)
        best = (total - counts).argmax(1)
        times = np.bincount(best, minlength=len(total))
        named = max(range(len(total)), key=lambda head: (times[head], total[head]))
        hit, share = hits[np.arange(len(hits)), best[folds]], float(times[named] / len(best))
        return (named if total[named] else None), hit, share

    def choose_rule(self, questions: Ints, task: LinkTask) -> tuple[int | None, Floats]:
        """Choose the rule that finds most links of all, or chance where that finds more; and its hits."""
        hits = np.column_stack([self.join("rules"), self.join("chance")])[questions]
        best = task.best_rule(hits.sum(0))
        return (best if hits[:, best].any() else None), hits[:, best]


_COLUMNS = [
    Column("n", "links", role="count"),
    *measure_columns("accuracy", UNIT, "links that all heads together find", headline=True),
    Column("direction", role="text"),
    Column("layer", role="count"),
    Column("head", role="count"),
    Column("chosen", "share of folds", title="folds that chose the head"),
    *measure_columns("best_head_accuracy", UNIT, "links that the best head finds"),
    *measure_columns("gain", UNIT, "gain over the best head"),
    *p_columns(),
    *measure_columns("baseline", UNIT, "links that the best rule finds"),
    Column("baseline_rule", role="text"),
]


def tabulate_labels(
    data: ProbeData, answers: tuple[Bools, Ints], task: LinkTask, labels: Labels, heads: Heads, notes: Notes
) -> HeadTable:
    """Tabulate the accuracy of the probe, the best head and the best rule for each label.

    Probe and head are scored on other documents than those they are chosen on. The rule is the best over all
    links, and at least chance if candidates are named, so ``baseline`` is too high if anything. There is no
    row of all links if labels were named, or if there is only one label.
    """
    (hit, fold), entries = answers, data.entries
    request = labels.provenance.get("asked", {})
    fewest, named = int(request.get("min_links", FEWEST)), request.get("labels") is not None
    several = [label for label in entries if label != ALL]
    kept = [label for label in several if len(entries[label]) >= fewest]
    alone = kept and len(several) == 1 and len(entries[several[0]]) == len(entries[ALL])
    shown = [*([] if (named and several) or alone else [ALL]), *kept]
    rows = []
    for label in shown:
        questions = entries[label]
        document = np.unique(data.document[questions], return_inverse=True)[1]
        probe, (head, by_head, chosen) = hit[questions], data.choose_head(questions, fold)
        rule, by_rule = data.choose_rule(questions, task)
        gain = probe.astype(np.float64) - by_head
        row: dict[str, Any] = {
            "n": len(questions),
            "chosen": chosen,
            "p": sign_flip(np.bincount(document, gain)),
            "baseline_rule": None if rule is None else task.name_of(rule),
        }
        shares = {"accuracy": probe, "best_head_accuracy": by_head, "gain": gain, "baseline": by_rule}
        for name, right in shares.items():
            share = find_share(np.bincount(document, right), np.bincount(document))
            row |= {name: float(share.value), f"{name}_se": float(share.error)}
        if head is not None:
            layer, number = heads[head % len(heads)]
            row |= {"layer": labels.places[layer].layer, "head": number}
            row["direction"] = _name_way(task, head >= len(heads))
        rows.append(row)
    build = TableBuilder(labels, len(rows))
    build.key(task.label, shown)
    build.rows(_COLUMNS, rows)
    remarks = []
    if data.documents < FEW_DOCUMENTS / 2:
        least = format_number(0.5**data.documents, digits=2)
        remarks.append(f"Links are of {data.documents} documents, so that no p is below {least}.")
    if rare := [label for label in several if label not in kept]:
        remarks.append(f"Left out, with fewer than {fewest} links: {join_names(rare, 8)}.")
    return build.table("probe: what all heads know together", [*remarks, *notes])


def tabulate_heads(
    data: ProbeData, probe: Floats, task: LinkTask, labels: Labels, heads: Heads, notes: Notes
) -> HeadTable:
    """Tabulate the weights of a probe fitted to all links, a row for each head and direction.

    ``weight`` is for unscaled attention: u from the query word, v to it. ``share`` is |weight| times the
    standard deviation of that attention over candidates, divided by the sum of these over all rows.
    """
    count = len(heads)
    order = [way * count + number for number in range(count) for way in (0, 1)]
    build = TableBuilder(labels, 2 * count)
    build.layers([heads[one % count][0] for one in order])
    build.key("head", [heads[one % count][1] for one in order])
    build.key("direction", [_name_way(task, one >= count) for one in order])
    build.count("n", np.full(2 * count, len(data)), "links")
    sizes = np.abs(probe) * (data.spread > 0)
    weights, share = probe * data.scale, sizes / max(float(sizes.sum()), np.finfo(float).tiny)
    build.add(Column("weight", "log odds", title="weight of attention"), weights[order])
    build.add(Column("share", "share of weight", headline=True, title="share of the weight"), share[order])
    return build.table("probe: what each head weighs", notes)


def _name_way(task: LinkTask, backward: bool) -> str:
    """Name the direction of attention, also backward where a task asks forward only, as of mentions."""
    if not backward:
        return task.forward
    return task.backward or "_to_".join(reversed(task.forward.split("_to_")))
