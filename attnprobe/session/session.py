"""What every function does with its keywords before the work, and after it.

Nothing heavy is imported before everything was refused that can be refused without it.
"""

import importlib.util
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.corpus.media import BOTH
from attnprobe.corpus.source import OpenSource, Order
from attnprobe.errors import AttnprobeWarning, UsageError
from attnprobe.options import DEFAULTS
from attnprobe.reports.streams import TerminalProgress
from attnprobe.run.options import CorpusOptions
from attnprobe.run.process_group import Ranks
from attnprobe.run.progress import Progress, SilentProgress, WarningProgress
from attnprobe.session.texts import Texts, open_texts

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.corpus.tokenizer import Tokenizer
    from attnprobe.intervention.objectives.choosing import Loader
    from attnprobe.intervention.request import TaskOptions
    from attnprobe.intervention.task import TaskSession
    from attnprobe.model.checkpoint import Checkpoint
    from attnprobe.model.locate import LoadOptions

#: Names of devices and of floating-point types; whether a device is there, torch knows.
_DEVICES = re.compile(r"auto|[a-z]+(:\d+)?")
_TYPES = ("float32", "bfloat16", "float16", "float64")
#: A layer, or the first and the last of some.
_LAYERS = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")


#: The words of the command line that calls, if it does.
_words: ContextVar[Sequence[str] | None] = ContextVar("attnprobe_command", default=None)


@contextmanager
def record_as(words: Sequence[str]) -> Iterator[None]:
    """Record these words as the command of the functions that are called inside."""
    token = _words.set(words)
    try:
        yield
    finally:
        _words.reset(token)


def describe_call(name: str) -> str | Sequence[str]:
    """Describe a call for the record: by the words of the command line, or the name of the function."""
    return _words.get() or f"attnprobe.{name}"


@dataclass(frozen=True)
class Call:
    """A call of a function: its model and its keywords, and what is read off them."""

    model: "str | Path | PreTrainedModel"
    options: Mapping[str, Any]
    corpus: CorpusOptions
    progress: Progress
    resume: Path | None
    workers: int | None

    @property
    def run(self) -> dict[str, Any]:
        """What every pass over texts takes."""
        return {"resume": self.resume, "workers": self.workers, "progress": self.progress}

    @property
    def order(self) -> Order | None:
        """A random order, where documents are read until numbers are precise enough."""
        if not self.corpus.targets:
            return None
        return Order(self.corpus.seed, whole=self.corpus.limit is None)

    @property
    def tokenizer(self) -> "Tokenizer | None":
        """The tokenizer of a loaded model."""
        return self.options.get("tokenizer")

    @property
    def load(self) -> "LoadOptions":
        """How a model that is named is loaded."""
        from attnprobe.model.locate import LoadOptions

        return _fill(LoadOptions, self.options)

    def load_checkpoint(self, modality: str = "text") -> "Checkpoint":
        """Load the model that is named, or wrap the one that is loaded."""
        self.progress.stage("loading", None)
        return load_model(self.model, self.tokenizer, self.load, modality)

    def sees_text(self) -> bool:
        """Tell whether a model that is named reads an image and a text together, by its configuration."""
        from attnprobe.model.folders import DEMO

        if not isinstance(self.model, str | Path) or str(self.model) == DEMO:
            return False
        from attnprobe.model.configuration import reads_both
        from attnprobe.model.locate import locate

        files = locate(str(self.model), self.load, weights=False)
        return not files.adapter and reads_both(files.config)


def read_task(options: Mapping[str, Any], labels: Any) -> "TaskOptions":
    """Read the keywords of a task; its labels are named if some are given, or their column is."""
    from attnprobe.intervention.request import TaskOptions

    return TaskOptions(
        options.get("objective"),
        options.get("metric"),
        options.get("seed", DEFAULTS["seed"]),
        options.get("force_head", False),
        labels is not None or options.get("label_column") is not None,
    )


def parse_layers(given: str | int | Iterable[int] | None) -> tuple[int, ...] | None:
    """Read which layers are wanted, counted from 0; None for all of them.

    >>> parse_layers("0, 3-5"), parse_layers([2, 1]), parse_layers(7), parse_layers(None)
    ((0, 3, 4, 5), (1, 2), (7,), None)
    """
    if given is None:
        return None
    parts = given.split(",") if isinstance(given, str) else given if isinstance(given, Iterable) else [given]
    matches = [_LAYERS.fullmatch(str(part)) for part in parts]
    ranges = [(int(match[1]), int(match[2] or match[1])) for match in matches if match]
    # No model has more layers than 10,000.
    right = [range(first, last + 1) for first, last in ranges if first <= last < 10_000]
    if not matches or len(right) < len(matches):
        raise UsageError(f"--layers must be numbers from 0 and ranges of them, such as 0,3-5, not {given!r}.")
    return tuple(sorted(set(chain(*right))))


@contextmanager
def open_call(
    options: Mapping[str, Any], *models: Any, tokenizers: Sequence[Any] | None = None, check: bool = True
) -> Iterator[Call]:
    """Read the keywords of a call, refuse its models, and set threads and progress while it works.

    ``tokenizers`` are those of several loaded models; without ``check``, models are not refused.
    """
    workers, resume = options.get("workers"), options.get("resume")
    corpus = _fill(CorpusOptions, options)
    if resume is not None and Ranks.detect().size == 1:
        from attnprobe.run.state import check_state

        check_state(Path(resume))
    with (
        _borrow(models, options.get("threads")),
        _choose_progress(options.get("progress", False)) as progress,
    ):
        tokenizers = tokenizers or [options.get("tokenizer")] * len(models)
        for model, tokenizer in zip(models, tokenizers, strict=True) if check else ():
            check_model(model, tokenizer, options)
        yield Call(models[0], options, corpus, progress, None if resume is None else Path(resume), workers)


def check_model(
    model: "str | Path | PreTrainedModel", tokenizer: "Tokenizer | None", options: Mapping[str, Any]
) -> None:
    """Refuse a model that does not exist, and a device or a type that it can't be loaded with."""
    if not isinstance(model, str | Path):
        library = sys.modules.get("sentence_transformers")  # whose models bring their tokenizers along
        kinds = () if library is None else (library.SentenceTransformer, library.CrossEncoder)
        if tokenizer is None and not isinstance(model, kinds):
            raise UsageError("A loaded model needs its tokenizer: census(model, texts, tokenizer=tokenizer).")
        return
    device, dtype = (options.get(name, DEFAULTS[name]) for name in ("device", "dtype"))
    if not _DEVICES.fullmatch(str(device)):
        raise UsageError(
            f"There is no device {device!r} on this machine; use auto or cpu, or cuda:0 where there is a GPU."
        )
    if dtype not in _TYPES:
        raise UsageError(f"{dtype!r} is no floating-point type; use {', '.join(_TYPES)}.")
    spread = options.get("device_map")
    if spread is not None and importlib.util.find_spec("accelerate") is None:
        raise UsageError("--device-map needs accelerate: pip install accelerate.")
    from attnprobe.model.embedding import choose_prompts
    from attnprobe.model.folders import find_local_folder, find_transformer, find_weights

    folder = find_local_folder(str(model))
    if folder is not None:
        transformer, sentences = find_transformer(folder, str(model), options.get("adapter"))
        find_weights(transformer, str(model), allow_bin=options.get("allow_bin", False))
        choose_prompts(sentences.described if sentences else {}, options.get("prompt"), str(model))


def read_first(source: OpenSource) -> OpenSource:
    """Read the first document, so that a table without the column asked for is refused at once."""
    if source.kind not in {"text", BOTH}:
        return source
    documents = iter(source.documents)
    first = next(documents, None)
    if first is None:
        return replace(source, documents=documents)
    both = {} if first.image is None else {"kind": BOTH, "described": source.described | {"kind": BOTH}}
    return replace(source, documents=chain([first], documents), **both)


def check_queries(source: OpenSource, options: Mapping[str, Any]) -> None:
    """Refuse queries of one modality where only one is read."""
    if options.get("queries") is not None and source.kind != BOTH:
        raise UsageError(
            f"--queries tells an image from a text, and {source.name} holds no images that the model reads "
            "with its texts; leave it out, or name their column with --image-column."
        )


def check_labels(source: OpenSource, task: "TaskOptions") -> OpenSource:
    """Refuse a task that needs labels where there are none."""
    from attnprobe.intervention.request import check_gold, peek

    labelled, documents = peek(source.documents)
    check_gold(task.objective, labelled, source.name)
    return replace(source, documents=documents)


def open_labelled(texts: Texts, labels: Any, task: "TaskOptions", options: Mapping[str, Any]) -> OpenSource:
    """Open texts with their labels, and refuse a task that needs some where there are none."""
    return check_labels(open_texts(texts, options, labels, find_labels=True), task)


@contextmanager
def open_task(
    command: str, model: Any, texts: Texts, labels: Any, options: Mapping[str, Any]
) -> Iterator["TaskSession"]:
    """Open a call of a command on causes: its task, and its texts with their labels."""
    with open_call(options, model) as call:
        task = read_task(options, labels)
        source = open_labelled(texts, labels, task, options)
        yield make_session(command, source, task, call)


def make_session(command: str, source: OpenSource, task: "TaskOptions", call: Call) -> "TaskSession":
    """Gather what a command on causes was asked; what it takes is imported now."""
    from attnprobe.intervention.task import TaskSession

    call.progress.stage("loading", None)
    facts = {"command": describe_call(command), "dataset": source.described}
    return TaskSession(make_loader(call), source, call.corpus, task, facts=facts, **call.run)


def load_model(
    model: "str | Path | PreTrainedModel", tokenizer: "Tokenizer | None", load: "LoadOptions", modality: str
) -> "Checkpoint":
    """Load a model that is named, or wrap one that is loaded, with its tokenizer."""
    from attnprobe.model.borrowing import wrap_model
    from attnprobe.model.load import load_checkpoint

    if isinstance(model, str | Path):
        return load_checkpoint(str(model), load, modality=modality)
    if modality == BOTH:
        raise UsageError("Images with texts need a model that is named, a folder or a hub id.")
    from attnprobe.model.random_weights import randomise_weights

    checkpoint = wrap_model(model, tokenizer, load.prompt)
    return checkpoint if load.random_weights is None else randomise_weights(checkpoint, load.random_weights)


def make_loader(call: Call) -> "Loader":
    """Make the function that loads the checkpoint with the head that a task needs."""
    from attnprobe.model.load import load_checkpoint
    from attnprobe.model.task_heads import TaskHead, infer_head

    if isinstance(call.model, str | Path):
        return lambda heads, force, modality="text": load_checkpoint(
            str(call.model), call.load, heads, force_head=force, modality=modality
        )
    checkpoint = load_model(call.model, call.tokenizer, call.load, "text")
    trained = infer_head(checkpoint.model)

    def choose_head(heads: Sequence[TaskHead], _: bool, modality: str = "text") -> "Checkpoint":
        if modality != "text":
            raise UsageError("Images and sound need a model that is named, a folder or a hub id.")
        return replace(checkpoint, head=trained if trained in heads else None)

    return choose_head


def _fill(kind: Any, options: Mapping[str, Any]) -> Any:
    """Fill a dataclass with the keywords of its fields' names; a path may be a string."""
    given = {field.name: options[field.name] for field in fields(kind) if field.name in options}
    if given.get("frequencies") is not None:
        given["frequencies"] = Path(given["frequencies"])
    return kind(**given)


@contextmanager
def _borrow(models: Sequence[Any], threads: int | None) -> Iterator[None]:
    """Borrow models that are loaded, and set threads; before torch is loaded, no random number was drawn."""
    with ExitStack() as borrowed:
        if "torch" in sys.modules:
            from torch import nn

            from attnprobe.model.borrowing import borrow

            borrowed.enter_context(borrow([model for model in models if isinstance(model, nn.Module)]))
        if threads is not None:
            import torch

            borrowed.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(threads)
        yield


@contextmanager
def _choose_progress(progress: "bool | Progress") -> Iterator[Progress]:
    """Choose who is told how far the work is; of several processes, the first one speaks for all."""
    with ExitStack() as shown:
        if not Ranks.detect().first:
            told: Progress = SilentProgress()
        elif progress is True:
            told = shown.enter_context(TerminalProgress(bar=True, quiet=False))
        else:
            told = progress or WarningProgress()
        if not isinstance(told, WarningProgress):
            shown.enter_context(_forward_warnings(told))
        yield told


@contextmanager
def _forward_warnings(told: Progress) -> Iterator[None]:
    """Forward what readers of files warn of, who know nothing of progress."""
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
