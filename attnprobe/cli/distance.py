"""The command that compares heads with one another."""

from typing import Annotated, Literal

import typer

from attnprobe.cli.options import ModelOptions, OutputOptions, SurveyOptions, WeightOptions, takes
from attnprobe.cli.session import call, emit, keywords, prepare


@takes(ModelOptions, SurveyOptions, WeightOptions, OutputOptions)
def distance(
    model: ModelOptions,
    survey: SurveyOptions,
    weighting: WeightOptions,
    output: OutputOptions,
    by: Annotated[
        Literal["pair", "head", "layer"], typer.Option(help="Give one row per pair, per head, or per layer.")
    ] = "pair",
    all_pairs: Annotated[
        bool, typer.Option("--all-pairs", help="Compare all heads of the model, not only those of a layer.")
    ] = False,
) -> None:
    """Find which heads of a layer are copies, and which is the outlier.

    [bold]jsd[/bold]: Jensen-Shannon divergence of two heads' attention in nats, 0 for copies, ln 2 = 0.693
    for heads that never look at the same token; [bold]js_distance[/bold]: its square root.
    [bold]--by head[/bold] gives each head's mean to its layer and its nearest other; [bold]--by layer[/bold]
    gives mean and spread, the head furthest from its layer, and the trend over depth.
    Numbers are means over the queries of a sequence, then over sequences. _se is the standard error,
    and n the number of sequences.

    Examples:
      attnprobe distance demo --by layer

      attnprobe distance bert-base-uncased --all-pairs -o pairs.parquet
    """
    prepare(model, output, survey.stopping, survey.text.reads)
    from attnprobe.api import census as api

    options = keywords(model, survey, weighting) | {"by": by, "all_pairs": all_pairs}
    emit(call(api.distance, output, model.model, survey.text.data.dataset, **options), output)
