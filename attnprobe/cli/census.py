"""The commands that give one row a head: entropy, positional, special, rare, census."""

from typing import Annotated

import typer

from attnprobe.cli.options import TEXT, ModelOptions, OutputOptions, SurveyOptions, WeightOptions, takes
from attnprobe.cli.session import call, emit, keywords, prepare


@takes(ModelOptions, SurveyOptions, WeightOptions, OutputOptions)
def entropy(
    model: ModelOptions, survey: SurveyOptions, weighting: WeightOptions, output: OutputOptions
) -> None:
    """Measure how spread the attention of each head is.

    [bold]entropy[/bold]: -sum p ln p in nats; [bold]entropy_normalized[/bold]: divided by ln n, its largest
    value; [bold]entropy_first[/bold]: of the first token's row; [bold]confidence[/bold]: the largest p.
    Numbers are means over the queries of a sequence, then over sequences. _se is the standard error,
    and n the number of sequences.

    Examples:
      attnprobe entropy demo

      attnprobe entropy gpt2 -d reviews.csv --text-column review > entropy.csv

      attnprobe entropy my-bert -d corpus.txt --sample 1000 > entropy.csv
    """
    prepare(model, output, survey.stopping, survey.text.reads)
    from attnprobe.api import census as api

    options = keywords(model, survey, weighting)
    emit(call(api.entropy, output, model.model, survey.text.data.dataset, **options), output)


@takes(ModelOptions, SurveyOptions, WeightOptions, OutputOptions)
def positional(
    model: ModelOptions,
    survey: SurveyOptions,
    weighting: WeightOptions,
    output: OutputOptions,
    control: Annotated[
        bool,
        typer.Option(
            "--control",
            help="Measure previous, next and offset_share again with the tokens shuffled and, where "
            "positions come from a table alone, with all positions equal.",
            rich_help_panel=TEXT,
        ),
    ] = False,
) -> None:
    """Measure whether heads look at neighbours or at a fixed offset.

    [bold]previous, self, next[/bold]: mass on the token before, itself, after; [bold]offset[/bold]: the
    relative position most often attended most, and [bold]offset_share[/bold], for what share of the queries
    that have a key there (a head is called positional from 0.9); [bold]attention_distance[/bold]: mean
    distance in tokens, and its ratio to uniform attention.
    [bold]--control[/bold] adds columns that end in [bold]_shuffled[/bold], of the same sequences with their
    ordinary tokens in a random order, and in [bold]_alike[/bold], with all tokens at the position of the
    text's first one. Their offset_share is the share of the same offset: a head that keeps its share looks at
    places; one that loses it looked at what stood there.
    Numbers are means over the queries of a sequence, then over sequences. _se is the standard error,
    and n the number of sequences.

    Examples:
      attnprobe positional demo

      attnprobe positional demo --control

      attnprobe positional roberta-base -d corpus.txt.gz -o positional.parquet
    """
    prepare(model, output, survey.stopping, survey.text.reads)
    from attnprobe.api import census as api

    options = keywords(model, survey, weighting) | {"control": control}
    emit(call(api.positional, output, model.model, survey.text.data.dataset, **options), output)


@takes(ModelOptions, SurveyOptions, WeightOptions, OutputOptions)
def special(
    model: ModelOptions, survey: SurveyOptions, weighting: WeightOptions, output: OutputOptions
) -> None:
    """Measure how much attention goes to special tokens and punctuation.

    [bold]first[/bold]: mass on the leading special token; [bold]separator[/bold]: on separators;
    [bold]punctuation[/bold]: on punctuation; [bold]other[/bold]: on all others; [bold]sink_share[/bold]:
    queries whose most attended key is special or first. A model without such a token has an empty column.
    Numbers are means over the queries of a sequence, then over sequences. _se is the standard error,
    and n the number of sequences.

    Examples:
      attnprobe special demo

      cat corpus.txt | attnprobe special bert-base-uncased -d - > special.csv
    """
    prepare(model, output, survey.stopping, survey.text.reads)
    from attnprobe.api import census as api

    options = keywords(model, survey, weighting)
    emit(call(api.special, output, model.model, survey.text.data.dataset, **options), output)


@takes(ModelOptions, SurveyOptions, WeightOptions, OutputOptions)
def rare(model: ModelOptions, survey: SurveyOptions, weighting: WeightOptions, output: OutputOptions) -> None:
    """Measure whether heads look at rare tokens.

    Rare are the types that, from the rarest up, make up a tenth of the text's tokens; types that are equally
    frequent share the last place. [bold]rare_mass[/bold]: mass on them; [bold]rare_lift[/bold]: divided by
    their share of the keys (1 is no preference); [bold]rarest_share[/bold]: queries whose most attended key
    is the sequence's rarest token, or any that ties with it; [bold]rarest_two_share[/bold]: one of its two
    rarest, where the rarest is outside the 500 most frequent.
    Numbers are means over the queries of a sequence, then over sequences. _n counts the sequences
    where a number is defined.

    Examples:
      attnprobe rare demo

      attnprobe rare bert-base-uncased -d corpus.jsonl --frequencies words.tsv.gz
    """
    prepare(model, output, survey.stopping, survey.text.reads)
    from attnprobe.api import census as api

    options = keywords(model, survey, weighting)
    emit(call(api.rare, output, model.model, survey.text.data.dataset, **options), output)


@takes(ModelOptions, SurveyOptions, WeightOptions, OutputOptions)
def census(
    model: ModelOptions,
    survey: SurveyOptions,
    weighting: WeightOptions,
    output: OutputOptions,
    statistics: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help="Measure only these columns, families, or statistics that installed packages bring along. "
            "Default: all of the census.",
            rich_help_panel=TEXT,
        ),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--everything",
            help="Add the columns of rank and mixing, and all of the census with --weights both.",
            rich_help_panel=TEXT,
        ),
    ] = False,
) -> None:
    """Measure what every head looks at, in one pass over the data.

    The columns of entropy, positional, special and rare, and [bold]jsd_mean[/bold], the head's mean
    Jensen-Shannon divergence from the other heads of its layer.
    [bold]--weights both[/bold] measures all of it again with each key weighted by the length of what it gives
    to the residual stream, in columns that end in [bold]_norm[/bold], and that length itself:
    [bold]norm_total[/bold], and [bold]norm_first, norm_separator, norm_punctuation, norm_other[/bold], its
    parts by kind of token. [bold]--everything[/bold] adds rank and mixing to that, in the same pass; what a
    model does not give is left out.
    Numbers are means over the queries of a sequence, then over sequences. _se is the standard error,
    and n the number of sequences.

    Examples:
      attnprobe census demo

      attnprobe census demo --weights both -o both.csv

      attnprobe census demo --everything -o everything.csv

      attnprobe census my-checkpoint -d corpus.jsonl > heads.csv

      attnprobe census google/vit-base-patch16-224 -d photos/ -o heads.csv

      attnprobe census t5-small -d pairs.tsv --text-column en --label-column de

      attnprobe census demo --statistics entropy,previous,jsd_mean
    """
    prepare(model, output, survey.stopping, survey.text.reads)
    from attnprobe.api import census as api

    names = None if statistics is None else [name for name in map(str.strip, statistics.split(",")) if name]
    options = keywords(model, survey, weighting) | {"statistics": names, "everything": everything}
    emit(call(api.census, output, model.model, survey.text.data.dataset, **options), output)
