"""The function that follows a measure over the checkpoints of a training run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnprobe.api.checkpoints import named, readable, setting_of
from attnprobe.api.measures import Measure
from attnprobe.api.turns import Turn, dropped, taken
from attnprobe.commands.call.call import Call, begun, called, check_model, peeked, task_of
from attnprobe.commands.call.record import describe_call
from attnprobe.commands.call.texts import Texts, check_standard_input
from attnprobe.corpus.sources.document import Label
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.pruning.options import Criterion, PruneOptions
from attnprobe.intervention.request import TaskOptions, check_method
from attnprobe.run.again import again
from attnprobe.run.finished import Finished
from attnprobe.run.training import Saved, parsed_revisions, parsed_steps, run_of
from attnprobe.run.versions import made_with
from attnprobe.survey.layers import layers_of
from attnprobe.table.head_table import HeadTable


@dataclass(frozen=True)
class Followed:
    """A measure at every step, to be tabulated in one way or another.

    Attributes:
        steps: The step of training and its table, in order.
        record: What goes into the provenance.
    """

    steps: Sequence[tuple[int, HeadTable]]
    record: Mapping[str, Any]

    def by_head(self) -> HeadTable:
        """Tabulate what was measured at every step."""
        from attnprobe.findings.dynamics import stacked

        return stacked(self.steps, self.record)

    def by_step(self) -> HeadTable:
        """Tabulate how the order of heads settles."""
        from attnprobe.findings.dynamics import order_table

        return order_table(self.steps, self.record)


def followed(
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
) -> Followed:
    """Measure every step; the arguments are those of ``dynamics``."""
    revisions = parsed_revisions(revisions, options.get("revision"))
    run = run_of(named([model] if isinstance(model, str | Path) else model), revisions, parsed_steps(steps))
    check_standard_input(*(one for one in (texts, options.get("rank_texts")) if isinstance(one, str)))
    with called(options) as call:
        for one in run:
            check_model(one.model, None, options)
        return _followed(run, again(texts), again(labels), measure, keep, options, call)


def _followed(
    run: Sequence[Saved],
    texts: Any,
    labels: Any,
    measure: str,
    keep: bool,
    options: dict[str, Any],
    call: Call,
) -> Followed:
    from attnprobe.model.loading.revisions import Downloads, check_one_run, glances_of

    call.progress.stage("looking at the checkpoints", None)
    asked = Measure.named(measure)
    keywords = asked.keywords(options)
    task = _task(asked, options, labels)
    texts, source = readable(texts, labels, options, find_labels=asked.labelled)
    begun(source) if task is None else peeked(source, task)
    ranked = options.get("rank_texts")
    if ranked is not None:
        keywords["rank_texts"], ranked = readable(again(ranked), None, options, find_labels=asked.labelled)
    downloads = None if keep else Downloads({one.model for one in run}, call.load.cache_dir)
    glances = glances_of(((one.model, one.revision) for one in run), call.load)
    with dropped(downloads, glances):
        check_one_run(glances)
        key = {}
        if call.resume is not None:
            _, source = readable(texts, labels, options, find_labels=asked.labelled)  # which was begun
            key = _key(asked, [one for one in (source, ranked) if one is not None], options, call)
        turns = [
            Turn(one.step, glance, f"step {one.step}", f"Step {one.step} ({one.said})")
            for one, glance in zip(run, glances, strict=True)
        ]
        finished = Finished(call.resume, key)
        with finished.guarded():
            tables = taken(
                turns, finished, asked.of, texts, labels, keywords, call,
                check=_check_alike, downloads=downloads,
            )  # fmt: skip
    record = {
        "command": describe_call("dynamics"),
        "dataset": source.described,
        "measure": measure,
        "steps": [
            {"step": one.step, "checkpoint": one.model, "revision": one.revision}
            | {"notes": table.notes}
            | dict(table.provenance)
            for one, table in zip(run, tables, strict=True)
        ],
    }
    steps = [(one.step, table) for one, table in zip(run, tables, strict=True)]
    return Followed(steps, record | made_with())


def _check_alike(first: Turn, ours: HeadTable, other: Turn, theirs: HeadTable) -> None:
    from attnprobe.findings.dynamics import check_alike

    check_alike((first.number, ours), (other.number, theirs))


def _task(asked: Measure, options: Mapping[str, Any], labels: Any) -> TaskOptions | None:
    """Refuse what the measure would refuse, before anything is looked at; give its task, if it has one."""
    layers_of(options.get("layers"))
    if not asked.labelled:
        if labels is not None:
            raise AttnprobeError(f"labels are for importance and prune; {asked.name} reads none.")
        return None
    task = task_of(options, labels_named=labels is not None or options.get("label_column") is not None)
    if asked.function == "importance":
        check_method(options["method"], task, content_only=options.get("content_only", False))
        return task
    step = options["prune_step"]
    if not 0 < step <= 1:
        raise AttnprobeError(f"--prune-step must be more than 0 and at most 1, not {step:g}.")
    criterion = Criterion.parse(options["prune_by"], highest_first=options["highest_first"])
    PruneOptions(criterion, step, options["rerank"], options["random_orders"])
    return task


def _key(
    asked: Measure, sources: Sequence[OpenSource], options: Mapping[str, Any], call: Call
) -> dict[str, str]:
    """Say what the numbers of all steps depend on."""
    files = [call.corpus.frequencies, *([options["prune_by"].rpartition(":")[0]] if asked.labelled else [])]
    return {"measure": asked.name, **setting_of(options, sources, files, call)}
