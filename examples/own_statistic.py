"""A statistic of your own: how much of a head's attention goes to the keys that it prefers at all.

    python examples/own_statistic.py MODEL FILE

prints the heads that have the highest values, with their standard errors. The statistic needs the scores
before the softmax, and declares this, so that they are computed.
"""

import sys

import torch
from torch import Tensor

import attnprobe


@attnprobe.statistic(unit="share", needs={"scores"}, title="attention to preferred keys", version=1)
def above_mean(block: attnprobe.AttentionBlock) -> Tensor:
    """Probability on the keys whose score is above the mean score of the keys in sight.

    A uniform row gives 0, since no score is above their mean; a row with one large score gives nearly 1.
    """
    in_sight = torch.isfinite(block.scores) & (block.scores > torch.finfo(block.scores.dtype).min / 2)
    scores = block.scores.where(in_sight, torch.nan)
    return (block.probabilities * (scores > scores.nanmean(-1, keepdim=True))).sum(-1)


def main(model: str = "demo", texts: str | None = None, *, shown: int = 5) -> None:
    """Print the heads with the highest values."""
    table = attnprobe.census(model, texts, statistics=["entropy", above_mean])
    frame = table.to_pandas().sort_values("above_mean", ascending=False)
    columns = ["layer", "head", "n", "above_mean", "above_mean_se", "entropy"]
    print(frame[columns].head(shown).to_string(index=False))


if __name__ == "__main__":
    main(*sys.argv[1:3])
