"""The command that asks how many heads can go, and lets them go."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from attnprobe.commands.output import Output
from attnprobe.commands.registry import Rule, command
from attnprobe.option import Option
from attnprobe.options import SWITCHING, Metric, OneModel, Resume

if TYPE_CHECKING:
    from attnprobe.commands.call.texts import Texts
    from attnprobe.corpus.sources.document import Label
    from attnprobe.table.table import HeadTable

PRUNING, SAVING = "Pruning", "Saving"
#: Options that ``dynamics`` has too.
By = Annotated[
    str,
    Option(
        "Rank heads by gradient, gradient-normed, fisher, ig, lrp, ablation, or FILE:COLUMN of a table of "
        "heads.",
        reads="order",
        panel=PRUNING,
    ),
]
HighestFirst = Annotated[
    bool, Option("With FILE:COLUMN: remove the heads with the highest value first.", panel=PRUNING)
]
Step = Annotated[float, Option("Share of all heads that one step removes.", above=0, high=1, panel=PRUNING)]
Rerank = Annotated[bool, Option("Rank the heads that are left anew after each step.", panel=PRUNING)]
RandomOrders = Annotated[int, Option("Number of random orders to compare with.", low=0, panel=PRUNING)]
RankTexts = Annotated[
    "Texts",
    Option(
        "Rank heads on this and score on -d. Default: rank on half of -d, score on the other half.",
        doc="Texts to rank on; by default one half of texts, and scores are of the other.",
        name="rank_data",
        metavar="DATA",
        line=str | None,
        reads="data",
        panel=PRUNING,
    ),
]
_TOGETHER = "--save and --share go together: --save DIR --share 0.4, or --margin 0.01."
_PHYSICAL = "--physical says how --save writes; add --save DIR --share 0.4."


@command(
    OneModel,
    *SWITCHING,
    Metric,
    Resume,
    Output,
    rules=[
        Rule(_TOGETHER, given=("share",), lacks=("save",)),
        Rule(_TOGETHER, given=("save",), lacks=("share", "margin")),
        Rule(_PHYSICAL, given=("physical",), lacks=("save",)),
    ],
)
def prune(
    model: Any,
    texts: "Texts" = None,
    labels: "Iterable[Label] | None" = None,
    *,
    by: By = "gradient",
    highest_first: HighestFirst = False,
    step: Step = 0.1,
    rerank: Rerank = False,
    random_orders: Annotated[
        int | None,
        Option(
            "Number of random orders to compare with. Default: 19; with --margin none.",
            low=0,
            panel=PRUNING,
        ),
    ] = None,
    rank_texts: RankTexts = None,
    margin: Annotated[
        float | None,
        Option(
            "Loss of score that is allowed (one-sided 95 %): heads go until it is more, and a note says how "
            "many can.",
            doc="Loss of score that is allowed, in the score's unit (one-sided 95 %): heads go step by step "
            "until it is more, then one by one inside that step, beside no random orders by default.",
            above=0,
            panel=PRUNING,
        ),
    ] = None,
    save: Annotated[
        Path | str | None,
        Option(
            "Write the checkpoint without --share of its heads, or those that --margin lets go.",
            doc="Folder to write the pruned checkpoint to, without share of its heads, or those that can go "
            "within margin.",
            metavar="DIR",
            line=Path | None,
            place=True,
            panel=SAVING,
        ),
    ] = None,
    share: Annotated[
        float | None,
        Option("Share of all heads that --save removes.", above=0, high=1, place=True, panel=SAVING),
    ] = None,
    physical: Annotated[
        bool,
        Option(
            "Save a smaller and faster checkpoint, which only attnprobe reads. Default: one that any "
            "transformers loads, with the heads' weights at zero.",
            place=True,
            panel=SAVING,
        ),
    ] = False,
    overwrite: Annotated[bool, Option(doc="Replace a pruned checkpoint that lies at save.")] = False,
    **options: Any,
) -> "HeadTable":
    """Find how many heads can go.

    The table holds the score after each step. The least important heads are removed first: by gradient
    importance ([bold]gradient[/bold]; [bold]gradient-normed[/bold]: divided by the norm of its layer, as
    Michel et al. 2019 do; [bold]fisher[/bold]: its square), by integrated gradients ([bold]ig[/bold]: ig_abs
    of importance --method ig), by relevance ([bold]lrp[/bold]: relevance_abs), by how far the score of each
    example moves without the head ([bold]ablation[/bold]), or by a column of a table, beside random orders.
    [bold]delta[/bold] is the score minus that of the whole model over the same examples,
    [bold]delta_random[/bold] the score minus the mean of the random orders, whose spread is part of its
    error. Each has a test ([bold]p[/bold], [bold]p_random[/bold]), adjusted for the number of steps by Holm
    (p_adjusted, p_random_adjusted). [bold]bound[/bold] is how much worse
    than the whole model the score is, at most (one-sided 95 %, paired). With [bold]--margin 0.01[/bold],
    heads go in tenths until the bound is more than that, then one by one inside that tenth (where it has
    more than ten heads, in ten parts): 20 passes at most. The tenths hold at 95 %; the heads inside the
    failing one are a refinement, with which it is 90 %.
    [bold]rank_among_random[/bold] is 1 where the order is better than every random one.
    Heads are ranked on one half of the examples and scored on the other, or ranked on --rank-data.
    [bold]--save DIR --share 0.4[/bold] writes the checkpoint without 40 % of its heads.

    Examples:
      attnprobe prune demo -L 100

      attnprobe prune demo -L 100 --by ablation -o curve.csv

      attnprobe prune my-bert -d dev.tsv --margin 0.01

      attnprobe prune my-bert -d dev.tsv --save pruned --share 0.4

    Returns:
        One row for each step of each order, also of the random ones.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do. Where only the checkpoint could
            not be written, it has the table as ``error.table``.
    """
    from attnprobe.commands.call.call import open_labelled, open_task
    from attnprobe.commands.call.texts import check_standard_input
    from attnprobe.intervention.pruning.criterion import Criterion
    from attnprobe.model.folders import check_free
    from attnprobe.table.destination import check_outside

    criterion = Criterion.parse(by, highest_first=highest_first)
    for option, given in (("--rerank", rerank), ("--rank-data", rank_texts is not None)):
        if given:
            criterion.check_measured(option)
    check_standard_input(texts, rank_texts)
    if save is not None:
        reads = [getattr(data, "spec", data) for data in (model, texts, rank_texts, criterion.path)]
        for path in (read for read in reads if isinstance(read, str | Path) and Path(read).exists()):
            check_outside(Path(path), Path(save), f"{path}, which is read,")
        if options.get("resume") is not None:
            check_outside(Path(options["resume"]), Path(save), "--resume")
        check_free(Path(save), overwrite=overwrite)
    if random_orders is None:
        random_orders = 19 if margin is None else 0  # the best of 20 at a step is p = .05
    with open_task("prune", model, texts, labels, options) as session:
        ranked = options | {"name": None, "split": None, "dataset_config": None}
        rank_source = None if rank_texts is None else open_labelled(rank_texts, None, session.task, ranked)
        from attnprobe.intervention.pruning.curve import prune_in_steps
        from attnprobe.intervention.pruning.writing import Saving

        saving = None if save is None else Saving(Path(save), share, physical, overwrite)
        walk = {"step": step, "rerank": rerank, "random_orders": random_orders, "margin": margin}
        pruned = prune_in_steps(session, criterion, rank_source, saving, **walk)
        return pruned.table if saving is None else saving.write(pruned, session)
