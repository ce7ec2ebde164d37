"""The command that compares the heads of two checkpoints."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

import typer

from attnprobe.cli.options import (
    MODEL,
    LayerOptions,
    ModelOptions,
    OutputOptions,
    ResumeOptions,
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
            metavar="MODEL MODEL",
            help="Two checkpoints: folders or hub ids; or one hub id with --revisions.",
        ),
    ]


@dataclass(frozen=True)
class ComparisonOptions:
    """The text, and a run over it that can be stopped."""

    text: TextOptions = field(default_factory=TextOptions)
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
        typer.Option(metavar="NAME,NAME", help="Two revisions of the one MODEL.", rich_help_panel=MODEL),
    ] = None,
    measure: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Which columns are compared: census for all, or some columns and families "
            "(entropy,previous).",
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
) -> None:
    """Compare the heads of two checkpoints: what did fine-tuning change?

    [bold]jsd[/bold]: how differently heads of one number attend, 0 to ln 2 = 0.693 nats;
    [bold]nearest_layer, nearest_head, jsd_nearest[/bold]: the head of the second model that attends most
    alike. For each column NAME of the census: [bold]NAME_a, NAME_b[/bold], the means of both models;
    [bold]NAME_delta[/bold] = b - a with [bold]NAME_delta_se[/bold], paired by document;
    [bold]NAME_p_adjusted[/bold], that they do not differ, after Holm's correction over heads.
    Both models read the same batches, each once. Models with different tokenizers are compared word by word;
    models of different shapes head by nearest head.

    Examples:
      attnprobe compare bert-base-uncased my-finetuned-bert -d corpus.txt -o changes.csv

      attnprobe compare seed-1 seed-2 --match layer --measure entropy,previous

      attnprobe compare my-org/my-model --revisions step1000,step2000 --by layer

      attnprobe compare demo demo -L 20
    """
    prepare(model, output, asked.stopping, asked.text.reads)
    from attnprobe.api import compare as api

    options = keywords(model, asked) | {"revisions": revisions, "measure": measure, "by": by}
    options |= {"match": match, "nearest": nearest}
    emit(call(api.compare, output, model.model, asked.text.data.dataset, **options), output)
