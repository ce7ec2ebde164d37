"""Points in the plane whose distances come near given ones."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Iterations, and the relative gain below which they end.
_MOST, _GAIN = 1000, 1e-7


@dataclass(frozen=True)
class Map:
    """Points in the plane.

    Attributes:
        points: (item, 2), centred, turned so that they spread most along the first axis.
        stress: Kruskal's stress-1; 0 is perfect, 0.2 is poor.
    """

    points: Floats
    stress: float


def scaled(distances: Floats) -> Map:
    """Scale distances (item, item) to two dimensions: metric MDS by majorisation (SMACOF).

    It starts from classical scaling (Torgerson 1952) and moves the points by Guttman's transform,

        X <- B(X) X / n,    b_ij = -delta_ij / d_ij(X) for i != j,    b_ii = -sum_j b_ij,

    which never raises the raw stress sum (delta_ij - d_ij)^2. No random start: the same distances give the
    same map. The quality is Kruskal's stress-1, sqrt(sum (delta - d)^2 / sum d^2).

    References:
        Kruskal (1964), Multidimensional scaling by optimizing goodness of fit; de Leeuw (1977);
        Borg and Groenen (2005), Modern multidimensional scaling, chapter 8.
    """
    points = _classical(distances)
    before = np.inf
    for _ in range(_MOST):
        apart = _apart(points)
        now = float(np.square(distances - apart).sum())
        if not before - now > _GAIN * max(now, 1e-300) or now == 0:
            break
        before = now
        ratio = np.divide(distances, apart, out=np.zeros_like(apart), where=apart > 0)
        points = (ratio.sum(1)[:, None] * points - ratio @ points) / len(points)
    return Map(_turned(points), stress(distances, points))


def stress(distances: Floats, points: Floats) -> float:
    """Give Kruskal's stress-1 of points (item, 2) for distances (item, item)."""
    apart = _apart(points)
    length = np.square(apart).sum()
    return float(np.sqrt(np.square(distances - apart).sum() / length)) if length > 0 else 0.0


def _classical(distances: Floats) -> Floats:
    """Scale by the two largest eigenvectors of the doubly centred squares."""
    squares = np.square(distances)
    rows = squares.mean(1, keepdims=True)
    gram = -(squares - rows - rows.T + squares.mean()) / 2
    values, vectors = np.linalg.eigh(gram)
    return vectors[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 0))


def _turned(points: Floats) -> Floats:
    """Turn to principal axes, and settle which way each looks: an eigenvector's sign is chance."""
    centred = points - points.mean(0)
    turned = centred @ np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
    signs = np.sign(turned[np.abs(turned).argmax(0), [0, 1]])
    return turned * np.where(signs == 0, 1, signs)


def _apart(points: Floats) -> Floats:
    x, y = points.T
    return np.sqrt(np.square(x[:, None] - x) + np.square(y[:, None] - y))
