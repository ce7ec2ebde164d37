"""Attention by offset, of attention made by hand."""

import math

import pytest
import torch

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.features import TokenFeatures
from attnprobe.attention.layout import Layout
from attnprobe.statistics import all_statistics
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


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("content_only", [False, True])
@pytest.mark.parametrize("length", [11, 40])
def test_compiled_loop_and_torch_agree(drawn, number, kind, content_only, length):
    whole = drawn(length=length, kind=kind, content_only=content_only)
    double = AttentionBlock(whole.probabilities.double(), whole.layout)
    found, expected = (number(PROFILE, one) for one in (whole, double))
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6, equal_nan=True)
    undefined = {name for name, cells in zip(NAMES, found.unbind(-1), strict=True) if cells.isnan().all()}
    ahead = {name for name in NAMES if name == "after" or (name.isdigit() and int(name) > 0)}
    if kind == "cross":
        assert undefined == set(NAMES) - ({"first", "special"} if not content_only else set())
    elif kind == "decoder":
        assert undefined >= ahead
    else:
        assert not undefined & {str(offset) for offset in range(-4, 5)}


def test_neighbours_are_those_of_previous_and_next_without_sinks(drawn, number):
    """A text without special tokens has but the first as a sink."""
    whole = drawn(length=40)
    tokens = whole.layout.keys
    no = torch.zeros_like(tokens.first)
    plain = Layout.of(TokenFeatures(no, no, no, ~no, no.float(), ~no, tokens.rank, tokens.order))
    block = AttentionBlock(whole.probabilities, plain)
    found = number(PROFILE, block)
    for name in ("next", "self", "previous"):
        values = all_statistics()[name](block)
        place = NAMES.index({"previous": "-1", "self": "0", "next": "1"}[name])
        first = {"previous": 2, "self": 1, "next": 0}[
            name
        ]  # the first query whose key is not the first token
        torch.testing.assert_close(found[..., place], values[..., first:].nanmean(-1))
