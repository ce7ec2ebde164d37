"""A run of a command: from options to a survey, with progress on standard error."""

import os
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from attnprobe.cli.options import (
    ModelOptions,
    OutputOptions,
    ResumeOptions,
    SurveyOptions,
    TaskOptions,
    TextOptions,
)
from attnprobe.cli.progress import TerminalProgress
from attnprobe.errors import AttnprobeError

if TYPE_CHECKING:
    from attnprobe.corpus.sources.text import OpenSource
    from attnprobe.intervention.task import Loader
    from attnprobe.intervention.task import TaskOptions as IntervenedTask
    from attnprobe.model.loading.checkpoint import Checkpoint
    from attnprobe.model.loading.task_heads import TaskHead
    from attnprobe.report.destination import Destination
    from attnprobe.run.input.corpus import CorpusOptions
    from attnprobe.statistics import Statistic
    from attnprobe.survey.survey import Survey
    from attnprobe.table.head_table import HeadTable


def prepare(model: ModelOptions, output: OutputOptions, *, shared: bool = False) -> None:
    """Refuse a bad destination and settle the environment, before anything slow is imported.

    With ``shared``, the command knows what to do with several processes.
    """
    settled(output)
    if not shared and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise AttnprobeError("This command runs in one process; start it without torchrun.")
    if model.offline:
        # Read when huggingface_hub and datasets are imported.
        os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
    # Threads that spin while they wait for one another stall each other on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def check_state(stopping: ResumeOptions, output: OutputOptions) -> None:
    """Refuse to keep the state where the table goes."""
    if stopping.resume is not None and output.output is not None:
        beside = {output.output.resolve(), output.output.with_suffix(".json").resolve()}
        if stopping.resume.resolve() in beside:
            raise AttnprobeError("--resume and -o name the same file; give the state a name of its own.")


def settled(options: OutputOptions) -> "Destination":
    """Settle where the table goes, or refuse it."""
    from attnprobe.report.sink import check_output

    return check_output(options.output, options.overwrite, options.format, options.bom)


def load(
    options: ModelOptions,
    heads: "tuple[TaskHead, ...]" = (),
    force_head: bool = False,
    modality: str = "text",
) -> "Checkpoint":
    """Load the checkpoint that the options name, with the first of some task heads that it holds."""
    import torch

    from attnprobe.model.loading.load import LoadOptions, load_checkpoint

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    return load_checkpoint(
        options.model, _passed_on(LoadOptions, options), heads, force_head=force_head, modality=modality
    )


def loader(options: ModelOptions) -> "Loader":
    """Give a function that loads the checkpoint with the head that a task needs."""
    return lambda heads, force, modality="text": load(options, heads, force, modality)


def run_survey(
    model: ModelOptions,
    options: SurveyOptions,
    output: OutputOptions,
    statistics: "Sequence[Statistic]",
    *,
    all_pairs: bool = False,
) -> "Survey":
    """Load, read, verify and measure, telling the user how far it is."""
    check_state(options.stopping, output)
    from attnprobe.run.ranks import Ranks
    from attnprobe.survey.survey import survey

    text, corpus, ranks = options.text, corpus_options(options.text), Ranks.found()
    if ranks.size > 1 and text.data.dataset == "-":
        raise AttnprobeError("Standard input can be read by one process only; give a file to several.")
    target = options.targets.target_column
    source = open_text(text, label_column=target)
    with progress(replace(output, quiet=output.quiet or ranks.rank > 0)) as watcher:
        watcher.stage("loading", None)
        found = survey(
            load(model, modality=source.kind),
            source.documents,
            corpus,
            statistics,
            dataset=source.name,
            facts=facts(source),
            all_pairs=all_pairs,
            labelled=target is not None,
            resume=options.stopping.resume,
            progress=watcher,
        )
    if found is None:
        raise SystemExit(0)  # the first process writes the table
    return found


def corpus_options(text: TextOptions) -> "CorpusOptions":
    """Pass on how text becomes sequences."""
    from attnprobe.run.input.corpus import CorpusOptions

    return _passed_on(CorpusOptions, text.reading, text.tokens)


def task_options(task: TaskOptions, metric: str | None = None) -> "IntervenedTask":
    """Pass on what the model is asked to do."""
    from attnprobe.intervention.task import TaskOptions as IntervenedTask

    return IntervenedTask(task.objective, metric, task.seed, task.force_head, task.label_column is not None)


def _passed_on(kind: Any, *groups: Any) -> Any:
    """Fill a dataclass of the library with the options of the same names."""
    given = {field.name: getattr(group, field.name) for group in groups for field in fields(group)}
    return kind(**{field.name: given[field.name] for field in fields(kind)})


def open_text(
    text: TextOptions, task: TaskOptions | None = None, *, label_column: str | None = None
) -> "OpenSource":
    """Open the text that the options name; a bad name is refused before anything slow begins."""
    from attnprobe.corpus.sources.opening import open_anything
    from attnprobe.corpus.sources.text import EMBEDDED, Source

    return open_anything(
        Source(
            text.data.dataset or EMBEDDED,
            split=text.data.split,
            config=text.data.dataset_config,
            text_column=text.reading.text_column,
            pair_column=text.reading.text_pair_column,
            label_column=task.label_column if task else label_column,
            find_labels=task is not None,
        )
    )


def facts(source: "OpenSource") -> dict[str, Any]:
    """Record the command and its text."""
    return {"command": command_line(), "dataset": source.described}


def command_line() -> list[str]:
    """Give the command for the record, without the access token."""
    words, hide = ["attnprobe"], False
    for word in sys.argv[1:]:
        words.append("***" if hide else "--token=***" if word.startswith("--token=") else word)
        hide = word == "--token"
    return words


def progress(options: OutputOptions) -> TerminalProgress:
    """Show a progress bar on a terminal, unless the user asked for quiet."""
    bar = sys.stderr.isatty() and not (options.quiet or options.no_progress)
    return TerminalProgress(bar=bar, quiet=options.quiet)


def emit(table: "HeadTable", options: OutputOptions) -> None:
    """Write the table where the options say; notes go to standard error where the format has none."""
    from attnprobe.report.sink import write_table

    destination = settled(options)
    written = write_table(
        table,
        output=options.output,
        format=options.format,
        precision=options.precision,
        overwrite=options.overwrite,
        bom=options.bom,
    )
    if options.quiet:
        return
    for path in written:
        print(f"attnprobe: wrote {path}", file=sys.stderr)
    if destination.path is None and destination.format == "csv":
        for note in table.notes:
            print(f"attnprobe: {note}", file=sys.stderr)
