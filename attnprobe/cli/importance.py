"""The command that says how much each head matters."""

from typing import Annotated, Literal

import typer

from attnprobe.cli.options import (
    TASK,
    TEXT,
    DataOptions,
    ModelOptions,
    OutputOptions,
    ReadingOptions,
    ResumeOptions,
    TaskOptions,
    takes,
)
from attnprobe.cli.session import call, emit, keywords, prepare


@takes(ModelOptions, DataOptions, ReadingOptions, TaskOptions, ResumeOptions, OutputOptions)
def importance(
    model: ModelOptions,
    data: DataOptions,
    reading: ReadingOptions,
    task: TaskOptions,
    stopping: ResumeOptions,
    output: OutputOptions,
    method: Annotated[
        Literal["gradient", "lrp", "confidence"],
        typer.Option(
            help="Take the derivative of the loss, the relevance for what is predicted, or the largest "
            "attention weight.",
            rich_help_panel=TASK,
        ),
    ] = "gradient",
    content_only: Annotated[
        bool,
        typer.Option(
            "--content-only",
            help="With --method confidence: drop special tokens first.",
            rich_help_panel=TEXT,
        ),
    ] = False,
) -> None:
    """Measure how much each head matters for the task.

    [bold]importance[/bold]: mean over examples of |d loss / d gate|, the absolute derivative of an example's
    loss by a multiplier on the head (Michel et al. 2019); [bold]importance_normalized[/bold]: divided by the
    l2 norm of its layer. _half_a and _half_b are the same over halves of the examples, for correlate.
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

      attnprobe importance my-pos-tagger -d dev.conllu -o importance.csv

      attnprobe importance my-qa-model -d dev-v2.0.json -o importance.csv
    """
    prepare(model, output, stopping, [data.dataset])
    from attnprobe.api import importance as api

    options = keywords(model, data, reading, task, stopping) | {
        "method": method,
        "content_only": content_only,
    }
    emit(call(api.importance, output, model.model, data.dataset, **options), output)
