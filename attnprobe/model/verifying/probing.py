"""Two short sequences to try a model on, its untouched answer, and what it keeps from pass to pass."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from attnprobe.attention.kinds import PARTS, Kind
from attnprobe.corpus.batches import stack_inputs, stack_pairs
from attnprobe.corpus.media import BOTH
from attnprobe.corpus.tokens import Frame, Tokenizer
from attnprobe.errors import first_line
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.configuration import reads_both
from attnprobe.model.private import count_writes, get_attn_implementation
from attnprobe.model.processing import SeeingProcessor
from attnprobe.model.quirks import UnsupportedModelError
from attnprobe.model.reading.blocks import spread_maps
from attnprobe.model.reading.capture import Piece
from attnprobe.model.reading.ways import switch_attention
from attnprobe.model.verifying.architecture import find_attending_layers, list_layer_kinds

#: Two sequences of this many tokens, and as many for a decoder beside an encoder.
PROBE_LENGTH, PROBE_TARGETS = 16, 11
#: Largest difference that rounding explains, by bytes per number (float64, float32, half).
TOLERANCE = {8: 1e-6, 4: 1e-3, 2: 0.1}


def find_tolerance(checkpoint: Checkpoint) -> float:
    """Find the largest difference that rounding explains in what a model computes."""
    coarse = checkpoint.quantisation is not None
    return TOLERANCE[2 if coarse else checkpoint.body.dtype.itemsize]


class Probe:
    """Gathers the attention maps of every layer from pieces.

    Attributes:
        maps: For each layer, (sequence, head, query, key).
    """

    def __init__(self, name: str, inputs: Mapping[str, Tensor]) -> None:
        """``name`` is the type of the model that is given ``inputs``, for errors."""
        self._name = name
        self._batch = len(next(iter(inputs.values())))
        self._length = inputs["input_ids"].shape[1] if "input_ids" in inputs else None
        self._targets = inputs["decoder_input_ids"].shape[1] if "decoder_input_ids" in inputs else None
        self.maps: dict[int, Tensor] = {}

    def _is_expected(self, queries: int, keys: int) -> bool:
        """Whether these are tokens of the sequences; those that a model makes of an image may change."""
        if self._length is None and (self._targets is None or queries == keys):
            if self._targets is None:
                return True
            self._length = keys
        source, targets = self._length, self._targets
        return (queries, keys) in {(source, source), (targets, targets), (targets, source)}

    def __call__(self, piece: Piece) -> None:
        """Add a piece; refuse one that is not of tokens for tokens."""
        batch, heads, rows, keys = piece.probabilities.shape
        queries, stop = piece.queries, piece.sequence + batch
        if not self._is_expected(queries, keys) or stop > self._batch:
            found = f"maps of {queries} x {keys} tokens were found"
            raise UnsupportedModelError(self._name, f"it does not attend from tokens to tokens ({found})")
        shape = (self._batch, heads, queries, keys)
        whole = self.maps.setdefault(piece.layer, piece.probabilities.new_full(shape, torch.nan))
        whole[piece.sequence : stop, :, piece.query : piece.query + rows] = piece.probabilities


def draw_probe_inputs(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Draw two short sequences of ordinary tokens, framed as the tokenizer frames them; or noise.

    Where there is a decoder beside the encoder, it reads two of another length.
    """
    if checkpoint.modality == BOTH:
        assert checkpoint.processor is not None
        return stack_pairs([checkpoint.processor.noise(number) for number in range(2)])
    if checkpoint.processor is not None:
        inputs = stack_inputs([checkpoint.processor.noise(number) for number in range(2)])
    else:
        tokens = _draw_tokens(checkpoint, checkpoint.tokenizer, PROBE_LENGTH, checkpoint.longest)
        inputs = {"input_ids": tokens}
    if checkpoint.decodes:
        tokenizer = checkpoint.target_tokenizer or checkpoint.tokenizer
        targets = _draw_tokens(checkpoint, tokenizer, PROBE_TARGETS, checkpoint.longest_target)
        inputs["decoder_input_ids"] = torch.tensor([checkpoint.shift_right(row) for row in targets.tolist()])
    return inputs


def _draw_tokens(checkpoint: Checkpoint, tokenizer: Tokenizer, length: int, longest: int | None) -> Tensor:
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
    """Compute the largest difference over the largest expected value."""
    exact = expected.cpu().double()
    return float((found.cpu().double() - exact).abs().max() / exact.abs().max().clamp_min(1e-12))


#: What is said of a model whose eager attention is another than that which it runs by itself.
OTHER_STATES = (
    "its own eager maps come with other hidden states: what is measured is the attention that it runs by "
    "itself, and not its eager attention"
)


@dataclass(frozen=True)
class Reference:
    """What each way is held against.

    Attributes:
        inputs: Two short sequences, with targets of another length where there is a decoder beside.
        untouched: The hidden states of the untouched model.
        maps: For each kind (one, where no decoder is beside an encoder), the maps the model itself
            returns under eager attention, if it does.
        scored: Whether it gives scores, and the maps are their softmax.
        averaged: Whether it gives the mean of all heads in place of each, as WavLM does.
        absence: Why there are none.
    """

    inputs: Mapping[str, Tensor]
    untouched: Tensor
    maps: Mapping[Kind | None, tuple[Tensor, ...]] = field(default_factory=dict)
    scored: bool = False
    averaged: bool = False
    absence: str = ""


#: How the other of an image and a text is named.
_NAMING = {
    "text": "name the column of images with --image-column",
    "image": "name the column of captions with --text-column",
}


def run_untouched(checkpoint: Checkpoint, inputs: Mapping[str, Tensor]) -> Reference:
    """Run the model as it is, and let it give its own maps."""
    body, runner = checkpoint.body, checkpoint.runner
    try:
        untouched = checkpoint.forward(inputs)
    except Exception as error:
        named = {"text": "token ids", BOTH: "an image and a text"}
        alone = named.get(checkpoint.modality, f"{checkpoint.modality}")
        advice = "if it needs other inputs too, save the part that reads these as a checkpoint of its own"
        if checkpoint.modality in {"text", "image"} and reads_both(checkpoint.model.config):
            advice = "give each image with a text: " + _NAMING[checkpoint.modality]
        raise UnsupportedModelError(
            checkpoint.model_type, f"it can't be run on {alone} alone ({first_line(error)}); {advice}"
        ) from error
    before = get_attn_implementation(runner)
    try:
        switch_attention(runner, "eager")
        with torch.inference_mode():
            given = runner(**checkpoint.inputs(inputs), output_attentions=True)
        found = _take_maps(given, checkpoint)
        alike = relative_difference(given[0], untouched) <= find_tolerance(checkpoint)
    except Exception as error:
        return Reference(inputs, untouched, absence=f"its own maps can't be had ({first_line(error)})")
    finally:
        switch_attention(runner, before)
    if not found:
        return Reference(inputs, untouched, absence="it gives no maps of its own for comparison")
    if not alike:  # Falcon loses its mask when it is switched
        return Reference(inputs, untouched, absence=OTHER_STATES)

    def convert(change: Callable[[Tensor], Tensor]) -> dict[Kind | None, tuple[Tensor, ...]]:
        return {kind: tuple(map(change, layers)) for kind, layers in found.items()}

    found = convert(partial(spread_maps, body))
    if all(map(_has_sinks, chain(*found.values()))):
        found = convert(lambda rows: rows / rows.sum(-1, keepdim=True))
    if measure_row_sum_error(chain(*found.values())) <= find_tolerance(checkpoint):
        averaged = all(rows.shape[1] > 1 and are_heads_equal(rows) for rows in chain(*found.values()))
        return Reference(inputs, untouched, found, averaged=averaged)
    # SqueezeBERT and ProphetNet give what goes into their softmax.
    return Reference(inputs, untouched, convert(lambda rows: rows.softmax(-1)), scored=True)


def _take_maps(given: Any, checkpoint: Checkpoint) -> dict[Kind | None, tuple[Tensor, ...]]:
    if checkpoint.decodes:
        found: dict[Kind | None, Any] = {kind: getattr(given, f"{kind}_attentions", None) for kind in PARTS}
    else:
        own = getattr(given, "language_model_outputs", given)  # of BLIP-2, which gives those of each part
        found = {None: _drop_missing(own.attentions, checkpoint.body.config.get_text_config())}
    whole = all(layers and all(isinstance(rows, Tensor) for rows in layers) for layers in found.values())
    return {kind: tuple(layers) for kind, layers in found.items()} if whole else {}


def _drop_missing(given: Any, config: Any) -> Any:
    """Leave out what layers that do not attend give in the place of a map: nothing, or their states."""
    attend = find_attending_layers(config)
    if not attend or not given:
        return given
    if len(given) == len(list_layer_kinds(config)):
        return tuple(given[layer] for layer in attend)
    return tuple(rows for rows in given if rows is not None)


def _has_sinks(rows: Tensor) -> bool:
    """Tell probabilities that leave something for a learned sink from scores."""
    return bool((rows >= 0).all()) and bool((rows.sum(-1) <= 1 + TOLERANCE[4]).all())


def measure_row_sum_error(maps: Iterable[Tensor]) -> float:
    """Measure the largest difference of a row's sum from 1."""
    return find_largest((rows.cpu().double().sum(-1) - 1).abs() for rows in maps)


def find_largest(differences: Iterable[Tensor]) -> float:
    """Find the largest number of several tensors; NaN if there is one, which Python's max may pass over."""
    return float(torch.stack([values.max() for values in differences]).max())


def are_heads_equal(rows: Tensor) -> bool:
    return bool((rows == rows[:, :1]).all())


#: What torch keeps on every module, and where we stand between a module and its callers.
_OURS = {*vars(nn.Module()), "forward"}
#: Rotary embeddings that change with the length of what they are given.
_STRETCHED = {"dynamic", "longrope"}


def snapshot(model: nn.Module) -> dict[str, Any]:
    """Record everything that the modules of a model keep beside their weights.

    Two records are equal where nothing changed between them: no attribute was put in place of another, no
    buffer was written to, no list or dictionary grew. Rotary embeddings often keep their tables, and those of
    a longer sequence are wrong for a shorter one.
    """
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if key not in _OURS:
                found[f"{name}.{key}"] = _identify(value)
        for key, value in module.named_buffers(recurse=False):
            found[f"{name}.{key}"] = _identify(value)
    return found


def _identify(value: Any) -> Any:
    if isinstance(value, Tensor):
        return id(value), tuple(value.shape), count_writes(value)
    if isinstance(value, bool | int | float | str | None):
        return value
    if isinstance(value, tuple):
        return tuple(map(_identify, value))
    if isinstance(value, list | dict | set):
        return id(value), len(value)
    return id(value)


def is_stateless(checkpoint: Checkpoint, inputs: Mapping[str, Tensor]) -> bool:
    """Run a model on sequences of two lengths, and tell whether it comes out as it went in."""
    body = checkpoint.runner
    if any(_STRETCHED & _list_rotary_kinds(module) for module in body.modules()):
        return False
    if checkpoint.modality == BOTH:  # a part that sees may prepare itself, once and for all
        checkpoint.forward(inputs)
    before = snapshot(body)
    try:
        checkpoint.forward(inputs)
        if "input_ids" in inputs:
            length = inputs["input_ids"].shape[1]
            if isinstance(checkpoint.processor, SeeingProcessor):  # of an image, all tokens have to stay
                checkpoint.forward(checkpoint.processor.cut(inputs, length - 2))
            else:
                short = max(1, length // 2)
                checkpoint.forward({name: value[:, :short] for name, value in inputs.items()})
    except Exception:  # what it does with short sequences is its own affair
        return False
    return snapshot(body) == before


def _list_rotary_kinds(module: nn.Module) -> set[str]:
    kind: Any = getattr(module, "rope_type", None)
    return {str(one) for one in (kind.values() if isinstance(kind, dict) else [kind])}
