"""The command that asks how many heads can go, and lets them go."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from attnprobe.errors import AttnprobeError
from attnprobe.options import LabelsArgument, ModelArgument, ScoreOptions, TableOutput, TextsArgument
from attnprobe.registry import Option, Rule, command

if TYPE_CHECKING:
    from attnprobe.commands.call.texts import Texts
    from attnprobe.intervention.pruning.options import Criterion, PruneOptions
    from attnprobe.intervention.pruning.writing import Pruning
    from attnprobe.intervention.task import TaskSession
    from attnprobe.table.table import HeadTable

#: Options that ``dynamics`` has too.
By = Annotated[
    str,
    Option(
        "Rank heads by gradient, gradient-normed, fisher, ig, lrp, ablation, or FILE:COLUMN of a table of "
        "heads.",
        reads="order",
    ),
]
HighestFirst = Annotated[bool, Option("With FILE:COLUMN: remove the heads with the highest value first.")]
Step = Annotated[float, Option("Share of all heads that one step removes.")]
Rerank = Annotated[bool, Option("Rank the heads that are left anew after each step.")]
RandomOrders = Annotated[int, Option("Number of random orders to compare with.", low=0)]
RankTexts = Annotated[
    "Texts",
    Option(
        "Rank heads on this and score on -d. Default: rank on half of -d, score on the other half.",
        doc="Texts to rank on; by default one half of texts, and scores are of the other.",
        name="rank_data",
        metavar="DATA",
        line=str | None,
        reads="data",
    ),
]
_STDIN = "-"
_TOGETHER = "--save and --share go together: --save DIR --share 0.4, or --margin 0.01."
_PHYSICAL = "--physical says how --save writes; add --save DIR --share 0.4."


@command(
    TableOutput,
    rules=[
        Rule(_TOGETHER, given=("share",), lacks=("save",)),
        Rule(_TOGETHER, given=("save",), lacks=("share", "margin")),
        Rule(_PHYSICAL, given=("physical",), lacks=("save",)),
    ],
)
def prune(
    model: ModelArgument,
    texts: TextsArgument = None,
    labels: LabelsArgument = None,
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
        ),
    ] = None,
    share: Annotated[float | None, Option("Share of all heads that --save removes.")] = None,
    physical: Annotated[
        bool,
        Option(
            "Save a smaller and faster checkpoint, which only attnprobe reads. Default: one that any "
            "transformers loads, with the heads' weights at zero.",
        ),
    ] = False,
    overwrite: Annotated[bool, Option(doc="Replace a pruned checkpoint that lies at save.")] = False,
    **options: Unpack[ScoreOptions],
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
    from attnprobe.commands.call.call import check_model, make_session, open_call, open_labelled, read_task
    from attnprobe.intervention.pruning.options import RANDOM_ORDERS, Criterion, PruneOptions, check_ranked
    from attnprobe.model.folders import check_free

    folder = None if save is None else Path(save)
    criterion = Criterion.parse(by, highest_first=highest_first)
    if random_orders is None:
        random_orders = RANDOM_ORDERS if margin is None else 0
    saving = folder is not None
    pruning = PruneOptions(criterion, step, rerank, random_orders, share, physical, margin, saving)
    if rank_texts is not None:
        check_ranked(criterion)
    if folder is not None:
        _check_apart(folder, (model, texts, rank_texts, criterion.path), options.get("resume"))
        check_free(folder, overwrite=overwrite)
    if all(isinstance(data, str) and data == _STDIN for data in (texts, rank_texts)):
        raise AttnprobeError("Standard input can be read once; give a file for --rank-data or -d.")
    with open_call(options, model) as call:
        task = read_task(options, labels)
        check_model(model, call.tokenizer, options)
        source = open_labelled(texts, labels, task, options)
        ranked = options | {"name": None, "split": None, "dataset_config": None}
        rank_source = None if rank_texts is None else open_labelled(rank_texts, None, task, ranked)
        session = make_session("prune", model, source, task, call)
        from attnprobe.intervention.pruning.curve import prune_in_steps

        session = replace(session, facts=session.facts | _describe_order(criterion))
        pruned = prune_in_steps(session, pruning, rank_source)
        if folder is None:
            return pruned.table
        return _write_checkpoint(pruned, folder, pruning, session, overwrite=overwrite)


def _write_checkpoint(
    pruned: "Pruning", folder: Path, pruning: "PruneOptions", session: "TaskSession", *, overwrite: bool
) -> "HeadTable":
    from attnprobe.errors import UnfinishedError
    from attnprobe.intervention.pruning.writing import remove_heads
    from attnprobe.run.process_group import Ranks

    if not Ranks.detect().first:
        return pruned.table
    if not pruned.removed:
        raise UnfinishedError(
            f"No step lies within --margin {pruning.margin:g}, so nothing is written; take more examples, a "
            "wider margin or --share.",
            pruned.table,
        )
    try:
        return remove_heads(
            pruned,
            folder,
            physical=pruning.physical,
            overwrite=overwrite,
            record={"command": session.facts["command"]},
            progress=session.progress,
        )
    except AttnprobeError as error:  # a full disk must not take hours of scores along
        raise UnfinishedError(str(error), pruned.table) from error


def _check_apart(folder: Path, reads: Iterable[Any], resume: Path | str | None) -> None:
    """Refuse to write a checkpoint over, or around, what is read or kept."""
    from attnprobe.corpus.sources.text import Source
    from attnprobe.files import lies_in
    from attnprobe.table.destination import check_outside

    for read in reads:
        named = read.spec if isinstance(read, Source) else read
        path = Path(named) if isinstance(named, str | Path) and str(named) not in {"", _STDIN} else None
        if path is not None and path.exists() and lies_in(path, folder):
            raise AttnprobeError(f"--save would write over {path}, which is read; choose another folder.")
    if resume is not None:
        check_outside(Path(resume), folder, "--resume")


def _describe_order(criterion: "Criterion") -> dict[str, Any]:
    if criterion.path is None:
        return {}
    from attnprobe.table.reading import describe_table

    return {"order": describe_table(criterion.path)}
