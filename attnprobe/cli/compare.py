"""The command that compares the heads of two checkpoints."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

import typer

from attnprobe.cli.options import (
    MODEL,
    ImportanceMethod,
    Keep,
    LayerOptions,
    ModelOptions,
    OutputOptions,
    ResumeOptions,
    TaskOptions,
    TextOptions,
    WeightOptions,
    takes,
)
from attnprobe.cli.session import call, emit, keywords, prepare


@dataclass(frozen=True)
class PairOptions(ModelOptions):
    """Which checkpoints, and how each is loaded."""

    model: Annotated[  # type: ignore[assignment]
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Two checkpoints: folders or hub ids; or one hub id with --revisions. With --spread, two or "
            "more, and patterns of folders such as 'seed-*'.",
        ),
    ]


@dataclass(frozen=True)
class ComparisonOptions:
    """The text, and a run over it that can be stopped."""

    text: TextOptions = field(default_factory=TextOptions)
    task: TaskOptions = field(default_factory=TaskOptions)
    weighting: WeightOptions = field(default_factory=WeightOptions)
    layers: LayerOptions = field(default_factory=LayerOptions)
    stopping: ResumeOptions = field(default_factory=ResumeOptions)


@takes(PairOptions, ComparisonOptions, OutputOptions)
def compare(
    model: PairOptions,
    asked: ComparisonOptions,
    output: OutputOptions,
    revisions: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME", help="Revisions of the one MODEL.", rich_help_panel=MODEL),
    ] = None,
    measure: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What is compared: census for all of its columns, some columns and families "
            "(entropy,previous), or importance.",
        ),
    ] = "census",
    by: Annotated[
        Literal["head", "layer"],
        typer.Option(help="Give one row for each head of the first model, or for each layer."),
    ] = "head",
    match: Annotated[
        Literal["layer", "model"] | None,
        typer.Option(
            help="Assign heads to heads one to one, with the least total divergence: within layers of one "
            "number, or over the model."
        ),
    ] = None,
    nearest: Annotated[
        bool,
        typer.Option(
            "--nearest/--no-nearest",
            help="Look for the nearest head among all of the second model, or compare heads of one number "
            "only, which is quicker.",
        ),
    ] = True,
    spread: Annotated[
        bool,
        typer.Option(
            "--spread",
            help="Say instead where columns vary over two checkpoints or more, such as those of several "
            "seeds: between layers, heads, checkpoints, texts.",
        ),
    ] = False,
    keep: Keep = True,
    method: ImportanceMethod = "gradient",
) -> None:
    """Compare the heads of two checkpoints: what did fine-tuning change?

    [bold]jsd[/bold]: how differently heads of one number attend, 0 to ln 2 = 0.693 nats;
    [bold]nearest_layer, nearest_head, jsd_nearest[/bold]: the head of the second model that attends most
    alike. For each column NAME of the census: [bold]NAME_a, NAME_b[/bold], the means of both models;
    [bold]NAME_delta[/bold] = b - a with [bold]NAME_delta_se[/bold], paired by document;
    [bold]NAME_p_adjusted[/bold], that they do not differ, after Holm's correction over heads.

    Both models read the same batches, each once. Models with different tokenizers are compared word by word;
    models of different shapes head by nearest head.

    With [bold]--measure importance[/bold]: how much heads of one number matter in both,
    [bold]importance_a, importance_b, importance_delta[/bold]. Checkpoints of different tasks are asked for
    what both can be asked.

    With [bold]--spread[/bold]: one row for each column, with [bold]sd[/bold], the standard deviation of one
    value (a head, in a checkpoint, over a text), and the shares of its variance that lie between
    [bold]layers, heads[/bold] of a layer, [bold]seeds[/bold] (checkpoints) and [bold]texts[/bold], and in
    their interactions, such as [bold]heads_by_seed[/bold] (Searle et al. 1992). Checkpoints are loaded one
    after the other; --resume keeps those that are done.

    Examples:
      attnprobe compare bert-base-uncased my-bert -d corpus.txt -o changes.csv

      attnprobe compare seed-1 seed-2 --match layer --measure entropy,previous

      attnprobe compare my-org/my-model --revisions step1000,step2000 --by layer

      attnprobe compare gpt2 my-gpt2 -d corpus.txt --measure importance

      attnprobe compare 'my-seeds/*' --spread -d corpus.txt -o spread.csv

      attnprobe compare demo demo -L 20
    """
    prepare(model, output, asked.stopping, asked.text.reads)
    from attnprobe.api import compare as api

    options = keywords(model, asked) | {"revisions": revisions, "measure": measure, "by": by}
    options |= {"match": match, "nearest": nearest, "spread": spread, "keep": keep, "method": method}
    emit(call(api.compare, output, model.model, asked.text.data.dataset, **options), output)
