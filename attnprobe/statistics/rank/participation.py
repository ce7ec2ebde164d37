"""The participation rank of a product, from matrices as small as its width."""

import torch
from torch import Tensor


def participation_rank(left: Tensor, right: Tensor) -> Tensor:
    """Participation rank (sum s^2)^2 / sum s^4 of X Y^T, from X^T X and Y^T Y.

    The squares of its singular values s are the eigenvalues of X^T X Y^T Y: their sum is the trace of that,
    and the sum of their squares the trace of its square. r equal singular values give r.

    Args:
        left: X^T X, (..., width, width).
        right: Y^T Y, (..., width, width).

    Returns:
        (...), NaN where X Y^T is 0.

    >>> participation_rank(torch.eye(4), torch.diag(torch.tensor([1.0, 1.0, 0.0, 0.0]))).item()
    2.0
    """
    product = left @ right
    once = product.diagonal(dim1=-2, dim2=-1).sum(-1, dtype=torch.float64)
    twice = (product * product.transpose(-2, -1)).sum((-2, -1), dtype=torch.float64)
    return once.square() / twice
