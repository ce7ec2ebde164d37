"""Whether a head writes what it looks at: the other half of induction, beside matching a prefix."""

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout
from attnprobe.statistics.induction import FAMILY
from attnprobe.statistics.reduction import mean_over_queries
from attnprobe.statistics.statistic import Statistic

#: By what keys give, which is one tensor for all blocks of their queries: s_j, which depends on keys alone.
_scores = WeakTensorKeyDictionary()


def copying(block: AttentionBlock) -> Tensor:
    """Whether a head raises the logit of the token that it looks at more than those of other tokens.

    What head h writes where it looks at key j is W_O,h v_j, and raises the logit of token t by
    u_t . W_O,h v_j, with u_t the row of the unembedding behind the final norm. Of the other tokens t of the
    sequence, a part is raised less than the key's own token and a part more:

        s_j = share raised less - share raised more
        copying = mean over queries i of  sum_j p_ij s_j / sum_j p_ij,  over ordinary keys j

    The way to the logits is the direct one: later layers are left out, norms count with their gains at a
    fixed scale, and a nonlinearity in the head of a masked language model is left out.

    Limits: -1 to 1; 0 by chance, 1 where the token that is looked at is always raised most, -1 where it is
    always raised least. Undefined where what a head adds does not reach the logits directly: in the encoder
    beside a decoder, and from decoder to encoder.

    Source: after Olsson et al. (2022), who sum up what is raised; Elhage et al. (2021) ask the eigenvalues of
    the same circuit.
    """
    raising = block.observed.unembedding
    if raising is None:
        return block.probabilities.new_full(block.probabilities.shape[:3], torch.nan)
    ordinary = (block.layout.keys.order >= 0) & block.layout.keys.kept
    score = _scores.get(block.values)
    if score is None:
        score = _scores[block.values] = _score(block, raising, ordinary)
    weights = block.probabilities * ordinary[:, None, None]
    found = (weights @ score[..., None].to(weights.dtype))[..., 0]
    return found / weights.sum(-1)


def _score(block: AttentionBlock, raising: Tensor, ordinary: Tensor) -> Tensor:
    """Give s_j of each key (batch, head, key)."""
    order = block.layout.keys.order
    same = order[:, :, None] == order[:, None]
    once = ordinary & ~same.tril(-1).any(-1)  # each token counts once, though it may come again
    others = ~same & once[:, None]
    by_head = torch.einsum("bkd,hwd->bhkw", raising, block.projection.to(raising.dtype))
    raised = block.values.to(raising.dtype) @ by_head.transpose(2, 3)
    ahead = (raised.diagonal(dim1=2, dim2=3)[..., None] - raised).sign()
    return (ahead * others[:, None]).sum(-1) / others.sum(-1)[:, None]


def of_ordinary(values: Tensor, layout: Layout) -> Tensor:
    """Average over the queries that are ordinary tokens."""
    return mean_over_queries(values.where((layout.queries.order >= 0)[:, None], torch.nan), layout)


COPYING = Statistic(
    "copying", "share of other tokens, net", copying, of_ordinary,
    needs={"values", "projection", "unembedding"}, family=FAMILY,
    title="logit of the token looked at, ahead of others", headline=True, order=3,
)  # fmt: skip
