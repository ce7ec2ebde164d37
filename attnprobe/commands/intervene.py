"""The commands that switch heads: importance, by a derivative, and ablation, by switching each off."""

from typing import TYPE_CHECKING, Annotated, Literal, Unpack

from attnprobe.options import (
    TEXT,
    CauseOptions,
    LabelsArgument,
    ModelArgument,
    ScoreOptions,
    TableOutput,
    TextsArgument,
)
from attnprobe.registry import Option, Rule, command

if TYPE_CHECKING:
    from attnprobe.table.table import HeadTable


@command(
    TableOutput,
    rules=[
        Rule("--nodes is for --method ig; leave it out.", given=("nodes", "not method=ig")),
        Rule(
            "--method confidence needs no task; leave out its options.",
            given=("method=confidence",),
            beside=("objective", "force_head", "label_column", "labels"),
        ),
        Rule(
            "--content-only is for --method confidence; no other has tokens to leave out.",
            given=("content_only", "not method=confidence"),
        ),
    ],
)
def importance(
    model: ModelArgument,
    texts: TextsArgument = None,
    labels: LabelsArgument = None,
    *,
    method: Annotated[
        Literal["gradient", "ig", "lrp", "confidence"],
        Option(
            "Take the derivative of the loss, the derivative integrated from heads off to heads on, the "
            "relevance for what is predicted, or the largest attention weight.",
        ),
    ] = "gradient",
    nodes: Annotated[
        int | None,
        Option(
            "With --method ig: points between off and on at which the derivative is taken. Default: 4.",
            low=1,
            high=64,
        ),
    ] = None,
    content_only: Annotated[
        bool, Option("With --method confidence: drop special tokens first.", panel=TEXT)
    ] = False,
    **options: Unpack[CauseOptions],
) -> "HeadTable":
    """Measure how much each head matters for the task.

    [bold]importance[/bold]: mean over examples of |d loss / d gate|, the absolute derivative of an example's
    loss by a multiplier on the head (Michel et al. 2019); [bold]importance_normalized[/bold]: divided by the
    l2 norm of its layer. From the same pass: [bold]gradient_signed[/bold], the mean of the derivative
    itself (positive: the loss rises with the head, which harms), and [bold]fisher[/bold], the mean of its
    square.
    With [bold]--method ig[/bold]: [bold]ig[/bold], the derivative integrated while all heads of a layer go
    from off to on (Sundararajan et al. 2017), so that the heads of a layer add up to what the layer does to
    the loss; a note says how nearly. [bold]ig_abs[/bold] is the mean over examples of its size.
    With [bold]--method lrp[/bold]: [bold]relevance[/bold], the mean over examples of how much of what is
    predicted came through the head, by layer-wise relevance propagation (Voita et al. 2019); for a
    classifier, of the predicted class's logit less the runner-up's. [bold]relevance_abs[/bold] is the mean of
    its size, [bold]relevance_share[/bold] the share of that in its layer.
    With [bold]--method confidence[/bold]: the mean of the head's largest attention weight (Voita et al.
    2019), which needs no task.
    The task is chosen from the checkpoint's trained head and the labels, and said; --objective overrides it.

    Examples:
      attnprobe importance demo > heads.csv

      attnprobe importance my-bert -d reviews.tsv --label-column stars -o in.csv

      attnprobe importance my-bert -d reviews.tsv --method lrp

      attnprobe importance my-qa-model -d dev-v2.0.json -o importance.csv

    Returns:
        One row a head.

    >>> table = importance("demo", ["The parcel came late.", "Who rang?"])
    >>> len(table), table["objective"][0]
    (24, np.str_('masked-lm'))
    """
    from attnprobe.commands.call.call import open_task

    with open_task("importance", model, texts, labels, {**options, "content_only": content_only}) as session:
        if method == "confidence":
            from attnprobe.commands.call.confidence import measure_confidence

            return measure_confidence(session)
        from attnprobe.intervention.importance import run_importance

        return run_importance(session, method, **({} if nodes is None else {"nodes": nodes}))


@command(
    TableOutput, rules=[Rule("--draws is for --with resample.", given=("draws", "not replaced_by=resample"))]
)
def ablate(
    model: ModelArgument,
    texts: TextsArgument = None,
    labels: LabelsArgument = None,
    *,
    keep_one: Annotated[bool, Option("Switch off all other heads of the layer instead.")] = False,
    correction: Annotated[
        Literal["holm", "bh"],
        Option("Adjust p for the number of heads by Holm, or by Benjamini and Hochberg."),
    ] = "holm",
    replaced_by: Annotated[
        Literal["zero", "mean", "resample"],
        Option(
            "Replace what a head gives by zero, by its mean (of the first special token, the last one, and "
            "all others), or by what it gives in other examples, at the same position.",
            flags=("--with",),
        ),
    ] = "zero",
    draws: Annotated[int, Option("With --with resample: number of other examples for each.", low=4)] = 4,
    **options: Unpack[ScoreOptions],
) -> "HeadTable":
    """Measure what the score becomes when a head is off.

    [bold]score[/bold]: over the same examples without the head, beside [bold]baseline[/bold], with all heads;
    [bold]delta[/bold]: their difference; [bold]p[/bold]: a paired test over documents (sign flip for right or
    wrong, t for means, permutation for mcc, f1, correlations and bleu); [bold]p_adjusted[/bold]: for the
    number of heads.
    [bold]moved[/bold]: the mean over examples of |score without the head - score with it|, in which effects
    of opposite signs do not cancel; of a metric of all examples together, such as mcc, that of the loss.
    With [bold]--keep-one[/bold], all heads of the layer but this one are off (Michel et al. 2019, section 3).
    A head that is off gives zero, or with [bold]--with mean[/bold] what it gives on average, or with
    [bold]--with resample[/bold] what it gives in other examples of about the same length
    ([bold]--draws[/bold]); [bold]replaced_by[/bold] says which.

    Examples:
      attnprobe ablate demo -L 50

      attnprobe ablate my-classifier -d reviews.tsv --metric mcc -o ablation.csv

      attnprobe ablate my-classifier -d reviews.tsv --metric loss --with mean

      attnprobe ablate my-ner-tagger -d test.conll -o ablation.csv

    Returns:
        One row a head.
    """
    from attnprobe.commands.call.call import open_task

    with open_task("ablate", model, texts, labels, options) as session:
        from attnprobe.intervention.ablation import run_ablation

        return run_ablation(
            session, keep_one=keep_one, correction=correction, replaced_by=replaced_by, draws=draws
        )
