"""How long a vector each key gives to the residual stream through a head: ||W_O,h v_j||."""

import torch
from torch import Tensor


def factor_of(projection: Tensor) -> Tensor:
    """Give a small matrix that stands for an output projection wherever only lengths matter.

    With W_O,h^T = Q R and Q orthonormal, ||v W_O,h|| = ||R v||. R is as wide as the head and not as the
    model, and nothing cancels, as in v (W W^T) v^T it would.

    Args:
        projection: W_O,h, (head, width, model width).

    Returns:
        R^T, (head, width, width) or, if the model is narrower than a head, (head, width, model width); of
        the device and the type of the projection.

    >>> factor_of(torch.tensor([[[3.0, 4.0]]])).abs()
    tensor([[[5.]]])
    """
    # Once for each layer and run: in double precision, which some devices don't have.
    turned = projection.detach().to("cpu", torch.float64).mT
    return torch.linalg.qr(turned, mode="r").R.mT.contiguous().to(projection)


def lengths_of(values: Tensor, factor: Tensor) -> Tensor:
    """Give ||W_O,h v_j|| of every key.

    Args:
        values: (batch, head, key, width), with their bias.
        factor: Of the output projection, see ``factor_of``.

    Returns:
        (batch, head, key), of the type of the factor.
    """
    return torch.linalg.vector_norm(torch.matmul(values.to(factor.dtype), factor), dim=-1)
