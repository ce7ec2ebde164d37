"""Measuring between the steps of a training run by transformers' ``Trainer``."""

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from torch import nn
from transformers import TrainerCallback

from attnprobe.corpus.tokenizer import Tokenizer
from attnprobe.errors import AttnprobeError, AttnprobeWarning, UsageError


class StepCallback(TrainerCallback, ABC):
    """Measures the model before training, after ``every`` so many steps, and after the last one.

    Training goes on bit for bit as without it. What can't be measured before training is refused, and the
    training does not begin; what fails later is a warning, and the training goes on. A ``tokenizer`` is
    needed where the trainer has none; without the ``trainer``, numbers only go into its ``log_history``.
    """

    def __init__(self, every: int, tokenizer: Tokenizer | None, trainer: Any) -> None:
        self._every, self._tokenizer, self._trainer = every, tokenizer, trainer
        self._measured: int | None = None

    @abstractmethod
    def begin(self, step: int) -> bool:
        """Begin at a step, which is not 0 where a run is resumed; tell whether that step is measured."""

    @abstractmethod
    def measure(self, model: nn.Module, tokenizer: Tokenizer | None, step: int) -> Mapping[str, float]:
        """Measure a model after a step, and give the numbers to log."""

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
        # When training has ended, the trainer may hold the best model in place of the last.
        if state.global_step % self._every and not control.should_training_stop:
            return
        try:
            self._measure_step(state, control, given)
        except Exception as error:  # of any kind: a run of days is worth more than what is measured of it
            reason = str(error) if isinstance(error, AttnprobeError) else f"{type(error).__name__}: {error}"
            sentence = f"Step {state.global_step} is not measured: {reason}"
            warnings.warn(sentence, AttnprobeWarning, stacklevel=2)

    def _measure_step(self, state: Any, control: Any, given: Mapping[str, Any]) -> None:
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
        due = control.should_log  # which logging takes back, and then the loss of this step would be missing
        self._trainer.log(logged)
        self._trainer.control.should_log = control.should_log = due
