"""The sum of importance: what each head's is, on average, and over halves of the examples."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.corpus.batches.batch import Batch
from attnprobe.sums.blocks import Blocks
from attnprobe.sums.clustered import Clustered
from attnprobe.sums.moments import Moments
from attnprobe.sums.protocol import Arrays, named, part_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Importance:
    """Moments of the importance of every head over examples. Two of them add up.

    Attributes:
        heads: Of the importance (layer, head).
        products: Of the products within a layer (layer, head, head), of examples that are documents of
            their own; they give the covariances that the error of a normalised value needs.
        blocks: Its sums over blocks of documents (block, layer, head).
    """

    heads: Clustered
    products: Moments
    blocks: Blocks

    @classmethod
    def of(cls, values: Floats, batch: Batch) -> "Importance":
        """Take the moments of a batch (example, layer, head)."""
        clusters = batch.clusters
        alone = values if clusters is None else values[clusters < 0]
        documents = batch.members if batch.documents is None else batch.documents
        products = alone[..., :, None] * alone[..., None, :]
        return cls(Clustered.of(values, clusters), Moments.of(products), Blocks.of(values, documents))

    def __add__(self, other: "Importance") -> "Importance":
        """Merge the importance over two sets of examples."""
        return Importance(
            self.heads + other.heads, self.products + other.products, self.blocks + other.blocks
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name everything that is needed to go on adding."""
        parts = {"heads": self.heads, "products": self.products, "blocks": self.blocks}
        return {
            key: value for name, part in parts.items() for key, value in named(name, part.arrays()).items()
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> "Importance":
        """Restore what ``arrays`` gave."""
        return cls(
            Clustered.from_arrays(part_of(arrays, "heads")),
            Moments.from_arrays(part_of(arrays, "products")),
            Blocks.from_arrays(part_of(arrays, "blocks")),
        )

    @property
    def normalized(self) -> tuple[Floats, Floats]:
        """The importance divided by its l2 norm within the layer, and the standard error.

        With u = I / |I|, the error follows from du = (1 - u u^T) dI / |I| to first order.
        """
        mean = self.heads.average
        norm = np.linalg.norm(mean, axis=-1, keepdims=True)
        unit = np.divide(mean, norm, out=np.full_like(mean, np.nan), where=norm > 0)
        project = np.eye(mean.shape[-1]) - unit[..., :, None] * unit[..., None, :]
        spread = np.einsum("lij,ljk,lik->li", project, self.covariance, project).clip(0) / norm**2
        return unit, np.sqrt(spread)

    @property
    def share(self) -> tuple[Floats, Floats]:
        """The importance, here mean |R|, divided by its sum over the heads of the layer; the standard error.

        With s = I / sum I, the error follows from ds = (1 - s 1^T) dI / sum I to first order.
        """
        mean = self.heads.average
        total = mean.sum(-1, keepdims=True)
        share = np.divide(mean, total, out=np.full_like(mean, np.nan), where=total > 0)
        project = np.eye(mean.shape[-1]) - share[..., :, None]
        spread = np.einsum("lij,ljk,lik->li", project, self.covariance, project).clip(0)
        return share, np.sqrt(spread) / total

    @cached_property
    def covariance(self) -> Floats:
        """Covariances of the means of a layer's heads (layer, head, head); jackknife over documents."""
        heads, alone, mean = self.heads, self.heads.alone, self.heads.average
        number, clusters = heads.count[..., None], heads.clusters[..., None]
        crossed, squared = (side[..., :, None] * mean[..., None, :] for side in (alone.mean, mean))
        within = self.products.mean - crossed - crossed.swapaxes(-1, -2) + squared
        with np.errstate(divide="ignore", invalid="ignore"):
            found = alone.count[..., None] * within / np.square(number - 1)
            pull = heads.residuals / (heads.count - heads.groups.count)
            found = found + np.einsum("gli,glj->lij", pull, pull)
            return np.where(clusters > 1, found * (clusters - 1) / clusters, np.nan)
