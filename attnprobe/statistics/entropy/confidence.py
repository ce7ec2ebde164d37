"""How sure a head is of a single key."""

from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.statistics.entropy import FAMILY
from attnprobe.statistics.statistic import Statistic


def confidence(block: AttentionBlock) -> Tensor:
    """Largest probability of every row, max_j p_j.

    Limits: 1/n for a uniform row over n keys, 1 for a one-hot row.

    Source: Voita et al. (2019), section 4. They leave out the end-of-sentence key, as content only does here.

    >>> from attnprobe.attention.block import uniform_block
    >>> confidence(uniform_block(length=8)).mean()
    tensor(0.1250)
    """
    return block.summary.maximum


CONFIDENCE = Statistic(
    "confidence", "share", confidence, family=FAMILY, title="largest attention weight", order=3
)
