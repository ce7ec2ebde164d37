"""Commands that measure where heads look, and how they relate: one pass over texts, images or sound."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

from attnprobe.corpus.media import BOTH
from attnprobe.errors import UsageError
from attnprobe.options import (
    CensusOptions,
    ModelArgument,
    SurveyOptions,
    TableOutput,
    TextsArgument,
    text_option,
)
from attnprobe.registry import Option, command, split_names
from attnprobe.session.survey import open_survey

if TYPE_CHECKING:
    from attnprobe.statistics.statistic import Statistic
    from attnprobe.table.table import HeadTable


@command(TableOutput)
def census(
    model: ModelArgument,
    texts: TextsArgument = None,
    *,
    statistics: Annotated[
        "Sequence[str | Statistic] | None",
        text_option(
            "Measure only these columns or families; profile is attention by offset.",
            doc='Names of columns ("entropy"), of families ("positional"), of statistics of other packages, '
            'or functions that attnprobe.statistic decorates; by default "census", all but "profile", '
            'attention by offset. "entropy_norm" is of attention weighted by norm, and "norm" the family of '
            "lengths of value vectors, which weights adds too.",
            metavar="NAME,NAME",
        ),
    ] = None,
    everything: Annotated[
        bool,
        text_option(
            "Add rank, mixing and --weights both.",
            doc="Measure every column with one row a head: the census under both weightings, norm, rank "
            "without map_rank, mixing. What the model can't give is left out, with a note.",
        ),
    ] = False,
    **options: Unpack[CensusOptions],
) -> "HeadTable":
    """What does every head look at?

    One pass over the data.

    Columns, means over queries, then over the n sequences:
      entropy             -sum p ln p, in nats; entropy_normalized, entropy_first
      confidence          the largest p of a row
      previous, self, next
                          attention to the token before, itself, the one after
      offset, offset_share
                          the offset most often attended most; how often
      attention_distance  mean distance in tokens; _ratio: to uniform attention
      first, separator, punctuation, other
                          attention to such tokens
      sink_share          queries that look most at a special or the first token
      rare_mass           attention to rare tokens; rare_lift: over their share
      rarest_share        queries that look most at the rarest token
      jsd_mean            mean divergence from the layer's other heads, in nats
      NAME_se, n          standard error over documents; sequences
      NAME_norm           with --weights: attention times value lengths
      norm_total, norm_first, norm_separator, norm_punctuation, norm_other
                          with --weights: length of the weighted values
      NAME_q, NAME_q_p, NAME_q_p_adjusted
                          with --by-group: Cochran's Q, Welch's p, Holm's p

    Examples:
      attnprobe census demo
      attnprobe census demo --everything -o everything.csv
      attnprobe census my-checkpoint -d corpus.jsonl > heads.csv
      attnprobe census t5-small -d pairs.tsv --text-column en --label-column de

    Returns:
        One row a head, layers and heads counted from 0.

    >>> table = census("demo", ["The parcel came late."], statistics=["entropy"])
    >>> list(table.data)
    ['model', 'dataset', 'layer', 'head', 'n', 'entropy', 'entropy_se']
    """
    if everything and (statistics is not None or options["weights"] != "attention"):
        raise UsageError(
            "--everything measures all there is, under both weightings; leave out --statistics and --weights."
        )
    names = split_names(statistics)
    with open_survey("census", model, texts, options) as survey:
        from attnprobe.statistics import registry

        chosen = registry.every_statistic_of_heads() if everything else registry.choose(names)
        if names is None and options["weights"] != "attention":
            chosen += registry.select_statistics("norm")
        if names is None and survey.source.kind == BOTH:
            chosen += registry.select_statistics("modality")
        rows = registry.EVERYTHING if everything else None
        return survey.measure(chosen, rows, as_far_as_possible=everything)


def _survey_family(
    name: str, model: Any, texts: Any, options: Mapping[str, Any], *, control: bool = False
) -> "HeadTable":
    """Survey texts for one family of the census, also with their tokens shuffled as a ``control``."""
    with open_survey(name, model, texts, options) as survey:
        if control and survey.source.kind != "text":
            raise UsageError("--control shuffles the tokens of texts; of images and sound, leave it out.")
        from attnprobe.statistics.positional import CONTROLLED
        from attnprobe.statistics.registry import census_statistics, select_statistics

        chosen = census_statistics(name)
        if name in {"special", "modality"} and options["weights"] != "attention":  # lengths of the same
            chosen += select_statistics("norm")
        if not control:
            return survey.measure(chosen)
        return survey.measure([*chosen, *select_statistics(name, controls=True)], CONTROLLED)


@command(TableOutput)
def entropy(
    model: ModelArgument, texts: TextsArgument = None, **options: Unpack[CensusOptions]
) -> "HeadTable":
    """How spread is the attention of each head?

    Columns, means over queries, then over the n sequences:
      entropy             -sum p ln p, in nats
      entropy_normalized  divided by ln of the number of visible keys
      entropy_first       entropy of the first token's row
      confidence          the largest p of a row
      NAME_se, n          standard error over documents; sequences

    Examples:
      attnprobe entropy demo
      attnprobe entropy gpt2 -d reviews.csv --text-column review > entropy.csv
      attnprobe entropy my-bert -d reviews.csv --by-group source -o sources.csv
    """
    return _survey_family("entropy", model, texts, options)


@command(TableOutput)
def positional(
    model: ModelArgument,
    texts: TextsArgument = None,
    *,
    control: Annotated[
        bool, text_option("Measure previous, next and offset_share again with the tokens shuffled.")
    ] = False,
    **options: Unpack[CensusOptions],
) -> "HeadTable":
    """Which heads look at neighbours, or at a fixed offset?

    A head is called positional where offset_share is at least 0.9.

    Columns, means over queries, then over the n sequences:
      previous, self, next      attention to the token before, itself, after
      offset                    the offset most often attended most
      offset_share              how often, where a key is at that offset
      attention_distance        mean distance of attention, in tokens
      attention_distance_ratio  divided by that of uniform attention
      NAME_shuffled             with --control: the same with tokens shuffled
      NAME_se, n                standard error over documents; sequences

    Examples:
      attnprobe positional demo
      attnprobe positional demo --control
    """
    return _survey_family("positional", model, texts, options, control=control)


@command(TableOutput)
def special(
    model: ModelArgument, texts: TextsArgument = None, **options: Unpack[CensusOptions]
) -> "HeadTable":
    """How much attention goes to special tokens and punctuation?

    A model without such a token has an empty column.

    Columns, means over queries, then over the n sequences:
      first        attention to the leading special token
      separator    to separators
      punctuation  to punctuation
      other        to all other tokens
      sink_share   queries whose most attended key is special, or first
      NAME_se, n   standard error over documents; sequences

    Examples:
      attnprobe special demo
      cat corpus.txt | attnprobe special bert-base-uncased -d - > special.csv
    """
    return _survey_family("special", model, texts, options)


@command(TableOutput)
def rare(model: ModelArgument, texts: TextsArgument = None, **options: Unpack[CensusOptions]) -> "HeadTable":
    """Which heads look at rare tokens?

    Rare are the types that, from the rarest up, make up a tenth of the text's tokens.

    Columns, means over queries, then over sequences:
      rare_mass         attention to rare tokens
      rare_lift         divided by their share of the keys; 1 is no preference
      rarest_share      queries that look most at the sequence's rarest token
      rarest_two_share  or one of its two rarest, outside the 500 most frequent
      NAME_n            sequences where the number is defined
      NAME_se, n        standard error over documents; sequences

    Examples:
      attnprobe rare demo
      attnprobe rare bert-base-uncased -d corpus.jsonl --frequencies words.tsv.gz
    """
    if options["until"] is not None:
        raise UsageError("What is rare is counted over the whole text; leave out --until.")
    return _survey_family("rare", model, texts, options)


@command(TableOutput)
def modality(
    model: ModelArgument, texts: TextsArgument = None, **options: Unpack[CensusOptions]
) -> "HeadTable":
    """Which heads look at the image and which at the text, in a model that reads both?

    Columns, means over queries, then over the n sequences:
      text_to_image, ...   attention from text tokens to the image; likewise
                           text_to_text, text_to_special, image_to_image, ...
      image_mass, text_mass, special_mass
                           the same of all queries
      NAME_lift            divided by the share of the keys; 1 is no preference
      NAME_entropy         entropy of attention within the image, or the text
      text_to_image_peak   share of text tokens that look most at the image
      NAME_se, n           standard error over documents; sequences

    Examples:
      attnprobe modality llava-hf/llava-1.5-7b-hf -d pairs.jsonl
      attnprobe modality my-vlm -d photos/ --text-column text -o modality.csv
      attnprobe entropy my-vlm -d pairs.jsonl --queries text
    """
    return _survey_family("modality", model, texts, options)


@command(TableOutput)
def distance(
    model: ModelArgument,
    texts: TextsArgument = None,
    *,
    by: Annotated[Literal["pair", "head", "layer"], Option("A row for each pair, head or layer.")] = "pair",
    all_pairs: Annotated[bool, Option("Compare all heads of the model, not only of a layer.")] = False,
    **options: Unpack[CensusOptions],
) -> "HeadTable":
    """Which heads of a layer are copies, and which is the outlier?

    Columns, means over queries, then over the n sequences:
      jsd          Jensen-Shannon divergence of two heads, in nats: 0 for copies,
                   ln 2 = 0.693 for heads that never look at the same token
      js_distance  its square root
      jsd_mean, nearest_head, jsd_nearest
                   with --by head: mean over the layer's heads; the nearest one
      jsd_mean, jsd_std, odd_head, odd_jsd
                   with --by layer: mean, spread; the most different head
      NAME_se, n   standard error over documents; sequences

    Examples:
      attnprobe distance demo --by layer
      attnprobe distance bert-base-uncased --all-pairs -o pairs.parquet
    """
    if all_pairs and by != "pair":
        raise UsageError("--all-pairs gives one row per pair; leave out --by.")
    with open_survey("distance", model, texts, options) as survey:
        from attnprobe.statistics.distance import ALL_PAIRS, BY_HEAD, BY_LAYER, BY_PAIR
        from attnprobe.statistics.registry import select_statistics

        chosen = [one for one in select_statistics("distance") if all_pairs or one is not ALL_PAIRS]
        return survey.measure(chosen, {"pair": BY_PAIR, "head": BY_HEAD, "layer": BY_LAYER}[by])


@command(TableOutput)
def mixing(
    model: ModelArgument,
    texts: TextsArgument = None,
    *,
    by: Annotated[Literal["head", "layer", "pair"], Option("A row for each head, layer or pair.")] = "head",
    **options: Unpack[SurveyOptions],
) -> "HeadTable":
    """Do the heads of a layer repeat each other, or cancel?

    Columns:
      explained_by_others  share of a head's logits that a linear mix of the layer's
                           other heads gives; 1 for a copy
      explained_by_others_null
                           the same with ordinary keys shuffled
      contribution_norm    length of what a head adds to the residual stream
      effective_heads      with --by layer: the number of heads that differ
      cancellation         with --by layer: squared length of the heads' sum over
                           the sum of theirs; 0 they cancel, 1 orthogonal
      logit_correlation, contribution_cosine
                           with --by pair: of logits; of what heads add
      NAME_se, n           standard error, a jackknife over documents; sequences

    Examples:
      attnprobe mixing demo
      attnprobe mixing demo --by layer --content-only
      attnprobe mixing bert-base-uncased -d corpus.txt --by pair -o pairs.parquet

    Notes:
        Logits are the scores before the softmax. For ``explained_by_others_null`` the keys of each head are
        shuffled, except for special tokens and the first token. A column that the model can't give is left
        out, with a note: contributions need an output projection that is found.

    References:
        Shazeer et al. (2020), Talking-heads attention; Kobayashi et al. (2020), Attention is not only a
        weight; Busing et al. (1999), Delete-m jackknife for unequal m.
    """
    with open_survey("mixing", model, texts, options) as survey:
        from attnprobe.statistics.mixing import BY_HEAD, BY_LAYER, BY_PAIR, CORRELATION, SHUFFLED
        from attnprobe.statistics.registry import select_statistics

        needed = (CORRELATION, SHUFFLED)
        chosen = [one for one in select_statistics("mixing") if one.rows == by or one in needed]
        rows = {"head": BY_HEAD, "layer": BY_LAYER, "pair": BY_PAIR}[by]
        return survey.measure(chosen, rows, as_far_as_possible=True)


@command(TableOutput)
def rank(
    model: ModelArgument,
    texts: TextsArgument = None,
    *,
    map_rank: Annotated[bool, Option("Also measure the rank of maps; costs up to 2.2 more passes.")] = False,
    **options: Unpack[SurveyOptions],
) -> "HeadTable":
    """Are heads too narrow for the sequences?

    The width is a bottleneck only if sequences are longer than it and the share is near 1.

    Columns:
      head_width        the width of a head's keys, d_k
      longer            share of sequences with more keys than that
      logit_rank        effective rank of a sequence's logits QK^T, rows centred:
                        (sum s^2)^2 / sum s^4 of the singular values s
      logit_rank_share  divided by its maximum, min(d_k, queries, keys - 1)
      qk_rank           the same of the weights W_Q W_K^T, without biases
      qk_top_half       share of sum s^2 in the upper half of the singular values
      map_rank          with --map-rank: effective number of different rows of a map
      NAME_se, n        standard error over documents; sequences

    Examples:
      attnprobe rank demo
      attnprobe rank gpt2 -d corpus.txt --max-length 512 --map-rank -o rank.csv

    References:
        Bhojanapalli et al. (2020), Low-rank bottleneck in multi-head attention models.
    """
    with open_survey("rank", model, texts, options) as survey:
        from attnprobe.statistics.rank import MAP_RANK, RANK
        from attnprobe.statistics.registry import select_statistics

        chosen = [one for one in select_statistics("rank") if map_rank or one is not MAP_RANK]
        return survey.measure(chosen, RANK)
