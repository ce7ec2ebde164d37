"""Commands that measure where heads look, and how they relate: one pass over texts, images or sound."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from attnprobe.commands.output import Output
from attnprobe.commands.registry import Rule, command, split_names
from attnprobe.option import Option
from attnprobe.options import SURVEY, TEXT, OneModel, Weights

if TYPE_CHECKING:
    from attnprobe.commands.call.texts import Texts
    from attnprobe.statistics.statistic import Statistic
    from attnprobe.table.table import HeadTable


@command(
    OneModel,
    *SURVEY,
    Weights,
    Output,
    rules=[
        Rule(
            "--everything measures all there is, under both weightings; leave out --statistics and "
            "--weights.",
            given=("everything",),
            beside=("statistics", "weights"),
        )
    ],
)
def census(
    model: Any,
    texts: "Texts" = None,
    *,
    statistics: Annotated[
        "Sequence[str | Statistic] | None",
        Option(
            "Measure only these columns, families, or statistics that installed packages bring along; "
            "profile is attention by offset. Default: census, which is all but profile.",
            doc='Names of columns ("entropy"), of families ("positional"), of statistics that other '
            "packages bring along, or functions that attnprobe.statistic decorates; by default "
            '"census", which is all but "profile", attention by offset. "entropy_norm" is entropy of '
            'attention weighted by norm, and "norm" the family of what heads carry, which weights adds too.',
            metavar="NAME,NAME",
            panel=TEXT,
            line=str | None,
        ),
    ] = None,
    everything: Annotated[
        bool,
        Option(
            "Add the columns of rank and mixing, and all of the census with --weights both.",
            doc="Measure all that has one row a head, in the same pass: the census under both weightings, "
            "norm, rank without map_rank, mixing. What the model does not give is left out, and a note says "
            "so.",
            panel=TEXT,
        ),
    ] = False,
    targets: Annotated[
        Sequence[str] | None,
        Option(doc="For each text, what the decoder beside an encoder reads; by default the text itself."),
    ] = None,
    **options: Any,
) -> "HeadTable":
    """Measure what every head looks at, in one pass over the data.

    The columns of entropy, positional, special and rare, and [bold]jsd_mean[/bold], the head's mean
    Jensen-Shannon divergence from the other heads of its layer.
    [bold]--weights both[/bold] adds columns that end in [bold]_norm[/bold], with each key weighted by the
    length of what it gives to the residual stream, and that length: [bold]norm_total[/bold], by kind of token
    [bold]norm_first, norm_separator, norm_punctuation, norm_other[/bold].
    [bold]--by-group genre[/bold] gives rows of all groups of documents, then of each, and a test that they
    are alike: [bold]NAME_q[/bold], Cochran's Q, [bold]NAME_q_p[/bold] (Welch),
    [bold]NAME_q_p_adjusted[/bold] (Holm).
    Numbers are means over queries, then over the n sequences; _se is the standard error.

    Examples:
      attnprobe census demo

      attnprobe census demo --everything -o everything.csv

      attnprobe census my-checkpoint -d corpus.jsonl > heads.csv

      attnprobe census t5-small -d pairs.tsv --text-column en --label-column de

    Returns:
        One row a head, layers and heads counted from 0. ``NAME_se`` is a standard error over documents, and
        ``n`` the number of sequences.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.

    Warns:
        AttnprobeWarning: Of what is worth knowing, such as texts that were cut.

    >>> table = census("demo", ["The parcel came late."], statistics=["entropy"])
    >>> list(table.data)
    ['model', 'dataset', 'layer', 'head', 'n', 'entropy', 'entropy_se']
    >>> table = census("demo", ["The parcel came late."], statistics=["entropy"], weights="norm")
    >>> list(table.data)[4:]
    ['n', 'entropy_norm', 'entropy_norm_se']
    """
    from attnprobe.commands.call.surveying import ask_census, ask_everything, survey_texts

    names = split_names(statistics)
    ask = partial(ask_census, names, options.get("weights", "attention"))
    question = ask_everything if everything else ask
    return survey_texts(
        "census", model, texts, question, options, targets=targets, as_far_as_possible=everything
    )


@command(OneModel, *SURVEY, Weights, Output)
def entropy(model: Any, texts: "Texts" = None, **options: Any) -> "HeadTable":
    """Measure how spread the attention of each head is.

    [bold]entropy[/bold]: -sum p ln p in nats; [bold]entropy_normalized[/bold]: divided by ln n, its largest
    value; [bold]entropy_first[/bold]: of the first token's row; [bold]confidence[/bold]: the largest p.
    Numbers are means over queries, then over the n sequences; _se is the standard error.

    Examples:
      attnprobe entropy demo

      attnprobe entropy gpt2 -d reviews.csv --text-column review > entropy.csv

      attnprobe entropy my-bert -d corpus.txt --sample 1000 > entropy.csv

      attnprobe entropy my-bert -d reviews.csv --by-group source -o sources.csv

    Returns:
        One row a head, as of ``census``.
    """
    from attnprobe.commands.call.surveying import ask_family, survey_texts

    return survey_texts("entropy", model, texts, partial(ask_family, "entropy"), options)


@command(
    OneModel,
    *SURVEY,
    Weights,
    Output,
)
def positional(
    model: Any,
    texts: "Texts" = None,
    *,
    control: Annotated[
        bool,
        Option(
            "Measure previous, next and offset_share again with the tokens shuffled.",
            panel=TEXT,
        ),
    ] = False,
    **options: Any,
) -> "HeadTable":
    """Measure whether heads look at neighbours or at a fixed offset.

    [bold]previous, self, next[/bold]: mass on the token before, itself, after; [bold]offset[/bold]: the
    relative position most often attended most, and [bold]offset_share[/bold], for what share of the queries
    that have a key there (a head is called positional from 0.9); [bold]attention_distance[/bold]: mean
    distance in tokens, and its ratio to uniform attention.
    [bold]--control[/bold] adds columns that end in [bold]_shuffled[/bold], of the same sequences with their
    tokens in a random order: a head that keeps its share of the same offset looks at places.
    Numbers are means over queries, then over the n sequences; _se is the standard error.

    Examples:
      attnprobe positional demo

      attnprobe positional demo --control

      attnprobe positional roberta-base -d corpus.txt.gz -o positional.parquet

    Returns:
        One row a head, as of ``census``.

    >>> table = positional("demo", ["The parcel came late."], control=True)
    >>> [name for name in table.data if name.startswith("offset")][:3]
    ['offset', 'offset_share', 'offset_share_se']
    >>> [name for name in table.data if name.endswith("_shuffled")]
    ['previous_shuffled', 'next_shuffled', 'offset_share_shuffled']
    """
    from attnprobe.commands.call.surveying import ask_control, ask_family, survey_texts

    question = ask_control if control else partial(ask_family, "positional")
    return survey_texts("positional", model, texts, question, options, shuffled=control)


@command(OneModel, *SURVEY, Weights, Output)
def special(model: Any, texts: "Texts" = None, **options: Any) -> "HeadTable":
    """Measure how much attention goes to special tokens and punctuation.

    [bold]first[/bold]: mass on the leading special token; [bold]separator[/bold]: on separators;
    [bold]punctuation[/bold]: on punctuation; [bold]other[/bold]: on all others; [bold]sink_share[/bold]:
    queries whose most attended key is special or first. A model without such a token has an empty column.
    Numbers are means over queries, then over the n sequences; _se is the standard error.

    Examples:
      attnprobe special demo

      cat corpus.txt | attnprobe special bert-base-uncased -d - > special.csv

    Returns:
        One row a head, as of ``census``.
    """
    from attnprobe.commands.call.surveying import ask_family, survey_texts

    question = partial(ask_family, "special", options.get("weights", "attention"))
    return survey_texts("special", model, texts, question, options)


@command(
    OneModel,
    *SURVEY,
    Weights,
    Output,
    rules=[Rule("What is rare is counted over the whole text; leave out --until.", given=("until",))],
)
def rare(model: Any, texts: "Texts" = None, **options: Any) -> "HeadTable":
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

    Returns:
        One row a head, as of ``census``.
    """
    from attnprobe.commands.call.surveying import ask_family, survey_texts

    return survey_texts("rare", model, texts, partial(ask_family, "rare"), options)


@command(OneModel, *SURVEY, Weights, Output)
def modality(model: Any, texts: "Texts" = None, **options: Any) -> "HeadTable":
    """Measure whether heads look at the image or at the text, where a model reads both together.

    [bold]text_to_image[/bold]: how much of the attention of the text's tokens goes to the image, and likewise
    text_to_text, text_to_special and, of the image's tokens, image_to_image, image_to_text, image_to_special;
    image_mass, text_mass and special_mass are of all queries. What ends in [bold]_lift[/bold] is divided by
    the share of the visible keys (1 is no preference), what ends in [bold]_entropy[/bold] says how spread a
    head looks within the image or the text, and [bold]text_to_image_peak[/bold] how many of the text's tokens
    look most at the image.
    Numbers are means over queries, then over the n sequences; _se is the standard error.

    Examples:
      attnprobe modality llava-hf/llava-1.5-7b-hf -d pairs.jsonl

      attnprobe modality my-vlm -d photos/ --text-column text -o modality.csv

      attnprobe entropy my-vlm -d pairs.jsonl --queries text

    Returns:
        One row a head, as of ``census``.
    """
    from attnprobe.commands.call.surveying import ask_family, survey_texts

    question = partial(ask_family, "modality", options.get("weights", "attention"))
    return survey_texts("modality", model, texts, question, options)


@command(
    OneModel,
    *SURVEY,
    Weights,
    Output,
    rules=[Rule("--all-pairs gives one row per pair; leave out --by.", given=("all_pairs",), beside=("by",))],
)
def distance(
    model: Any,
    texts: "Texts" = None,
    *,
    by: Annotated[
        Literal["pair", "head", "layer"], Option("Give one row per pair, per head, or per layer.")
    ] = "pair",
    all_pairs: Annotated[bool, Option("Compare all heads of the model, not only those of a layer.")] = False,
    **options: Any,
) -> "HeadTable":
    """Find which heads of a layer are copies, and which is the outlier.

    [bold]jsd[/bold]: Jensen-Shannon divergence of two heads' attention in nats, 0 for copies, ln 2 = 0.693
    for heads that never look at the same token; [bold]js_distance[/bold]: its square root.
    [bold]--by head[/bold] gives each head's mean to its layer and its nearest other; [bold]--by layer[/bold]
    gives mean and spread, and the head furthest from its layer.
    Numbers are means over queries, then over the n sequences; _se is the standard error.

    Examples:
      attnprobe distance demo --by layer

      attnprobe distance bert-base-uncased --all-pairs -o pairs.parquet

    Returns:
        One row a pair, a head or a layer.
    """
    from attnprobe.commands.call.surveying import ask_distance, survey_texts

    question = partial(ask_distance, by, all_pairs=all_pairs)
    return survey_texts("distance", model, texts, question, options)


@command(OneModel, *SURVEY, Output)
def mixing(
    model: Any,
    texts: "Texts" = None,
    *,
    by: Annotated[
        Literal["head", "layer", "pair"], Option("Give one row per head, per layer, or per pair.")
    ] = "head",
    **options: Any,
) -> "HeadTable":
    """Find out whether heads of a layer repeat each other or cancel.

    [bold]explained_by_others[/bold]: share of a head's logits that a linear mix of the layer's other heads
    gives, 1 for a copy; [bold]explained_by_others_null[/bold]: the same if only special tokens and the first
    token made heads alike; [bold]contribution_norm[/bold]: length of what a head adds to the residual stream.
    [bold]--by layer[/bold] gives effective_heads, the number of heads that differ, and cancellation, what
    heads add together over what they add apart (0: they cancel, 1: they are orthogonal, more: they agree).
    [bold]--by pair[/bold] gives the correlation of logits and the cosine of contributions.
    _se is the standard error, a jackknife over documents.

    Examples:
      attnprobe mixing demo

      attnprobe mixing demo --by layer --content-only

      attnprobe mixing bert-base-uncased -d corpus.txt --by pair -o pairs.parquet

    Notes:
        Logits are what the softmax is taken of. For ``explained_by_others_null`` the keys of each head are
        shuffled, except for special tokens and the first token.

    Returns:
        One row a head, a layer or a pair. What a model does not give, such as what each head adds where the
        output projection can't be found, is left out, and a note says so.

    References:
        Shazeer et al. (2020), Talking-heads attention; Kobayashi et al. (2020), Attention is not only a
        weight; Busing et al. (1999), Delete-m jackknife for unequal m.

    >>> table = mixing("demo", ["The parcel came late.", "It rained."], by="layer")
    >>> list(table.data)[2:6]
    ['layer', 'n', 'effective_heads', 'effective_heads_se']
    """
    from attnprobe.commands.call.surveying import ask_mixing, survey_texts

    return survey_texts("mixing", model, texts, partial(ask_mixing, by), options, as_far_as_possible=True)


@command(OneModel, *SURVEY, Output)
def rank(
    model: Any,
    texts: "Texts" = None,
    *,
    map_rank: Annotated[
        bool, Option("Measure the rank of the maps too. It costs 0.6 to 2.2 forward passes at 512 tokens.")
    ] = False,
    **options: Any,
) -> "HeadTable":
    """Find out whether heads are too narrow for the sequences.

    [bold]head_width[/bold]: the width of a head's keys, d_k; [bold]longer[/bold]: share of sequences with
    more keys than that; [bold]logit_rank[/bold]: how many directions the logits QK^T of a sequence are made
    of, (sum s^2)^2 / sum s^4 of their singular values, rows centred; [bold]logit_rank_share[/bold]: its share
    of the largest possible, min(d_k, queries, keys - 1). All keys are taken, also those that a decoder
    masks; position biases, soft caps and masks are not in it. [bold]qk_rank[/bold]: the same of the weights
    W_Q W_K^T, without biases; [bold]qk_top_half[/bold]: share of sum s^2 in the upper half of the singular
    values. [bold]--map-rank[/bold] adds [bold]map_rank[/bold]: how many different rows a map is made of.
    Only sequences longer than the head is wide together with a share near 1 speak of a bottleneck.

    Examples:
      attnprobe rank demo

      attnprobe rank bert-base-uncased -d articles.jsonl --content-only

      attnprobe rank gpt2 -d corpus.txt --max-length 512 --map-rank -o rank.csv

    Returns:
        One row a head, of a model whose queries and keys can be read.

    References:
        Bhojanapalli et al. (2020), Low-rank bottleneck in multi-head attention models.

    >>> table = rank("demo", ["The parcel came late."])
    >>> [name for name in table.data if not name.endswith("_se")][4:8]
    ['n', 'head_width', 'longer', 'logit_rank']
    """
    from attnprobe.commands.call.surveying import ask_rank, survey_texts

    return survey_texts("rank", model, texts, partial(ask_rank, maps=map_rank), options)
