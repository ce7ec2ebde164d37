"""Two short sequences to try a model on, and the trace of what a pass of them calls."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnprobe.corpus.batches import join_inputs
from attnprobe.corpus.media import BOTH
from attnprobe.corpus.tokenizer import Frame, Tokenizer
from attnprobe.errors import first_line
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quirks import UnsupportedModelError
from attnprobe.model.reading.capture import Piece, capture_attention
from attnprobe.model.reading.ways import Sites, Way

#: Two sequences of this many tokens, and as many for a decoder beside an encoder.
PROBE_LENGTH, PROBE_TARGETS = 16, 11
#: Largest difference that rounding explains, by bytes per number (float64, float32, half).
TOLERANCE = {8: 1e-6, 4: 1e-3, 2: 0.1}


def find_tolerance(checkpoint: Checkpoint) -> float:
    """Find the largest difference that rounding explains in what a model computes."""
    return TOLERANCE[2 if checkpoint.quantisation else checkpoint.body.dtype.itemsize]


def relative_difference(values: Tensor, expected: Tensor) -> float:
    """Compute the largest difference over the largest expected value."""
    exact = expected.cpu().double()
    return float((values.cpu().double() - exact).abs().max() / exact.abs().max().clamp_min(1e-12))


def draw_probe_inputs(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Draw two short sequences of ordinary tokens, framed as the tokenizer frames them; or noise.

    Where there is a decoder beside the encoder, it reads two of another length.
    """
    processor = checkpoint.processor
    if processor is None:
        ids = _draw_tokens(checkpoint, checkpoint.tokenizer, PROBE_LENGTH, checkpoint.longest)
        inputs = {"input_ids": ids}
    else:
        inputs = join_inputs([processor.noise(number) for number in range(2)])
    if checkpoint.decodes and checkpoint.modality != BOTH:
        tokenizer = checkpoint.target_tokenizer or checkpoint.tokenizer
        targets = _draw_tokens(checkpoint, tokenizer, PROBE_TARGETS, checkpoint.longest_target)
        inputs["decoder_input_ids"] = torch.tensor([checkpoint.shift_right(row) for row in targets.tolist()])
    return inputs


def _draw_tokens(checkpoint: Checkpoint, tokenizer: Tokenizer, length: int, longest: int | None) -> Tensor:
    frame = Frame.of(tokenizer)
    special = set(getattr(tokenizer, "all_special_ids", ()))
    vocabulary = getattr(checkpoint.model.config.get_text_config(), "vocab_size", len(tokenizer))
    ordinary = [token for token in range(min(vocabulary, len(tokenizer))) if token not in special]
    if not ordinary:
        raise UnsupportedModelError(checkpoint.model_type, "its tokenizer knows special tokens only")
    room = min(length, longest or length) - len(frame)
    drawn = torch.randint(len(ordinary), (2, max(room, 1)), generator=torch.Generator().manual_seed(0))
    return torch.tensor([frame.around([ordinary[i] for i in row]) for row in drawn.tolist()])


@dataclass(frozen=True)
class Call:
    """A call of a module: the tensors that it was given, what it gave, and the layer that attends next."""

    name: str
    module: Any
    given: tuple[Tensor, ...]
    gave: Any
    layer: int = 0


@contextmanager
def record_calls(
    model: nn.Module, watched: Callable[[str, nn.Module], bool], sites: Sites | None = None
) -> Iterator[list[Call]]:
    """Record the calls of some modules in the passes made inside, in the order in which they return."""
    calls: list[Call] = []

    def note(
        name: str, module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any], gave: Any
    ) -> None:
        given = tuple(value for value in (*arguments, *options.values()) if isinstance(value, Tensor))
        calls.append(Call(name, module, given, gave, sites.count if sites else 0))

    with ExitStack() as hooks:
        for name, module in model.named_modules():
            if watched(name, module):
                hooks.callback(module.register_forward_hook(partial(note, name), with_kwargs=True).remove)
        yield calls


#: What a layer shows, by name: "maps" and those of ``OBSERVABLE``, each (sequence, head, query or key, ...).
Seen = dict[str, Tensor]


@dataclass(frozen=True)
class Trace:
    """What a forward pass called.

    Attributes:
        hidden: What it gave, (sequence, position, width).
        sites: Which modules attended, and how.
        layers: What each layer showed, in order; nothing where each was visited.
        calls: The calls of the modules that were watched.
    """

    hidden: Tensor
    sites: Sites
    layers: list[Seen]
    calls: list[Call]

    @property
    def maps(self) -> list[Tensor]:
        """The map of each layer, (sequence, head, query, key)."""
        return [seen["maps"] for seen in self.layers]


def trace_pass(
    checkpoint: Checkpoint,
    inputs: Mapping[str, Tensor],
    way: Way,
    observe: Collection[str] = (),
    watched: Callable[[str, nn.Module], bool] = lambda name, module: False,
    visit: Callable[[int, Seen], None] | None = None,
) -> Trace:
    """Trace what a forward pass calls; ``visit`` takes what each layer shows, which is not kept then.

    Raises:
        UnsupportedModelError: When the model can't be run that way, or attends to other than its sequences.
    """
    layers: dict[int, Seen] = defaultdict(dict)

    def add(piece: Piece) -> None:
        if visit is not None and layers and piece.layer not in layers:
            visit(*layers.popitem())
        stop, batch = piece.sequence + len(piece.probabilities), len(next(iter(inputs.values())))
        if stop > batch:
            raise token_error(checkpoint.model_type, piece.queries, piece.probabilities.shape[3])
        for name, block in {"maps": piece.probabilities, **vars(piece.observed)}.items():
            if block is None:
                continue
            whole = name in {"values", "keys"}
            shape = (batch, block.shape[1], block.shape[2] if whole else piece.queries, block.shape[3])
            kept = layers[piece.layer].setdefault(name, block.new_full(shape, torch.nan))
            start = 0 if whole else piece.query
            kept[piece.sequence : stop, :, start : start + block.shape[2]] = block

    body = checkpoint.body
    try:
        with (
            capture_attention(body, add, way, observe) as capture,
            record_calls(body, watched, capture.sites) as calls,
        ):
            hidden = checkpoint.forward(inputs)
    except UnsupportedModelError:
        raise
    except Exception as error:  # whatever a model does when it is read in a way it was not made for
        reason = f"it can't be run that way ({first_line(error)})"
        raise UnsupportedModelError(checkpoint.model_type, reason) from error
    if visit is not None and layers:
        visit(*layers.popitem())
    return Trace(hidden, capture.sites, [layers[layer] for layer in sorted(layers)], calls)


def token_error(name: str, queries: int, keys: int) -> UnsupportedModelError:
    """Refuse maps that are not of tokens for tokens."""
    reason = f"it does not attend from tokens to tokens (maps of {queries} x {keys} tokens were found)"
    return UnsupportedModelError(name, reason)
