"""Gates: one multiplier for each example, layer and head, on what a head gives to its layer.

A gate stands between a head and the output projection. At 0 the head is off, and the derivative of
a loss by a gate at 1 says how much the head matters. No model needs to know about it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from attnprobe.model.loading.support import UnsupportedModelError
from attnprobe.model.reading.adapters import full_attention
from attnprobe.model.reading.blocks import attend_in_blocks
from attnprobe.model.reading.routing import Sites, explicit_mask, rerouted
from attnprobe.model.reading.tap import gating_tap
from attnprobe.model.reading.ways import Way

#: The name under which the function is registered.
IMPLEMENTATION = "attnprobe-gates"


@dataclass
class Gates:
    """The gates of a model, open unless they are set.

    Attributes:
        sites: Which layers came by in the last forward pass.
        rows: For a layer, its gates (batch or 1, head).
        outputs: For a layer, what its heads gave, ungated (batch, query, head, width); kept
            only while ``recording``.
        replayed: For a layer, what to take for its heads' output instead of computing it.
        recording: Whether ``outputs`` are kept.
    """

    sites: Sites
    rows: Mapping[int, Tensor] = field(default_factory=dict)
    outputs: dict[int, Tensor] = field(default_factory=dict)
    replayed: Mapping[int, Tensor] = field(default_factory=dict)
    recording: bool = False

    def set(self, xi: Tensor) -> None:
        """Set all gates: (batch or 1, layer, head)."""
        self.rows = dict(enumerate(xi.unbind(1)))

    def open(self) -> None:
        """Let every head give all it has."""
        self.rows = {}

    def row(self, layer: int) -> Tensor | None:
        """Give the gates of a layer (batch or 1, head), or None where they are open."""
        return self.rows.get(layer)

    def passed(self, layer: int, output: Tensor) -> Tensor:
        """Multiply the heads' output (batch, query, head, width) by the gates of their layer."""
        row = self.row(layer)
        return output if row is None else output * row[:, None, :, None].to(output)


_active: ContextVar[Gates | None] = ContextVar("attnprobe_gates", default=None)


@contextmanager
def gated_attention(
    model: PreTrainedModel, way: Way = Way.REGISTRY, sites: Sequence[str] = ()
) -> Iterator[Gates]:
    """Put gates on every attention layer of ``model`` for the forward passes made inside.

    Gradients flow to the gates, where they ask for it. The model is left as it was found.

    Args:
        model: The part whose heads are gated; attention elsewhere, such as in the decoder of a
            model whose encoder is gated, goes its own way.
        way: How attention is reached; what the dry run chose. Outputs are recorded and replayed on
            the registry's way only.
        sites: The modules of its layers, if they are known; without them only whole passes are counted right.

    Raises:
        UnsupportedModelError: When the model can't be switched to another attention function, or its
            maps are only read as it returns them.
    """
    if way is Way.HOOKS:
        reason = "its attention is read as it returns it, and its heads can't be switched off"
        raise UnsupportedModelError(model.config.model_type, reason)
    with full_attention(model), _gated(model, way, sites) as gates:
        yield gates


@contextmanager
def _gated(model: PreTrainedModel, way: Way, sites: Sequence[str]) -> Iterator[Gates]:
    if way is not Way.REGISTRY:
        gates = Gates(Sites(model, sites))
        with gating_tap(model, way, gates.sites, gates.row):
            yield gates
        return
    with rerouted(model, IMPLEMENTATION, sites) as counted:
        gates = Gates(counted)
        token = _active.set(gates)
        try:
            yield gates
        finally:
            _active.reset(token)


def _gated_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend as sdpa does, then pass the gates: (batch, query, head, width), and no weights."""
    gates = _active.get()
    if gates is None:
        raise RuntimeError(f"attention {IMPLEMENTATION!r} is only usable inside gated_attention")
    layer = gates.sites.enter(module)
    if layer is not None and layer in gates.replayed:
        output = gates.replayed[layer]
    else:
        output = _attend(module, query, key, value, attention_mask, **options | {"dropout": 0.0})
    if layer is None:
        return output, None
    if gates.recording:
        gates.outputs[layer] = output
    return gates.passed(layer, output), None


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> Tensor:
    if options.get("softcap") is None and options.get("s_aux") is None:
        # Without a mask sdpa would take what its module calls causal for that, also across sequences.
        options["is_causal"] = bool(options.get("is_causal"))
        return sdpa_attention_forward(module, query, key, value, mask, **options)[0]
    known = {name: options.get(name) for name in ("scaling", "position_bias", "softcap")}
    return attend_in_blocks(query, key, value, mask, sinks=options.get("s_aux"), **known)  # type: ignore[arg-type]


AttentionInterface.register(IMPLEMENTATION, _gated_attention)
AttentionMaskInterface.register(IMPLEMENTATION, explicit_mask)
