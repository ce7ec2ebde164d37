"""The sharpest head, against a loop by hand."""

import math

import numpy as np
import pytest

from attnprobe.attention.kinds import Kind
from attnprobe.survey.maps import find_sharpest, measure_sharpness
from attnprobe.table.sequence import Maps, Side

DRAW = np.random.default_rng(3)


def softmax(scores):
    found = np.exp(scores)
    return (found / found.sum(-1, keepdims=True)).astype(np.float32)


def side_of(length, special):
    marked = np.zeros(length, bool)
    marked[list(special)] = True
    names = tuple(f"t{place}" for place in range(length))
    return Side(names, names, marked)


def maps_of(rows, special=(0, -1), *, kind=Kind.ENCODER, standing=None, queries=None):
    keys = side_of(rows.shape[3], special)
    standing = np.ones(rows.shape[:2], bool) if standing is None else standing
    return Maps(kind, tuple(range(len(rows))), rows, queries or keys, keys, standing)


def entropy_by_hand(head, special, *, causal):
    """Spread what goes to special tokens evenly over the others that a query sees."""
    left_out = set(special) | ({0} if causal else set())
    found = []
    for query in range(len(head)):
        if query in special:
            continue
        keys = [key for key in range(len(head)) if key not in left_out and (not causal or key <= query)]
        if not keys:
            continue
        spread = (1 - sum(float(head[query][key]) for key in keys)) / len(keys)
        shares = [float(head[query][key]) + spread for key in keys]
        assert sum(shares) == pytest.approx(1, abs=1e-6)
        found.append(-sum(share * math.log(share) for share in shares if share > 0))
    return sum(found) / len(found)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("special", [(), (0, 6)])
def test_the_formula(causal, special):
    scores = DRAW.normal(size=(3, 2, 7, 7)) * np.linspace(0.5, 4, 6).reshape(3, 2, 1, 1)
    rows = softmax(np.where(np.tri(7, dtype=bool), scores, -np.inf) if causal else scores)
    maps = maps_of(rows, special, kind=Kind.DECODER if causal else Kind.ENCODER)
    found = measure_sharpness(maps)
    expected = [[entropy_by_hand(head, special, causal=causal) for head in layer] for layer in rows]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert find_sharpest(maps) == np.unravel_index(np.argmin(expected), (3, 2))
