"""The command that asks whether heads are too narrow."""

from typing import Annotated

import typer

from attnprobe.cli.options import ModelOptions, OutputOptions, SurveyOptions, takes
from attnprobe.cli.session import call, emit, keywords, prepare


@takes(ModelOptions, SurveyOptions, OutputOptions)
def rank(
    model: ModelOptions,
    survey: SurveyOptions,
    output: OutputOptions,
    map_rank: Annotated[
        bool,
        typer.Option(
            "--map-rank",
            help="Measure the rank of the maps too. It costs 0.6 to 2.2 forward passes at 512 tokens.",
        ),
    ] = False,
) -> None:
    """Find out whether heads are too narrow for the sequences.

    [bold]head_width[/bold]: the width of a head's keys, d_k; [bold]longer[/bold]: share of sequences with
    more keys than that; [bold]logit_rank[/bold]: how many directions the logits QK^T of a sequence are made
    of, (sum s^2)^2 / sum s^4 of their singular values, rows centred; [bold]logit_rank_share[/bold]: its share
    of the largest possible, min(d_k, queries, keys - 1). All keys are taken, also those that a decoder
    masks; position biases, soft caps and masks are not in it. [bold]qk_rank[/bold]: the same of the weights
    W_Q W_K^T, without biases; [bold]qk_top_half[/bold]: share of sum s^2 in the upper half of the singular
    values. [bold]--map-rank[/bold] adds [bold]map_rank[/bold]: how many different rows a map is made of.
    Only sequences longer than the head is wide together with a share near 1 speak of a bottleneck.
    Numbers are means over sequences. _se is the standard error, and n the number of sequences; what is of
    the weights alone has no error.

    Examples:
      attnprobe rank demo

      attnprobe rank bert-base-uncased -d articles.jsonl --content-only

      attnprobe rank gpt2 -d corpus.txt --max-length 512 --map-rank -o rank.csv
    """
    prepare(model, output, survey.stopping, survey.text.reads)
    from attnprobe.api import rank as api

    options = keywords(model, survey) | {"map_rank": map_rank}
    emit(call(api.rank, output, model.model, survey.text.data.dataset, **options), output)
