"""The grid of patches of an image."""

from collections.abc import Callable, Mapping

from torch import Tensor

from attnprobe.attention.layout import Grid
from attnprobe.model.check.trace import record_calls
from attnprobe.model.checkpoint import Checkpoint

#: Rows or columns at the lower and right border that no patch may reach, where patches don't fit evenly.
_MARGIN = 32


def find_grid(checkpoint: Checkpoint, inputs: Mapping[str, Tensor], site: str) -> Grid | None:
    """Find where the patches are, and in how many rows and columns.

    A change in a corner of the image changes one token in front of the first layer, if tokens are patches;
    the places of the four tell the rest.

    Returns:
        The grid, or None where tokens are no patches of a grid, row by row.
    """
    pixels = (name for name, tensor in inputs.items() if tensor.ndim >= 3 and tensor.is_floating_point())
    name = next(pixels, None)
    untouched = None if name is None else catch_tokens(checkpoint, inputs, site)
    if name is None or untouched is None:
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
    places = [changed[0] for corner in corners if len(changed := find_changed(*corner)) == 1]
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
    with record_calls(checkpoint.body, lambda name, _: name == site) as calls:
        checkpoint.forward(inputs)
    return next((tensor for call in calls for tensor in call.given if tensor.ndim == 3), None)
