"""Two short sequences to try a model on, and what comes of it."""

from collections.abc import Mapping

import torch
from torch import Tensor

from attnprobe.corpus.batches.media import stacked
from attnprobe.corpus.tokens.tokenization import Frame, Tokenizer
from attnprobe.model.loading.checkpoint import Checkpoint
from attnprobe.model.loading.support import UnsupportedModelError
from attnprobe.model.reading.pieces import Piece

#: Two sequences of this many tokens, and as many for a decoder beside an encoder.
PROBE_LENGTH, PROBE_TARGETS = 16, 11
#: Largest difference that rounding explains, by bytes per number (float64, float32, half).
TOLERANCE = {8: 1e-6, 4: 1e-3, 2: 0.1}


class Probe:
    """Gathers the attention maps of every layer from pieces.

    Attributes:
        maps: For each layer, (sequence, head, query, key).
    """

    def __init__(self, name: str, inputs: Mapping[str, Tensor]) -> None:
        """Expect maps of what a model is given; ``name`` is its type, for errors."""
        self._name = name
        self._batch = len(next(iter(inputs.values())))
        self._length = inputs["input_ids"].shape[1] if "input_ids" in inputs else None
        self._targets = inputs["decoder_input_ids"].shape[1] if "decoder_input_ids" in inputs else None
        self.maps: dict[int, Tensor] = {}

    def _expected(self, queries: int, keys: int) -> bool:
        """Whether these are tokens of the sequences; how many a model makes of an image, it tells first."""
        if self._length is None and queries == keys:
            self._length = keys
        source, targets = self._length, self._targets
        return (queries, keys) in {(source, source), (targets, targets), (targets, source)}

    def __call__(self, piece: Piece) -> None:
        """Take a piece; refuse one that is not of tokens for tokens."""
        batch, heads, rows, keys = piece.probabilities.shape
        queries = piece.queries
        if not self._expected(queries, keys) or piece.sequence + batch > self._batch:
            found = f"maps of {queries} x {keys} tokens were found"
            raise UnsupportedModelError(self._name, f"it does not attend from tokens to tokens ({found})")
        shape = (self._batch, heads, queries, keys)
        whole = self.maps.setdefault(piece.layer, piece.probabilities.new_full(shape, torch.nan))
        some = slice(piece.sequence, piece.sequence + batch)
        whole[some, :, piece.query : piece.query + rows] = piece.probabilities


def probe_inputs(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Draw two short sequences of ordinary tokens, framed as the tokenizer frames them; or noise.

    Where there is a decoder beside the encoder, it reads two of another length.
    """
    if checkpoint.processor is not None:
        inputs = stacked([checkpoint.processor.noise(number) for number in range(2)])
    else:
        inputs = {"input_ids": _drawn(checkpoint, checkpoint.tokenizer, PROBE_LENGTH, checkpoint.longest)}
    if checkpoint.decodes:
        spells = checkpoint.target_tokenizer or checkpoint.tokenizer
        targets = _drawn(checkpoint, spells, PROBE_TARGETS, checkpoint.longest_target)
        inputs["decoder_input_ids"] = torch.tensor([checkpoint.shifted(row) for row in targets.tolist()])
    return inputs


def _drawn(checkpoint: Checkpoint, tokenizer: Tokenizer, length: int, longest: int | None) -> Tensor:
    frame = Frame.of(tokenizer)
    special = set(getattr(tokenizer, "all_special_ids", ()))
    known = len(tokenizer)
    vocabulary = getattr(checkpoint.model.config.get_text_config(), "vocab_size", known)
    ordinary = [token for token in range(min(vocabulary, known)) if token not in special]
    if not ordinary:
        raise UnsupportedModelError(checkpoint.model_type, "its tokenizer knows special tokens only")
    room = min(length, longest or length) - len(frame)
    drawn = torch.randint(len(ordinary), (2, max(room, 1)), generator=torch.Generator().manual_seed(0))
    return torch.tensor([frame.around([ordinary[i] for i in row]) for row in drawn.tolist()])


def relative_difference(found: Tensor, expected: Tensor) -> float:
    """Give the largest difference over the largest expected value."""
    exact = expected.cpu().double()
    return float((found.cpu().double() - exact).abs().max() / exact.abs().max().clamp_min(1e-12))
