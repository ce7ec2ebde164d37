"""Tables with controls: the share of the same offset, and who keeps it."""

import numpy as np
import pytest

from attnprobe.attention.kinds import number_layers
from attnprobe.statistics.positional import CONTROLLED, FURTHEST, OFFSET, OFFSET_SHUFFLED
from attnprobe.sums.base import Measurement
from attnprobe.sums.clustered import Clustered
from attnprobe.table.builder import Labels

SEQUENCES = 40


def shares(*heads, spread=0.01):
    """Draw shares at offsets, one dictionary a head: the others are 0."""
    draw = np.random.default_rng(1)
    found = np.zeros((SEQUENCES, 1, len(heads), 2 * FURTHEST + 1))
    for head, each in enumerate(heads):
        for offset, share in each.items():
            found[:, 0, head, offset + FURTHEST] = share + spread * draw.standard_normal(SEQUENCES)
    return found


def table(plain, **controlled):
    statistics = {"shuffled": OFFSET_SHUFFLED}
    asked = [OFFSET, *(statistics[name] for name in controlled)]
    values = [plain, *controlled.values()]
    sums = {one.name: Clustered.of(found) for one, found in zip(asked, values, strict=True)}
    labels = Labels("tiny", "texts", {}, number_layers(["encoder"]))
    return CONTROLLED.build(CONTROLLED.title, Measurement(sums, SEQUENCES), asked, labels)


def test_it_is_the_share_of_the_same_offset():
    """Not of the one that is best now."""
    found = table(shares({-1: 0.9, 2: 0.1}), shuffled=shares({-1: 0.2, 2: 0.8}))
    assert found["offset"].tolist() == [-1]
    assert found["offset_share_shuffled"][0] == pytest.approx(0.2, abs=0.01)
    expected = shares({-1: 0.2, 2: 0.8})[:, 0, 0, FURTHEST - 1]
    assert found["offset_share_shuffled"][0] == pytest.approx(expected.mean())
    assert found["offset_share_shuffled_se"][0] == pytest.approx(expected.std(ddof=1) / SEQUENCES**0.5)


def test_undefined_heads_stay_undefined():
    plain = shares({-1: 0.9}, {1: 0.9})
    plain[:, :, 1] = np.nan
    found = table(plain, shuffled=shares({-1: 0.9}, {1: 0.9}))
    assert found["offset"].tolist() == [-1, None]
    assert np.isnan(found["offset_share_shuffled"][1])
