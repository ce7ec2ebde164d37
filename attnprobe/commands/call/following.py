"""A measure over the checkpoints of a training run: what can be measured, and its table of every step."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from attnprobe.commands.census import census, mixing, rank
from attnprobe.commands.dynamics import dynamics
from attnprobe.commands.intervene import importance
from attnprobe.commands.prune import prune
from attnprobe.corpus.document import Label
from attnprobe.corpus.source import OpenSource
from attnprobe.errors import AttnprobeError, UsageError
from attnprobe.intervention.pruning.criterion import Criterion
from attnprobe.intervention.request import TaskOptions
from attnprobe.run.record import record_versions
from attnprobe.session.checkpoints import (
    list_models,
    list_run,
    make_state_key,
    measure_steps,
    parse_revisions,
    parse_steps,
)
from attnprobe.session.session import (
    check_labels,
    check_model,
    describe_call,
    open_call,
    parse_layers,
    read_first,
    read_task,
)
from attnprobe.session.texts import Texts, check_standard_input, open_to_replay, replay
from attnprobe.table.table import HeadTable

_FUNCTIONS: dict[str, Any] = {one.__name__: one for one in (importance, prune, census, rank, mixing)}
#: Columns that are measured by commands of their own.
COLUMNS = {
    "rank": ("head_width", "longer", "logit_rank", "logit_rank_share", "qk_rank", "qk_top_half", "map_rank"),
    "mixing": ("explained_by_others", "explained_by_others_null", "contribution_norm"),
}
#: What keywords of other functions are called where names would be taken.
_RENAMED = {"prune_by": "by", "prune_step": "step"}
#: Keywords of ``dynamics`` itself.
_ITS_OWN = {"model", "texts", "labels", "measure", "revisions", "steps", "by"}


def _find_keywords() -> dict[str, set[str]]:
    names = set(dynamics.command.keywords) - _ITS_OWN  # type: ignore[attr-defined]
    taken: dict[str, set[str]] = {}
    for name, function in _FUNCTIONS.items():
        renamed = _RENAMED if name == "prune" else {}
        taken[name] = {one for one in names if renamed.get(one, one) in function.command.keywords}
    common = set.intersection(*taken.values())
    return {function: some - common for function, some in taken.items()}


@dataclass(frozen=True)
class Measure:
    """A measure of heads."""

    name: str
    function: str
    column: str | None = None
    own: Mapping[str, Any] | None = None

    @classmethod
    def find(cls, name: str) -> "Measure":
        """Find a measure: importance, prune, census, everything, rank, mixing, a column or a family."""
        if name in _FUNCTIONS:
            return cls(name, name)
        if name == "everything":
            return cls(name, "census", own={"everything": True})
        for function, columns in COLUMNS.items():
            if name in columns:
                more = {"map_rank": True} if name == "map_rank" else {}
                return cls(name, function, name, more)
        names = [part.strip() for part in name.split(",") if part.strip()]
        from attnprobe.statistics.registry import choose  # takes torch

        try:
            choose(names)
        except AttnprobeError as error:
            others = ", ".join([*_FUNCTIONS, "everything", *chain(*COLUMNS.values())])
            raise UsageError(f"{error} Beside these, --measure takes {others}.") from error
        return cls(name, "census", own={"statistics": names})

    @property
    def labelled(self) -> bool:
        """Whether texts come with what is right for each."""
        return self.function in {"importance", "prune"}

    def pick_keywords(self, options: Mapping[str, Any]) -> dict[str, Any]:
        takes, options_of = _find_keywords(), dynamics.command.keywords  # type: ignore[attr-defined]
        special = set().union(*takes.values())
        for name in sorted(special - takes[self.function]):
            if name in options and options[name] is not False and options_of[name].is_given(options[name]):
                owners = ", ".join(owner for owner, taken in takes.items() if name in taken)
                raise UsageError(
                    f"{options_of[name].flags[0]} is for --measure {owners}; leave it out for {self.name}."
                )
        taken = {name for name in options if name not in special or name in takes[self.function]}
        found = {_RENAMED.get(name, name): options[name] for name in taken}
        return found | dict(self.own or {})

    def measure(self, model: str, texts: Any, labels: Any, keywords: Mapping[str, Any]) -> HeadTable:
        """Measure a checkpoint, and keep the columns that were asked for."""
        data = (texts, labels) if self.labelled else (texts,)
        table: HeadTable = _FUNCTIONS[self.function](model, *data, **keywords)
        if self.column is None:
            return table
        if self.column not in table.data:
            said = next((note for note in table.notes if self.column in note), "the model does not give it")
            raise UsageError(f"{self.column} can't be measured: {said}")
        wanted = {self.column, f"{self.column}_se", f"{self.column}_n", "n"}
        columns = [one for one in table.columns if one.role == "key" or one.name in wanted]
        return replace(table, columns=columns, data={one.name: table.data[one.name] for one in columns})


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
    **options: Any,
) -> MeasuredRun:
    """Measure every step; the arguments are those of ``dynamics``."""
    revisions = parse_revisions(revisions, options.get("revision"))
    names = list_models([model] if isinstance(model, str | Path) else model)
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

        from attnprobe.findings.dynamics import check_alike
        from attnprobe.model.locate import check_one_run, find_checkpoints

        checkpoints = find_checkpoints([(saved.model, saved.revision) for saved in run], call.load)
        check_one_run(checkpoints)
        files = [call.corpus.frequencies]
        if has_labels and (order := options["prune_by"].rpartition(":")[0]):
            files.append(order)
        key = {}
        if call.resume is not None:
            key = make_state_key(asked.name, options, reopened, files, call)

        def measure_step(name: str, more: dict[str, Any]) -> HeadTable:
            return asked.measure(name, texts, labels, keywords | more)

        tables = measure_steps(run, checkpoints, measure_step, key, call, check_alike)
    steps_of_record = [
        {"step": one.step, "checkpoint": one.model, "revision": one.revision, "notes": table.notes}
        | dict(table.provenance)
        for one, table in zip(run, tables, strict=True)
    ]
    record = {"command": describe_call("dynamics"), "dataset": source.described, "measure": measure}
    record |= {"steps": steps_of_record, **record_versions()}
    return MeasuredRun([(one.step, table) for one, table in zip(run, tables, strict=True)], record)


def _check_task(asked: Measure, options: Mapping[str, Any], labels: Any) -> TaskOptions | None:
    """Read the task of a measure, if it has one, and refuse early what the measure would refuse."""
    parse_layers(options.get("layers"))
    if not asked.labelled:
        if labels is not None:
            raise UsageError(f"labels are for importance and prune; {asked.name} reads none.")
        return None
    task = read_task(options, labels)
    if asked.function == "importance":
        return task
    criterion = Criterion.parse(options["prune_by"], highest_first=options["highest_first"])
    if options["rerank"]:
        criterion.check_measured("--rerank")
    return task
