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
    ResumeOptions,
    TaskOptions,
    takes,
)
from attnprobe.cli.session import call, emit, keywords, prepare
from attnprobe.errors import UnfinishedError

PRUNING, SAVING = "Pruning", "Saving"


#: Options that ``dynamics`` has too.
Criterion = Annotated[
    str,
    typer.Option(
        help="Rank heads by gradient, lrp, ablation, entropy, confidence, or FILE:COLUMN of a table of "
        "heads.",
        rich_help_panel=PRUNING,
    ),
]
HighestFirst = Annotated[
    bool,
    typer.Option(
        "--highest-first",
        help="With FILE:COLUMN: remove the heads with the highest value first.",
        rich_help_panel=PRUNING,
    ),
]
Share = Annotated[
    float, typer.Option(help="Share of all heads that one step removes.", rich_help_panel=PRUNING)
]
Rerank = Annotated[
    bool,
    typer.Option(
        "--rerank", help="Rank the heads that are left anew after each step.", rich_help_panel=PRUNING
    ),
]
RandomOrders = Annotated[
    int, typer.Option(help="Number of random orders to compare with.", min=0, rich_help_panel=PRUNING)
]
RankData = Annotated[
    str | None,
    typer.Option(
        metavar="DATA",
        help="Rank heads on this and score on -d. Default: rank on half of -d, score on the other half.",
        rich_help_panel=PRUNING,
    ),
]


@takes(ModelOptions, DataOptions, ReadingOptions, TaskOptions, MetricOptions, ResumeOptions, OutputOptions)
def prune(
    model: ModelOptions,
    data: DataOptions,
    reading: ReadingOptions,
    task: TaskOptions,
    metric: MetricOptions,
    stopping: ResumeOptions,
    output: OutputOptions,
    by: Criterion = "gradient",
    highest_first: HighestFirst = False,
    step: Share = 0.1,
    rerank: Rerank = False,
    random_orders: RandomOrders = 5,
    rank_data: RankData = None,
    margin: Annotated[
        float | None,
        typer.Option(
            help="Loss of score that is allowed; the notes name the last step within it (one-sided 95 %).",
            rich_help_panel=PRUNING,
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write the checkpoint without --share of its heads, or those that --margin lets go.",
            rich_help_panel=SAVING,
        ),
    ] = None,
    share: Annotated[
        float | None, typer.Option(help="Share of all heads that --save removes.", rich_help_panel=SAVING)
    ] = None,
    physical: Annotated[
        bool,
        typer.Option(
            "--physical",
            help="Save a smaller and faster checkpoint, which only attnprobe reads. Default: one that any "
            "transformers loads, with the heads' weights at zero.",
            rich_help_panel=SAVING,
        ),
    ] = False,
) -> None:
    """Find how many heads can go.

    The table holds the score after each step. The least important heads are removed first: by gradient
    importance, by relevance (lrp: relevance_abs of importance --method lrp), by the score lost without the
    head, by entropy (the most spread first), by confidence, or by a column of a table. Random orders stand
    beside it: a criterion that is no better than chance says nothing.
    [bold]delta[/bold] is the score minus that of the whole model over the same examples,
    [bold]delta_random[/bold] the score minus the mean of the random orders, whose spread is part of its
    error. Each has its standard error (_se), a test ([bold]p[/bold], [bold]p_random[/bold]), and p adjusted
    for the number of steps by Holm (p_adjusted, p_random_adjusted). [bold]bound[/bold] is how much worse
    than the whole model the score is, at most (one-sided 95 %, paired); [bold]--margin 0.01[/bold] names the
    last step within a margin.
    [bold]rank_among_random[/bold] is 1 where the order is better than every random one.
    Heads are ranked on one half of the examples and scored on the other, or ranked on --rank-data.
    [bold]--save DIR --share 0.4[/bold] writes the checkpoint without 40 % of its heads.

    Examples:
      attnprobe prune demo -L 100

      attnprobe prune demo -L 100 --by lrp --rerank

      attnprobe prune my-bert -d dev.tsv --margin 0.01

      attnprobe prune my-bert -d dev.tsv --save pruned --share 0.4
    """
    prepare(model, output, stopping, [data.dataset, rank_data, by.rpartition(":")[0]])
    if save is not None and output.output is not None:
        from attnprobe.table.destination import check_outside

        check_outside(output.output, save, "-o")
    from attnprobe.api import prune as api

    options = keywords(model, data, reading, task, metric, stopping)
    options |= {"by": by, "highest_first": highest_first, "step": step, "rerank": rerank}
    options |= {"random_orders": random_orders, "rank_texts": rank_data, "save": save, "share": share}
    options |= {"physical": physical, "margin": margin, "overwrite": output.overwrite}
    try:
        table = call(api.prune, output, model.model, data.dataset, **options)
    except UnfinishedError as error:
        emit(error.table, output)
        raise
    emit(table, output)
