"""How layers part images into windows, or attend to fewer keys than queries: Swin, and pyramids."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnprobe.attention.layout import Grid, Tiling
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.configuration import divides_axes
from attnprobe.model.reading.capture import capture_attention
from attnprobe.model.reading.routing import SOFTMAX, Piece, Way
from attnprobe.model.refusals import UnsupportedModelError
from attnprobe.model.verifying.probing import Reference, find_tolerance, relative_difference

#: How configurations call the layers of each of their stages, and the heads.
_DEPTHS, _HEADS = ("depths", "depth"), ("num_heads", "num_attention_heads")
_PRODUCTS = (torch.matmul, Tensor.matmul, Tensor.__matmul__)
#: Masks of windows take 100 off a score. So much is left of a key at most; and where no head of any image
#: leaves more of it than the second, it is hidden. Few keys come so low without a mask, by this share.
_MOST, _LEAST, _FEW = 1e-6, 1e-38, 0.01
#: Of the largest change, so much is one and no rounding.
_MOVED = 1e-3


def count_stated_layers(config: Any) -> int:
    """Count the layers of a model whose stages have heads of their own, as stated; 0 for any other.

    In a model that attends over time and over space apart, each of the two is a layer.

    >>> class Config:
    ...     depths, num_heads = [2, 2, 6, 2], [3, 6, 12, 24]
    >>> count_stated_layers(Config)
    12
    """
    if divides_axes(config):
        return 2 * config.num_hidden_layers
    depths, heads = _find_list(config, _DEPTHS), _find_list(config, _HEADS)
    stages = getattr(config, "num_encoder_blocks", None)
    depths = depths[:stages] if isinstance(stages, int) else depths
    between = getattr(config, "down_ops", None)  # LeViT attends between stages too
    more = sum("Subsample" in one for one in between) if isinstance(between, list) else 0
    return sum(depths) + more if heads else 0


def _find_list(config: Any, names: Sequence[str]) -> Sequence[int]:
    """Find the first list of numbers under one of some names."""
    found = (getattr(config, name, None) for name in names)
    lists = (one for one in found if isinstance(one, list | tuple))
    return next((one for one in lists if all(isinstance(number, int) for number in one)), ())


class TileProbe:
    """Gathers the maps of every layer from pieces, however many sequences it makes of an image.

    Attributes:
        width: Of the values of a head, the largest of all layers; 0 where they are not shown.
    """

    def __init__(self) -> None:
        self._parts: dict[int, dict[int, list[Tensor]]] = {}
        self.width = 0

    def __call__(self, piece: Piece) -> None:
        if piece.observed.values is not None:
            self.width = max(self.width, piece.observed.values.shape[-1])
        rows = self._parts.setdefault(piece.layer, {}).setdefault(piece.sequence, [])
        rows.append(piece.probabilities.clone())

    @property
    def maps(self) -> list[Tensor]:
        """For each layer, (sequence, head, query, key)."""
        layers = (self._parts[layer] for layer in sorted(self._parts))
        return [torch.cat([torch.cat(one[first], 2) for first in sorted(one)]) for one in layers]


def read_tiles(checkpoint: Checkpoint, inputs: Mapping[str, Tensor], way: Way) -> tuple[list[Tensor], Tensor]:
    """Read the maps of a pass, and what it gives."""
    probe = TileProbe()
    with capture_attention(checkpoint.body, probe, way):
        hidden = checkpoint.forward(inputs)
    return probe.maps, hidden


def refer_to_modules(checkpoint: Checkpoint, known: Reference, layers: int) -> Reference:
    """Take the maps that each attention module gives under eager attention, as models in stages keep few.

    Where not all of the ``layers`` give one, take what comes out of a softmax and is multiplied by values.
    """
    bare = replace(known, maps={}, absence="it gives no maps of its own for comparison")
    maps: list[Tensor] = []
    with suppress(Exception):  # whatever a model does with its own maps
        maps, hidden = read_tiles(checkpoint, known.inputs, Way.HOOKS)
        if not relative_difference(hidden, known.untouched) <= find_tolerance(checkpoint):
            maps = []
    if maps and (len(maps) == layers or not divides_axes(checkpoint.body.config)):
        return replace(bare, maps={None: tuple(maps)}, scored=False, averaged=False)
    with _Mixing() as mixing:
        checkpoint.forward(known.inputs)
    return replace(bare, maps={None: tuple(mixing.found)}, multiplied=True) if mixing.found else bare


class _Mixing(TorchFunctionMode):
    """Finds what comes out of a softmax and is multiplied by something, key by key.

    Attributes:
        found: In the order of the products, (sequence, head, query, key).
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Tensor] = []
        self._rows: dict[int, Tensor] = {}  # held, so that no other tensor takes their place

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = func(*args, **(kwargs or {}))
        if func in SOFTMAX and isinstance(given, Tensor) and given.ndim == 4:
            self._rows[id(given)] = given
        sides = args if func in _PRODUCTS else _list_factors(args) if func is torch.einsum else ()
        if len(sides) == 2 and id(sides[0]) in self._rows:
            self.found.append(self._rows.pop(id(sides[0])))
        return given


def _list_factors(arguments: Sequence[Any]) -> Sequence[Any]:
    """List the factors of an einsum that multiplies matrices; nothing for any other."""
    said, *factors = arguments
    factors = factors[0] if factors and isinstance(factors[0], list | tuple) else factors
    parts = (
        re.fullmatch(r"(\w+)(\w),(\w+)(\w)(\w)->(\w+)", said.replace(" ", ""))
        if isinstance(said, str)
        else None
    )
    if parts is None:
        return ()
    left, summed, batch, key, width, output = parts.groups()
    return factors if summed == key and left[:-1] == batch and output == left + width else ()


def check_order(
    checkpoint: Checkpoint, inputs: Mapping[str, Tensor], way: Way, maps: Sequence[Tensor]
) -> str:
    """Refuse a layer that does not keep the sequences of each image together, one image after the other."""
    images = len(next(iter(inputs.values())))
    for layer, rows in enumerate(maps):
        if len(rows) % images:
            reason = f"layer {layer} has {len(rows)} maps of {images} images"
            raise UnsupportedModelError(checkpoint.model_type, reason)
    apart = [0.0]

    def compare(piece: Piece) -> None:  # at once, as maps of many windows take memory
        whole, found = maps[piece.layer], piece.probabilities
        place = torch.arange(piece.sequence, piece.sequence + len(found))
        each = len(whole) // images
        expected = whole[(images - 1 - place // each) * each + place % each]
        rows = slice(piece.query, piece.query + found.shape[2])
        apart.append(float((found - expected[:, :, rows]).abs().max()))

    with capture_attention(checkpoint.body, compare, way):
        checkpoint.forward({name: given.flip(0) for name, given in inputs.items()})
    if not max(apart) <= find_tolerance(checkpoint):
        reason = f"windows of an image do not follow one another (swapped images differ by {max(apart):.1e})"
        raise UnsupportedModelError(checkpoint.model_type, reason)
    return "the maps of an image do not depend on the image beside it"


def find_tilings(
    checkpoint: Checkpoint, inputs: Mapping[str, Tensor], maps: Sequence[Tensor], sites: Sequence[str]
) -> tuple[Tiling, ...]:
    """Find how each layer parts an image, where its tokens lie, and which of them its masks hide.

    Raises:
        UnsupportedModelError: When keys are hidden in a way that is not known, or windows hold padding.
    """
    images = len(next(iter(inputs.values())))
    calls = _record_calls(checkpoint, inputs, sites)
    upright = checkpoint.modality == "image" and _is_upright(checkpoint, inputs, calls)
    found = []
    for layer, (rows, call) in enumerate(zip(maps, calls, strict=True)):
        sequences, heads, queries, keys = len(rows) // images, *rows.shape[1:]
        grid, visible = None, None
        if queries == keys and call is not None:
            grid, visible = _find_places(checkpoint.body, call, sequences, queries, images, layer, checkpoint)
        largest = rows.amax(1).unflatten(0, (images, -1)).amax(0).cpu()
        if visible is None:
            visible = torch.ones_like(largest, dtype=torch.bool)
        lost = (largest[visible] < _LEAST).float().mean()
        precise = checkpoint.body.dtype.itemsize >= torch.float32.itemsize  # others round small shares to 0
        if (largest[~visible] > _MOST).any() or (precise and lost > _FEW):
            reason = f"in layer {layer}, masks hide other keys than its windows explain"
            raise UnsupportedModelError(checkpoint.model_type, reason)
        mask = None if bool(visible.all()) else visible
        found.append(Tiling(sequences, queries, keys, heads, grid if upright else None, mask))
    return tuple(found)


def describe_tilings(tilings: Sequence[Tiling]) -> list[str]:
    """Say how many windows there are in which layers, and where masks hide keys."""
    shapes: dict[tuple[int, int, int, bool], list[int]] = {}
    for layer, one in enumerate(tilings):
        shapes.setdefault((one.sequences, one.queries, one.keys, one.mask is not None), []).append(layer)
    found = []
    for (sequences, queries, keys, masked), layers in shapes.items():
        windows = f"{sequences} windows of " if sequences > 1 else ""
        over = f"{queries} x {keys} tokens" if queries != keys else f"{queries} tokens"
        hidden = ", some of which do not see each other" if masked else ""
        found.append(f"{windows}{over}{hidden} in {_name_layers(layers)}")
    return ["; ".join(found)]


def _name_layers(layers: Sequence[int]) -> str:
    return f"layer{'s' * (len(layers) > 1)} {', '.join(map(str, layers))}"


def list_tiling_warnings(tilings: Sequence[Tiling]) -> Iterator[str]:
    """Say in which layers columns about places are empty."""
    crossed = [layer for layer, one in enumerate(tilings) if one.queries != one.keys]
    lost = [layer for layer, one in enumerate(tilings) if one.grid is None and layer not in crossed]
    for layers, reason in (
        (crossed, "queries and keys are different tokens"),
        (lost, "no rows of tokens were found"),
    ):
        if layers:
            yield f"columns about places are empty in {_name_layers(layers)}, where {reason}"


@dataclass(frozen=True)
class _Call:
    """How a block that is given all tokens of an image was called.

    Attributes:
        block: Its name.
        site: The attention module within it, or itself.
        place: Which of its arguments are the tokens (image, token, width).
        arguments: What it was given in order.
        options: What it was given by name.
        rows: Rows of tokens, as it was told.
        columns: Tokens in each row.
    """

    block: str
    site: str
    place: int
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    rows: int
    columns: int

    @property
    def tokens(self) -> Tensor:
        return self.arguments[self.place]


def _record_calls(
    checkpoint: Checkpoint, inputs: Mapping[str, Tensor], sites: Sequence[str]
) -> list[_Call | None]:
    """Record, for each layer, the call of the innermost block around it that is told rows and columns."""
    names = {name: module for name, module in checkpoint.body.named_modules() if name}
    around = {site: [name for name in names if f"{site}.".startswith(f"{name}.")] for site in sites}
    caught: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}
    with ExitStack() as hooks:
        for name in {name for some in around.values() for name in some}:

            def catch(_: nn.Module, arguments: Any, options: Any, name: str = name) -> None:
                caught[name] = arguments, options

            hooks.callback(names[name].register_forward_pre_hook(catch, with_kwargs=True).remove)
        checkpoint.forward(inputs)
    images = len(next(iter(inputs.values())))

    def find(site: str) -> _Call | None:
        for block in sorted(around[site], key=len, reverse=True) if sites.count(site) == 1 else ():
            arguments, options = caught.get(block, ((), {}))
            numbers = _list_numbers([*arguments, *options.values()])
            for place, one in enumerate(arguments):
                if not isinstance(one, Tensor) or one.ndim != 3 or len(one) != images:
                    continue
                for rows, columns in pairwise(numbers):
                    if rows * columns == one.shape[1]:
                        return _Call(block, site, place, arguments, options, rows, columns)
        return None

    return [find(site) for site in sites]


def _list_numbers(values: Any) -> list[int]:
    """List the whole numbers in what a module is given, in their order."""
    if isinstance(values, list | tuple):
        return [number for value in values for number in _list_numbers(value)]
    return [values] if isinstance(values, int) and not isinstance(values, bool) else []


def _is_upright(checkpoint: Checkpoint, inputs: Mapping[str, Tensor], calls: Sequence[_Call | None]) -> bool:
    """Tell whether tokens lie row by row: a change in a corner changes tokens in that quarter alone.

    Asked of the first layer, before which only neighbours have to do with each other.
    """
    first = calls[0]
    name = next((name for name, one in inputs.items() if one.ndim == 4 and one.is_floating_point()), None)
    known = [call for call in calls if call is not None]
    if first is None or name is None:
        return False
    # Later stages keep the proportions of the first.
    if any(
        abs(one.rows * first.columns - one.columns * first.rows) > first.rows * first.columns for one in known
    ):
        return False
    height, width = inputs[name].shape[-2:]
    tall, wide = max(1, height // first.rows), max(1, width // first.columns)
    above, below, left, right = (
        slice(tall),
        slice(height - tall, None),
        slice(wide),
        slice(width - wide, None),
    )
    place = torch.arange(first.rows * first.columns)
    low, far = 2 * (place // first.columns) >= first.rows, 2 * (place % first.columns) >= first.columns
    corners = (
        (above, left, ~low & ~far),
        (above, right, ~low & far),
        (below, left, low & ~far),
        (below, right, low & far),
    )
    for rows, columns, quarter in corners:
        changed = inputs[name].clone()
        changed[..., rows, columns] += 1 + changed.abs().max()
        again = _record_calls(checkpoint, {**inputs, name: changed}, [first.site])[0]
        if again is None or again.tokens.shape != first.tokens.shape:
            return False
        apart = (again.tokens - first.tokens).norm(dim=2).amax(0).cpu()
        reached = apart > _MOVED * apart.max()
        if not reached.any() or (reached & ~quarter).any():
            return False
    return True


class _ReachedError(Exception):
    """The attention module was reached, and nothing behind it is asked for."""


def _find_places(
    body: nn.Module,
    call: _Call,
    sequences: int,
    tokens: int,
    images: int,
    layer: int,
    checkpoint: Checkpoint,
) -> tuple[Grid | None, Tensor | None]:
    """Find rows and columns of the tokens within a window, and which keys lie beside the query in the image.

    Returns:
        The grid, and (sequence, query, key): whether two tokens of a window are as far from each other in the
        image; None where a window is no rectangle.
    """
    whole = call.rows * call.columns
    if sequences * tokens > whole:
        raise UnsupportedModelError(
            checkpoint.model_type,
            f"in layer {layer}, {whole} patches do not fill {sequences} windows of {tokens}, and the rest is "
            "padding that it attends to; give images of another size (size in preprocessor_config.json), "
            "whose patches fill the windows",
        )
    if sequences == 1 and tokens == whole:
        return Grid(0, call.rows, call.columns), None
    source = _find_sources(body, call, sequences, images) if sequences * tokens == whole else None
    if source is None or sorted(source.ravel().tolist()) != list(range(whole)):
        return None, None
    row, column = source // call.columns, source % call.columns
    columns = int(column[0].unique().numel())
    if tokens % columns:
        return None, None
    place = torch.arange(tokens)
    down, right = place // columns, place % columns
    fits = ((row - row[:, :1] - down) % call.rows == 0) & (
        (column - column[:, :1] - right) % call.columns == 0
    )
    if not fits.all():
        return None, None
    # Where a shift brings opposite borders together, tokens are neighbours in the window alone.
    beside = (row[:, None] - row[:, :, None]) == (down - down[:, None])
    beside &= (column[:, None] - column[:, :, None]) == (right - right[:, None])
    return Grid(0, tokens // columns, columns), beside


def _find_sources(body: nn.Module, call: _Call, sequences: int, images: int) -> Tensor | None:
    """Find which token of the image each token of each window is, (sequence, token).

    The number of a token is told bit by bit: those whose number has a bit are changed in the first image,
    and all others in the second; so each token of a window changes in one of them, if it is one of the image.
    """
    block, site = body.get_submodule(call.block), body.get_submodule(call.site)
    if images != 2:
        return None
    draw = torch.Generator().manual_seed(0)
    shape = call.tokens.shape[1:]
    usual, other = (torch.randn(shape, generator=draw).to(call.tokens) for _ in range(2))
    caught: list[Tensor] = []

    def stop(_: nn.Module, arguments: Any, options: dict[str, Any]) -> None:
        given = (one for one in (*arguments, *options.values()) if isinstance(one, Tensor) and one.ndim == 3)
        caught.extend(one.detach().clone() for one in list(given)[:1])
        raise _ReachedError

    def run(tokens: Tensor) -> Tensor | None:
        arguments = [*call.arguments[: call.place], tokens, *call.arguments[call.place + 1 :]]
        caught.clear()
        with suppress(_ReachedError), torch.inference_mode():
            block(*arguments, **call.options)
        fits = bool(caught) and len(caught[0]) == 2 * sequences
        return caught[0].unflatten(0, (2, -1)) if fits else None

    number = torch.arange(shape[0], device=usual.device)
    hook = site.register_forward_pre_hook(stop, with_kwargs=True)
    try:
        before = run(torch.stack([usual, usual]))
        if before is None:
            return None
        found = torch.zeros(before.shape[1:3], dtype=torch.long)
        for bit in range(shape[0].bit_length()):
            has = (number >> bit & 1).bool()[:, None]
            after = run(torch.stack([usual.where(~has, other), usual.where(has, other)]))
            if after is None:
                return None
            first, second = ((after != before).any(3)).cpu()
            if not torch.equal(first, ~second):
                return None
            found += first.long() << bit
    finally:
        hook.remove()
    return found
