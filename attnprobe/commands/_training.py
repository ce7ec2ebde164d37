"""The callback of ``Trainer`` that measures heads while a model trains."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from torch import nn

from attnprobe.commands.census import census
from attnprobe.corpus.source import GivenTexts
from attnprobe.corpus.tokenizer import Tokenizer
from attnprobe.errors import UsageError
from attnprobe.findings.dynamics import check_alike, record_step, split_steps, stack_steps, summarise_step
from attnprobe.model.borrowing import StepCallback
from attnprobe.run.options import record_versions
from attnprobe.run.process_group import Ranks
from attnprobe.session.session import describe_call
from attnprobe.session.texts import check_standard_input, replay
from attnprobe.statistics.statistic import Statistic
from attnprobe.table.destination import check_file
from attnprobe.table.table import HeadTable

#: Keywords of ``census`` that say how to load a model, and others that have no meaning in a training run.
_ELSEWHERE = (
    "revision", "trust_remote_code", "base", "adapter", "allow_bin",
    "device", "device_map", "dtype", "resume", "progress",
)  # fmt: skip


class HeadCallback(StepCallback):
    """Measure heads while transformers' ``Trainer`` trains a model, and write what ``dynamics`` writes.

    Heads are measured before the first step, after every so many, and after the last. Losses, weights and
    random numbers are bit for bit those of a run without it. Under torchrun, the processes share the texts. A
    resumed run goes on with the table of the steps before. Numbers that are logged: for each headline column
    its mean over heads, ``heads/entropy``; the largest change of a head since the measurement before,
    ``heads/entropy_change``; and the values of the heads that changed most, ``heads/entropy/L1H3``.

    Args:
        texts: What ``census`` reads, and ``statistics`` and all further keywords as there.
        every: Steps between two measurements.
        output: The table, written anew after each measurement; its ending says in which format.
        tokenizer: Needed where the trainer has no ``processing_class``.
        trainer: So that numbers go to what it reports to, beside ``trainer.state.log_history``.

    Attributes:
        table: All measurements so far, a row for each step and head; None before the first.

    Raises:
        AttnprobeError: When training begins. What fails at a later step is a warning.

    References:
        Michel, Levy and Neubig (2019), Are sixteen heads really better than one?, section 6.
    """

    def __init__(
        self,
        texts: GivenTexts = None,
        *,
        every: int = 500,
        statistics: Sequence[str | Statistic] | None = None,
        output: Path | str | None = None,
        tokenizer: Tokenizer | None = None,
        trainer: Any = None,
        **options: Any,
    ) -> None:
        if type(every) is not int or every < 1:
            raise UsageError(f"every must be a number of steps, 1 or more, not {every!r}.")
        for name in _ELSEWHERE:
            if name in options:
                raise UsageError(f"{name} has no meaning in a training run; leave it out.")
        self._options = {"statistics": statistics, **options}
        census.command.complete(self._options)  # type: ignore[attr-defined]
        check_standard_input(texts)
        super().__init__(every, tokenizer, trainer)
        self._texts = replay(texts)
        self._output = None if output is None else check_file(Path(output), overwrite=True)
        self._steps: list[tuple[int, HeadTable]] = []

    @property
    def table(self) -> HeadTable | None:
        if not self._steps:
            return None
        steps = [record_step(step, table, table.data["model"][0]) for step, table in self._steps]
        first: Mapping[str, Any] = self._steps[0][1].provenance
        record = {"command": describe_call("HeadCallback"), "dataset": first.get("dataset", {})}
        record |= {"measure": "census", "steps": steps, **record_versions()}
        return stack_steps(self._steps, record)

    def begin(self, step: int) -> bool:
        """Read the table's steps up to this one, where a run resumes; tell whether this one is in it."""
        self._steps = []
        path = None if self._output is None else self._output.path
        if step and path is not None and path.is_file():
            self._steps = [one for one in split_steps(HeadTable.read(path)) if one[0] <= step]
        return any(one == step for one, _ in self._steps)

    def measure(self, model: nn.Module, tokenizer: Tokenizer | None, step: int) -> Mapping[str, float]:
        if tokenizer is None:
            raise UsageError("The trainer has no tokenizer: give HeadCallback(..., tokenizer=tokenizer).")
        table = census(cast(Any, model), self._texts, tokenizer=tokenizer, **self._options)
        if self._steps:
            check_alike(self._steps[0], (step, table))
        before = self._steps[-1][1] if self._steps else None
        self._steps.append((step, table))
        whole = self.table
        if self._output is not None and whole is not None and Ranks.detect().first:
            whole.write(self._output)
        return summarise_step(table, before)
