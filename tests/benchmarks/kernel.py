"""The speed of the divergence loop alone."""

import time
from collections.abc import Iterator
from statistics import median

import torch
from figures import Figure
from torch import Tensor

from attnprobe.kernels.pairs import pairwise_divergence

SHAPES = ((1, 12, 128, 128), (1, 12, 64, 512))


def kernel_speed(*, quick: bool) -> Iterator[Figure]:
    """Time it per pair and key, on blocks as the census sees them."""
    for shape in SHAPES:
        p = attention_like(shape)
        work = shape[0] * shape[1] * (shape[1] - 1) // 2 * shape[2] * shape[3]
        pairwise_divergence(p)
        spent = []
        for _ in range(20 if quick else 200):
            start = time.process_time_ns()
            pairwise_divergence(p)
            spent.append((time.process_time_ns() - start) / work)
        note = f"fastest of {len(spent)}; median {median(spent):.3f}"
        yield Figure(f"JSD kernel, per pair and key, {shape}", min(spent), "ns", 0.4, 0.2, note)


def attention_like(shape: tuple[int, ...]) -> Tensor:
    """Draw rows from nearly uniform to nearly one-hot, head by head."""
    sharpness = torch.linspace(0.05, 12, shape[1]).view(1, -1, 1, 1)
    scores = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * sharpness
    return scores.softmax(-1)
