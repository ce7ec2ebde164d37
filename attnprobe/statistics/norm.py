"""How much a head carries to the residual stream, and from which tokens."""

from functools import partial

from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.statistics.special import where_present
from attnprobe.statistics.statistic import Family, Reduce, Statistic

FAMILY = Family("norm", "what heads carry, by length", 5)


def total(block: AttentionBlock) -> Tensor:
    """Length of what a head carries from all keys, sum_j p_ij ||W_O,h v_j||.

    It is in units of the residual stream, and so compares within a layer better than between layers. Values
    count with their bias; the bias of the output projection belongs to no key. Vectors from several keys may
    cancel, so what the head adds to the stream is at most as long. In a model whose heads can also attend to
    nothing (gpt-oss), the rows are over tokens alone.

    Limits: 0 for a head that gives nothing; no upper limit.

    Source: Kobayashi et al. (2020), Attention is not only a weight, section 3.
    """
    return block.carried


def part(block: AttentionBlock, feature: str) -> Tensor:
    """Length of what a head carries from all keys of a kind, the sum of p_ij ||W_O,h v_j|| over them.

    Limits: 0 to the length from all keys; those of the four kinds add up to it.

    Source: Kobayashi et al. (2020), section 4.
    """
    return (block.carried * block.mass(feature)).where(block.carried != 0, 0)


def _from(feature: str, title: str, order: int, reduce: Reduce | None = None) -> Statistic:
    """Give how much comes from the keys of a kind."""
    return Statistic(
        f"norm_{feature}", "length", partial(part, feature=feature), reduce, family=FAMILY,
        title=f"what heads carry from {title}", weights="norm", order=order,
    )  # fmt: skip


TOTAL = Statistic(
    "norm_total", "length", total, family=FAMILY, title="what heads carry", weights="norm", headline=True
)
FIRST = _from("first", "the leading special token", 1, partial(where_present, feature="first"))
SEPARATOR = _from("separator", "separators", 2, partial(where_present, feature="separator"))
PUNCTUATION = _from("punctuation", "punctuation", 3)
OTHER = _from("other", "all other tokens", 4)
