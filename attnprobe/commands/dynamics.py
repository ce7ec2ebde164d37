"""The command that follows a measure over the checkpoints of a training run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Unpack

from attnprobe.options import (
    MODEL,
    OUTPUT,
    FrequencyOptions,
    LabelsArgument,
    LayerOptions,
    MetricOptions,
    ModelOptions,
    ResumeOptions,
    TableOutput,
    TaskOptions,
    TextOptions,
    TextsArgument,
    TokenOptions,
    WeightOptions,
)
from attnprobe.registry import Option, Rule, command

if TYPE_CHECKING:
    from pathlib import Path

    from attnprobe.session.texts import Texts
    from attnprobe.table.table import HeadTable


class DynamicsOptions(
    ModelOptions,
    TextOptions,
    FrequencyOptions,
    TokenOptions,
    TaskOptions,
    MetricOptions,
    WeightOptions,
    LayerOptions,
    ResumeOptions,
    total=False,
):
    """What the measures of a training run are asked with."""


@command(
    TableOutput,
    rules=[
        Rule(
            "--by step is about an order of heads, and pruning curves have none; leave it out, or ask for "
            "--measure importance.",
            given=("measure=prune", "by=step"),
        )
    ],
)
def dynamics(
    model: Annotated[
        "str | Path | Sequence[str | Path]",
        Option(
            "Checkpoints of one training run: folders, 'run/checkpoint-*', or hub ids; or one with "
            "--revisions.",
            metavar="MODEL...",
            line=list[str],
            argument=True,
        ),
    ],
    texts: TextsArgument = None,
    labels: LabelsArgument = None,
    *,
    measure: Annotated[
        str,
        Option(
            "importance, prune, census, everything, rank, mixing, or columns: entropy,previous.",
            doc="What to follow: importance, prune, census, columns or families of it (entropy,previous), "
            "rank, mixing or a column of these, everything.",
            metavar="NAME",
        ),
    ] = "importance",
    revisions: Annotated[
        str | Sequence[str] | None,
        Option(
            "Revisions of the one MODEL: step1000,step2000.",
            metavar="NAME,NAME",
            line=str | None,
            panel=MODEL,
        ),
    ] = None,
    steps: Annotated[
        str | Sequence[int] | None,
        Option(
            "The step of each checkpoint. Default: as its name says.",
            doc="The step of each checkpoint, in their order; by default as its name says, checkpoint-500, "
            "epoch-04, step1000.",
            metavar="0,500,1000",
            hidden=True,
            line=str | None,
            panel=MODEL,
        ),
    ] = None,
    by: Annotated[
        Literal["head", "step"],
        Option(
            "A row for each step and head, or for each step: how close the order of heads is to the last.",
            panel=OUTPUT,
        ),
    ] = "head",
    method: Annotated[
        Literal["gradient", "ig", "lrp", "confidence"],
        Option("With --measure importance: as of importance.", metavar="NAME", hidden=True),
    ] = "gradient",
    prune_by: Annotated[str, Option("With prune: its --by.", reads="order", hidden=True)] = "gradient",
    highest_first: Annotated[bool, Option("With prune: its --highest-first.", hidden=True)] = False,
    prune_step: Annotated[float, Option("With prune: its --step.", above=0, high=1, hidden=True)] = 0.1,
    rerank: Annotated[bool, Option("With prune: its --rerank.", hidden=True)] = False,
    random_orders: Annotated[int, Option("With prune: its --random-orders.", low=0, hidden=True)] = 19,
    rank_texts: Annotated[
        "Texts",
        Option(
            "With prune: its --rank-data.",
            name="rank_data",
            metavar="DATA",
            line=str | None,
            reads="data",
            hidden=True,
        ),
    ] = None,
    **options: Unpack[DynamicsOptions],
) -> "HeadTable":
    """How do heads change over a training run?

    The table is that of the measure's own command for each checkpoint. The checkpoints are loaded
    one after the other and need one tokenizer.

    Columns:
      step             the number behind step, checkpoint or epoch in the name
      importance, ...  see the help of the measure's command
      spearman_last, kendall_last
                       with --by step: rank correlation with the last step
      spearman_previous, kendall_previous
                       with --by step: with the step before

    Examples:
      attnprobe dynamics 'my-run/checkpoint-*' -d dev.tsv -o dynamics.csv
      attnprobe dynamics 'run/checkpoint-*' -d dev.tsv --by step -o settling.csv
      attnprobe dynamics 'run/checkpoint-*' -d dev.tsv --measure prune
      attnprobe dynamics demo demo --steps 0,100 -L 20 --measure entropy

    Returns:
        The rows of the measure's own table with a column ``step``; its record holds that of every checkpoint.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do; the step is named where only one
            checkpoint is wrong.

    References:
        Michel, Levy and Neubig (2019), Are sixteen heads really better than one?, section 6.

    >>> table = dynamics(["demo", "demo"], ["The parcel came late."], measure="entropy", steps=[0, 100])
    >>> list(table.data)[:6]
    ['model', 'dataset', 'step', 'layer', 'head', 'n']
    >>> sorted(set(table["step"].tolist()))
    [0, 100]
    """
    from attnprobe.commands.call.following import follow

    chosen = {"measure": measure, "revisions": revisions, "steps": steps, "by": by}
    chosen |= {"method": method, "prune_by": prune_by, "highest_first": highest_first, "rerank": rerank}
    chosen |= {"prune_step": prune_step, "random_orders": random_orders, "rank_texts": rank_texts}
    run = follow(model, texts, labels, **chosen, **options)
    return run.tabulate_steps() if by == "step" else run.tabulate_heads()
