"""The function that says whether heads are too narrow for the sequence."""

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

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
def rank(
    model: "str | Path | PreTrainedModel",
    texts: Texts = None,
    *,
    map_rank: bool = False,
    tokenizer: Tokenizer | None = None,
    **options: Unpack[SurveyKeywords],
) -> HeadTable:
    """Measure whether heads are too narrow for the sequences: how much of their width they use.

    Args:
        model: As for ``census``; one whose queries and keys can be read.
        texts: As for ``census``.
        map_rank: Measure the rank of the maps too, which costs 0.6 to 2.2 forward passes at 512 tokens.
        tokenizer: As for ``census``.
        options: As for ``census``.

    Returns:
        One row a head. ``head_width`` is the width of its keys, d_k; ``longer`` the share of sequences with
        more keys than that; ``logit_rank`` the participation rank (sum s^2)^2 / sum s^4 of its row-centred
        logits Q (K - mean K)^T, over all keys and without position biases, caps and masks;
        ``logit_rank_share`` its share of the largest possible; ``qk_rank`` and ``qk_top_half`` the rank of
        W_Q W_K^T, without biases, and the share of sum s^2 in the upper half of its singular values.

    Raises:
        AttnprobeError: With one sentence on what is wrong and what to do.

    References:
        Bhojanapalli et al. (2020), Low-rank bottleneck in multi-head attention models.

    Examples:
        >>> table = rank("demo", ["The parcel came late."])
        >>> [name for name in table.data if not name.endswith("_se")][4:8]
        ['n', 'head_width', 'longer', 'logit_rank']
    """

    def asked() -> "tuple[Sequence[Statistic], Tabulation]":
        from attnprobe.statistics.rank import MAP_RANK, RANK
        from attnprobe.statistics.registry import statistics_of

        return [one for one in statistics_of("rank") if map_rank or one is not MAP_RANK], RANK

    return surveyed_texts("rank", model, texts, asked, tokenizer, options)
