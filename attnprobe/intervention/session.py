"""A command on causes: what it was asked, and the checkpoint and the examples that it opens for that."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnprobe.corpus.sources.text import OpenSource
from attnprobe.intervention.metrics.score import Score
from attnprobe.intervention.objectives.choosing import Loader
from attnprobe.intervention.request import Documents, TaskOptions, check_metric, peek
from attnprobe.intervention.task import TaskData, TaskModel, bind_task, build_metric, choose_subject
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Run, open_run
from attnprobe.run.progress import Progress


@dataclass(frozen=True)
class TaskSession:
    """What a command on causes was asked.

    Attributes:
        load: Loads the checkpoint with the head of a task.
        source: The texts.
        options: How they are read.
        facts: What goes on record beside what is found out.
        resume: The file that keeps how far it is.
        workers: Batches in flight.
    """

    load: Loader
    source: OpenSource
    options: CorpusOptions
    task: TaskOptions
    progress: Progress
    facts: dict[str, Any] = field(default_factory=dict)
    resume: Path | None = None
    workers: int | None = None

    def choose_subject(self, methods: Collection[str] = ()) -> tuple[TaskModel, Documents]:
        """Load and verify the checkpoint for the labels that the texts have; give it and the texts."""
        labelled, documents = peek(self.source.documents)
        model = choose_subject(
            self.load, self.task, labelled=labelled, progress=self.progress, modality=self.source.kind
        )
        return model.check_methods(methods), documents

    def open_run(
        self, model: TaskModel, command: str, question: Mapping[str, object]
    ) -> AbstractContextManager[Run]:
        """Open the passes of a command; ``question`` is what its numbers depend on beside model and text."""
        return open_run(
            model.checkpoint,
            self.options,
            model.question(command, **question),
            resume=self.resume,
            progress=self.progress,
        )

    def bind(
        self, model: TaskModel, documents: Documents, run: Run, metric: str = "", name: str = ""
    ) -> AbstractContextManager[TaskData]:
        """Bind the task to texts; ``name`` says which of several sets of examples they are."""
        generate = metric == "bleu"
        return bind_task(
            model, documents, self.options, run=run, workers=self.workers, generate=generate, name=name
        )

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
        model, documents = self.choose_subject(methods)
        name = self.find_metric(model) if scored else ""
        more = {"metric": name} if scored else {}
        with (
            self.open_run(model, command, {**question, **more}) as run,
            self.bind(model, documents, run, name) as data,
        ):
            yield data
