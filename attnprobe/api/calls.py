"""What every function does with its keywords before the work, and after it."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from attnprobe.api.keywords import DEFAULTS
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.errors import AttnprobeError, AttnprobeWarning
from attnprobe.intervention.task import Loader, TaskOptions
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.load import LoadOptions, load_checkpoint
from attnprobe.model.loading.task_heads import TaskHead, head_of
from attnprobe.report.terminal.progress import TerminalProgress
from attnprobe.run.input.corpus import CorpusOptions
from attnprobe.run.progress import Progress, Silent, Warned
from attnprobe.run.ranks import Ranks

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Call:
    """A call of a function: its keywords, sorted.

    Attributes:
        load: How a model that is named is loaded.
        corpus: How text becomes sequences.
        progress: Who is told how far it is.
        resume: Where the state of the run is kept.
        workers: How many batches are in flight.
    """

    load: LoadOptions
    corpus: CorpusOptions
    progress: Progress
    resume: Path | None
    workers: int | None

    def task(self, options: Mapping[str, Any], *, labels_named: bool) -> TaskOptions:
        """Sort the keywords of a task."""
        return TaskOptions(
            options.get("objective"),
            options.get("metric"),
            options.get("seed", DEFAULTS["seed"]),
            options.get("force_head", False),
            labels_named,
        )


@contextmanager
def called(options: Mapping[str, Any]) -> Iterator[Call]:
    """Sort the keywords of a call, and settle threads and progress while it works."""
    workers, resume = options.get("workers"), options.get("resume")
    if workers is not None and workers < 1:
        raise AttnprobeError(f"workers must be at least 1, not {workers}.")
    corpus = _filled(CorpusOptions, options)
    load = _filled(LoadOptions, options)
    with _threads(options.get("threads")), _watched(options.get("progress", False)) as progress:
        yield Call(load, corpus, progress, None if resume is None else Path(resume), workers)


def checkpoint_of(
    model: "str | Path | PreTrainedModel", tokenizer: Tokenizer | None, load: LoadOptions, modality: str
) -> Checkpoint:
    """Load a model that is named, or take one that is loaded, with its tokenizer."""
    if isinstance(model, str | Path):
        return load_checkpoint(str(model), load, modality=modality)
    if tokenizer is None:
        raise AttnprobeError("A loaded model needs its tokenizer: census(model, texts, tokenizer=tokenizer).")
    label = getattr(model.config, "_name_or_path", "") or type(model).__name__
    return Checkpoint(label, model, tokenizer, {"loaded": type(model).__name__})


def loader_of(
    model: "str | Path | PreTrainedModel", tokenizer: Tokenizer | None, load: LoadOptions
) -> Loader:
    """Give a function that loads the checkpoint with the head that a task needs."""
    if isinstance(model, str | Path):
        return lambda heads, force, modality="text": load_checkpoint(
            str(model), load, heads, force_head=force, modality=modality
        )
    checkpoint = checkpoint_of(model, tokenizer, load, "text")
    own = head_of(model)

    def with_own_head(heads: Sequence[TaskHead], _: bool, modality: str = "text") -> Checkpoint:
        if modality != "text":
            raise AttnprobeError("Images and sound need a model that is named, a folder or a hub id.")
        return replace(checkpoint, head=own if own in heads else None)

    return with_own_head


def _filled(kind: Any, options: Mapping[str, Any]) -> Any:
    """Fill a dataclass with the keywords of its fields' names; a path may be a string."""
    given = {field.name: options[field.name] for field in fields(kind) if field.name in options}
    for name in ("cache_dir", "frequencies"):
        if given.get(name) is not None:
            given[name] = Path(given[name])
    return kind(**given)


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    if number is not None:
        if number < 1:
            raise AttnprobeError(f"threads must be at least 1, not {number}.")
        torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _watched(progress: "bool | Progress") -> Iterator[Progress]:
    """Settle who is told; of several processes, the first one speaks for all."""
    with ExitStack() as shown:
        if not Ranks.found().first:
            told: Progress = Silent()
        elif progress is True:
            told = shown.enter_context(TerminalProgress(bar=True, quiet=False))
        else:
            told = progress or Warned()
        if not isinstance(told, Warned):
            shown.enter_context(_passed_on(told))
        yield told


@contextmanager
def _passed_on(told: Progress) -> Iterator[None]:
    """Pass on what readers of files warn of, who know nothing of progress."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", AttnprobeWarning)
        others = warnings.showwarning

        def show(message: Any, category: Any, *place: Any, **more: Any) -> None:
            if issubclass(category, AttnprobeWarning):
                told.say(str(message))
            else:
                others(message, category, *place, **more)

        warnings.showwarning = show
        yield
