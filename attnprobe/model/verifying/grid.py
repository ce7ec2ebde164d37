"""Finding the patches of an image among a model's tokens, by changing one corner after the other."""

from collections.abc import Mapping

import torch
from torch import Tensor

from attnprobe.attention.layout import Grid
from attnprobe.model.loading.checkpoint import Checkpoint

#: Rows or columns at the lower and right border that no patch may reach, where patches don't fit evenly.
_MARGIN = 32


def find_grid(checkpoint: Checkpoint, inputs: Mapping[str, Tensor], site: str) -> Grid | None:
    """Find where the patches are, and in how many rows and columns.

    A change in a corner of the image changes one token in front of the first layer, if tokens are patches;
    the places of the four tell the rest.

    Args:
        checkpoint: Whose tokens they are.
        inputs: Prepared images.
        site: The module of its first attention layer.

    Returns:
        The grid, or None where tokens are no patches of a grid, row by row.
    """
    name = next(
        (name for name, tensor in inputs.items() if tensor.ndim >= 3 and tensor.is_floating_point()), None
    )
    if name is None:
        return None
    untouched = tokens_in(checkpoint, inputs, site)
    if untouched is None:
        return None

    def moved(row: int, column: int) -> list[int] | None:
        changed = inputs[name].clone()
        changed[..., row, column] += 1 + changed.abs().max()
        tokens = tokens_in(checkpoint, {**inputs, name: changed}, site)
        if tokens is None or tokens.shape != untouched.shape:
            return None
        return (tokens != untouched).any(2).any(0).nonzero().ravel().tolist()

    height, width = inputs[name].shape[-2:]
    lowest = next((row for row in _from_border(height) if moved(row, 0)), 0)
    rightmost = next((column for column in _from_border(width) if moved(0, column)), 0)
    corners = ((0, 0), (0, rightmost), (lowest, 0), (lowest, rightmost))
    places = [place for corner in corners if (found := moved(*corner)) and len(found) == 1 for place in found]
    return _grid_of(*places) if len(places) == len(corners) else None


def _from_border(size: int) -> range:
    """List rows or columns from the border inwards."""
    return range(-1, -1 - min(_MARGIN, size), -1)


def _grid_of(first: int, right: int, below: int, last: int) -> Grid | None:
    """Conclude from the places of the corners' patches, whichever axis comes first.

    >>> _grid_of(1, 4, 9, 12)
    Grid(first=1, rows=3, columns=4)
    >>> _grid_of(1, 9, 4, 12)  # column by column: what is beside is a row further on
    Grid(first=1, rows=3, columns=4)
    >>> _grid_of(0, 0, 0, 0) is None
    True
    """
    right, below = sorted((right, below))
    columns = right - first + 1
    if columns < 2 or (below - first) % columns or last - below != columns - 1:
        return None
    return Grid(first, (below - first) // columns + 1, columns)


def tokens_in(checkpoint: Checkpoint, inputs: Mapping[str, Tensor], site: str) -> Tensor | None:
    """Catch what the first attention module is given, (batch, position, width), if anything."""
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
