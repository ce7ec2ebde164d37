"""The function that follows a measure over the checkpoints of a training run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Unpack

from attnprobe.api.calls import begun, called, check_model, peeked, task_of
from attnprobe.api.commands import command
from attnprobe.api.keywords import FollowedKeywords, spelled_out
from attnprobe.api.measures import Measure
from attnprobe.api.several import Member, Series, checkpoint_names, open_to_replay, replay, state_key
from attnprobe.api.texts import Texts, check_standard_input
from attnprobe.corpus.sources.document import Label
from attnprobe.corpus.sources.text import OpenSource
from attnprobe.errors import AttnprobeError
from attnprobe.intervention.pruning.options import Criterion, PruneOptions
from attnprobe.intervention.request import Method, TaskOptions, check_method
from attnprobe.run.training import parsed_revisions, parsed_steps, run_of
from attnprobe.run.versions import made_with
from attnprobe.survey.layers import layers_of
from attnprobe.table.head_table import HeadTable


@spelled_out
def dynamics(
    model: "str | Path | Sequence[str | Path]",
    texts: Texts = None,
    labels: Iterable[Label] | None = None,
    *,
    measure: str = "importance",
    revisions: str | Sequence[str] | None = None,
    steps: str | Sequence[int] | None = None,
    by: Literal["head", "step"] = "head",
    keep: bool = True,
    method: Method = "gradient",
    prune_by: str = "gradient",
    highest_first: bool = False,
    prune_step: float = 0.1,
    rerank: bool = False,
    random_orders: int = 5,
    rank_texts: Texts = None,
    **options: Unpack[FollowedKeywords],
) -> HeadTable:
    """Follow a measure of heads over the checkpoints of a training run.

    Checkpoints are loaded one after the other, in the order of their steps; each is freed before the next.
    Every number is the one that the measure's own function gives for that checkpoint.

    Args:
        model: Folders, patterns of folders (``"run/checkpoint-*"``) or ids of the hub, at least two; or one
            id with ``revisions``.
        texts: As for ``census``; what can be read once only is kept for the next checkpoint.
        labels: As for ``importance``.
        measure: ``"importance"``, ``"prune"`` for pruning curves, ``"census"``, a column (``"entropy"``) or a
            family of it, several of these (``"entropy,previous"``), ``"rank"``, ``"mixing"`` or one of their
            columns, or ``"everything"``.
        revisions: Branches, tags or commits of the one model, as a list or as ``"step1000,step2000"``.
        steps: The step of each checkpoint, in their order; by default its name says it: the number behind a
            word such as step, checkpoint or epoch, or else the last one.
        by: One row for each step and head; or ``"step"``, for how close the order of heads is to that of the
            last step, and of the step before: Spearman's and Kendall's rank correlation.
        keep: Keep in the hub's cache what was downloaded for this run.
        method: As for ``importance``.
        prune_by: With ``measure="prune"``, what ``prune`` calls ``by``.
        highest_first: As for ``prune``.
        prune_step: With ``measure="prune"``, what ``prune`` calls ``step``.
        rerank: As for ``prune``.
        random_orders: As for ``prune``.
        rank_texts: As for ``prune``.
        options: Those of the measure's own function. ``resume`` keeps the tables of the steps that are done;
            what the step in progress has reached lies in a file beside it.

    Returns:
        The rows of the measure's own table with a column ``step``; its record holds that of every checkpoint.
        Notes say from which step on the order of heads is that of the last one.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do; the step is named where only one
            checkpoint is wrong.

    References:
        Michel, Levy and Neubig (2019), Are sixteen heads really better than one?, section 6.

    Examples:
        >>> table = dynamics(["demo", "demo"], ["The parcel came late."], measure="entropy", steps=[0, 100])
        >>> list(table.data)[:6]
        ['model', 'dataset', 'step', 'layer', 'head', 'n']
        >>> sorted(set(table["step"].tolist()))
        [0, 100]
    """
    own = {
        "method": method,
        "prune_by": prune_by,
        "highest_first": highest_first,
        "prune_step": prune_step,
        "rerank": rerank,
        "random_orders": random_orders,
        "rank_texts": rank_texts,
    }
    asked = {"measure": measure, "revisions": revisions, "steps": steps, "by": by, "keep": keep}
    found = followed(model, texts, labels, **asked, **own, **options)
    return found.by_step() if by == "step" else found.by_head()


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
    names = checkpoint_names([model] if isinstance(model, str | Path) else model)
    run = run_of(names, revisions, parsed_steps(steps))
    if measure == "prune" and by == "step":
        raise AttnprobeError(
            "--by step is about an order of heads, and pruning curves have none; leave it out, or ask for "
            "--measure importance."
        )
    check_standard_input(*(one for one in (texts, options.get("rank_texts")) if isinstance(one, str)))
    with called(options) as call:
        for one in run:
            check_model(one.model, None, options)
        call.progress.stage("looking at the checkpoints", None)
        asked = Measure.named(measure)
        keywords = asked.keywords(options)
        task = _task(asked, options, labels)
        has_labels, ranked = asked.labelled, None
        texts, labels = replay(texts), replay(labels)
        texts, source = open_to_replay(texts, labels, options, find_labels=has_labels)
        begun(source) if task is None else peeked(source, task)
        if options.get("rank_texts") is not None:
            rank_texts = replay(options["rank_texts"])
            keywords["rank_texts"], ranked = open_to_replay(rank_texts, None, options, find_labels=has_labels)

        def reopened() -> list[OpenSource]:  # what was looked into has lost its beginning
            again = open_to_replay(texts, labels, options, find_labels=has_labels)[1]
            return [again] if ranked is None else [again, ranked]

        from attnprobe.model.loading.revisions import check_one_run

        with Series([(one.model, one.revision) for one in run], call, keep=keep) as series:
            check_one_run(series.glances)
            files = [call.corpus.frequencies]
            files += [options["prune_by"].rpartition(":")[0]] if has_labels else []
            key = state_key(asked.name, options, reopened, files, call)
            tables = series.measure(asked.of, texts, labels, keywords, key, steps=run, check=_check_alike)
    steps_of_record = [
        {"step": one.step, "checkpoint": one.model, "revision": one.revision}
        | {"notes": table.notes}
        | dict(table.provenance)
        for one, table in zip(run, tables, strict=True)
    ]
    record = {"command": command("dynamics"), "dataset": source.described, "measure": measure}
    record |= {"steps": steps_of_record, **made_with()}
    return Followed([(one.step, table) for one, table in zip(run, tables, strict=True)], record)


def _check_alike(first: Member, ours: HeadTable, other: Member, theirs: HeadTable) -> None:
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
