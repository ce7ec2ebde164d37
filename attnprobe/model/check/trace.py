"""Two short sequences to try a model on, a trace of their pass through it, and where patches lie."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnprobe.attention.layout import Grid
from attnprobe.corpus.batches import join_inputs
from attnprobe.corpus.media import BOTH
from attnprobe.corpus.tokenizer import Frame, Tokenizer
from attnprobe.errors import first_line
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.private import count_writes
from attnprobe.model.processing import SeeingProcessor
from attnprobe.model.quirks import UnsupportedModelError, is_stretched
from attnprobe.model.reading.capture import Piece, capture_attention
from attnprobe.model.reading.ways import CallCounter, Way

#: Tokens of a sequence, and of one for a decoder beside an encoder.
PROBE_LENGTH, PROBE_TARGETS = 16, 11
#: Largest difference that rounding explains, by bytes per number (float64, float32, half).
TOLERANCE = {8: 1e-6, 4: 1e-3, 2: 0.1}
#: Rows or columns at the lower and right border that no patch may reach, where patches don't fit evenly.
_MARGIN = 32


def find_tolerance(checkpoint: Checkpoint) -> float:
    """Find the largest difference that rounding explains in what a model computes."""
    return TOLERANCE[2 if checkpoint.quantisation else checkpoint.body.dtype.itemsize]


def relative_difference(values: Tensor, expected: Tensor) -> float:
    """Compute the largest difference over the largest expected value."""
    exact = expected.cpu().double()
    return float((values.cpu().double() - exact).abs().max() / exact.abs().max().clamp_min(1e-12))


def draw_probe_inputs(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Draw two short inputs, always the same: framed tokens or noise; a decoder's have another length."""
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
    frame, special = Frame.of(tokenizer), set(getattr(tokenizer, "all_special_ids", ()))
    vocabulary = getattr(checkpoint.model.config.get_text_config(), "vocab_size", len(tokenizer))
    ordinary = [token for token in range(min(vocabulary, len(tokenizer))) if token not in special]
    if not ordinary:
        raise UnsupportedModelError(checkpoint.model_type, "its tokenizer knows special tokens only")
    room = max(1, min(length, longest or length) - len(frame))
    drawn = torch.randint(len(ordinary), (2, room), generator=torch.Generator().manual_seed(0))
    return torch.tensor([frame.around([ordinary[place] for place in row]) for row in drawn.tolist()])


@dataclass(frozen=True)
class Call:
    """A call of a module: its tensors, its output, and the layer that attends next."""

    name: str
    module: Any
    given: tuple[Tensor, ...]
    gave: Any
    layer: int = 0


@contextmanager
def record_calls(
    model: nn.Module, watched: Callable[[str, nn.Module], bool], counter: CallCounter | None = None
) -> Iterator[list[Call]]:
    """Record the calls of watched modules in the passes made inside, in the order in which they return."""
    calls: list[Call] = []

    def note(
        name: str, module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any], gave: Any
    ) -> None:
        given = tuple(value for value in (*arguments, *options.values()) if isinstance(value, Tensor))
        calls.append(Call(name, module, given, gave, counter.count if counter else 0))

    with ExitStack() as hooks:
        for name, module in model.named_modules():
            if watched(name, module):
                hooks.callback(module.register_forward_hook(partial(note, name), with_kwargs=True).remove)
        yield calls


@dataclass(frozen=True)
class Trace:
    """A forward pass: its hidden states (sequence, position, width), its layers and calls."""

    hidden: Tensor
    counter: CallCounter
    layers: list[dict[str, Tensor]]  # the "maps" and other observations of each, by name
    calls: list[Call]  # of watched modules


def trace_pass(
    checkpoint: Checkpoint,
    inputs: Mapping[str, Tensor],
    way: Way,
    observe: Collection[str],
    watched: Callable[[str, nn.Module], bool] = lambda name, module: False,
) -> Trace:
    """Trace a forward pass: what ``observe`` names of each layer, and the calls of ``watched`` modules.

    Raises:
        UnsupportedModelError: When the model can't be run that way, or attends to other than its sequences.
    """
    layers: dict[int, dict[str, Tensor]] = defaultdict(dict)
    batch = len(next(iter(inputs.values())))

    def keep_piece(piece: Piece) -> None:
        members = slice(piece.sequence, piece.sequence + len(piece.probabilities))
        if members.stop > batch:
            raise UnsupportedModelError(checkpoint.model_type, "it attends to other than its sequences")
        shown = layers[piece.layer]
        for name, block in {"maps": piece.probabilities, **vars(piece.observed)}.items():
            if block is None or name not in observe:
                continue
            whole = name in {"values", "keys"}
            shape = (batch, block.shape[1], block.shape[2] if whole else piece.queries, block.shape[3])
            if name not in shown:
                shown[name] = block.new_full(shape, torch.nan)
            start = 0 if whole else piece.query
            shown[name][members, :, start : start + block.shape[2]] = block

    body = checkpoint.body
    try:
        with (
            capture_attention(body, keep_piece, way, observe) as capture,
            record_calls(body, watched, capture.counter) as calls,
        ):
            hidden = checkpoint.forward(inputs)
    except UnsupportedModelError:
        raise
    except Exception as error:  # the code of a model may do anything when it is read in an unforeseen way
        reason = f"it can't be run that way ({first_line(error)})"
        raise UnsupportedModelError(checkpoint.model_type, reason) from error
    return Trace(hidden, capture.counter, [layers[layer] for layer in sorted(layers)], calls)


def run_twice(checkpoint: Checkpoint, inputs: Mapping[str, Tensor]) -> tuple[Tensor, bool]:
    """Run a model on two lengths; gives its states, and whether the second pass left it unchanged.

    Raises:
        UnsupportedModelError: When it can't be run on what it is given.
    """
    length, before = inputs["input_ids"].shape[1] if "input_ids" in inputs else 0, None
    with suppress(Exception):  # it may fail on short sequences
        if isinstance(checkpoint.processor, SeeingProcessor):  # of an image, all tokens have to stay
            checkpoint.forward(checkpoint.processor.cut(inputs, length - 2))
        else:
            short = max(1, length // 2) if length else None
            checkpoint.forward({name: value[:, :short] for name, value in inputs.items()})
        before = snapshot(checkpoint.forward_model)
    try:
        untouched = checkpoint.forward(inputs)
    except Exception as error:
        advice = "if it reads more, save the part that reads this as a checkpoint of its own"
        reason = f"it can't be run on {checkpoint.modality} alone ({first_line(error)}); {advice}"
        raise UnsupportedModelError(checkpoint.model_type, reason) from error
    stretched = any(map(is_stretched, checkpoint.forward_model.modules()))
    return untouched, not stretched and snapshot(checkpoint.forward_model) == before


#: Attributes of every module of torch, and the one that we replace.
_USUAL_ATTRIBUTES = {*vars(nn.Module()), "forward"}


def snapshot(model: nn.Module) -> dict[str, Any]:
    """Identify the attributes and buffers of all modules, uncopied, so that what a pass changes shows."""

    def identify(value: Any) -> Any:
        if isinstance(value, Tensor):
            return id(value), count_writes(value)
        if isinstance(value, int | float | str | None):
            return value
        return id(value), len(value) if isinstance(value, list | dict | set) else 0

    return {
        f"{name}.{key}": identify(value)
        for name, module in model.named_modules()
        for key, value in (*vars(module).items(), *module.named_buffers(recurse=False))
        if key not in _USUAL_ATTRIBUTES
    }


def catch_tokens(checkpoint: Checkpoint, inputs: Mapping[str, Tensor], site: str) -> Tensor | None:
    """Record the input (batch, position, width) of an attention module; None where it has none."""
    with record_calls(checkpoint.body, lambda name, _: name == site) as calls:
        checkpoint.forward(inputs)
    return next((tensor for call in calls for tensor in call.given if tensor.ndim == 3), None)


def find_grid(checkpoint: Checkpoint, inputs: Mapping[str, Tensor], site: str) -> Grid | None:
    """Find the grid of patches; None where tokens are no patches of a grid, row by row.

    If tokens are patches, changing a corner of the image changes one token in front of the first layer. The
    four tokens of the corners give rows and columns.
    """
    pixels = (name for name, tensor in inputs.items() if tensor.ndim >= 3 and tensor.is_floating_point())
    name = next(pixels, "")
    untouched = catch_tokens(checkpoint, inputs, site) if name else None
    if untouched is None:
        return None

    def find_changed(row: int, column: int) -> list[int]:
        changed = inputs[name].clone()
        changed[..., row, column] += 1 + changed.abs().max()
        tokens = catch_tokens(checkpoint, {**inputs, name: changed}, site)
        if tokens is None or tokens.shape != untouched.shape:
            return []
        return (tokens != untouched).any(2).any(0).nonzero().ravel().tolist()

    rows, columns = (range(-1, -1 - min(_MARGIN, size), -1) for size in inputs[name].shape[-2:])
    lowest = next((row for row in rows if find_changed(row, 0)), 0)
    rightmost = next((column for column in columns if find_changed(0, column)), 0)
    corners = [find_changed(*corner) for corner in ((0, 0), (0, rightmost), (lowest, 0), (lowest, rightmost))]
    if any(len(changed) != 1 for changed in corners):
        return None
    (first,), (right,), (below,), (last,) = corners
    right, below = sorted((right, below))  # whichever axis comes first
    width = right - first + 1
    if width < 2 or (below - first) % width or last - below != width - 1:
        return None
    return Grid(first, (below - first) // width + 1, width)
