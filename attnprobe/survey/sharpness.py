"""Which head of a sequence is the sharpest: the one that a page of it shows first."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind

if TYPE_CHECKING:
    from attnprobe.survey.tokens import Maps


def measure_sharpness(maps: "Maps") -> NDArray[np.float64]:
    """Measure the entropy of each head beyond special tokens; the lower, the sharper.

    H = mean over queries q of -sum_k p_qk ln p_qk, in nats, where p_qk = a_qk + s_q / K_q: what a query gives
    to special tokens, s_q, counts as spread evenly over the K_q other tokens that it sees, so that a head
    which rests on a special token is not sharp. Queries are no special tokens either. In a decoder, the first
    token counts as special, where attention that is not needed gathers (Xiao et al. 2024). Where every token
    is special, all count.

    Returns:
        (layer, head), NaN for heads that were removed.

    Source: Xiao et al. (2024), Efficient streaming language models with attention sinks (first token).
    """
    causal = maps.kind is Kind.DECODER
    plain = [~side.special for side in (maps.queries, maps.keys)]
    if causal:
        plain[1] = plain[1] & (np.arange(len(maps.keys)) > 0)
    queries, keys = (np.flatnonzero(one if one.any() else np.ones(len(one), bool)) for one in plain)
    sees = np.ones((len(queries), len(keys)), bool)
    if causal:
        sees = keys <= queries[:, None]
    asked = sees.any(1)
    queries, sees = queries[asked], sees[asked]
    found = np.full(maps.rows.shape[:2], np.nan)
    for layer, rows in enumerate(maps.rows):  # of all layers at once, memory would be twice that of the maps
        given = rows[:, queries][..., keys].astype(np.float64)
        rest = np.clip(1 - given.sum(-1, keepdims=True), 0, 1)
        shares = np.where(sees, given + rest / sees.sum(1)[:, None], 0)
        logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
        entropies = -(shares * logs).sum(-1)
        found[layer] = entropies.mean(1) if len(queries) else 0.0
    found[~maps.standing] = np.nan
    return found


def find_sharpest(maps: "Maps") -> tuple[int, int]:
    """Find the head of the lowest entropy beyond special tokens: the place of its layer, and its number."""
    sharpness = np.where(maps.standing, measure_sharpness(maps), np.inf)
    layer, head = np.unravel_index(int(sharpness.argmin()), sharpness.shape)
    return int(layer), int(head)
