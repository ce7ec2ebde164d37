"""Batches of images and texts that are read together: one image a text, never padded."""

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.features import Modalities, TokenFeatures
from attnprobe.corpus.batches.batch import Batch, Side
from attnprobe.corpus.batches.media import number_values, stack_pairs
from attnprobe.corpus.batches.text import Batches
from attnprobe.corpus.sources.pictures import Picture
from attnprobe.corpus.tokens.store import explain_full_disk
from attnprobe.errors import AttnprobeError

#: Prepares an image and a text for the model, as long as what is read of them.
Prepare = Callable[[Picture, str, int], dict[str, Tensor]]


@dataclass(frozen=True)
class PairSide(Side):
    """Texts with images in them.

    Attributes:
        is_image: Marks the ids that stand for the image.
        find_sight: From those marks to the last position that each token sees in a decoder; None where it
            sees no later one.
        queries: "text" or "image" if only such tokens count as queries.
    """

    is_image: Callable[[Any], Any] = lambda ids: ids < 0
    find_sight: Callable[[Tensor], Tensor] | None = None
    queries: str | None = None

    def features(self, ids: NDArray[np.int32]) -> TokenFeatures:
        """Look up what is known about token ids; all special tokens that are no image are separators here."""
        found, image = super().features(ids), torch.from_numpy(self.is_image(ids))
        every = torch.from_numpy(self.kinds.special(ids)) & ~image
        first = found.first & every
        punctuation = found.punctuation & ~(image | every)
        asking = {"image": image, "text": ~(image | every)}.get(self.queries or "", torch.ones_like(image))
        place = torch.arange(ids.shape[1]).expand(ids.shape)
        sees = place.contiguous() if self.find_sight is None else self.find_sight(image)
        none = image | every
        return TokenFeatures(
            first,
            every & ~first,
            punctuation,
            ~(every | punctuation),
            found.rare.masked_fill(none, 0),
            ~every if self.content_only else torch.ones_like(image),
            found.rank.masked_fill(none, -1),
            found.order.masked_fill(none, -1),
            mixed=Modalities(image, asking, sees),
        )


class PairBatches(Batches):
    """The batches of images and texts, in a fixed order; iterating again prepares them again."""

    def __init__(
        self,
        source: PairSide,
        pairs: Sequence[tuple[Picture, str]],
        shapes: Sequence[tuple[Any, ...]],
        digests: Sequence[str],
        prepare: Prepare,
        **options: Any,
    ) -> None:
        """Plan the batches of sequences of one length whose images have one shape.

        Args:
            source: The sequences.
            pairs: The image and the text of each.
            shapes: What has to be alike for sequences to make a batch.
            digests: What names each image.
            prepare: The checkpoint's processor.
            options: Those of ``Batches``.
        """
        self._pairs, self._prepare = pairs, prepare
        super().__init__(source, keys=[number_values(shapes)], **options)
        self.digest = hashlib.sha256("".join((self.digest, *digests)).encode()).hexdigest()

    def gather(self, members: NDArray[np.int64]) -> Batch:
        pairs = [self._pairs[int(member)] for member in members]
        length = int(self.lengths[members[0]])
        inputs = stack_pairs([self._prepare(*pair, length) for pair in pairs])
        return replace(super().gather(members), inputs=inputs)

    def shuffle(self, seed: int) -> Self:
        raise AttnprobeError("Images with texts have no tokens that could be shuffled; give text.")


class Spool:
    """Keeps the bytes of images that have no file of their own, in a temporary file."""

    def __init__(self) -> None:
        with explain_full_disk("What the images take"):
            self._file = tempfile.TemporaryFile(prefix="attnprobe-")  # noqa: SIM115 - closed in __exit__
        self._reading = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # what did not fit once does not fit now
            self._file.close()

    def put(self, picture: Picture) -> Picture:
        """Let go of what a picture holds."""
        if picture.path is not None:
            return picture
        with explain_full_disk("What the images take"):
            start = self._file.seek(0, 2)
            self._file.write(picture.held)
        return replace(picture, held=b"", spool=(self, start, len(picture.held)))

    def read(self, start: int, size: int) -> bytes:
        with self._reading:
            self._file.seek(start)
            return self._file.read(size)
