"""Random tokens that come twice: nothing but the first copy tells what comes next in the second."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attnprobe.corpus.sources.document import Document
from attnprobe.corpus.tokens.tokenization import Frame, TokenSequence
from attnprobe.corpus.tokens.vocabulary import ordinary_ids
from attnprobe.errors import AttnprobeError

if TYPE_CHECKING:
    from attnprobe.model.loading.checkpoint import Checkpoint


@dataclass(frozen=True)
class Repeated:
    """Random tokens, repeated: each sequence is r + r between the special tokens that frame a text.

    r are ``length`` different tokens, each as likely as any other of the vocabulary. Special tokens, tokens
    that were added to the vocabulary, unused ones, and ids without an embedding are never drawn.

    Attributes:
        length: Tokens in r.
        sequences: How many sequences are drawn.
        seed: From what. Another length or number of sequences gives other sequences, so that separate runs
            have none in common.
    """

    length: int = 50
    sequences: int = 64
    seed: int = 42

    def __post_init__(self) -> None:
        """Refuse numbers that leave nothing to ask."""
        for option, least in (("length", 2), ("sequences", 1), ("seed", 0)):
            value = getattr(self, option)
            if value < least:
                raise AttnprobeError(f"--{option} must be at least {least}, not {value}.")

    @classmethod
    def fitting(cls, checkpoint: "Checkpoint", length: int, sequences: int, seed: int) -> "Repeated | None":
        """Draw as much as a model takes, up to a length; None where that is next to nothing."""
        frame, longest = Frame.of(checkpoint.tokenizer), _longest(checkpoint)
        room = length if longest is None else (longest - len(frame)) // 2
        fits = min(length, room, len(_ordinary(checkpoint)))
        return cls(fits, sequences, seed) if fits > 1 else None

    @property
    def described(self) -> dict[str, Any]:
        """What goes on record as the data."""
        return {
            "name": "random tokens, repeated",
            "length": self.length,
            "sequences": self.sequences,
            "seed": self.seed,
        }

    def tokens(self, frame: Frame) -> int:
        """Count the tokens of each sequence, special tokens included."""
        return 2 * self.length + len(frame)

    def drawn(self, checkpoint: "Checkpoint", frame: Frame) -> Iterator[TokenSequence]:
        """Draw the sequences for a model, framed as its tokenizer frames a text.

        Raises:
            AttnprobeError: When they are longer than what the model takes, or the vocabulary has too few
                tokens.
        """
        self._check_length(checkpoint, frame)
        ordinary = np.array(_ordinary(checkpoint), np.int64)
        if len(ordinary) < self.length:
            raise AttnprobeError(
                f"--length {self.length} needs as many different tokens, and the vocabulary of "
                f"{checkpoint.name} has {len(ordinary):,} ordinary ones"
                + (f"; give at most --length {len(ordinary)}." if len(ordinary) > 1 else ".")
            )
        random = np.random.default_rng([self.seed, self.length, self.sequences])
        for number in range(self.sequences):
            once = random.choice(ordinary, self.length, replace=False).tolist()
            name = Document(" ".join(map(str, once))).digest
            yield TokenSequence(frame.around([*once, *once]), document=number, name=name)

    def _check_length(self, checkpoint: "Checkpoint", frame: Frame) -> None:
        longest = _longest(checkpoint)
        if longest is None or self.tokens(frame) <= longest:
            return
        most = (longest - len(frame)) // 2
        raise AttnprobeError(
            f"--length {self.length} makes sequences of {self.tokens(frame)} tokens, more than the {longest} "
            f"that {checkpoint.name} takes" + (f"; give at most --length {most}." if most > 1 else ".")
        )


def _longest(checkpoint: "Checkpoint") -> int | None:
    """Give how many tokens the model takes, on either side; None where no limit is stated."""
    limits = [checkpoint.longest, checkpoint.longest_target if checkpoint.decodes else None]
    return min((limit for limit in limits if limit is not None), default=None)


def _ordinary(checkpoint: "Checkpoint") -> list[int]:
    """List the tokens that can be drawn: ordinary ones that have an embedding."""
    known = checkpoint.embeddings or checkpoint.model.config.get_text_config().vocab_size
    return ordinary_ids(checkpoint.tokenizer, known)
