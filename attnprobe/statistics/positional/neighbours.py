"""How much a head looks at the token before, at the token itself, at the token after."""

from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.statistics.positional import FAMILY
from attnprobe.statistics.statistic import Statistic


def previous(block: AttentionBlock) -> Tensor:
    """Probability of the token before, p_{i,i-1}, averaged over the queries that have one.

    Limits: 0 to 1; about 1/n for uniform attention to n keys.

    Source: Clark et al. (2019), section 3.1, and Voita et al. (2019). Clark's script divides by all n queries
    instead of the n - 1 that have a previous token.

    >>> from attnprobe.attention.block import uniform_block
    >>> previous(uniform_block(length=4))[0, 0]
    tensor([   nan, 0.2500, 0.2500, 0.2500])
    """
    return block.at_offset(-1)


def itself(block: AttentionBlock) -> Tensor:
    """Probability of the token itself, p_{i,i}.

    Limits: 0 to 1; 1/n for uniform attention to n keys.

    Source: as for the previous token.
    """
    return block.at_offset(0)


def following(block: AttentionBlock) -> Tensor:
    """Probability of the token after, p_{i,i+1}, averaged over the queries that have one.

    Limits: 0 to 1; about 1/n for uniform attention to n keys. In causal attention it is undefined.

    Source: as for the previous token.
    """
    return block.at_offset(1)


def above(block: AttentionBlock) -> Tensor:
    """Probability of the patch above, averaged over the patches that have one.

    Limits: 0 to 1; 1/n for uniform attention to n keys.

    Source: as for the previous token, with rows. In an image, the previous token is the patch to the left.
    """
    return block.at_step(-1, 0)


def below(block: AttentionBlock) -> Tensor:
    """Probability of the patch below, averaged over the patches that have one.

    Limits: 0 to 1; 1/n for uniform attention to n keys.

    Source: as for the patch above.
    """
    return block.at_step(1, 0)


PREVIOUS = Statistic(
    "previous",
    "share of queries with a previous token",
    previous,
    family=FAMILY,
    title="attention to the previous token",
    headline=True,
)
SELF = Statistic("self", "share", itself, family=FAMILY, title="attention to the token itself", order=1)
NEXT = Statistic(
    "next",
    "share of queries with a next token",
    following,
    family=FAMILY,
    title="attention to the next token",
    headline=True,
    order=2,
)
ABOVE = Statistic(
    "above",
    "share of patches with one above",
    above,
    family=FAMILY,
    title="attention to the patch above",
    about="patches",
    order=3,
)
BELOW = Statistic(
    "below",
    "share of patches with one below",
    below,
    family=FAMILY,
    title="attention to the patch below",
    about="patches",
    order=4,
)
