"""The command that compares heads with one another."""

from typing import Annotated, Literal

import typer

from attnprobe.cli.options import ModelOptions, OutputOptions, SurveyOptions, takes
from attnprobe.cli.session import emit, prepare, run_survey
from attnprobe.errors import AttnprobeError


@takes(ModelOptions, SurveyOptions, OutputOptions)
def distance(
    model: ModelOptions,
    survey: SurveyOptions,
    output: OutputOptions,
    by: Annotated[
        Literal["pair", "head", "layer"], typer.Option(help="One row per pair, per head, or per layer.")
    ] = "pair",
    all_pairs: Annotated[
        bool, typer.Option("--all-pairs", help="Compare all heads of the model, not only those of a layer.")
    ] = False,
) -> None:
    """Which heads of a layer are copies, and which is the odd one out.

    [bold]jsd[/bold]: Jensen-Shannon divergence of two heads' attention in nats, 0 for copies, ln 2 = 0.693
    for heads that never look at the same token; [bold]js_distance[/bold]: its square root.
    [bold]--by head[/bold] gives each head's mean to its layer and its nearest other; [bold]--by layer[/bold]
    gives mean and spread, the head furthest from its layer, and the trend over depth.
    Means over the queries of a sequence, then over sequences; _se is the standard error, n the sequences.

    Examples:
      attnprobe distance demo --by layer

      attnprobe distance bert-base-uncased --all-pairs -o pairs.parquet
    """
    if all_pairs and by != "pair":
        raise AttnprobeError("--all-pairs gives one row per pair; leave out --by.")
    prepare(model, output, shared=True)
    from attnprobe.statistics import statistics_of
    from attnprobe.survey.tabulate import by_head_table, by_layer_table, pair_table

    found = run_survey(
        model,
        survey,
        output,
        statistics_of("distance"),
        all_pairs=all_pairs,
    )
    tabulate, title = {
        "pair": (pair_table, "distance between heads"),
        "head": (by_head_table, "distance of heads to their layer"),
        "layer": (by_layer_table, "distance within layers"),
    }[by]
    emit(tabulate(title, found.measurement, found.architecture.heads, found.labels), output)
