"""The task of a command: the checkpoint it is for, its objective, and the examples it is scored on."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.corpus.media import MediaFolder
from attnprobe.corpus.source import OpenSource
from attnprobe.corpus.store import select
from attnprobe.errors import NothingToMeasureError, UsageError
from attnprobe.intervention.metrics.score import Score
from attnprobe.intervention.objectives.choosing import Loader, choose_task, import_objective
from attnprobe.intervention.objectives.objective import Objective
from attnprobe.intervention.request import Documents, TaskOptions, check_metric, peek
from attnprobe.model.check.architecture import Architecture
from attnprobe.model.check.gates import Gating, check_gates, check_relevance
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.gates import Gates, freeze_weights
from attnprobe.run.corpus import Corpus, label_heads, record_provenance
from attnprobe.run.examples import LabelledExamples, split_examples
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Restore, Run, Work, Workers, open_run
from attnprobe.run.preparation import examine_part, prepare_corpus
from attnprobe.run.progress import Progress
from attnprobe.sums.inference import PermutationTest
from attnprobe.table.builder import Labels
from attnprobe.tasks import OBJECTIVES, Gold

#: Tokens in a batch on a processor: gradients keep every layer's states.
BATCH_TOKENS_CPU = 2048


@dataclass(frozen=True)
class TaskModel:
    """A checkpoint and the objective that it is scored on, after its gates were verified.

    ``conservation`` is the evidence that its layers conserve relevance, where a method needs that.
    """

    checkpoint: Checkpoint
    architecture: Architecture
    gating: Gating
    objective: str
    conservation: str = ""

    @property
    def objective_class(self) -> type[Objective]:
        return import_objective(self.objective)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of layers, number of heads."""
        return self.architecture.layers, self.architecture.heads

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that can score the checkpoint, the usual one first."""
        return self.objective_class.list_metrics(self.checkpoint)

    def check_methods(self, methods: Collection[str]) -> "TaskModel":
        """Refuse methods that the task doesn't allow; return the model, for ``lrp`` with ``conservation``."""
        single = [method for method in ("ig", "lrp") if method in methods]
        if single and OBJECTIVES[self.objective].relation:
            raise UsageError(
                f"{single[0]} is for tasks about one text, and --objective {self.objective} is about "
                "several; take gradient."
            )
        if "lrp" not in methods:
            return self
        headed = self.objective_class.head is not None
        return replace(self, conservation=check_relevance(self.checkpoint, self.architecture, headed=headed))

    def gate(self) -> AbstractContextManager[Gates]:
        """Put gates on the heads, and yield them, open."""
        return self.architecture.gate(self.checkpoint.body)


@dataclass(frozen=True)
class TaskData:
    """A checkpoint and its task, bound to examples; ``name`` tells several sets of examples apart."""

    model: TaskModel
    corpus: Corpus
    objective: Objective
    run: Run
    name: str = ""
    dataset: str = ""
    record: dict[str, Any] = field(default_factory=dict)

    def total(self, name: str, work: Work, restore: Restore, **options: Any) -> Any:
        """Add up what ``work`` gives for every batch; see ``Run.total``."""
        stage = f"{name}, {self.name}" if self.name else name
        # The model itself keeps the state of generation, which threads can't share.
        workers = self.corpus.workers if self.objective.resumable else Workers()
        return self.run.total(stage, self.corpus.batches, work, restore, workers=workers, **options)

    def labels(self) -> Labels:
        """Make the labels and the provenance of a table of these examples."""
        return label_heads(self.model.checkpoint, self.model.architecture, self.dataset, self.record)

    @property
    def documents(self) -> NDArray[np.int64]:
        """The document of each example, by its number."""
        return self.objective.list_documents(self.corpus.batches)

    def half(self, second: bool) -> "TaskData":
        """Copy with one half of the documents, which are split by a hash, not by their order."""
        objective, batches = self.objective.half(self.corpus.batches, second=second)
        return replace(self, objective=objective, corpus=replace(self.corpus, batches=batches))


def build_metric(name: str, data: TaskData, seed: int) -> Score:
    """Build a metric for a task, with enough permutations to correct p for all heads of its model."""
    layers, heads = data.model.shape
    score = data.objective.build_metric(name, data.corpus.batches.members)
    return replace(score, permutations=PermutationTest.for_tests(layers * heads, seed))


@dataclass(frozen=True)
class TaskSession:
    """A call of a command that scores a task: how to load its checkpoint, its texts, and its options.

    ``facts`` go on record with the table; ``resume`` is the file of the state.
    """

    load: Loader
    source: OpenSource
    options: CorpusOptions
    task: TaskOptions
    progress: Progress
    facts: dict[str, Any] = field(default_factory=dict)
    resume: Path | None = None
    workers: int | None = None

    def choose(self, labelled: Gold, methods: Collection[str] = ()) -> TaskModel:
        """Load the checkpoint with the head of the task, and verify it for the methods of importance."""
        modality, progress = self.source.kind, self.progress
        checkpoint, objective = choose_task(self.load, self.task, modality, labelled, progress)
        if modality != "text" and not labelled:  # a decoder would have nothing to read
            checkpoint = replace(checkpoint, encoder_only=True)
        checkpoint, _, architecture = examine_part(checkpoint, (), progress)
        gating = check_gates(checkpoint, architecture)
        return TaskModel(checkpoint, architecture, gating, objective).check_methods(methods)

    def choose_by_labels(self, methods: Collection[str] = ()) -> tuple[TaskModel, Documents]:
        """Choose the checkpoint by the labels of the texts; return it and the texts."""
        labelled, documents = peek(self.source.documents)
        return self.choose(labelled, methods), documents

    def open_run(
        self, model: TaskModel, command: str, question: Mapping[str, object]
    ) -> AbstractContextManager[Run]:
        """Open the run of a command; ``question`` is what its numbers depend on besides model and text."""
        settings = {"command": command, "objective": model.objective, "way to switch heads": model.gating}
        settings |= {"seed": self.task.seed, **question}
        settings = {name: str(value) for name, value in settings.items()}
        return open_run(model.checkpoint, self.options, settings, resume=self.resume, progress=self.progress)

    @contextmanager
    def bind(
        self, model: TaskModel, documents: Documents, run: Run, metric: str = "", name: str = ""
    ) -> Iterator[TaskData]:
        """Tokenise the examples of a task, and bind the task to them while the weights are frozen.

        A labelled document is one example, truncated if it is too long; without labels, each window is one.
        Some metrics need generated text, so ``metric`` is known here; ``name`` tells several sets apart.
        """
        checkpoint, kind, progress = model.checkpoint, model.objective_class, run.progress
        spec, options = OBJECTIVES[model.objective], limit_batches(self.options, checkpoint)
        reading = options = replace(options, truncate=options.truncate or bool(spec.gold))
        labelled = LabelledExamples(documents, kinds=spec.gold or None)
        examples = kind.read_examples(labelled.examples) if spec.gold else documents
        if spec.relation:  # --limit and --sample choose examples, not texts
            assert not isinstance(examples, MediaFolder)
            choose = partial(select, limit=options.limit, sample=options.sample, seed=options.seed)
            reading = replace(options, limit=None, sample=None)
            examples = split_examples(examples, choose)
        with prepare_corpus(
            checkpoint,
            model.architecture,
            examples,
            reading,
            labelled=kind.has_targets,
            workers=self.workers,
            progress=progress,
        ) as tokenised:
            objective = kind(checkpoint, tokenised, seed=self.task.seed, generate=metric == "bleu")
            corpus = _leave_out_short(tokenised, kind, progress)
            for sentence in (*labelled.remarks(), *objective.remarks):
                progress.say(sentence)
            facts: dict[str, Any] = {"seed": self.task.seed}
            if spec.relation:
                facts["examples"] = len(objective.list_documents(corpus.batches))
            if model.conservation:
                facts |= {"explained": objective.explains, "relevance": model.conservation}
            record = self.record_task(model, corpus, options, **facts)
            with freeze_weights(checkpoint):
                yield TaskData(model, corpus, objective, run, name, self.source.name, record)

    def record_task(
        self, model: TaskModel, corpus: Corpus, options: CorpusOptions, **facts: Any
    ) -> dict[str, Any]:
        """Record a task, with further ``facts``, and the texts that it is scored on."""
        head = model.checkpoint.head.name if model.checkpoint.head else None
        task = {"objective": model.objective, "head": head, "gates": model.gating.evidence, **facts}
        record = record_provenance(model.checkpoint, model.architecture, corpus, options)
        return {**record, "task": task, **self.facts}

    def find_metric(self, model: TaskModel) -> str:
        """Return the metric that --metric names, or refuse it; without one, the usual one of the task."""
        return check_metric(self.task.metric, model.objective, model.metrics)

    def build_metric(self, data: TaskData) -> Score:
        return build_metric(self.find_metric(data.model), data, self.task.seed)

    @contextmanager
    def open_task(
        self,
        command: str,
        question: Mapping[str, object],
        *,
        methods: Collection[str] = (),
        scored: bool = False,
    ) -> Iterator[TaskData]:
        """Choose the checkpoint and bind its task to the texts, to be ``scored`` by a metric or not."""
        model, documents = self.choose_by_labels(methods)
        metric = self.find_metric(model) if scored else ""
        with (
            self.open_run(model, command, {"metric": metric, **question}) as run,
            self.bind(model, documents, run, metric) as data,
        ):
            yield data


def _leave_out_short(corpus: Corpus, kind: type[Objective], progress: Progress) -> Corpus:
    """Leave out sequences with too few tokens for an objective, and tell the user; refuse if none is left."""
    whole, sequences = corpus.batches, corpus.sequences
    batches = whole.follow([members for members in whole.plan if whole.lengths[members[0]] >= kind.least])
    if short := sequences - len(batches.members):
        sentence = (
            f"{short:,} of {sequences:,} sequences left out: --objective {kind.name} needs {kind.least} "
            "tokens or more."
        )
        if not len(batches):
            raise NothingToMeasureError(sentence)
        progress.say(sentence)
    return replace(corpus, batches=batches)


def limit_batches(options: CorpusOptions, checkpoint: Checkpoint) -> CorpusOptions:
    """Copy the options, with fewer tokens in a batch on a CPU unless --batch-tokens says how many."""
    if options.batch_tokens is not None or checkpoint.device.type != "cpu":
        return options
    return replace(options, batch_tokens=BATCH_TOKENS_CPU)
