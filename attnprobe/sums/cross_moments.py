"""What vectors of two sets of heads have in common, over tokens: sums that give linear CKA of every pair."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.sums.base import Sum

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CrossMoments(Sum):
    """Means of the vectors of two sets of heads, and products of what is left of them, over tokens.

    With x_g what head g of one model gives to a token, y_h what head h of the other gives to the same one,
    and tilde what is left without the mean, these are sum tilde x_g tilde x_g^T, sum tilde y_h tilde y_h^T,
    and sum tilde x_g tilde y_h^T for every g and h. Their size does not depend on the number of tokens.

    Attributes:
        count: Tokens, as an array without axes.
        first_mean: (head, width).
        second_mean: (other head, other width).
        first: (head, width, width).
        second: (other head, other width, other width).
        crossed: (head, width, other head, other width).

    References:
        Chan, Golub and LeVeque (1983), Algorithms for computing the sample variance.
    """

    count: Floats
    first_mean: Floats
    second_mean: Floats
    first: Floats
    second: Floats
    crossed: Floats

    @classmethod
    def of_tokens(cls, first: Tensor, second: Tensor) -> Self:
        """Sum up vectors (token, head, width) and (token, other head, other width) of the same tokens."""
        count = len(first)
        means = [side.mean(0) if count else side.new_zeros(side.shape[1:]) for side in (first, second)]
        ours, theirs = first - means[0], second - means[1]
        products = [torch.einsum("thi,thj->hij", side, side) for side in (ours, theirs)]
        crossed = (ours.flatten(1).T @ theirs.flatten(1)).reshape(*ours.shape[1:], *theirs.shape[1:])
        arrays = (part.cpu().numpy().astype(np.float64) for part in (*means, *products, crossed))
        return cls(np.array(float(count)), *arrays)

    def __add__(self, other: Self) -> Self:
        count = self.count + other.count
        share = float(other.count / count) if count else 0.0
        first, second = other.first_mean - self.first_mean, other.second_mean - self.second_mean
        weight = float(self.count) * share
        crossed = self.crossed + other.crossed
        crossed += np.multiply.outer(weight * first, second)
        return type(self)(
            count,
            self.first_mean + share * first,
            self.second_mean + share * second,
            self.first + other.first + weight * np.einsum("hi,hj->hij", first, first),
            self.second + other.second + weight * np.einsum("hi,hj->hij", second, second),
            crossed,
        )

    @property
    def chance_cka(self) -> float:
        """The CKA of outputs that have nothing to do with each other, over as many tokens."""
        width, other = self.first_mean.shape[1], self.second_mean.shape[1]
        return (width * other) ** 0.5 / max(1.0, float(self.count))

    @property
    def cka(self) -> Floats:
        """Linear centred kernel alignment of every pair of heads, (head, other head).

        The Gram matrices of the heads' outputs over all tokens, K = X X^T and L = Y Y^T, are centred, and
        their inner product (HSIC) is divided by their lengths. The same from products over tokens:

            CKA = HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L))
                = |tilde X^T tilde Y|^2 / (|tilde X^T tilde X| |tilde Y^T tilde Y|)

        in Frobenius norms. It is 1 if one head's outputs are those of the other, rotated, scaled and shifted,
        and 0 if no direction of one varies with any direction of the other. Widths may differ. It is
        undefined for a head that gives all tokens the same output. For independent outputs of widths w and v
        over n independent tokens, it is about sqrt(w v) / n, so few tokens make it too high.

        References:
            Kornblith, Norouzi, Lee and Hinton (2019), Similarity of neural network representations revisited,
            sections 3 and 4.
        """
        lengths = np.multiply.outer(
            *(np.linalg.norm(side, axis=(1, 2)) for side in (self.first, self.second))
        )
        common = np.square(self.crossed).sum((1, 3))
        return np.divide(common, lengths, out=np.full_like(common, np.nan), where=lengths > 0).clip(max=1.0)
