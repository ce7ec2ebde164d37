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
    TaskOptions,
    TextOptions,
    TokenOptions,
    takes,
)
from attnprobe.cli.session import (
    corpus_options,
    emit,
    facts,
    loader,
    open_text,
    prepare,
    progress,
    task_options,
)


@takes(ModelOptions, DataOptions, ReadingOptions, TaskOptions, OutputOptions)
def importance(
    model: ModelOptions,
    data: DataOptions,
    reading: ReadingOptions,
    task: TaskOptions,
    output: OutputOptions,
    method: Annotated[
        Literal["gradient", "confidence"],
        typer.Option(help="Derivative of the loss, or largest attention weight.", rich_help_panel=TASK),
    ] = "gradient",
    content_only: Annotated[
        bool,
        typer.Option(
            "--content-only", help="With confidence: drop special tokens first.", rich_help_panel=TEXT
        ),
    ] = False,
) -> None:
    """How much each head matters for the task.

    [bold]importance[/bold]: mean over examples of |d loss / d gate|, the absolute derivative of an example's
    loss by a multiplier on the head (Michel et al. 2019); [bold]importance_normalized[/bold]: divided by the
    l2 norm of its layer. _half_a and _half_b are the same over halves of the examples, for correlate.
    With [bold]--method confidence[/bold]: the mean of the head's largest attention weight (Voita et al.
    2019), which needs no task.
    The task is chosen from the checkpoint's trained head and the labels, and said; --objective overrides it.

    Examples:
      attnprobe importance demo > in.csv

      attnprobe importance my-classifier -d reviews.tsv --label-column stars -o importance.csv
    """
    prepare(model, output)
    from attnprobe.intervention.importance import check_method, importance_table

    check_method(method, task_options(task), content_only=content_only)
    text = TextOptions(data, reading, TokenOptions(content_only=content_only))
    options, source = corpus_options(text), open_text(text, task)
    with progress(output) as watcher:
        watcher.stage("loading", None)
        table = importance_table(
            loader(model),
            source,
            options,
            task_options(task),
            method=method,
            facts=facts(source),
            progress=watcher,
        )
    emit(table, output)
