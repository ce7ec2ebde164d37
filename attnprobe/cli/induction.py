"""The command that gives heads random tokens twice."""

from typing import Annotated

import typer

from attnprobe.cli.options import (
    TEXT,
    BatchOptions,
    LayerOptions,
    ModelOptions,
    OutputOptions,
    ResumeOptions,
    takes,
)
from attnprobe.cli.session import call, emit, keywords, prepare


@takes(ModelOptions, BatchOptions, LayerOptions, ResumeOptions, OutputOptions)
def induction(
    model: ModelOptions,
    batches: BatchOptions,
    layers: LayerOptions,
    stopping: ResumeOptions,
    output: OutputOptions,
    length: Annotated[
        int,
        typer.Option(
            help="Most random tokens that come twice in a sequence; how many is drawn for each.",
            min=2,
            rich_help_panel=TEXT,
        ),
    ] = 50,
    sequences: Annotated[
        int, typer.Option(help="Number of sequences to draw.", min=1, rich_help_panel=TEXT)
    ] = 64,
    seed: Annotated[int, typer.Option(help="Seed of the random tokens.", min=0, rich_help_panel=TEXT)] = 42,
) -> None:
    """Find induction heads, on random tokens that come twice.

    A sequence ends in a run of different random tokens and the same run again, within the model's boundary
    tokens. How long the run is differs from sequence to sequence. For the tokens of the second run:
    [bold]induction[/bold] (prefix matching): mass on the token that came next the first time;
    [bold]duplicate[/bold]: on the token itself, the first time; both less what the same places get where
    nothing comes twice; [bold]previous[/bold]: on the token before. [bold]copying[/bold], of language models:
    whether the head raises the logit of the token that it looks at more than those of the other tokens, 1
    always, 0 by chance, -1 never. Heads whose induction or duplicate is 0.5 or more, by its interval, are
    named. Nothing is read; the columns of cross-attention are empty.
    Numbers are means over the queries of a sequence, then over sequences. _se is the standard error,
    and n the number of sequences.

    Examples:
      attnprobe induction gpt2

      attnprobe induction demo --length 20 --sequences 200 -o induction.csv
    """
    prepare(model, output, stopping)
    from attnprobe.api import induction as api

    options = keywords(model, batches, layers, stopping)
    options |= {"length": length, "sequences": sequences, "seed": seed}
    emit(call(api.induction, output, model.model, **options), output)
