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
    TextOptions,
    takes,
)
from attnprobe.cli.session import (
    check_state,
    corpus_options,
    emit,
    facts,
    loader,
    open_text,
    prepare,
    progress,
    task_options,
)


@takes(ModelOptions, DataOptions, ReadingOptions, TaskOptions, MetricOptions, ResumeOptions, OutputOptions)
def ablate(
    model: ModelOptions,
    data: DataOptions,
    reading: ReadingOptions,
    task: TaskOptions,
    metric: MetricOptions,
    resume: ResumeOptions,
    output: OutputOptions,
    keep_one: Annotated[
        bool,
        typer.Option(
            "--keep-one", help="Switch all other heads of the layer off instead.", rich_help_panel=TASK
        ),
    ] = False,
    correction: Annotated[
        Literal["holm", "bh"],
        typer.Option(
            help="p adjusted for the number of heads: Holm, or Benjamini-Hochberg.", rich_help_panel=TASK
        ),
    ] = "holm",
) -> None:
    """What the score becomes when a head is off.

    [bold]score[/bold]: over the same examples without the head, beside [bold]baseline[/bold], with all heads;
    [bold]delta[/bold]: their difference; [bold]p[/bold]: a paired test over examples (McNemar for right or
    wrong, t for means, randomisation for mcc, f1 and bleu); [bold]p_adjusted[/bold]: for the number of heads.
    With [bold]--keep-one[/bold], all heads of the layer but this one are off (Michel et al. 2019, section 3).

    Examples:
      attnprobe ablate demo -L 50

      attnprobe ablate my-classifier -d reviews.tsv --metric mcc -o ablation.csv
    """
    prepare(model, output)
    check_state(resume, output)
    from attnprobe.intervention.ablation import ablation_table

    text = TextOptions(data, reading)
    options, source = corpus_options(text), open_text(text, task)
    with progress(output) as watcher:
        watcher.stage("loading", None)
        table = ablation_table(
            loader(model),
            source,
            options,
            task_options(task, metric.metric),
            keep_one=keep_one,
            correction=correction,
            facts=facts(source),
            resume=resume.resume,
            progress=watcher,
        )
    emit(table, output)
