"""The command that follows a measure over the checkpoints of a training run."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import typer

from attnprobe.cli.options import (
    MODEL,
    OUTPUT,
    ImportanceMethod,
    Keep,
    LayerOptions,
    MetricOptions,
    ModelOptions,
    OutputOptions,
    ResumeOptions,
    TaskOptions,
    TextOptions,
    WeightOptions,
    takes,
)
from attnprobe.cli.prune import Criterion, HighestFirst, RandomOrders, RankData, Rerank, Share
from attnprobe.cli.session import call, emit, keywords, prepare, settled

#: The measure whose rows are steps of a curve, not heads.
_CURVES = "prune"


@dataclass(frozen=True)
class RunOptions(ModelOptions):
    """Which checkpoints, and how each is loaded."""

    model: Annotated[  # type: ignore[assignment]
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Checkpoints of one training run: folders, patterns of folders such as 'run/checkpoint-*', "
            "or hub ids; or one hub id with --revisions.",
        ),
    ]


@dataclass(frozen=True)
class FollowOptions:
    """The text, the task, and all that any measure can be asked."""

    text: TextOptions = field(default_factory=TextOptions)
    task: TaskOptions = field(default_factory=TaskOptions)
    metric: MetricOptions = field(default_factory=MetricOptions)
    weighting: WeightOptions = field(default_factory=WeightOptions)
    layers: LayerOptions = field(default_factory=LayerOptions)
    stopping: ResumeOptions = field(default_factory=ResumeOptions)


@takes(RunOptions, FollowOptions, OutputOptions)
def dynamics(
    model: RunOptions,
    asked: FollowOptions,
    output: OutputOptions,
    measure: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What to follow: importance, prune, census, columns or families of it (entropy,previous), "
            "rank, mixing or a column of these, everything.",
        ),
    ] = "importance",
    revisions: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME", help="Revisions of the one MODEL: step1000,step2000.", rich_help_panel=MODEL
        ),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(
            metavar="0,500,1000",
            help="The step of each checkpoint, in their order. Default: as its name says, checkpoint-500, "
            "epoch-04, step1000.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    by: Annotated[
        Literal["head", "step"],
        typer.Option(
            help="Give one row for each step and head, or one for each step: how close the order of heads is "
            "to that of the last step and of the step before.",
            rich_help_panel=OUTPUT,
        ),
    ] = "head",
    keep: Keep = True,
    method: ImportanceMethod = "gradient",
    prune_by: Criterion = "gradient",
    highest_first: HighestFirst = False,
    prune_step: Share = 0.1,
    rerank: Rerank = False,
    random_orders: RandomOrders = 5,
    rank_data: RankData = None,
) -> None:
    """Follow a measure of heads over the checkpoints of a training run.

    The table is that of the measure's own command with a column [bold]step[/bold], read from the names of
    the checkpoints: the number behind a word such as step, checkpoint or epoch, or else the last one. The
    checkpoints are loaded one after the other and need one tokenizer.
    Notes say from which step on the order of heads is that of the last one.

    With [bold]--by step[/bold]: [bold]spearman_last, kendall_last[/bold], the rank correlation of heads with
    the last step; [bold]spearman_previous, kendall_previous[/bold], with the step before; for each column
    that is measured and each kind of attention.

    With [bold]--measure prune[/bold]: the pruning curve of every checkpoint (Michel et al. 2019, section 6).

    [bold]--resume[/bold] keeps the steps that are done; checkpoints that come later are measured alone.

    Examples:
      attnprobe dynamics 'my-run/checkpoint-*' -d dev.tsv -o dynamics.csv

      attnprobe dynamics 'run/checkpoint-*' --measure entropy,previous --by step

      attnprobe dynamics 'run/checkpoint-*' -d dev.tsv --measure prune

      attnprobe dynamics my-org/my-model --revisions step1000,step2000 --no-keep

      attnprobe dynamics demo demo --steps 0,100 -L 20 --measure entropy
    """
    reads = [*asked.text.reads, rank_data, prune_by.rpartition(":")[0]]
    prepare(model, output, asked.stopping, reads)
    from attnprobe.api import dynamics as api

    destination = settled(output)
    options: dict[str, Any] = keywords(model, asked)
    options |= {"measure": measure, "revisions": revisions, "steps": steps, "by": by, "keep": keep}
    options |= {"method": method, "prune_by": prune_by, "highest_first": highest_first, "rerank": rerank}
    options |= {"prune_step": prune_step, "random_orders": random_orders, "rank_texts": rank_data}
    found = call(api.followed, output, model.model, asked.text.data.dataset, **options)
    emit(found.by_step() if by == "step" else found.by_head(), output)
    if by == "head" and measure != _CURVES and destination.format == "table":
        print()
        emit(replace(found.by_step(), notes=[]), output)  # which stand below the first table
