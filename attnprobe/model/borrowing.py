"""Loaded models, perhaps in training: unwrapped, borrowed by a thread, and given back unchanged."""

import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from threading import RLock
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from transformers import TrainerCallback

from attnprobe.corpus.tokenizer import Tokenizer
from attnprobe.errors import AttnprobeError, AttnprobeWarning, UsageError
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.embedding import attach_embedding, choose_prompts
from attnprobe.model.folders import OUTSIDE
from attnprobe.model.private import unwrap_compiled, unwrap_forward
from attnprobe.model.quantisation import describe_quantisation, unpack_model
from attnprobe.model.reading.ways import evaluation_mode


def wrap_model(model: nn.Module, tokenizer: Tokenizer | None, prompt: str | None = None) -> Checkpoint:
    """Make a checkpoint of a loaded model, without its wrappers.

    The transformer of a SentenceTransformer is read as ``encode`` runs it, with the ``prompt`` of that name,
    and that of a CrossEncoder as in ``predict``. A PeftModel is read with its adapters in place, whose names
    go into its own, as in "bert-base-uncased + lora default".
    """
    whole = _strip_wrappers(model)
    inner, theirs, embeds, scores_pairs = whole, None, False, False
    package: Any = sys.modules.get("sentence_transformers")
    if package is not None and isinstance(whole, package.SentenceTransformer | package.CrossEncoder):
        first = next(whole.children(), None)
        inner, theirs = getattr(first, "auto_model", whole), getattr(first, "tokenizer", None)
        scores_pairs = isinstance(whole, package.CrossEncoder)
        embeds = not scores_pairs
    read = _strip_wrappers(inner)
    if not embeds:
        choose_prompts({}, prompt, "the loaded model")
    adapters: list[str] = []
    if getattr(read, "peft_config", None):
        adapters = _list_active_adapters(read)
        # A model to which transformers added the adapter is its own base.
        read = read.get_base_model() if hasattr(read, "get_base_model") else read
    config = getattr(read, "config", None)
    if config is None or not hasattr(config, "model_type"):
        raise UsageError(f"The loaded {type(read).__name__} is no model of transformers.")
    unpack_model(read)  # as its first pass would
    quantisation = describe_quantisation(read)
    origin: dict[str, Any] = {"loaded": type(read).__name__}
    origin |= {"adapters": adapters} if adapters else {}
    origin |= {"quantisation": quantisation} if quantisation else {}
    name = " + ".join([getattr(config, "name_or_path", "") or type(read).__name__, *adapters])
    spelling: Any = tokenizer or theirs
    checkpoint = Checkpoint(
        name, read, spelling, origin, quantisation=quantisation, scores_pairs=scores_pairs
    )
    return attach_embedding(checkpoint, whole, prompt) if embeds else checkpoint


def _strip_wrappers(model: Any) -> Any:
    training = (DataParallel, DistributedDataParallel)
    while (inner := model.module if isinstance(model, training) else unwrap_compiled(model)) is not None:
        model = inner
    return model


def _list_active_adapters(model: Any) -> list[str]:
    names: Any = model.active_adapters() if callable(model.active_adapters) else model.active_adapters
    adapters = []
    for name in names:
        config = model.peft_config[name]
        kind = str(getattr(config.peft_type, "value", config.peft_type))
        if kind in OUTSIDE or getattr(config, "is_prompt_learning", False):
            parts = "virtual tokens or other parts outside of the base model's layers"
            advice = "which attnprobe does not read; give model.get_base_model()"
            raise UsageError(f"The adapter {name} ({kind}) adds {parts}, {advice}.")
        adapters.append(f"{kind.lower()} {name}")
    switched = [part.disable_adapters for part in model.modules() if hasattr(part, "disable_adapters")]
    return [] if switched and all(switched) else adapters


#: Held while models are borrowed, since all threads share the random state of torch.
_lock = RLock()


@contextmanager
def borrow(models: Sequence[nn.Module]) -> Iterator[None]:
    """Hold whole models, with their task heads, in evaluation mode; other threads that borrow wait.

    Afterwards each module has its mode back, and torch its random state: a training run goes on bit for bit
    as without. The caller's mixed precision and inference mode are off inside.
    """
    with ExitStack() as undo:
        undo.enter_context(_lock)
        undo.callback(torch.set_rng_state, torch.get_rng_state())
        for devices in (torch.cuda, torch.xpu):
            if devices.is_initialized():
                undo.callback(devices.set_rng_state_all, devices.get_rng_state_all())
        if torch.backends.mps.is_available():
            undo.callback(torch.mps.set_rng_state, torch.mps.get_rng_state())
        for model in models:
            undo.enter_context(evaluation_mode(model))
            undo.enter_context(unwrap_forward(model))
        for kind in ("cpu", "cuda", "mps", "xpu"):
            if torch.is_autocast_enabled(kind):
                undo.enter_context(torch.autocast(kind, enabled=False))
        if torch.is_inference_mode_enabled():
            undo.enter_context(torch.inference_mode(False))
        yield


class StepCallback(TrainerCallback, ABC):
    """Measures a model before training, ``every`` so many steps, and after the last one.

    Training goes on bit for bit as without it. An error before the first step is raised; a later one is a
    warning. The ``tokenizer`` is needed if the trainer has none; without the ``trainer``, numbers go into its
    ``log_history`` alone.
    """

    def __init__(self, every: int, tokenizer: Tokenizer | None, trainer: Any) -> None:
        self._every, self._tokenizer, self._trainer = every, tokenizer, trainer
        self._measured: int | None = None

    @abstractmethod
    def begin(self, step: int) -> bool:
        """Begin at a step, above 0 if training is resumed; tell whether it was measured before."""

    @abstractmethod
    def measure(self, model: nn.Module, tokenizer: Tokenizer | None, step: int) -> Mapping[str, float]:
        """Measure a model after a step; returns the numbers to log."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        weights = given["model"].parameters()
        if any(weight.numel() == 0 or hasattr(weight, "full_tensor") for weight in weights):
            raise UsageError(
                "The weights are in parts on several processes (FSDP or ZeRO-3), and can't be measured "
                "between steps; measure the saved checkpoints with attnprobe dynamics."
            )
        if self.begin(state.global_step):
            self._measured = state.global_step
        else:
            self._measure_step(state, control, given)

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        # At the end of training, the trainer may put the best model in the place of the last.
        if state.global_step % self._every and not control.should_training_stop:
            return
        try:
            self._measure_step(state, control, given)
        except Exception as error:  # a run of days must not end because of a measurement
            reason = str(error) if isinstance(error, AttnprobeError) else f"{type(error).__name__}: {error}"
            sentence = f"Step {state.global_step} is not measured: {reason}"
            warnings.warn(sentence, AttnprobeWarning, stacklevel=2)

    def _measure_step(self, state: Any, control: Any, given: Mapping[str, Any]) -> None:
        """Measure and log the current step, unless it was measured already."""
        step = state.global_step
        if step == self._measured:
            return
        started, processing = time.perf_counter(), given.get("processing_class")
        tokenizer = self._tokenizer or getattr(processing, "tokenizer", processing)
        numbers = self.measure(given["model"], tokenizer, step)
        self._measured = step
        numbers = {**numbers, "seconds": time.perf_counter() - started}
        logged = {f"heads/{name}": value for name, value in numbers.items()}
        if self._trainer is None:
            state.log_history.append({**logged, "epoch": state.epoch, "step": step})
            return
        due = control.should_log  # which ``log`` clears, so that the loss of this step would be missing
        self._trainer.log(logged)
        self._trainer.control.should_log = control.should_log = due
