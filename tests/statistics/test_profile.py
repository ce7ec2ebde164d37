"""Attention by offset, of attention made by hand."""

import math

import pytest
import torch

from attnprobe.statistics.profile import PROFILE
from attnprobe.table.naming import REACH, list_offsets

LENGTH = 30
NAMES = [name for name, _ in list_offsets(patches=False)]


@pytest.fixture
def profile(number):
    """Give the defined cells of a single head by name."""

    def ask(block):
        cells = number(PROFILE, block)[0, 0].tolist()
        return {name: cell for name, cell in zip(NAMES, cells, strict=True) if not math.isnan(cell)}

    return ask


def looking(offset, length=LENGTH, elsewhere=0):
    """Let every token look so far on; where there is no such token, at the first one."""
    rows = torch.zeros(length, length)
    for query in range(length):
        inside = 0 <= query + offset < length
        rows[query, query + offset if inside else elsewhere] = 1
    return rows


@pytest.mark.parametrize("offset", [-REACH, -3, -1, 0, 1, REACH])
def test_a_head_that_looks_at_one_offset_has_all_its_mass_there(block, profile, offset):
    found = profile(block(looking(offset)))
    assert found.pop(str(offset)) == 1
    elsewhere = [q for q in range(LENGTH) if not 1 <= q + offset < LENGTH]  # or at the first, by its offset
    assert found.pop("first") == pytest.approx(len(elsewhere) / LENGTH)
    assert set(found.values()) == {0}


@pytest.mark.parametrize(("offset", "name"), [(-REACH - 1, "before"), (-20, "before"), (REACH + 1, "after")])
def test_what_is_further_away_is_beyond(block, profile, offset, name):
    """Of the queries that see ordinary tokens so far away, those near the end look at the first instead."""
    found = profile(block(looking(offset)))
    far = [
        q
        for q in range(LENGTH)
        if any(abs(k - q) > REACH and (k > q) == (offset > 0) for k in range(1, LENGTH))
    ]
    hits = [q for q in far if 1 <= q + offset < LENGTH]
    assert found.pop(name) == pytest.approx(len(hits) / len(far))
    found.pop("first")
    assert set(found.values()) == {0}


def test_uniform_attention(block, profile):
    found = profile(block(torch.ones(LENGTH, LENGTH), separator=(LENGTH - 1,)))
    for name in NAMES[3:-1]:
        assert found[name] == pytest.approx(1 / LENGTH)
    assert found["first"] == found["special"] == pytest.approx(1 / LENGTH)
    # A query q has q - 11 ordinary tokens more than ten places before it, of those from 1 on.
    assert found["before"] == pytest.approx(sum(range(1, 19)) / 18 / LENGTH)
    assert found["after"] == pytest.approx(sum(range(1, 19)) / 18 / LENGTH)
