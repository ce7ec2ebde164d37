"""The command that asks how many heads can go, and lets them go."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from attnprobe.errors import UsageError
from attnprobe.options import LabelsArgument, ModelArgument, ScoreOptions, TableOutput, TextsArgument
from attnprobe.registry import Option, command

if TYPE_CHECKING:
    from attnprobe.session.texts import Texts
    from attnprobe.table.table import HeadTable


@command(TableOutput)
def prune(
    model: ModelArgument,
    texts: TextsArgument = None,
    labels: LabelsArgument = None,
    *,
    by: Annotated[
        str, Option("gradient, gradient-normed, fisher, ig, lrp, ablation, or FILE:COLUMN.", reads="order")
    ] = "gradient",
    highest_first: Annotated[
        bool, Option("With FILE:COLUMN: remove the heads with the highest value first.", hidden=True)
    ] = False,
    step: Annotated[float, Option("Share of all heads that one step removes.", above=0, high=1)] = 0.1,
    rerank: Annotated[
        bool, Option("Rank the heads that are left anew after each step.", hidden=True)
    ] = False,
    random_orders: Annotated[
        int | None, Option("Number of random orders. Default: 19; with --margin none.", low=0, hidden=True)
    ] = None,
    rank_texts: Annotated[
        "Texts",
        Option(
            "Rank heads on this. Default: on half of the data, scored on the other.",
            name="rank_data",
            metavar="DATA",
            line=str | None,
            reads="data",
        ),
    ] = None,
    margin: Annotated[
        float | None,
        Option(
            "Loss of score that is allowed: say how many heads can go.",
            doc="Loss of score that is allowed, in the score's unit (one-sided 95 %): heads go step by step "
            "until it is more, then one by one inside that step, beside no random orders by default.",
            above=0,
        ),
    ] = None,
    save: Annotated[
        Path | str | None,
        Option(
            "Write the checkpoint without --share of its heads, or what --margin allows.",
            doc="Folder to write the pruned checkpoint to, without share of its heads, or those that can go "
            "within margin.",
            metavar="DIR",
            line=Path | None,
        ),
    ] = None,
    share: Annotated[float | None, Option("Share of all heads that --save removes.", above=0, high=1)] = None,
    physical: Annotated[
        bool,
        Option(
            "Save a smaller checkpoint, which only attnprobe reads.",
            hidden=True,
            doc="Save a smaller and faster checkpoint, which only attnprobe reads; by default one that any "
            "transformers loads, with the heads' weights at zero.",
        ),
    ] = False,
    overwrite: Annotated[bool, Option(doc="Replace a pruned checkpoint that lies at save.")] = False,
    **options: Unpack[ScoreOptions],
) -> "HeadTable":
    """How many heads can go?

    The table holds the score after each step, the least important heads removed first, beside random
    orders. Heads are ranked on one half of the examples and scored on the other, or ranked on --rank-data.
    With --margin 0.01, heads go in tenths until the bound is more than that (95 %), then one by one inside
    that tenth (90 %): 20 passes at most.

    Columns:
      criterion, seed    how heads were ranked; of a random order, its seed
      heads_removed, share_removed
                         how many heads are gone
      score, n           score without them; examples
      delta, p, p_adjusted
                         score less that of the whole model, paired; Holm's
      bound              how much worse than the whole model at most, at 95 %
      delta_random, p_random, p_random_adjusted
                         score less the mean of random orders, with their spread
      rank_among_random  1 where the order is better than every random one

    Examples:
      attnprobe prune demo -L 100
      attnprobe prune demo -L 100 --by ablation -o curve.csv
      attnprobe prune my-bert -d dev.tsv --margin 0.01
      attnprobe prune my-bert -d dev.tsv --save pruned --share 0.4

    Returns:
        One row for each step of each order, also of the random ones.

    Raises:
        AttnprobeError: With one sentence; it has ``error.table`` where only the checkpoint was not written.
    """
    from attnprobe.intervention.pruning.criterion import Criterion
    from attnprobe.model.folders import check_free
    from attnprobe.session.session import open_labelled, open_task, read_task
    from attnprobe.session.texts import check_standard_input
    from attnprobe.table.destination import check_outside

    if (share is not None and save is None) or (save is not None and share is None and margin is None):
        raise UsageError("--save and --share go together: --save DIR --share 0.4, or --margin 0.01.")
    if physical and save is None:
        raise UsageError("--physical says how --save writes; add --save DIR.")
    if share == 1:
        raise UsageError("--share must be less than 1: of no head there is no checkpoint.")
    criterion = Criterion.parse(by, highest_first=highest_first)
    for option, given in (("--rerank", rerank), ("--rank-data", rank_texts is not None)):
        if given:
            criterion.check_measured(option)
    check_standard_input(texts, rank_texts)
    if save is not None:
        reads = [getattr(data, "spec", data) for data in (model, texts, rank_texts, criterion.path)]
        for path in (read for read in reads if isinstance(read, str | Path) and Path(read).exists()):
            check_outside(Path(path), Path(save), f"{path}, which is read,")
        if (resume := options["resume"]) is not None:
            check_outside(Path(resume), Path(save), "--resume")
        check_free(Path(save), overwrite=overwrite)
    if random_orders is None:
        random_orders = 19 if margin is None else 0  # the best of 20 at a step is p = .05
    rank_source = None
    if rank_texts is not None:
        ranked = {**options, "name": None, "split": None, "dataset_config": None}
        rank_source = open_labelled(rank_texts, None, read_task(options, labels), ranked)
    with open_task("prune", model, texts, labels, options) as session:
        from attnprobe.intervention.pruning.curve import prune_in_steps
        from attnprobe.intervention.pruning.writing import Saving

        saving = None if save is None else Saving(Path(save), share, physical, overwrite)
        walk = {"step": step, "rerank": rerank, "random_orders": random_orders, "margin": margin}
        pruned = prune_in_steps(session, criterion, rank_source, saving, **walk)
        return pruned.table if saving is None else saving.write(pruned, session)
