"""How spread the attention of a head is."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING

from attnprobe.statistics.statistic import Family, Statistic, mean_over_queries

if TYPE_CHECKING:
    from torch import Tensor

    from attnprobe.attention.block import AttentionBlock
    from attnprobe.attention.layout import Layout


FAMILY = Family("entropy", "entropy of heads", 0)


def confidence(block: AttentionBlock) -> Tensor:
    """Largest probability of every row, max_j p_j.

    Limits: 1/n for a uniform row over n keys, 1 for a one-hot row.

    Source: Voita et al. (2019), section 4. They leave out the end-of-sentence key, as content only does here.

    >>> from attnprobe.attention.block import build_uniform_block
    >>> confidence(build_uniform_block(length=8)).mean()
    tensor(0.1250)
    """
    return block.summary.maximum


CONFIDENCE = Statistic(
    "confidence", "share", confidence, family=FAMILY, title="largest attention weight", order=3
)


def entropy(block: AttentionBlock) -> Tensor:
    """Shannon entropy of every row, H = -sum_j p_j ln p_j in nats, with 0 ln 0 = 0.

    Limits: 0 for a one-hot row, ln n for a uniform row over n keys.

    Source: Clark et al. (2019), section 3.2, without their smoothing.

    >>> from attnprobe.attention.block import build_uniform_block
    >>> entropy(build_uniform_block(length=8)).mean()  # ln 8
    tensor(2.0794)
    """
    return block.summary.entropy


def over_longest(values: Tensor, layout: Layout) -> Tensor:
    """Divide each row's entropy by its largest value, ln n for n keys in sight: H / ln n.

    The ratio goes from 0 to 1. It is undefined for n = 1. In causal attention every query has its own n, and
    the first query has no such ratio.
    """
    keys = layout.visible.to(values.dtype)[:, None]
    return mean_over_queries((values / keys.log()).where(keys > 1, nan), layout)


def of_first_query(values: Tensor, layout: Layout) -> Tensor:
    """Take the row of the first token alone, which is [CLS] in a BERT.

    It is undefined where the first token does not count as a query, as with content only.
    """
    asks = layout.queries.asking[:, :1]
    if layout.grid is not None:  # the first patch of an image is one like the others
        asks = asks & layout.queries.first[:, :1]
    return values[:, :, 0].where(asks, nan)


ENTROPY = Statistic("entropy", "nats", entropy, family=FAMILY, title="entropy of attention", headline=True)
NORMALIZED = Statistic(
    "entropy_normalized", "share", entropy, over_longest,
    family=FAMILY, title="entropy over its largest value", order=1,
)  # fmt: skip
FIRST = Statistic(
    "entropy_first", "nats", entropy, of_first_query,
    family=FAMILY, title="entropy of the first token", order=2,
)  # fmt: skip
