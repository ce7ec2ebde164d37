"""Passes that resume at a layer, with the outputs of a whole pass up to there."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import local
from typing import Any

from torch import Tensor, nn

from attnprobe.model.reading.gates import Gates

Forward = Callable[..., Any]


@contextmanager
def _wrap_forward(module: nn.Module, run: Forward) -> Iterator[None]:
    """Replace a module's ``forward`` by a function of that ``forward`` and its arguments."""
    before = vars(module).get("forward")
    vars(module)["forward"] = partial(run, module.forward)
    try:
        yield
    finally:
        vars(module)["forward"] = before
        if before is None:
            del vars(module)["forward"]


class BatchReplay(local):
    """Records a whole pass of a batch and resumes it at a layer. Each thread has its own.

    A block is the outermost list element around an attention layer, which a model repeats. Blocks before that
    of the resumed layer give their recorded output again; within it, attention gives the recorded output of
    its heads, and its projections before that are skipped.
    """

    def __init__(self, model: nn.Module, gates: Gates) -> None:
        self._model, self._gates = model, gates
        self._resumed_block = 0
        self._recording = self._keeping = False
        self._call = 0
        self._outputs: dict[int, Tensor] = {}  # of the heads of each layer
        self._given: list[Any] = []  # the output of each call of a block
        self._starts: list[int] = []  # the first attention layer of each call
        self._entered: dict[str, int] = {}  # the layer as which an attention module was last entered

    @contextmanager
    def watch(self, sites: tuple[str, ...]) -> Iterator["BatchReplay"]:
        """Wrap the blocks and attention modules of the model; ``sites`` are the latter."""
        modules = dict(self._model.named_modules())
        blocks = dict.fromkeys(find_outermost_block(site, modules) for site in sites)
        with ExitStack() as undo:
            undo.callback(self._model.register_forward_pre_hook(self._restart).remove)
            for block in filter(None, blocks):
                undo.enter_context(_wrap_forward(modules[block], self._run_block))
            for site in dict.fromkeys(sites):
                undo.enter_context(_wrap_forward(modules[site], partial(self._attend, site)))
                for module in modules[site].modules():
                    if isinstance(module, nn.Linear):
                        project = partial(self._project, site, module.out_features)
                        undo.enter_context(_wrap_forward(module, project))
            yield self

    @contextmanager
    def record(self, *, differentiable: bool = False) -> Iterator[None]:
        """Record the outputs of blocks and heads in the pass made inside; see ``Gates.record_outputs``."""
        self._given, self._starts = [], []
        self._recording = True
        try:
            with self._gates.record_outputs(differentiable=differentiable) as self._outputs:
                yield
        finally:
            self._recording = False

    @contextmanager
    def resume_at(self, layer: int, *, record: bool = False) -> Iterator[None]:
        """Begin the passes made inside behind the attention of ``layer``; ``record`` the rest anew."""
        block = max((k for k, start in enumerate(self._starts) if start <= layer), default=0)
        first = self._starts[block] if self._starts else 0
        self._resumed_block, self._gates.counter.first = block, first
        outputs, self._gates.outputs = self._gates.outputs, self._outputs
        self._keeping = self._gates.recording = record
        try:
            with self._gates.take_outputs({k: self._outputs[k] for k in range(first, layer + 1)}):
                yield
        finally:
            self._keeping = self._gates.recording = False
            self._gates.outputs = outputs
            self._resumed_block, self._gates.counter.first = 0, 0

    def _restart(self, *_: Any) -> None:
        self._call = 0

    def _run_block(self, forward: Forward, *arguments: Any, **options: Any) -> Any:
        """Run a block, or give its recorded output if it comes before the block of the resumed layer."""
        call = self._call
        self._call += 1
        if call < self._resumed_block:
            return self._given[call]
        if self._recording:
            self._starts.append(self._gates.counter.count)
        given = forward(*arguments, **options)
        if self._recording:
            self._given.append(given)
        elif self._keeping:
            self._given[call] = given
        return given

    def _attend(self, site: str, forward: Forward, *arguments: Any, **options: Any) -> Any:
        self._entered[site] = self._gates.counter.count
        return forward(*arguments, **options)

    def _project(self, site: str, width: int, forward: Forward, hidden: Tensor) -> Tensor:
        """Project, or give zeros of that shape where recorded outputs of heads make it needless."""
        layer = self._gates.counter.count
        # The module's attention is still to come.
        if self._entered.get(site) == layer and layer in self._gates.replayed:
            return hidden.new_zeros(()).expand(*hidden.shape[:-1], width)  # nobody reads it
        return forward(hidden)


def find_outermost_block(
    site: str, modules: Mapping[str, nn.Module], lists: tuple[type[nn.Module], ...] = (nn.ModuleList,)
) -> str | None:
    """Name the outermost list element that holds a module, such as ``encoder.layer.3``."""
    parts = site.split(".")
    for depth in range(1, len(parts)):
        if isinstance(modules[".".join(parts[:depth])], lists):
            return ".".join(parts[: depth + 1])
    return None
