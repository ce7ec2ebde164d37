"""Which head is whose partner, from divergences that are given."""

import numpy as np
import pytest

from attnprobe.attention.kinds import Kind, Place
from attnprobe.errors import AttnprobeError
from attnprobe.findings.partners import HeadGrid, SharedHeads, find_namesakes, find_nearest, match_heads


def grid(layers: int, heads: int, removed: tuple[tuple[int, int], ...] = ()) -> HeadGrid:
    kept = [[head for head in range(heads) if (layer, head) not in removed] for layer in range(layers)]
    return HeadGrid([Place(layer) for layer in range(layers)], [Kind.ENCODER] * layers, heads, kept)


def shared(first: HeadGrid, second: HeadGrid) -> SharedHeads:
    return SharedHeads.of(("a", "b"), first, second)[0]


def test_of_equals_the_nearest_is_that_of_the_same_number():
    """Heads may be copies of each other; a model is still its own nearest, head by head."""
    divergences = np.array([
        [0.0, 0.0, 0.3, 0.0],
        [0.0, 0.0, 0.3, 0.0],
        [0.1, 0.3, 0.2, 0.1],
        [np.nan, 0.0, 0.3, 0.0],
    ])  # fmt: skip
    assert find_nearest(shared(grid(1, 4), grid(1, 4)), divergences).tolist() == [0, 1, 0, 3]


@pytest.mark.parametrize("within", ["layer", "model"])
def test_heads_are_matched_one_to_one_with_the_least_sum(within):
    """Against all assignments; a removed head has no partner."""
    from itertools import permutations

    heads = shared(grid(2, 3), grid(2, 3))
    divergences = np.random.default_rng(1).uniform(0, 0.6, (6, 6))
    divergences[4] = np.nan

    def cost(order):
        pairs = (divergences[head, partner] for head, partner in enumerate(order))
        return sum(2.0 if np.isnan(divergence) else divergence for divergence in pairs)

    allowed = permutations(range(6))
    if within == "layer":
        allowed = (
            (*first, *second) for first in permutations(range(3)) for second in permutations(range(3, 6))
        )
    wanted = list(min(allowed, key=cost))
    wanted[4] = -1
    assert match_heads(heads, divergences, within).tolist() == wanted
    assert find_namesakes(heads).tolist() == [0, 1, 2, 3, 4, 5]


def test_kinds_that_only_one_model_has_are_left_out():
    places = [Place(0, Kind.ENCODER), Place(0, Kind.DECODER), Place(0, Kind.CROSS)]
    whole = HeadGrid(places, [Kind.ENCODER, Kind.DECODER, Kind.CROSS], 2, [[0, 1], [1], []])
    heads, notes = SharedHeads.of(("a", "b"), whole, grid(1, 2))
    assert (heads.kinds, heads.layers) == ((Kind.ENCODER,), [0])
    assert len(notes) == 1
    joined = heads.join({Kind.ENCODER: np.array([[1.0, 2.0], [3.0, 4.0]])})
    assert joined[:2].tolist() == [[1, 2], [3, 4]]
    assert np.isnan(joined[2:]).all()
    places_among_maps, numbers = (part.tolist() for part in whole.find_kept(Kind.DECODER))
    assert (places_among_maps, numbers) == ([0], [1])
    with pytest.raises(AttnprobeError, match="only heads of one kind"):
        SharedHeads.of(("a", "b"), HeadGrid([Place(0)], [Kind.DECODER], 2, [[0, 1]]), grid(1, 2))
