"""The command that says how heads of a layer mix."""

from typing import Annotated, Literal

import typer

from attnprobe.cli.options import ModelOptions, OutputOptions, SurveyOptions, takes
from attnprobe.cli.session import call, emit, keywords, prepare


@takes(ModelOptions, SurveyOptions, OutputOptions)
def mixing(
    model: ModelOptions,
    survey: SurveyOptions,
    output: OutputOptions,
    by: Annotated[
        Literal["head", "layer", "pair"], typer.Option(help="Give one row per head, per layer, or per pair.")
    ] = "head",
) -> None:
    """Find out whether heads of a layer repeat each other or cancel.

    [bold]explained_by_others[/bold]: share of a head's logits that a linear mix of the layer's other heads
    gives, 1 for a copy; [bold]explained_by_others_null[/bold]: the same if only special tokens and the first
    token made heads alike; [bold]contribution_norm[/bold]: length of what a head adds to the residual stream.
    [bold]--by layer[/bold] gives effective_heads, the number of heads that differ, and cancellation, what
    heads add together over what they add apart (0: they cancel, 1: they are orthogonal, more: they agree).
    [bold]--by pair[/bold] gives the correlation of logits and the cosine of contributions.
    Numbers are made of means over sequences. _se is the standard error, a jackknife over documents, and n the
    number of sequences.

    Examples:
      attnprobe mixing demo

      attnprobe mixing demo --by layer --content-only

      attnprobe mixing bert-base-uncased -d corpus.txt --by pair -o pairs.parquet
    """
    prepare(model, output, survey.stopping, survey.text.reads)
    from attnprobe.api import mixing as api

    options = keywords(model, survey) | {"by": by}
    emit(call(api.mixing, output, model.model, survey.text.data.dataset, **options), output)
