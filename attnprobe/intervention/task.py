"""A checkpoint with the task that it is scored on, and the examples of that task."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.corpus.sources.media import MediaFolder
from attnprobe.corpus.sources.opening import select
from attnprobe.errors import AttnprobeError, NothingToMeasureError
from attnprobe.intervention.metrics.score import Score
from attnprobe.intervention.objectives.choosing import (
    Loader,
    import_objective,
    load_with_head,
    remark_unused_head,
)
from attnprobe.intervention.objectives.objective import Objective
from attnprobe.intervention.request import TaskOptions
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.gates import Gates, freeze_weights, gate_attention
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.switching import Gating, check_gates, check_relevance
from attnprobe.run.examples import LabelledExamples, split_examples
from attnprobe.run.options import CorpusOptions
from attnprobe.run.passes import Restore, Run, Work, Workers
from attnprobe.run.preparation import Corpus, Documents, examine_part, prepare_corpus
from attnprobe.run.progress import Progress
from attnprobe.run.record import record_provenance
from attnprobe.sums.inference import PermutationTest
from attnprobe.table.builder import Labels
from attnprobe.tasks import OBJECTIVES, Gold

#: Tokens in a batch on a processor: gradients keep every layer's states.
BATCH_TOKENS_CPU = 2048


@dataclass(frozen=True)
class TaskModel:
    """A checkpoint whose gates were verified, and the task it is scored on.

    Attributes:
        gating: What the check of the gates found.
        conservation: What the check of relevance found, where it is asked for.
    """

    checkpoint: Checkpoint
    architecture: Architecture
    gating: Gating
    objective: str
    options: TaskOptions
    conservation: str = ""

    def check_methods(self, methods: Collection[str]) -> "TaskModel":
        """Verify what some methods of importance need: texts of their own, and layers that keep relevance.

        Raises:
            AttnprobeError: When a task is about several texts, or a layer loses relevance.
        """
        if import_objective(self.objective).related:
            for method in ("ig", "lrp"):
                if method in methods:
                    raise AttnprobeError(
                        f"{method} is for tasks about one text, and --objective {self.objective} is about "
                        "several; take gradient."
                    )
        if "lrp" not in methods:
            return self
        headed = import_objective(self.objective).head is not None
        conservation = check_relevance(self.checkpoint, self.architecture, headed=headed)
        return replace(self, conservation=conservation)

    def gate(self) -> AbstractContextManager[Gates]:
        """Put gates on the heads, and yield them, open."""
        architecture = self.architecture
        way, sites, present = architecture.way, architecture.sites, architecture.present
        return gate_attention(self.checkpoint.body, way, sites, present)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of layers, number of heads."""
        return self.architecture.layers, self.architecture.heads

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that can score the checkpoint, the usual one first."""
        return import_objective(self.objective).list_metrics(self.checkpoint)

    def question(self, command: str, **more: object) -> dict[str, str]:
        """List what the numbers of a command depend on, beside model and text, for the state of a run."""
        return {
            "command": command,
            "objective": self.objective,
            "seed": str(self.options.seed),
            "way to switch heads": str(self.gating),
            **{name: str(value) for name, value in more.items()},
        }


@dataclass(frozen=True)
class TaskData:
    """A checkpoint and its task, bound to examples.

    Attributes:
        name: Which of several sets of examples this is, where there are several.
    """

    model: TaskModel
    corpus: Corpus
    objective: Objective
    record: dict[str, Any]
    run: Run
    workers: Workers
    name: str = ""

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

    def labels(self, dataset: str, facts: Mapping[str, Any]) -> Labels:
        """Make the labels and the provenance of a table of these examples."""
        model, architecture = self.model, self.model.architecture
        return Labels(
            model.checkpoint.name,
            dataset,
            self.record | dict(facts),
            architecture.places,
            removed=architecture.removed,
            tied=architecture.lacking,
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
    return score.with_permutations(PermutationTest.for_tests(layers * heads, seed))


def choose_subject(
    load: Loader, options: TaskOptions, *, labelled: Gold, progress: Progress, modality: str = "text"
) -> TaskModel:
    """Load the checkpoint with the head of the task, verify it, and say what was chosen."""
    checkpoint, objective = load_with_head(load, options, modality, labelled=labelled)
    kind = import_objective(objective)
    how = "by the pooled final state; no trained head is used"
    if kind.head and checkpoint.head:
        how = f"by the checkpoint's {checkpoint.head.name} head"
    elif kind.related:
        how = "by the cosine of embeddings"
    progress.say(f"the objective is {objective}, {how}.")
    if options.objective is None and (unused := remark_unused_head(checkpoint, objective, labelled)):
        progress.say(unused)
    if checkpoint.head is not None and checkpoint.missing:
        progress.say(
            f"{checkpoint.name} holds no trained {checkpoint.head.name} head: {len(checkpoint.missing)} "
            "weights were made up, and the numbers mean little."
        )
    if modality != "text" and not labelled:  # nothing for a decoder to read
        checkpoint = replace(checkpoint, encoder_only=True)
    checkpoint, _, architecture = examine_part(checkpoint, (), progress)
    return TaskModel(checkpoint, architecture, check_gates(checkpoint, architecture), objective, options)


def limit_batches(options: CorpusOptions, checkpoint: Checkpoint) -> CorpusOptions:
    """Limit the tokens of a batch where nobody said how many, on a processor."""
    if options.batch_tokens is not None or checkpoint.device.type != "cpu":
        return options
    return replace(options, batch_tokens=BATCH_TOKENS_CPU)


@contextmanager
def bind_task(
    model: TaskModel,
    documents: Documents,
    options: CorpusOptions,
    *,
    run: Run,
    workers: int | None = None,
    generate: bool = False,
    name: str = "",
) -> Iterator[TaskData]:
    """Tokenise the examples of a task and bind it to them.

    A labelled document is one example, truncated where it is too long; otherwise each window is. With
    ``generate``, text is generated; ``name`` says which of several sets of examples this is.
    """
    checkpoint, progress = model.checkpoint, run.progress
    kind, gold = import_objective(model.objective), OBJECTIVES[model.objective].gold
    options = replace(options, truncate=options.truncate or bool(gold))
    options = limit_batches(options, checkpoint)
    filtered, reading = LabelledExamples(documents, kinds=gold or None), options
    examples = kind.read_examples(filtered.examples) if gold else documents
    if kind.related:  # what is chosen are examples, not texts
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
        workers=workers,
        progress=progress,
    ) as ready:
        objective = kind(checkpoint, ready.corpus, seed=model.options.seed, generate=generate)
        corpus = _drop_short(ready.corpus, objective, progress)
        for sentence in (*filtered.remarks(), *objective.remarks):
            progress.say(sentence)
        record = record_provenance(checkpoint, model.architecture, corpus, options, ready.workers)
        record["task"] = {
            "objective": objective.name,
            "seed": model.options.seed,
            "head": checkpoint.head.name if checkpoint.head else None,
            "gates": model.gating.evidence,
        }
        if kind.related:
            record["task"]["examples"] = len(objective.list_documents(corpus.batches))
        if model.conservation:
            record["task"] |= {"explained": objective.explains, "relevance": model.conservation}
        with freeze_weights(checkpoint):
            yield TaskData(model, corpus, objective, record, run, ready.workers, name)


def _drop_short(corpus: Corpus, objective: Objective, progress: Progress) -> Corpus:
    batches = corpus.batches.drop_shorter(objective.least)
    short = len(corpus.batches.members) - len(batches.members)
    if not short:
        return corpus
    if not len(batches):
        raise NothingToMeasureError(
            f"--objective {objective.name} needs texts of {objective.least} tokens or more."
        )
    noun = "sequence is" if short == 1 else "sequences are"
    progress.say(f"{short:,} {noun} left out: they have less than {objective.least} tokens.")
    return replace(corpus, batches=batches)
