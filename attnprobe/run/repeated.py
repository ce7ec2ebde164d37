"""Random tokens that come twice: nothing but the first copy tells what comes next in the second.

How far the copies are apart is drawn for each sequence, so that no fixed distance leads from one to another.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprobe.corpus.document import Document
from attnprobe.corpus.tokenizer import Frame, list_ordinary_ids
from attnprobe.corpus.tokens import TokenSequence
from attnprobe.errors import UsageError
from attnprobe.model.checkpoint import Checkpoint


@dataclass(frozen=True)
class RepeatedTokens:
    """Random tokens, repeated: each sequence is u + r + r between the boundary tokens of a text.

    u and r together are different ordinary tokens, each as likely as any other. How many are in r is drawn
    for each sequence, from half of ``length`` to ``length``; u makes all sequences equally long.
    """

    length: int = 50
    sequences: int = 64
    seed: int = 42

    @classmethod
    def fit(cls, checkpoint: Checkpoint, length: int, sequences: int, seed: int) -> "RepeatedTokens | None":
        """Fit a length to a model; None for a model that takes too few tokens."""
        fits = min(length, _find_longest(checkpoint, Frame.of(checkpoint.tokenizer)))
        return cls(fits, sequences, seed) if fits > 1 else None

    @property
    def described(self) -> dict[str, Any]:
        return {"name": "random tokens, repeated", **asdict(self)}

    def tokens(self, frame: Frame) -> int:
        """Count the tokens of each sequence, boundary tokens included."""
        return 2 * self.length + len(frame)

    def draw(self, checkpoint: Checkpoint, frame: Frame) -> Iterator[TokenSequence]:
        """Draw the sequences for a model, framed as its tokenizer frames a text, or refuse the length."""
        longest = _find_longest(checkpoint, frame)
        if self.length > longest:
            raise UsageError(
                f"--length {self.length} makes sequences of {self.tokens(frame)} tokens, all different but "
                f"for the repetition, which is more than {checkpoint.name} takes or its vocabulary has"
                + (f"; give at most --length {longest}." if longest > 1 else ".")
            )
        ordinary = list_ordinary_tokens(checkpoint)
        random = np.random.default_rng([self.seed, self.length, self.sequences])
        for number in range(self.sequences):
            period = int(random.integers(max(2, -(-self.length // 2)), self.length, endpoint=True))
            once = random.choice(ordinary, 2 * self.length - period, replace=False).tolist()
            name = Document(" ".join(map(str, once))).digest
            yield TokenSequence(frame.around([*once, *once[-period:]]), document=number, name=name)


def _find_longest(checkpoint: Checkpoint, frame: Frame) -> int:
    """Find the largest ``length`` that a model takes, and that its vocabulary has tokens for."""
    limits = [checkpoint.longest, checkpoint.longest_target if checkpoint.decodes else None]
    rooms = [(limit - len(frame)) // 2 for limit in limits if limit is not None]
    return min([len(list_ordinary_tokens(checkpoint)) // 2, *rooms])


def list_ordinary_tokens(checkpoint: Checkpoint) -> NDArray[np.int64]:
    """List the tokens that can be drawn: ordinary ones that have an embedding."""
    known = checkpoint.embeddings or checkpoint.model.config.get_text_config().vocab_size
    return np.array(list_ordinary_ids(checkpoint.tokenizer, known), np.int64)
