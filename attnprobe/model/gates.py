"""Gates: one multiplier for each example, layer and head, on what a head gives to its layer.

A gate stands between a head and the output projection. At 0 the head is off, and the derivative of
a loss by a gate at 1 says how much the head matters. Something else can take the place of what a closed
gate holds back: a mean, or what the head gives in another pass. No model needs to know about it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from threading import local
from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.private import sdpa_attention_forward
from attnprobe.model.reading.blocks import attend_in_blocks, force_full_attention
from attnprobe.model.reading.gating import tap_gates
from attnprobe.model.reading.routing import (
    Claims,
    Sites,
    Way,
    build_mask,
    route_attention,
)

#: The name under which the function is registered.
IMPLEMENTATION = "attnprobe-gates"


class Gates(local):
    """The gates of a model, open unless they are set. Each thread that runs passes has its own.

        o_h := g_h o_h + (1 - g_h) r_h

    with o_h what head h gives to the output projection, g_h its gate, and r_h what takes its place; 0 where
    nothing is set to.

    Attributes:
        sites: Which layers came by in the last forward pass.
        present: The numbers of the heads that each layer computes, where that is not all of them.
        thread_context: What another thread enters before it runs passes of its own.
        rows: For a layer, its gates g (batch or 1, head).
        replacements: For a layer, what takes the place of what closed gates hold back, r (batch or 1,
            query or 1, head, width). Its heads are those that the layer computes, as in ``outputs``.
        outputs: For a layer, what its heads gave, ungated (batch, query, head, width); kept
            only while ``recording``.
        replayed: For a layer, what to take for its heads' output instead of computing it.
        recording: Whether ``outputs`` are kept.
        differentiable: Whether outputs that are kept have gradients, whatever comes before them.
    """

    # Of a subclass of ``local``, the class is made anew for every thread.

    def __init__(
        self,
        sites: Sites,
        thread_context: Callable[[], AbstractContextManager[object]] = nullcontext,
        present: Sequence[Sequence[int]] = (),
    ) -> None:
        self.sites, self.thread_context, self.present = sites, thread_context, present
        self.rows: Mapping[int, Tensor] = {}
        self.replacements: Mapping[int, Tensor] = {}
        self.outputs: dict[int, Tensor] = {}
        self.replayed: Mapping[int, Tensor] = {}
        self.recording = self.differentiable = False

    def set(self, xi: Tensor) -> None:
        """Set all gates: (batch or 1, layer, head)."""
        self.rows = dict(enumerate(xi.unbind(1)))

    def open(self) -> None:
        self.rows, self.replacements = {}, {}

    @contextmanager
    def record_outputs(self, *, differentiable: bool = False) -> Iterator[dict[int, Tensor]]:
        """Keep what the heads give in the pass made inside, and forget what was kept before.

        With ``differentiable``, a number that comes of the pass can be differentiated by the outputs, also
        where all weights are frozen: ``torch.autograd.grad(number, list(outputs.values()))``.

        Yields:
            What each layer's heads gave, ungated (batch, query, head, width), once the pass is done.
        """
        before = self.recording, self.differentiable
        self.outputs = {}
        self.recording, self.differentiable = True, differentiable
        try:
            yield self.outputs
        finally:
            self.recording, self.differentiable = before

    @contextmanager
    def take_outputs(self, outputs: Mapping[int, Tensor]) -> Iterator[None]:
        """Take these for what the heads of some layers give, in the passes made inside.

        They are as ``record_outputs`` keeps them, and pass the gates as what they stand for would.
        """
        before = self.replayed
        self.replayed = {**before, **outputs}
        try:
            yield
        finally:
            self.replayed = before

    def row(self, layer: int) -> Tensor | None:
        """Get the gates of the heads that a layer computes (batch or 1, head); None where all are open."""
        row = self.rows.get(layer)
        return row if row is None or not self.present else row[:, list(self.present[layer])]

    def needs_output(self, layer: int) -> bool:
        """Whether what the heads of a layer give has to be at hand, and not only what passes the gates."""
        return (
            self.recording
            or layer in self.replayed
            or (layer in self.replacements and self.rows.get(layer) is not None)
        )

    def pass_output(self, layer: int, output: Tensor) -> Tensor:
        """Keep or exchange the heads' output (batch, query, head, width), then let it through the gates."""
        if self.recording:
            if self.differentiable and not output.requires_grad:
                output = output.detach().requires_grad_()
            self.outputs[layer] = output
        return self.apply(layer, output)

    def apply(self, layer: int, output: Tensor) -> Tensor:
        """Compute g o + (1 - g) r of the heads' output o (batch, query, head, width) of a layer."""
        row = self.row(layer)
        if row is None:
            return output
        gate = row[:, None, :, None].to(output)
        replacement = self.replacements.get(layer)
        if replacement is None:
            return output * gate
        return output * gate + replacement.to(output) * (1 - gate)


_gates: Claims[Gates] = Claims()


@contextmanager
def gate_attention(
    model: PreTrainedModel,
    way: Way = Way.REGISTRY,
    sites: Sequence[str] = (),
    present: Sequence[Sequence[int]] = (),
) -> Iterator[Gates]:
    """Put gates on every attention layer of ``model`` for the forward passes made inside.

    Gradients flow to the gates, where they ask for it. The model is left as it was found.

    Args:
        model: The part whose heads are gated; attention elsewhere, such as in the decoder of a
            model whose encoder is gated, goes its own way.
        way: How attention is reached; what the dry run chose. On the softmax tap's way, outputs are found
            where probabilities are multiplied by values, and layers that are replayed compute them first.
        sites: The modules of its layers, if they are known; without them only whole passes are counted right.
        present: The numbers of the heads that each layer computes, if it lost some; gates are then set by
            the numbers that heads had before.

    Raises:
        UnsupportedModelError: When the model can't be switched to another attention function.
    """
    with force_full_attention(model), _gate(model, way, sites, present) as gates:
        yield gates


@contextmanager
def _gate(
    model: PreTrainedModel, way: Way, sites: Sequence[str], present: Sequence[Sequence[int]]
) -> Iterator[Gates]:
    if way is not Way.REGISTRY:
        counted = Sites(model, sites)
        gates = Gates(counted, lambda: mode, present)
        with tap_gates(model, counted, gates) as mode:
            yield gates
        return
    with route_attention(model, IMPLEMENTATION, sites) as counted:
        gates = Gates(counted, present=present)
        with _gates.claim(model, gates):
            yield gates


def _attend_gated(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend as sdpa does, then pass the gates: (batch, query, head, width), and no weights."""
    gates = _gates.find(module)
    if gates is None:
        if not _gates:
            raise RuntimeError(f"attention {IMPLEMENTATION!r} is only usable inside gate_attention")
        # Of another part of the model, such as the decoder where the encoder is gated.
        return _attend(module, query, key, value, attention_mask, **options | {"dropout": 0.0}), None
    layer = gates.sites.enter(module)
    assert layer is not None  # a module that has gates is one of its model
    output = gates.replayed.get(layer)
    if output is None:
        output = _attend(module, query, key, value, attention_mask, **options | {"dropout": 0.0})
    return gates.pass_output(layer, output), None


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> Tensor:
    if options.get("softcap") is None and options.get("s_aux") is None:
        # Without a mask sdpa would take what its module calls causal for that, also across sequences.
        options["is_causal"] = bool(options.get("is_causal"))
        return sdpa_attention_forward(module, query, key, value, mask, **options)[0]
    known = {name: options.get(name) for name in ("scaling", "position_bias", "softcap")}
    return attend_in_blocks(query, key, value, mask, sinks=options.get("s_aux"), **known)  # type: ignore[arg-type]


AttentionInterface.register(IMPLEMENTATION, _attend_gated)
AttentionMaskInterface.register(IMPLEMENTATION, build_mask)


@contextmanager
def freeze_weights(checkpoint: Checkpoint) -> Iterator[None]:
    """Switch the gradients of all weights off, so that only gates have them."""
    trainable = [weight for weight in checkpoint.model.parameters() if weight.requires_grad]
    for weight in trainable:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in trainable:
            weight.requires_grad_(True)


Forward = Callable[..., Any]


@contextmanager
def _replace_forward(module: nn.Module, forward: Forward) -> Iterator[None]:
    own = vars(module)
    before = own.get("forward")
    own["forward"] = forward
    try:
        yield
    finally:
        if before is None:
            del own["forward"]
        else:
            own["forward"] = before


class BatchReplay(local):
    """Records the passes of one batch after the other, and resumes them.

    A block is what a model repeats: the module in the outermost list on the way to an attention
    layer. What a block gave is given again, untouched; within the block of the resumed layer, so
    is the output of the attention itself, and the projections that only feed it are skipped.
    Each thread that runs passes has its own record.
    """

    def __init__(self, model: nn.Module, gates: Gates) -> None:
        self._model, self._gates = model, gates
        self._resumed_block = 0
        self._recording = self._keeping = False
        self._call = 0
        self._outputs: dict[int, Tensor] = {}  # what heads gave in the pass that is resumed
        self._given: list[Any] = []  # what each call of a block gave
        self._starts: list[int] = []  # the first attention layer of each call
        self._entered: dict[str, int] = {}  # for an attention module, the layer it was entered as

    @contextmanager
    def watch(self, sites: tuple[str, ...]) -> Iterator["BatchReplay"]:
        """Stand between the model and its blocks; ``sites`` are the modules of its layers."""
        modules = dict(self._model.named_modules())
        wrapped = [
            (modules[block], self._as_block)
            for block in dict.fromkeys(find_outermost_block(site, modules) for site in sites)
            if block
        ]
        for site in dict.fromkeys(sites):
            wrapped.append((modules[site], partial(self._as_attention, site)))
            wrapped += [
                (module, partial(self._as_projection, site, module.out_features))
                for module in modules[site].modules()
                if isinstance(module, nn.Linear)
            ]
        with ExitStack() as undo:
            for module, wrap in wrapped:
                undo.enter_context(_replace_forward(module, wrap(module.forward)))
            undo.callback(self._model.register_forward_pre_hook(self._restart).remove)
            yield self

    @contextmanager
    def record(self, *, differentiable: bool = False) -> Iterator[None]:
        """Keep what the blocks give in the pass made inside; forget the batch before.

        ``differentiable`` is as for ``Gates.record_outputs``.
        """
        self._given, self._starts = [], []
        self._recording = True
        try:
            with self._gates.record_outputs(differentiable=differentiable) as self._outputs:
                yield
        finally:
            self._recording = False

    @contextmanager
    def resume_at(self, layer: int, *, record: bool = False) -> Iterator[None]:
        """Begin the passes made inside behind the attention of ``layer``.

        With ``record``, what comes after is kept in the place of what was recorded, so that the next pass may
        resume at any layer up to which its gates are those of this one.
        """
        block = max((k for k, start in enumerate(self._starts) if start <= layer), default=0)
        first = self._starts[block] if self._starts else 0
        self._resumed_block, self._gates.sites.first = block, first
        outputs, self._gates.outputs = self._gates.outputs, self._outputs
        self._keeping = self._gates.recording = record
        try:
            with self._gates.take_outputs({k: self._outputs[k] for k in range(first, layer + 1)}):
                yield
        finally:
            self._keeping = self._gates.recording = False
            self._gates.outputs = outputs
            self._resumed_block, self._gates.sites.first = 0, 0

    def _restart(self, *_: Any) -> None:
        self._call = 0

    def _as_block(self, forward: Forward) -> Forward:
        def block(*arguments: Any, **options: Any) -> Any:
            call = self._call
            self._call += 1
            if call < self._resumed_block:
                return self._given[call]
            if self._recording:
                self._starts.append(self._gates.sites.count)
            given = forward(*arguments, **options)
            if self._recording:
                self._given.append(given)
            elif self._keeping:
                self._given[call] = given
            return given

        return block

    def _as_attention(self, site: str, forward: Forward) -> Forward:
        def attention(*arguments: Any, **options: Any) -> Any:
            self._entered[site] = self._gates.sites.count
            return forward(*arguments, **options)

        return attention

    def _as_projection(self, site: str, width: int, forward: Forward) -> Forward:
        def projection(hidden: Tensor) -> Tensor:
            layer = self._gates.sites.count
            feeds = self._entered.get(site) == layer  # the module's attention is still to come
            if feeds and layer in self._gates.replayed:
                return hidden.new_zeros(()).expand(*hidden.shape[:-1], width)  # nobody reads it
            return forward(hidden)

        return projection


def find_outermost_block(
    site: str, modules: Mapping[str, nn.Module], lists: tuple[type[nn.Module], ...] = (nn.ModuleList,)
) -> str | None:
    """Name the outermost list element that holds a module, such as ``encoder.layer.3``."""
    parts = site.split(".")
    for depth in range(1, len(parts)):
        if isinstance(modules[".".join(parts[:depth])], lists):
            return ".".join(parts[: depth + 1])
    return None
