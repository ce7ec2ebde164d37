"""The function that says how heads of a layer mix."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from attnprobe.api.census import surveyed_texts
from attnprobe.api.keywords import SurveyKeywords, spelled_out
from attnprobe.api.texts import Texts
from attnprobe.corpus.tokens.tokenization import Tokenizer
from attnprobe.table.head_table import HeadTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedModel

    from attnprobe.statistics.statistic import Statistic
    from attnprobe.statistics.tabulation import Tabulation


@spelled_out
def mixing(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    *,
    by: Literal["head", "layer", "pair"] = "head",
    tokenizer: Tokenizer | None = None,
    **options: Unpack[SurveyKeywords],
) -> HeadTable:
    """Measure whether heads of a layer repeat each other, and whether what they give adds up or cancels.

    ``explained_by_others`` is how much of a head's logits, what the softmax is taken of, a linear mix of the
    other heads of its layer gives; ``explained_by_others_null`` how much it would if the keys of each head
    were shuffled, except for special tokens and the first token. ``contribution_norm`` is how much a head
    adds to the residual stream. By layer, ``effective_heads`` is how many heads differ, and ``cancellation``
    what they add together over what they add apart; by pair, the correlation of logits and the cosine of
    contributions. Standard errors are jackknifed over documents.

    Args:
        model: As for ``census``.
        texts: As for ``census``.
        by: One row for each head, for each layer, or for each two heads of a layer.
        tokenizer: As for ``census``.
        options: As for ``census``.

    Returns:
        One row a head, a layer or a pair. What a model does not give, such as what each head adds where the
        output projection can't be found, is left out, and a note says so.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.

    References:
        Shazeer et al. (2020), Talking-heads attention; Kobayashi et al. (2020), Attention is not only a
        weight; Busing et al. (1999), Delete-m jackknife for unequal m.

    Examples:
        >>> table = mixing("demo", ["The parcel came late.", "It rained."], by="layer")
        >>> list(table.data)[2:6]
        ['layer', 'n', 'effective_heads', 'effective_heads_se']
    """

    def asked() -> "tuple[Sequence[Statistic], Tabulation]":
        from attnprobe.statistics.mixing import BY_HEAD, BY_LAYER, BY_PAIR
        from attnprobe.statistics.registry import statistics_of

        return statistics_of("mixing"), {"head": BY_HEAD, "layer": BY_LAYER, "pair": BY_PAIR}[by]

    return surveyed_texts("mixing", model, texts, asked, tokenizer, options, as_far_as_possible=True)
