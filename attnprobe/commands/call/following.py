"""The function that follows a measure over the checkpoints of a training run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnprobe.commands.call.call import (
    check_labels,
    check_model,
    open_call,
    parse_layers,
    read_first,
    read_task,
)
from attnprobe.commands.call.measures import Measure
from attnprobe.commands.call.record import describe_call
from attnprobe.commands.call.several import Member, Series, list_checkpoints, make_state_key
from attnprobe.commands.call.texts import Texts, check_standard_input, open_to_replay, replay
from attnprobe.corpus.sources.document import Label
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.pruning.options import Criterion, PruneOptions
from attnprobe.intervention.request import TaskOptions, check_method
from attnprobe.run.training import list_run, parse_revisions, parse_steps
from attnprobe.run.versions import record_versions
from attnprobe.table.head_table import HeadTable


@dataclass(frozen=True)
class MeasuredRun:
    """A measure at every step of a training run, which can be tabulated in two ways."""

    steps: Sequence[tuple[int, HeadTable]]
    record: Mapping[str, Any]

    def tabulate_heads(self) -> HeadTable:
        """Tabulate what was measured at every step."""
        from attnprobe.findings.dynamics import stack_steps

        return stack_steps(self.steps, self.record)

    def tabulate_steps(self) -> HeadTable:
        """Tabulate how the order of heads settles."""
        from attnprobe.findings.dynamics import tabulate_orders

        return tabulate_orders(self.steps, self.record)


def follow(
    model: "str | Path | Sequence[str | Path]",
    texts: Texts = None,
    labels: Iterable[Label] | None = None,
    *,
    measure: str,
    revisions: str | Sequence[str] | None,
    steps: str | Sequence[int] | None,
    by: str,
    keep: bool,
    **options: Any,
) -> MeasuredRun:
    """Measure every step; the arguments are those of ``dynamics``."""
    revisions = parse_revisions(revisions, options.get("revision"))
    names = list_checkpoints([model] if isinstance(model, str | Path) else model)
    run = list_run(names, revisions, parse_steps(steps))
    check_standard_input(*(one for one in (texts, options.get("rank_texts")) if isinstance(one, str)))
    with open_call(options) as call:
        for one in run:
            check_model(one.model, None, options)
        call.progress.stage("looking at the checkpoints", None)
        asked = Measure.find(measure)
        keywords = asked.pick_keywords(options)
        task = _check_task(asked, options, labels)
        has_labels, ranked = asked.labelled, None
        texts, labels = replay(texts), replay(labels)
        texts, source = open_to_replay(texts, labels, options, find_labels=has_labels)
        read_first(source) if task is None else check_labels(source, task)
        if options.get("rank_texts") is not None:
            rank_texts = replay(options["rank_texts"])
            keywords["rank_texts"], ranked = open_to_replay(rank_texts, None, options, find_labels=has_labels)

        def reopened() -> list[OpenSource]:  # what was looked into has lost its beginning
            again = open_to_replay(texts, labels, options, find_labels=has_labels)[1]
            return [again] if ranked is None else [again, ranked]

        from attnprobe.model.hub import check_one_run

        with Series([(one.model, one.revision) for one in run], call, keep=keep) as series:
            check_one_run(series.checkpoints)
            files = [call.corpus.frequencies]
            files += [options["prune_by"].rpartition(":")[0]] if has_labels else []
            key = make_state_key(asked.name, options, reopened, files, call)
            tables = series.measure(
                asked.measure, texts, labels, keywords, key, steps=run, check=_check_alike
            )
    steps_of_record = [
        {"step": one.step, "checkpoint": one.model, "revision": one.revision, "notes": table.notes}
        | dict(table.provenance)
        for one, table in zip(run, tables, strict=True)
    ]
    record = {"command": describe_call("dynamics"), "dataset": source.described, "measure": measure}
    record |= {"steps": steps_of_record, **record_versions()}
    return MeasuredRun([(one.step, table) for one, table in zip(run, tables, strict=True)], record)


def _check_alike(first: Member, ours: HeadTable, other: Member, theirs: HeadTable) -> None:
    from attnprobe.findings.dynamics import check_alike

    check_alike((first.number, ours), (other.number, theirs))


def _check_task(asked: Measure, options: Mapping[str, Any], labels: Any) -> TaskOptions | None:
    """Read the task of a measure, if it has one, and refuse early what the measure would refuse."""
    parse_layers(options.get("layers"))
    if not asked.labelled:
        if labels is not None:
            raise AttnprobeError(f"labels are for importance and prune; {asked.name} reads none.")
        return None
    task = read_task(options, labels)
    if asked.function == "importance":
        check_method(options["method"], task, content_only=options.get("content_only", False))
        return task
    step = options["prune_step"]
    if not 0 < step <= 1:
        raise AttnprobeError(f"--prune-step must be more than 0 and at most 1, not {step:g}.")
    criterion = Criterion.parse(options["prune_by"], highest_first=options["highest_first"])
    PruneOptions(criterion, step, options["rerank"], options["random_orders"])
    return task
