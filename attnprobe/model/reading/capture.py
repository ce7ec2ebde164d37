"""Reading attention from inside the model's own forward pass, block of queries by block.

One attention function is registered with transformers. Inside ``captured_attention``, every
attention layer of the model calls that function instead of its own; it computes the layer's output
in blocks and hands the probabilities of each to an observer. Layers that don't ask the registry for a
function are read in other ways, behind the same interface.
"""

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from attnprobe.model.loading.support import AttentionSinkError, UnsupportedModelError
from attnprobe.model.reading.blocks import attend_in_blocks
from attnprobe.model.reading.routing import (
    Capture,
    Claims,
    Observer,
    Piece,
    Sites,
    Way,
    explicit_mask,
    rerouted,
)
from attnprobe.model.reading.tap import hooked_attention, tapped_attention
from attnprobe.model.reading.variants import full_attention

#: The name under which the function is registered.
IMPLEMENTATION = "attnprobe"


@dataclass(frozen=True)
class _Reader:
    """Who reads a model.

    Attributes:
        sites: Counts its layers.
        observer: Is shown each block.
        observe: What is shown beside probabilities.
    """

    sites: Sites
    observer: Observer
    observe: Collection[str]


_readers: Claims[_Reader] = Claims()


@contextmanager
def captured_attention(
    model: PreTrainedModel, observer: Observer, way: Way = Way.REGISTRY, observe: Collection[str] = ()
) -> Iterator[Capture]:
    """Let ``observer`` see every block of attention of the forward passes made inside.

    The model is left as it was found: attention implementation, training mode and hooks. Several models can
    be read at the same time, and one model by several threads, each with passes of its own.

    Args:
        model: The part that is asked.
        observer: Is shown each block, by the thread that runs the pass.
        way: How attention is reached; what the dry run chose.
        observe: What is shown beside probabilities, as far as the way gives it: "scores", "values",
            "outputs", "queries", "keys".

    Raises:
        UnsupportedModelError: When the model can't be switched to another attention function.
    """
    with full_attention(model), _captured(model, observer, way, observe) as capture:
        yield capture


def _captured(
    model: PreTrainedModel, observer: Observer, way: Way, observe: Collection[str]
) -> AbstractContextManager[Capture]:
    if way is Way.REGISTRY:
        return _routed(model, observer, observe)
    if way is Way.HOOKS:
        return hooked_attention(model, observer)
    return tapped_attention(model, observer, way, observe)


@contextmanager
def _routed(model: PreTrainedModel, observer: Observer, observe: Collection[str]) -> Iterator[Capture]:
    with rerouted(model, IMPLEMENTATION) as sites, _readers.on(model, _Reader(sites, observer, observe)):
        yield Capture(sites)


def _captured_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend in blocks, showing each to the active observer.

    Args:
        module: The attention module that calls.
        query: (batch, head, query, width)
        key: (batch, key/value head, key, width)
        value: (batch, key/value head, key, width)
        attention_mask: Boolean, additive or None.
        scaling: Factor of the scores.
        dropout: Ignored; probabilities after dropout are not attention.
        position_bias: Added to the scores.
        softcap: Bound of the scores.
        options: Everything else a model may pass; as ``s_aux``, attention sinks.

    Returns:
        The output (batch, query, head, width), and None in place of the weights.
    """
    reader = _readers.of(module)
    if reader is None:
        if _readers:
            raise UnsupportedModelError(
                type(module).__name__, "its attention is called from outside the part that is asked"
            )
        raise RuntimeError(f"attention {IMPLEMENTATION!r} is only usable inside captured_attention")
    sites, observer = reader.sites, reader.observer
    sinks = options.get("s_aux")
    if sinks is None and getattr(module, "sinks", None) is not None:
        raise AttentionSinkError(type(module).__name__)
    sites.sunk = sites.sunk or sinks is not None
    layer = sites.enter(module)
    assert layer is not None  # a module that has a reader is one of its model
    output = attend_in_blocks(
        query,
        key,
        value,
        attention_mask,
        scaling=scaling,
        position_bias=position_bias,
        softcap=softcap,
        sinks=sinks,
        observe=reader.observe,
        show=lambda sequence, start, rows, seen: observer(
            Piece(layer, sequence, start, query.shape[2], rows, seen)
        ),
    )
    return output, None


AttentionInterface.register(IMPLEMENTATION, _captured_attention)
AttentionMaskInterface.register(IMPLEMENTATION, explicit_mask)
