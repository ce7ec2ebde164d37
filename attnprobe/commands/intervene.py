"""The commands that switch heads (importance, ablate, interact, prune), and patch, which replaces some."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Unpack

from attnprobe.errors import UsageError
from attnprobe.intervention.request import Criterion
from attnprobe.model.folders import check_free
from attnprobe.options import (
    CauseOptions,
    LabelsArgument,
    ModelArgument,
    ScoreOptions,
    TableOutput,
    TextsArgument,
    data_option,
    text_option,
)
from attnprobe.registry import Option, command
from attnprobe.session.session import (
    make_session,
    open_call,
    open_labelled,
    open_task,
    read_first,
    read_task,
)
from attnprobe.session.texts import check_standard_input, open_pairs
from attnprobe.table.destination import check_outside

if TYPE_CHECKING:
    from attnprobe.corpus.source import GivenTexts
    from attnprobe.table.table import HeadTable

Correction = Annotated[Literal["holm", "bh"], Option("holm, or bh (Benjamini and Hochberg).")]


@command(TableOutput)
def importance(
    model: ModelArgument,
    texts: TextsArgument = None,
    labels: LabelsArgument = None,
    *,
    method: Annotated[
        Literal["gradient", "ig", "lrp", "confidence"], Option("gradient, ig, lrp or confidence.")
    ] = "gradient",
    nodes: Annotated[int, Option("With --method ig: points of the integral.", low=1, high=64)] = 4,
    content_only: Annotated[
        bool, text_option("With --method confidence: drop special tokens first.")
    ] = False,
    **options: Unpack[CauseOptions],
) -> "HeadTable":
    """How much does each head matter for the task?

    A message says which task was chosen from the checkpoint's trained head and the labels;
    --objective overrides it.

    Columns:
      importance       mean over examples of |d loss / d mask| (Michel 2019)
      importance_normalized
                       divided by the l2 norm of its layer
      gradient_signed  mean of the derivative itself; positive: the head hurts
      fisher           mean of its square
      ig, ig_abs       with --method ig: the derivative integrated from heads off
                       to heads on (Sundararajan et al. 2017); its size
      relevance, relevance_abs, relevance_share
                       with --method lrp: how much of the prediction came through
                       it (Voita et al. 2019); its size; its share of the layer
      NAME_se, n       standard error over documents; examples

    With --method confidence, importance is the mean largest attention weight, without a task.

    Examples:
      attnprobe importance demo > heads.csv
      attnprobe importance my-bert -d reviews.tsv --label-column stars -o in.csv
      attnprobe importance my-qa-model -d dev-v2.0.json --method lrp -o heads.csv

    >>> table = importance("demo", ["The parcel came late.", "Who rang?"])
    >>> len(table), table["objective"][0]
    (24, np.str_('masked-lm'))
    """
    if nodes != 4 and method != "ig":
        raise UsageError("--nodes is for --method ig; leave it out.")
    if content_only and method != "confidence":
        raise UsageError("--content-only is for --method confidence.")
    of_a_task = (options["objective"], options["label_column"], labels)
    if method == "confidence" and (options["force_head"] or any(one is not None for one in of_a_task)):
        raise UsageError("--method confidence needs no task; leave out its options.")
    with open_task("importance", model, texts, labels, {**options, "content_only": content_only}) as session:
        if method == "confidence":
            from attnprobe.session.confidence import measure_confidence

            return measure_confidence(session)
        from attnprobe.intervention.importance import run_importance

        return run_importance(session, method, nodes)


@command(TableOutput)
def ablate(
    model: ModelArgument,
    texts: TextsArgument = None,
    labels: LabelsArgument = None,
    *,
    keep_one: Annotated[bool, Option("Switch off all other heads of the layer instead.")] = False,
    correction: Correction = "holm",
    replaced_by: Annotated[
        Literal["zero", "mean", "resample"],
        Option(
            "Put in place of the head: zero, mean, or resample (other examples).",
            doc="Replace the output of a head by zero, by its mean (of first special tokens, last ones, and "
            "all others), or by its output in other examples at the same position.",
            flags=("--with",),
        ),
    ] = "zero",
    draws: Annotated[int, Option("With --with resample: number of other examples.", low=4)] = 4,
    **options: Unpack[ScoreOptions],
) -> "HeadTable":
    """What does the score become when a head is off?

    The output of a head is replaced by zero; with --with mean, by its mean; with --with resample, by
    its output in other examples of about the same length.

    Columns:
      baseline       the score with all heads
      score          over the same examples without the head
      delta          score less baseline, with delta_se
      p, p_adjusted  paired over documents: sign flip for right or wrong, t for
                     means, permutation for mcc, f1, bleu, ...; over all heads
      moved          mean over examples of |score without the head - with it|
      replaced_by    what replaced the head: zero, mean, resample
      n              examples

    Examples:
      attnprobe ablate demo -L 50
      attnprobe ablate my-classifier -d reviews.tsv --metric mcc -o ablation.csv
      attnprobe ablate my-classifier -d reviews.tsv --metric loss --with mean
    """
    if draws != 4 and replaced_by != "resample":
        raise UsageError("--draws is for --with resample.")
    with open_task("ablate", model, texts, labels, options) as session:
        from attnprobe.intervention.ablation import run_ablation

        return run_ablation(
            session, keep_one=keep_one, correction=correction, replaced_by=replaced_by, draws=draws
        )


@command(TableOutput)
def interact(
    model: ModelArgument,
    texts: TextsArgument = None,
    labels: LabelsArgument = None,
    *,
    pairs: Annotated[int, Option("Number of pairs to test.", low=1)] = 20,
    **options: Unpack[CauseOptions],
) -> "HeadTable":
    """Which heads stand in for each other?

    If another head takes over when a head is removed, ablation shows no effect of either alone. Pairs
    are proposed on one half of the documents and tested on the other. This costs a pass with
    gradients for each head, and two to three passes for each tested pair.

    Columns:
      proposed       change of the gradient of one head's mask when the other head
                     is off; the smaller of both directions
      interaction    change of loss without both heads, less the changes without
                     each; positive if one stands in for the other
      p, p_adjusted  t over documents; Holm's
      n              examples

    Examples:
      attnprobe interact demo -L 100
      attnprobe interact my-classifier -d reviews.tsv -o pairs.csv
    """
    with open_task("interact", model, texts, labels, options) as session:
        from attnprobe.intervention.interaction import run_interactions

        return run_interactions(session, pairs)


@command(TableOutput)
def patch(
    model: ModelArgument,
    pairs: Annotated[
        "GivenTexts",
        data_option(
            "A table with columns clean, corrupted, answer and optionally other, or BLiMP's sentence_good "
            "and sentence_bad; or - for standard input. Default: built-in pairs.",
            doc="Dicts with clean, corrupted, answer, and other for a second answer, or BLiMP's "
            "sentence_good and sentence_bad; a DataFrame or a dict of such columns; the path of a file, or "
            "the id of a hub dataset. By default sentences that ship with attnprobe.",
            metavar="PAIRS",
        ),
    ] = None,
    *,
    other_column: Annotated[
        str | None,
        text_option(
            "Column of the other answer. Default: other.",
            doc="Column of the answer that the first is compared with; other by default. text_column, "
            "text_pair_column and label_column name those of clean, corrupted and answer.",
        ),
    ] = None,
    noising: Annotated[bool, Option("Read the clean text, and patch heads from the corrupted one.")] = False,
    positions: Annotated[
        bool, Option("Patch one token at a time: one row for each head and position.")
    ] = False,
    fast: Annotated[bool, Option("Patch only the --top heads by attribution.")] = False,
    top: Annotated[int, Option("With --fast: number of heads to patch.", low=0)] = 10,
    correction: Correction = "holm",
    **options: Unpack[CauseOptions],
) -> "HeadTable":
    """Which heads carry the difference between two texts?

    A pair is a clean and a corrupted text of the same number of tokens, and an answer: a class, a word
    for the mask, the next word, or a target. m is the logit of the answer less that of the other
    answer; the log odds of a single answer; the log probability of a target. Pairs of unequal length
    are left out and counted. Effects need not add up to the gap.

    Columns:
      effect         rise of m on the corrupted text when the head's output is
                     that of the clean text (Vig et al. 2020)
      recovered      sum of effects over the sum of gaps, m(clean) - m(corrupted)
      p, p_adjusted  paired t over documents; Holm's
      attribution    the effect to first order, from one backward pass
      NAME_se, n     standard error over documents; pairs

    Examples:
      attnprobe patch demo
      attnprobe patch gpt2 -d prompts.jsonl --positions -o patched.csv
      attnprobe patch bert-base-uncased -d agreement.tsv --fast

    References:
        Vig et al. (2020), Investigating gender bias in language models using causal mediation analysis.
        Kramar et al. (2024), AtP*, for the attribution.

    >>> pairs = [{"clean": "The boy [MASK] late.", "corrupted": "The boys [MASK] late.", "answer": "was"}]
    >>> table = patch("demo", pairs)
    >>> len(table), table["objective"][0]
    (24, np.str_('masked-lm'))
    """
    if top != 10 and not fast:
        raise UsageError("--top is about --fast, which patches the first heads only; give both.")
    if options["truncate"]:
        raise UsageError("patch reads a pair of texts whole; leave out --truncate.")
    with open_call(options, model) as call:
        source = read_first(open_pairs(pairs, options, other_column))
        session = make_session("patch", source, read_task({**options, "label_column": None}, None), call)
        from attnprobe.intervention.patching.passes import PatchPlan
        from attnprobe.intervention.patching.table import run_patching

        plan = PatchPlan(noising, positions)
        return run_patching(session, plan, fast=fast, top=top, correction=correction)


@command(TableOutput)
def prune(
    model: ModelArgument,
    texts: TextsArgument = None,
    labels: LabelsArgument = None,
    *,
    by: Annotated[
        str, Option("gradient, gradient-normed, fisher, ig, lrp, ablation, or FILE:COLUMN.", reads="order")
    ] = "gradient",
    highest_first: Annotated[bool, Option("With FILE:COLUMN: highest values first.", hidden=True)] = False,
    step: Annotated[float, Option("Share of all heads that one step removes.", above=0, high=1)] = 0.1,
    rerank: Annotated[bool, Option("Rank anew after each step.", hidden=True)] = False,
    random_orders: Annotated[
        int | None, Option("Number of random orders. Default: 19; 0 with --margin.", low=0, hidden=True)
    ] = None,
    rank_texts: Annotated[
        "GivenTexts",
        Option(
            "Data to rank heads on. Default: one half of the data; the other is scored.",
            name="rank_data",
            metavar="DATA",
            reads="data",
        ),
    ] = None,
    margin: Annotated[
        float | None,
        Option(
            "Allowed loss of score: find how many heads can go.",
            doc="Allowed loss of score, in its unit (one-sided 95 %): find how many heads can go.",
            above=0,
        ),
    ] = None,
    save: Annotated[
        Path | str | None,
        Option("Write the checkpoint without the heads that --share or --margin removes.", metavar="DIR"),
    ] = None,
    share: Annotated[float | None, Option("Share of all heads that --save removes.", above=0, high=1)] = None,
    physical: Annotated[
        bool,
        Option(
            "Save a smaller checkpoint, which only attnprobe reads. Default: set weights to zero.",
            hidden=True,
        ),
    ] = False,
    overwrite: Annotated[bool, Option(doc="Replace a pruned checkpoint in the folder save.")] = False,
    **options: Unpack[ScoreOptions],
) -> "HeadTable":
    """How many heads can go?

    The least important heads are removed first; the table has the score after each step, beside random
    orders. Heads are ranked on one half of the examples (or on --rank-data) and scored on the other.
    With --margin 0.01, heads are removed in tenths until the bound exceeds it (95 %), then one by one
    inside that tenth (90 %): 20 passes at most.

    Columns:
      criterion, seed    how heads were ranked; the seed of a random order
      heads_removed, share_removed
                         how many heads are removed
      score, n           score without them; examples
      delta, p, p_adjusted
                         score less that of the whole model, paired; Holm's
      bound              largest loss against the whole model, one-sided 95 %
      delta_random, p_random, p_random_adjusted
                         score less the mean of random orders, with their spread
      rank_among_random  1 if the order is better than every random one

    Examples:
      attnprobe prune demo -L 100
      attnprobe prune demo -L 100 --by ablation -o curve.csv
      attnprobe prune my-bert -d dev.tsv --margin 0.01
      attnprobe prune my-bert -d dev.tsv --save pruned --share 0.4

    Raises:
        AttnprobeError: With one sentence; ``error.table`` has the table if only the checkpoint failed.
    """
    if (share is not None and save is None) or (save is not None and share is None and margin is None):
        raise UsageError("--save and --share go together: --save DIR --share 0.4, or --margin 0.01.")
    if physical and save is None:
        raise UsageError("--physical says how --save writes; add --save DIR.")
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
