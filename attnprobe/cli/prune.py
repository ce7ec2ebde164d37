"""The command that asks how many heads can go, and lets them go."""

from pathlib import Path
from typing import Annotated

import typer

from attnprobe.cli.options import (
    DataOptions,
    MetricOptions,
    ModelOptions,
    OutputOptions,
    ReadingOptions,
    TaskOptions,
    TextOptions,
    takes,
)
from attnprobe.cli.session import (
    command_line,
    corpus_options,
    emit,
    facts,
    loader,
    open_text,
    prepare,
    progress,
    task_options,
)
from attnprobe.errors import AttnprobeError

PRUNING, SAVING = "Pruning", "Saving"
STDIN = "-"


@takes(ModelOptions, DataOptions, ReadingOptions, TaskOptions, MetricOptions, OutputOptions)
def prune(
    model: ModelOptions,
    data: DataOptions,
    reading: ReadingOptions,
    task: TaskOptions,
    metric: MetricOptions,
    output: OutputOptions,
    by: Annotated[
        str,
        typer.Option(
            help="gradient, ablation, entropy, confidence, or FILE:COLUMN of a table of heads.",
            rich_help_panel=PRUNING,
        ),
    ] = "gradient",
    highest_first: Annotated[
        bool,
        typer.Option(
            "--highest-first",
            help="With FILE:COLUMN: remove the heads with the highest value first.",
            rich_help_panel=PRUNING,
        ),
    ] = False,
    step: Annotated[
        float, typer.Option(help="Share of all heads that goes in one step.", rich_help_panel=PRUNING)
    ] = 0.1,
    rerank: Annotated[
        bool,
        typer.Option(
            "--rerank", help="Rank the heads that are left anew after each step.", rich_help_panel=PRUNING
        ),
    ] = False,
    random_orders: Annotated[
        int, typer.Option(help="Random orders to stand beside.", min=0, rich_help_panel=PRUNING)
    ] = 5,
    rank_data: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Rank on this, score on -d. Default: rank on half of -d, score on the other half.",
            rich_help_panel=PRUNING,
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write the checkpoint without --share of its heads.", rich_help_panel=SAVING
        ),
    ] = None,
    share: Annotated[
        float | None, typer.Option(help="Share of all heads that --save removes.", rich_help_panel=SAVING)
    ] = None,
    physical: Annotated[
        bool,
        typer.Option(
            "--physical",
            help="Save a smaller and faster checkpoint, for attnprobe.load_pruned. Default: one that any "
            "transformers loads, with the heads' weights at zero.",
            rich_help_panel=SAVING,
        ),
    ] = False,
) -> None:
    """How many heads can go.

    The score after each step, with heads removed the least important first: by gradient importance, by
    the score lost without the head, by entropy (the most spread first), by confidence, or by a column of a
    table. Random orders stand beside it: a criterion that is no better than chance says nothing.
    Heads are ranked on one half of the examples and scored on the other, or ranked on --rank-data.
    [bold]--save DIR --share 0.4[/bold] writes the checkpoint without 40 % of its heads.

    Examples:
      attnprobe prune demo -L 100

      attnprobe prune my-classifier -d dev.tsv --rank-data train.tsv --save pruned --share 0.4
    """
    prepare(model, output)
    if (save is None) != (share is None):
        raise AttnprobeError("--save and --share go together: --save DIR --share 0.4.")
    if physical and save is None:
        raise AttnprobeError("--physical says how --save writes; add --save DIR --share 0.4.")
    from attnprobe.intervention.pruning.curve import PruneOptions, pruned_in_steps
    from attnprobe.intervention.pruning.ranking import Criterion
    from attnprobe.intervention.pruning.writing import remove_heads
    from attnprobe.model.removing.saving import check_free

    criterion = Criterion.parse(by, highest_first=highest_first)
    pruning = PruneOptions(criterion, step, rerank, random_orders, share)
    if save is not None:
        check_free(save, overwrite=output.overwrite)
    if rank_data == data.dataset == STDIN:
        raise AttnprobeError("Standard input can be read once; give a file for --rank-data or -d.")
    text = TextOptions(data, reading)
    options, source = corpus_options(text), open_text(text, task)
    rank_source = None if rank_data is None else open_text(TextOptions(DataOptions(rank_data), reading), task)
    with progress(output) as watcher:
        watcher.stage("loading", None)
        with pruned_in_steps(
            loader(model),
            source,
            rank_source,
            options,
            task_options(task, metric.metric),
            pruning,
            facts=facts(source),
            progress=watcher,
        ) as (found, bench):
            table = found.table
            if save is not None:
                table = remove_heads(
                    found,
                    bench,
                    save,
                    physical=physical,
                    overwrite=output.overwrite,
                    record={"command": command_line()},
                    progress=watcher,
                )
    emit(table, output)
