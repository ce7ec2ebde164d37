"""Where tokens are: tables of positions that can be made alike, and the grid of patches of an image."""

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Grid
from attnprobe.corpus.tokenization import Frame
from attnprobe.errors import first_line
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.blocks import equalise_positions, force_full_attention
from attnprobe.model.reading.capture import capture_attention
from attnprobe.model.reading.routing import evaluation_mode
from attnprobe.model.refusals import UnsupportedModelError
from attnprobe.model.verifying.architecture import Architecture
from attnprobe.model.verifying.probing import Probe, draw_probe_inputs, find_tolerance, relative_difference

#: How tables of positions are called: position_embeddings, wpe, embed_positions, pos_embed.
_TABLE = re.compile(r"posi|(^|_)pos(_|$)|^wpe$", re.IGNORECASE)
#: What gives other positions away, by the names of modules and their classes.
_OTHERS = {
    "rotary": re.compile(r"rotary", re.IGNORECASE),
    "relative": re.compile(r"relative|rel_embed|pos_key|dist_emb", re.IGNORECASE),
    "biases that grow with the distance": re.compile("alibi", re.IGNORECASE),
}


@dataclass(frozen=True)
class Positions:
    """The tables of absolute positions of a model.

    Attributes:
        tables: The names of the submodules of the part that is asked.
        at: The place in a sequence whose position all tokens are given: that of a text's first token.
        evidence: How it is known that nothing else tells positions apart.
    """

    tables: tuple[str, ...]
    at: int
    evidence: str


def find_positions(checkpoint: Checkpoint, architecture: Architecture) -> Positions:
    """Find the tables of absolute positions, and verify that they are all that tells positions apart.

    A text of one token, repeated, is given to the model with all positions alike. If nothing but the tables
    told the tokens apart, every token is like every other, and every row of every head is uniform over what
    it sees. Rotary and relative positions, convolutions over neighbours and the like show there.

    Raises:
        UnsupportedModelError: With the reason why there is no such table, or not that alone.
    """
    name, body = checkpoint.model_type, checkpoint.body
    tolerance = find_tolerance(checkpoint)
    inputs = draw_probe_inputs(checkpoint)
    at = len(Frame.of(checkpoint.tokenizer).before)
    with force_full_attention(body), evaluation_mode(body):
        tables = _find_tables(checkpoint, inputs)
        if not tables:
            raise UnsupportedModelError(
                name, f"it looks up no table of absolute positions{_describe_others(body)}"
            )
        usual = checkpoint.forward(inputs)
        with equalise_positions(body, tables, at):
            moved = relative_difference(checkpoint.forward(inputs), usual)
            uneven = _measure_unevenness(checkpoint, architecture, inputs)
    if not moved > tolerance:
        raise UnsupportedModelError(name, "its table of positions makes no difference to what it computes")
    if not uneven <= tolerance:
        raise UnsupportedModelError(
            name,
            f"beside its table of positions, something else tells tokens apart{_describe_others(body)} (rows "
            f"over a repeated token are uneven by {uneven:.1e})",
        )
    return Positions(
        tables,
        at,
        f"positions come from {', '.join(tables)} alone: with all of them equal, rows over a repeated token "
        f"are uniform (largest deviation {uneven:.1e})",
    )


def _find_tables(checkpoint: Checkpoint, inputs: dict[str, Tensor]) -> tuple[str, ...]:
    """Name the submodules that are called like tables of positions and give a row for every token."""
    body = checkpoint.body
    lengths = {ids.shape[1] for ids in inputs.values()}
    found: dict[str, None] = {}

    with ExitStack() as hooks:
        for name, module in body.named_modules():
            if not (_TABLE.search(name.rpartition(".")[2]) or _TABLE.search(type(module).__name__)):
                continue

            def note(_module: nn.Module, _inputs: Any, rows: Any, name: str = name) -> None:
                if isinstance(rows, Tensor) and 2 <= rows.ndim <= 3 and rows.shape[-2] in lengths:
                    found[name] = None

            hooks.callback(module.register_forward_hook(note).remove)
        checkpoint.forward(inputs)
    # Of modules within each other, the inner ones do the looking up.
    return tuple(name for name in found if not any(other.startswith(f"{name}.") for other in found))


def _measure_unevenness(
    checkpoint: Checkpoint, architecture: Architecture, inputs: dict[str, Tensor]
) -> float:
    """Measure how far rows over a text of one token, repeated, are from uniform, relative to it."""
    repeated = {
        name: ids[:, ids.shape[1] // 2, None].expand_as(ids).contiguous() for name, ids in inputs.items()
    }
    probe = Probe(checkpoint.model_type, repeated)
    try:
        with capture_attention(checkpoint.body, probe, architecture.way):
            checkpoint.forward(repeated)
    except UnsupportedModelError:
        raise
    except Exception as error:  # whatever a model does with such a text
        reason = f"it can't be run on one token, repeated ({first_line(error)})"
        raise UnsupportedModelError(checkpoint.model_type, reason) from error
    maps = [probe.maps[layer].double() for layer in sorted(probe.maps)]
    return max(_max_deviation(rows, kind) for rows, kind in zip(maps, architecture.kinds, strict=True))


def _max_deviation(rows: Tensor, kind: Kind) -> float:
    """Measure the largest deviation of rows (batch, head, query, key) from 1 over the number of keys seen."""
    seen = torch.ones(rows.shape[2:], dtype=rows.dtype, device=rows.device)
    seen = seen.tril() if kind is Kind.DECODER else seen
    return float((rows * seen.sum(-1, keepdim=True) - seen).abs().max())


def _describe_others(body: nn.Module) -> str:
    """Say which other positions the names of modules give away, as the end of a sentence."""
    names = [f"{name} {type(module).__name__}" for name, module in body.named_modules()]
    others = [kind for kind, pattern in _OTHERS.items() if any(map(pattern.search, names))]
    return f"; its positions are {' and '.join(others)}" if others else ""


#: Rows or columns at the lower and right border that no patch may reach, where patches don't fit evenly.
_MARGIN = 32


def find_grid(checkpoint: Checkpoint, inputs: Mapping[str, Tensor], site: str) -> Grid | None:
    """Find where the patches are, and in how many rows and columns.

    A change in a corner of the image changes one token in front of the first layer, if tokens are patches;
    the places of the four tell the rest.

    Returns:
        The grid, or None where tokens are no patches of a grid, row by row.
    """
    name = next(
        (name for name, tensor in inputs.items() if tensor.ndim >= 3 and tensor.is_floating_point()), None
    )
    if name is None:
        return None
    untouched = catch_tokens(checkpoint, inputs, site)
    if untouched is None:
        return None

    def find_changed(row: int, column: int) -> list[int]:
        changed = inputs[name].clone()
        changed[..., row, column] += 1 + changed.abs().max()
        tokens = catch_tokens(checkpoint, {**inputs, name: changed}, site)
        if tokens is None or tokens.shape != untouched.shape:
            return []
        return (tokens != untouched).any(2).any(0).nonzero().ravel().tolist()

    return _locate_corners(find_changed, inputs[name])


def _locate_corners(find_changed: Callable[[int, int], list[int]], pixels: Tensor) -> Grid | None:
    """Find the grid by the places that change with a pixel in each corner of an image (..., row, column)."""
    rows, columns = (range(-1, -1 - min(_MARGIN, size), -1) for size in pixels.shape[-2:])
    lowest = next((row for row in rows if find_changed(row, 0)), 0)
    rightmost = next((column for column in columns if find_changed(0, column)), 0)
    corners = ((0, 0), (0, rightmost), (lowest, 0), (lowest, rightmost))
    places = [found[0] for corner in corners if len(found := find_changed(*corner)) == 1]
    return _infer_grid(*places) if len(places) == len(corners) else None


def _infer_grid(first: int, right: int, below: int, last: int) -> Grid | None:
    """Infer the grid from the places of the corners' patches, whichever axis comes first.

    >>> _infer_grid(1, 4, 9, 12)
    Grid(first=1, rows=3, columns=4)
    >>> _infer_grid(1, 9, 4, 12)  # column by column: what is beside is a row further on
    Grid(first=1, rows=3, columns=4)
    >>> _infer_grid(0, 0, 0, 0) is None
    True
    """
    right, below = sorted((right, below))
    columns = right - first + 1
    if columns < 2 or (below - first) % columns or last - below != columns - 1:
        return None
    return Grid(first, (below - first) // columns + 1, columns)


def catch_tokens(checkpoint: Checkpoint, inputs: Mapping[str, Tensor], site: str) -> Tensor | None:
    """Record what the first attention module is given, (batch, position, width), if anything."""
    caught: list[Tensor] = []

    def catch(_: object, arguments: tuple[object, ...], options: dict[str, object]) -> None:
        given = (value for value in (*arguments, *options.values()) if isinstance(value, Tensor))
        caught.extend(value.detach() for value in given if value.ndim == 3 and not caught)

    module = checkpoint.body.get_submodule(site)
    hook = module.register_forward_pre_hook(catch, with_kwargs=True)
    try:
        with torch.inference_mode():
            checkpoint.forward(inputs)
    finally:
        hook.remove()
    return caught[0] if caught else None
