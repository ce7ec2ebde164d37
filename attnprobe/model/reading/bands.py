"""Attention within a sliding window, as Longformer computes it, spread out over all keys."""

from torch import Tensor, nn


def window_of(module: nn.Module) -> int | None:
    """Give how far a module sees to either side, or None where it is not told."""
    width = getattr(module, "one_sided_attn_window_size", None)
    return width if isinstance(width, int) else None


def spread(band: Tensor, first: int, keys: int) -> Tensor:
    """Spread rows of a band over all keys.

    Args:
        band: (batch, head, query, window); its middle is the query itself.
        first: Position of the first query.
        keys: Length of the sequence. What the window holds beyond its ends is padding, and left out.

    Returns:
        (batch, head, query, key), 0 outside the window.

    >>> import torch
    >>> spread(torch.tensor([[[[0.0, 0.7, 0.3], [0.2, 0.5, 0.3]]]]), 0, 4)[0, 0]
    tensor([[0.7000, 0.3000, 0.0000, 0.0000],
            [0.2000, 0.5000, 0.3000, 0.0000]])
    """
    batch, heads, queries, width = band.shape
    side = width // 2
    whole = band.new_zeros(batch, heads, queries, max(keys + 2 * side, first + queries - 1 + width))
    strides = whole.stride()
    # Each row begins one key later than the row before.
    rows = whole.as_strided(band.shape, (*strides[:2], strides[2] + 1, 1), first)
    rows.copy_(band)
    return whole[..., side : side + keys]


def spread_maps(model: nn.Module, maps: Tensor) -> Tensor:
    """Spread the maps (batch, head, query, window) that a model gives, if they are bands."""
    windows = {window for module in model.modules() if (window := window_of(module)) is not None}
    if maps.ndim == 4 and maps.shape[3] != maps.shape[2] and maps.shape[3] in {2 * w + 1 for w in windows}:
        return spread(maps, 0, maps.shape[2])
    return maps


def window_warnings(model: nn.Module) -> tuple[str, ...]:
    """Say that a windowed encoder by itself gives no token global attention."""
    if all(window_of(module) is None for module in model.modules()):
        return ()
    return ("its sliding window is all that is read: without a task head, no token has global attention",)
