"""A call of a command: its keywords are read and checked, its model is loaded, its progress is shown.

What can be refused without torch is refused before torch is imported.
"""

import importlib.util
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnprobe.corpus.media import BOTH
from attnprobe.corpus.source import GivenTexts, OpenSource, Order
from attnprobe.errors import AttnprobeWarning, UsageError
from attnprobe.options import DEFAULTS
from attnprobe.reports.streams import TerminalProgress
from attnprobe.run.options import CorpusOptions
from attnprobe.run.process_group import Ranks
from attnprobe.run.progress import PartProgress, Progress, SilentProgress, WarningProgress
from attnprobe.session.texts import open_texts

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attnprobe.corpus.tokenizer import Tokenizer
    from attnprobe.intervention.request import TaskOptions
    from attnprobe.intervention.task import TaskSession
    from attnprobe.model.checkpoint import Checkpoint
    from attnprobe.model.locate import LoadOptions
    from attnprobe.model.task_heads import TaskHead

#: Names of devices and of floating-point types; whether a device is there, torch knows.
_DEVICES = re.compile(r"auto|[a-z]+(:\d+)?")
_TYPES = ("float32", "bfloat16", "float16", "float64")
#: A layer, or the first and the last of some.
_LAYERS = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")
#: The words of the command line that calls, if it does.
_words: ContextVar[Sequence[str] | None] = ContextVar("attnprobe_command", default=None)


@contextmanager
def record_as(words: Sequence[str]) -> Iterator[None]:
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
    """A call of a command: its model, all its keywords with their defaults, and what follows from them."""

    model: "str | Path | PreTrainedModel"
    options: Mapping[str, Any]
    corpus: CorpusOptions
    progress: Progress

    @property
    def resume(self) -> Path | None:
        return None if self.options["resume"] is None else Path(self.options["resume"])

    @property
    def run(self) -> dict[str, Any]:
        """What every pass over texts takes."""
        return {"resume": self.resume, "workers": self.options["workers"], "progress": self.progress}

    @property
    def order(self) -> Order | None:
        """A random order, where documents are read until numbers are precise enough."""
        if not self.corpus.targets:
            return None
        return Order(self.corpus.seed, whole=self.corpus.limit is None)

    @property
    def load(self) -> "LoadOptions":
        from attnprobe.model.locate import LoadOptions

        return _fill(LoadOptions, self.options)

    def load_checkpoint(
        self, heads: "tuple[TaskHead, ...]" = (), force: bool = False, modality: str = "text"
    ) -> "Checkpoint":
        """Load the model that is named, or wrap the one that is loaded, with the first of some task heads."""
        from attnprobe.model.load import load_checkpoint
        from attnprobe.model.task_heads import find_head

        self.progress.stage("loading", None)
        if isinstance(self.model, str | Path):
            return load_checkpoint(str(self.model), self.load, heads, force_head=force, modality=modality)
        if modality != "text":
            raise UsageError("Images and sound need a model that is named, a folder or a hub id.")
        head = find_head(type(self._wrapped.model).__name__) if heads else None
        return replace(self._wrapped, head=head if head in heads else None)

    @cached_property
    def _wrapped(self) -> "Checkpoint":
        from attnprobe.model.borrowing import wrap_model
        from attnprobe.model.load import randomise_weights

        model: Any = self.model
        seed = self.options["random_weights"]
        checkpoint = wrap_model(model, self.options["tokenizer"], self.options["prompt"])
        return checkpoint if seed is None else randomise_weights(checkpoint, seed)

    def sees_text(self) -> bool:
        """Tell whether a model that is named reads an image and a text together, by its configuration."""
        from attnprobe.model.folders import DEMO

        if not isinstance(self.model, str | Path) or str(self.model) == DEMO:
            return False
        from attnprobe.model.locate import locate
        from attnprobe.model.quirks import reads_both

        files = locate(str(self.model), self.load, weights=False)
        return not files.adapter and reads_both(files.config)


def parse_layers(given: str | int | Iterable[int] | None) -> tuple[int, ...] | None:
    """Read which layers are wanted, from 0, sorted, or refuse them; None for all of them.

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
    """Read the keywords of a call, refuse models that can't be loaded, and set threads and progress.

    ``tokenizers`` are those of several loaded models; without ``check``, models are not refused.
    """
    options = {**DEFAULTS, **options}
    corpus = _fill(CorpusOptions, options)
    if options["resume"] is not None and Ranks.detect().size == 1:
        from attnprobe.run.state import check_state

        check_state(Path(options["resume"]))
    with ExitStack() as stack:
        if "torch" in sys.modules:  # before it is loaded, no random number was drawn
            from torch import nn

            from attnprobe.model.borrowing import borrow

            stack.enter_context(borrow([model for model in models if isinstance(model, nn.Module)]))
        if options["threads"] is not None:
            import torch

            stack.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(options["threads"])
        # Of several processes, the first one speaks for all.
        progress = options["progress"] if Ranks.detect().first else SilentProgress()
        if progress is True:
            progress = stack.enter_context(TerminalProgress(bar=True, quiet=False))
        progress = progress or WarningProgress()
        if not isinstance(progress, WarningProgress | PartProgress):  # of whose whole, warnings are told
            stack.enter_context(forward_warnings(progress.say))
        tokenizers = tokenizers or [options["tokenizer"]] * len(models)
        for model, tokenizer in zip(models, tokenizers, strict=True) if check else ():
            check_model(model, tokenizer, options)
        yield Call(models[0], options, corpus, progress)


def check_model(model: Any, tokenizer: "Tokenizer | None", options: Mapping[str, Any]) -> None:
    """Refuse a model that does not exist, and a device or a type that it can't be loaded with."""
    if not isinstance(model, str | Path):
        library = sys.modules.get("sentence_transformers")  # whose models bring their tokenizers along
        kinds = () if library is None else (library.SentenceTransformer, library.CrossEncoder)
        if tokenizer is None and not isinstance(model, kinds):
            raise UsageError("A loaded model needs its tokenizer: census(model, texts, tokenizer=tokenizer).")
        return
    device, dtype = options["device"], options["dtype"]
    if not _DEVICES.fullmatch(str(device)):
        raise UsageError(
            f"There is no device {device!r} on this machine; use auto or cpu, or cuda:0 where there is a GPU."
        )
    if dtype not in _TYPES:
        raise UsageError(f"{dtype!r} is no floating-point type; use {', '.join(_TYPES)}.")
    if options["device_map"] is not None and importlib.util.find_spec("accelerate") is None:
        raise UsageError("--device-map needs accelerate: pip install accelerate.")
    from attnprobe.model.embedding import choose_prompts
    from attnprobe.model.folders import find_local_folder, find_transformer, find_weights

    folder = find_local_folder(str(model))
    if folder is not None:
        transformer, sentences = find_transformer(folder, str(model), options["adapter"])
        find_weights(transformer, str(model), allow_bin=options["allow_bin"])
        choose_prompts(sentences.described if sentences else {}, options["prompt"], str(model))


def read_first(source: OpenSource) -> OpenSource:
    """Read the first document, to refuse early what can't be read; with an image, the kind is ``BOTH``."""
    if source.kind not in {"text", BOTH}:
        return source
    documents = iter(source.documents)
    first = next(documents, None)
    if first is None:
        return replace(source, documents=documents)
    both = {} if first.image is None else {"kind": BOTH, "described": source.described | {"kind": BOTH}}
    return replace(source, documents=chain([first], documents), **both)


# The task of a command on causes


def read_task(options: Mapping[str, Any], labels: Any = None) -> "TaskOptions":
    """Read the keywords of a task; its labels are named if some are given, or their column is."""
    from attnprobe.intervention.request import TaskOptions

    given = {**DEFAULTS, **options}
    named = labels is not None or given["label_column"] is not None
    return TaskOptions(given["objective"], given["metric"], given["seed"], given["force_head"], named)


def check_labels(source: OpenSource, task: "TaskOptions") -> OpenSource:
    """Return the source, with all its documents, or refuse a task that needs other labels."""
    from attnprobe.intervention.request import check_gold, peek

    labelled, documents = peek(source.documents)
    check_gold(task.objective, labelled, source.name)
    return replace(source, documents=documents)


def open_labelled(
    texts: GivenTexts, labels: Any, task: "TaskOptions", options: Mapping[str, Any]
) -> OpenSource:
    """Open texts with their labels, and refuse a task that needs some where there are none."""
    return check_labels(open_texts(texts, options, labels, find_labels=True), task)


@contextmanager
def open_task(
    command: str, model: Any, texts: GivenTexts, labels: Any, options: Mapping[str, Any]
) -> Iterator["TaskSession"]:
    """Open a call of a command on causes: its task, and its texts with their labels."""
    with open_call(options, model) as call:
        task = read_task(options, labels)
        yield make_session(command, open_labelled(texts, labels, task, options), task, call)


def make_session(command: str, source: OpenSource, task: "TaskOptions", call: Call) -> "TaskSession":
    """Make the session of a command on causes, from its texts, its task and its call."""
    from attnprobe.intervention.task import TaskSession

    facts = {"command": describe_call(command), "dataset": source.described}
    return TaskSession(call.load_checkpoint, source, call.corpus, task, facts=facts, **call.run)


# Helpers


def _fill(kind: Any, options: Mapping[str, Any]) -> Any:
    """Fill a dataclass with the keywords of its fields' names; a path may be a string."""
    given = {field.name: options[field.name] for field in fields(kind) if field.name in options}
    if given.get("frequencies") is not None:
        given["frequencies"] = Path(given["frequencies"])
    return kind(**given)


@contextmanager
def forward_warnings(say: Callable[[str], None]) -> Iterator[None]:
    """Pass warnings on to ``say``, each once: readers of files, for example, know nothing of progress."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", AttnprobeWarning)
        others, known = warnings.showwarning, set[str]()

        def show(message: Any, category: Any, *place: Any, **more: Any) -> None:
            if issubclass(category, AttnprobeWarning):
                if str(message) not in known:
                    say(str(message))
                known.add(str(message))
            else:
                others(message, category, *place, **more)

        warnings.showwarning = show
        yield
