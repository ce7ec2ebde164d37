"""A command on causes: the checkpoint that it chooses, its task, and the examples that this is scored on."""

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
from attnprobe.run.corpus import Corpus, record_provenance
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
    """A checkpoint whose gates were verified, also for relevance where it is needed, and its task."""

    checkpoint: Checkpoint
    architecture: Architecture
    gating: Gating
    objective: str
    options: TaskOptions
    conservation: str = ""

    @property
    def kind(self) -> type[Objective]:
        return import_objective(self.objective)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of layers, number of heads."""
        return self.architecture.layers, self.architecture.heads

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that can score the checkpoint, the usual one first."""
        return self.kind.list_metrics(self.checkpoint)

    def check_methods(self, methods: Collection[str]) -> "TaskModel":
        """Verify what methods of importance need: texts of their own, and layers that keep relevance."""
        single = [method for method in ("ig", "lrp") if method in methods]
        if single and OBJECTIVES[self.objective].relation:
            raise UsageError(
                f"{single[0]} is for tasks about one text, and --objective {self.objective} is about "
                "several; take gradient."
            )
        if "lrp" not in methods:
            return self
        headed = self.kind.head is not None
        return replace(self, conservation=check_relevance(self.checkpoint, self.architecture, headed=headed))

    def gate(self) -> AbstractContextManager[Gates]:
        """Put gates on the heads, and yield them, open."""
        return self.architecture.gate(self.checkpoint.body)


@dataclass(frozen=True)
class TaskData:
    """A checkpoint and its task, bound to examples; ``name`` says to which, where there are several sets."""

    model: TaskModel
    corpus: Corpus
    objective: Objective
    run: Run
    workers: Workers
    name: str = ""
    dataset: str = ""
    record: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def hold(self, session: "TaskSession", options: CorpusOptions, **facts: Any) -> Iterator["TaskData"]:
        """Freeze the weights, and put on record how texts are read and the ``facts`` of the task."""
        checkpoint, gating = self.model.checkpoint, self.model.gating
        record = record_provenance(checkpoint, self.model.architecture, self.corpus, options)
        head = checkpoint.head.name if checkpoint.head else None
        task = {"objective": self.objective.name, "head": head, "gates": gating.evidence, **facts}
        with freeze_weights(checkpoint):
            record |= {"task": task, **session.facts}
            yield replace(self, dataset=session.source.name, record=record)

    def share(self, name: str, work: Work, restore: Restore, **how: Any) -> Any:
        """Sum up what is found in the batches of this process; see ``Run.share``."""
        return self.run.share(self._stage(name), self.corpus.batches, work, restore, **self._how(how))

    def total(self, name: str, work: Work, restore: Restore, **how: Any) -> Any:
        """Sum up what is found in all batches; see ``Run.total``."""
        return self.run.total(self._stage(name), self.corpus.batches, work, restore, **self._how(how))

    def _stage(self, name: str) -> str:
        return f"{name}, {self.name}" if self.name else name

    def _how(self, how: dict[str, Any]) -> dict[str, Any]:
        # Generation keeps what it is given on the model.
        return {"workers": self.workers if self.objective.resumable else Workers(), **how}

    def labels(self) -> Labels:
        """Make the labels and the provenance of a table of these examples."""
        architecture = self.model.architecture
        return Labels(
            self.model.checkpoint.name,
            self.dataset,
            self.record,
            architecture.places,
            removed=architecture.removed,
            tied=architecture.absent,
        )

    @property
    def documents(self) -> NDArray[np.int64]:
        """The document of each example, by its number."""
        return self.objective.list_documents(self.corpus.batches)

    def half(self, second: bool) -> "TaskData":
        """Keep one half of the documents."""
        objective, batches = self.objective.half(self.corpus.batches, second=second)
        return replace(self, objective=objective, corpus=replace(self.corpus, batches=batches))


def build_metric(name: str, data: TaskData, seed: int) -> Score:
    """Build a metric for the examples of a task, with tests fine enough for all heads of its model."""
    layers, heads = data.model.shape
    score = data.objective.build_metric(name, data.corpus.batches.members)
    return replace(score, permutations=PermutationTest.for_tests(layers * heads, seed))


@dataclass(frozen=True)
class TaskSession:
    """What a command on causes needs: what loads a checkpoint with the head of a task, texts, and options.

    ``facts`` go on record beside what is measured; ``resume`` is the file that keeps how far it is.
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
        """Load the checkpoint with the head of the task, and verify it, also for some methods."""
        modality, progress = self.source.kind, self.progress
        checkpoint, objective = choose_task(self.load, self.task, modality, labelled, progress)
        if modality != "text" and not labelled:  # nothing for a decoder to read
            checkpoint = replace(checkpoint, encoder_only=True)
        checkpoint, _, architecture = examine_part(checkpoint, (), progress)
        gating = check_gates(checkpoint, architecture)
        return TaskModel(checkpoint, architecture, gating, objective, self.task).check_methods(methods)

    def open_source(self, methods: Collection[str] = ()) -> tuple[TaskModel, Documents]:
        """Choose the checkpoint for the labels that the texts have; give it and the texts."""
        labelled, documents = peek(self.source.documents)
        return self.choose(labelled, methods), documents

    def open_run(
        self, model: TaskModel, command: str, question: Mapping[str, object]
    ) -> AbstractContextManager[Run]:
        """Open the passes of a command; ``question`` is what its numbers depend on beside model and text."""
        settings = {"command": command, "objective": model.objective, "way to switch heads": model.gating}
        settings |= {"seed": self.task.seed, **question}
        settings = {name: str(value) for name, value in settings.items()}
        return open_run(model.checkpoint, self.options, settings, resume=self.resume, progress=self.progress)

    @contextmanager
    def bind(
        self, model: TaskModel, documents: Documents, run: Run, metric: str = "", name: str = ""
    ) -> Iterator[TaskData]:
        """Tokenise the examples of a task and bind it to them.

        A labelled document is one example, truncated where it is too long; otherwise each window is. A
        ``metric`` may need generated text; ``name`` says which of several sets of examples this is.
        """
        checkpoint, kind, progress = model.checkpoint, model.kind, run.progress
        spec, options = OBJECTIVES[model.objective], limit_batches(self.options, checkpoint)
        reading = options = replace(options, truncate=options.truncate or bool(spec.gold))
        labelled = LabelledExamples(documents, kinds=spec.gold or None)
        examples = kind.read_examples(labelled.examples) if spec.gold else documents
        if spec.relation:  # what is chosen are examples, not texts
            assert not isinstance(examples, MediaFolder)  # whose labels are no relations
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
            whole, sequences = tokenised.batches, tokenised.sequences
            plan = [members for members in whole.plan if whole.lengths[members[0]] >= kind.least]
            batches = whole.follow(plan)
            if short := sequences - len(batches.members):
                left_out = (
                    f"{short:,} of {sequences:,} sequences left out: --objective {kind.name} needs "
                    f"{kind.least} tokens or more."
                )
                if not len(batches):
                    raise NothingToMeasureError(left_out)
                progress.say(left_out)
            corpus = replace(tokenised, batches=batches)
            for sentence in (*labelled.remarks(), *objective.remarks):
                progress.say(sentence)
            facts: dict[str, Any] = {"seed": self.task.seed}
            if spec.relation:
                facts["examples"] = len(objective.list_documents(corpus.batches))
            if model.conservation:
                facts |= {"explained": objective.explains, "relevance": model.conservation}
            data = TaskData(model, corpus, objective, run, corpus.workers, name)
            with data.hold(self, options, **facts) as held:
                yield held

    def find_metric(self, model: TaskModel) -> str:
        """Find the metric that was asked for, or else the usual one of the task."""
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
        """Choose the checkpoint, and bind its task to the texts; ``scored`` by the metric of the session."""
        model, documents = self.open_source(methods)
        metric = self.find_metric(model) if scored else ""
        with (
            self.open_run(model, command, {"metric": metric, **question}) as run,
            self.bind(model, documents, run, metric) as data,
        ):
            yield data


def limit_batches(options: CorpusOptions, checkpoint: Checkpoint) -> CorpusOptions:
    """Limit the tokens of a batch where nobody said how many, on a processor."""
    if options.batch_tokens is not None or checkpoint.device.type != "cpu":
        return options
    return replace(options, batch_tokens=BATCH_TOKENS_CPU)
