"""The command that switches heads off."""

from typing import Annotated, Literal

import typer

from attnprobe.cli.options import (
    TASK,
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


@takes(ModelOptions, DataOptions, ReadingOptions, TaskOptions, MetricOptions, ResumeOptions, OutputOptions)
def ablate(
    model: ModelOptions,
    data: DataOptions,
    reading: ReadingOptions,
    task: TaskOptions,
    metric: MetricOptions,
    stopping: ResumeOptions,
    output: OutputOptions,
    keep_one: Annotated[
        bool,
        typer.Option(
            "--keep-one", help="Switch off all other heads of the layer instead.", rich_help_panel=TASK
        ),
    ] = False,
    correction: Annotated[
        Literal["holm", "bh"],
        typer.Option(
            help="Adjust p for the number of heads by Holm, or by Benjamini and Hochberg.",
            rich_help_panel=TASK,
        ),
    ] = "holm",
) -> None:
    """Measure what the score becomes when a head is off.

    [bold]score[/bold]: over the same examples without the head, beside [bold]baseline[/bold], with all heads;
    [bold]delta[/bold]: their difference; [bold]p[/bold]: a paired test over examples (McNemar for right or
    wrong, t for means, randomisation for mcc, f1, correlations and bleu); [bold]p_adjusted[/bold]: for the
    number of heads.
    With [bold]--keep-one[/bold], all heads of the layer but this one are off (Michel et al. 2019, section 3).

    Examples:
      attnprobe ablate demo -L 50

      attnprobe ablate my-classifier -d reviews.tsv --metric mcc -o ablation.csv

      attnprobe ablate my-ner-tagger -d test.conll -o ablation.csv

      attnprobe ablate my-sts-model -d sts.tsv --text-pair-column sentence2
    """
    prepare(model, output, stopping, [data.dataset])
    from attnprobe.api import ablate as api

    options = keywords(model, data, reading, task, metric, stopping)
    options |= {"keep_one": keep_one, "correction": correction}
    emit(call(api.ablate, output, model.model, data.dataset, **options), output)
