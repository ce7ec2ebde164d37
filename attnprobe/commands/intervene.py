"""The commands that switch heads: importance, by a derivative, and ablation, by switching each off."""

from typing import TYPE_CHECKING, Annotated, Literal, Unpack

from attnprobe.errors import UsageError
from attnprobe.options import (
    TEXT,
    CauseOptions,
    LabelsArgument,
    ModelArgument,
    ScoreOptions,
    TableOutput,
    TextsArgument,
)
from attnprobe.registry import Option, command

if TYPE_CHECKING:
    from attnprobe.table.table import HeadTable


@command(TableOutput)
def importance(
    model: ModelArgument,
    texts: TextsArgument = None,
    labels: LabelsArgument = None,
    *,
    method: Annotated[
        Literal["gradient", "ig", "lrp", "confidence"],
        Option("gradient, ig, lrp or confidence.", metavar="NAME"),
    ] = "gradient",
    nodes: Annotated[int, Option("With --method ig: points between off and on.", low=1, high=64)] = 4,
    content_only: Annotated[
        bool, Option("With --method confidence: drop special tokens first.", panel=TEXT)
    ] = False,
    **options: Unpack[CauseOptions],
) -> "HeadTable":
    """How much does each head matter for the task?

    The task is chosen from the checkpoint's trained head and the labels, and said; --objective
    overrides it.

    Columns:
      importance       mean over examples of |d loss / d gate| (Michel 2019)
      importance_normalized
                       divided by the l2 norm of its layer
      gradient_signed  mean of the derivative itself; positive: the head harms
      fisher           mean of its square
      ig, ig_abs       with --method ig: the derivative integrated from heads off
                       to heads on (Sundararajan et al. 2017); its size
      relevance, relevance_abs, relevance_share
                       with --method lrp: what of the prediction came through it
                       (Voita et al. 2019); its size, and share of the layer
      NAME_se, n       standard error over documents; examples

    With --method confidence, importance is the mean largest attention weight, without a task.

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
    from attnprobe.session.session import open_task

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
    correction: Annotated[
        Literal["holm", "bh"], Option("holm, or bh for Benjamini and Hochberg's.", metavar="NAME")
    ] = "holm",
    replaced_by: Annotated[
        Literal["zero", "mean", "resample"],
        Option(
            "zero, mean, or resample (from other examples).",
            doc="Replace what a head gives by zero, by its mean (of the first special token, the last one, "
            "and all others), or by what it gives in other examples, at the same position.",
            flags=("--with",),
            metavar="NAME",
        ),
    ] = "zero",
    draws: Annotated[int, Option("With --with resample: number of other examples for each.", low=4)] = 4,
    **options: Unpack[ScoreOptions],
) -> "HeadTable":
    """What does the score become when a head is off?

    A head that is off gives zero; with --with mean what it gives on average, with --with resample
    what it gives in other examples of about the same length.

    Columns:
      baseline       the score with all heads
      score          over the same examples without the head
      delta          score less baseline, with delta_se
      p, p_adjusted  paired over documents: sign flip for right or wrong, t for
                     means, permutation for mcc, f1, bleu, ...; for all heads
      moved          mean over examples of |score without the head - with it|
      replaced_by    what stands for the head: zero, mean, resample
      n              examples

    Examples:
      attnprobe ablate demo -L 50
      attnprobe ablate my-classifier -d reviews.tsv --metric mcc -o ablation.csv
      attnprobe ablate my-classifier -d reviews.tsv --metric loss --with mean
      attnprobe ablate my-ner-tagger -d test.conll -o ablation.csv

    Returns:
        One row a head.
    """
    from attnprobe.session.session import open_task

    if draws != 4 and replaced_by != "resample":
        raise UsageError("--draws is for --with resample.")
    with open_task("ablate", model, texts, labels, options) as session:
        from attnprobe.intervention.ablation import run_ablation

        return run_ablation(
            session, keep_one=keep_one, correction=correction, replaced_by=replaced_by, draws=draws
        )
