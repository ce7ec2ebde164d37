"""The softmax tap: what it sees, what it lets through, and gates behind it; bands spread over all keys."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoConfig, AutoModel

from attnprobe.model.quirks import UnsupportedModelError
from attnprobe.model.reading.blocks import multi_head_attention, spread_band
from attnprobe.model.reading.capture import Piece, capture_attention
from attnprobe.model.reading.gates import gate_attention
from attnprobe.model.reading.ways import Way

HEADS, WIDTH = 4, 8


class ToyAttention(nn.Module):
    """Attention that spells its softmax in its own way."""

    def __init__(self, softmax):
        super().__init__()
        self.softmax = softmax
        self.project = nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH)

    def forward(self, hidden):
        parts = self.project(hidden).unflatten(-1, (3, HEADS, WIDTH)).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind()
        if self.softmax is None:
            output = functional.scaled_dot_product_attention(query, key, value, scale=0.7)
        else:
            output = self.softmax(query @ key.transpose(2, 3) * 0.7) @ value
        return hidden + output.transpose(1, 2).flatten(2)


class Toy(nn.Module):
    """Two layers and a head, which takes a softmax that is no attention."""

    def __init__(self, softmax):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(50, HEADS * WIDTH)
        self.layers = nn.ModuleList(ToyAttention(softmax) for _ in range(2))

    def forward(self, input_ids):
        hidden = self.embed(input_ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return (hidden @ hidden.transpose(1, 2))[:, None].softmax(-1)


SPELLINGS: dict[str, Callable[[Tensor], Tensor] | None] = {
    "by name": lambda scores: functional.softmax(input=scores, dim=3),
    "torch": lambda scores: torch.softmax(scores, 3),
    "method": lambda scores: scores.softmax(dim=-1),
    "module": nn.Softmax(dim=-1),
    "joined": lambda scores: scores.flatten(0, 1).softmax(-1).unflatten(0, scores.shape[:2]),
    "sdpa": None,
}


def by_hand(toy, ids):
    """Compute the maps of a toy from its weights."""
    hidden, maps = toy.embed.weight[ids], []
    for layer in toy.layers:
        assert isinstance(layer, ToyAttention)
        projected = hidden @ layer.project.weight.T + layer.project.bias
        query, key, value = (part.unflatten(-1, (HEADS, WIDTH)) for part in projected.chunk(3, -1))
        scores = torch.einsum("bqhw,bkhw->bhqk", query, key) * 0.7
        maps.append(scores.exp() / scores.exp().sum(-1, keepdim=True))
        hidden = hidden + torch.einsum("bhqk,bkhw->bqhw", maps[-1], value).flatten(2)
    return maps


def collected(model, ids):
    pieces: list[Piece] = []

    def keep(piece):
        pieces.append(replace(piece, probabilities=piece.probabilities.clone()))

    with torch.no_grad(), capture_attention(model, keep, Way.TAP):
        model(input_ids=ids)
    assert [(piece.layer, piece.sequence, piece.query) for piece in pieces] == [(0, 0, 0), (1, 0, 0)]
    return [piece.probabilities for piece in pieces]


def some_ids(batch=3, length=9):
    return torch.randint(5, 50, (batch, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("spelling", SPELLINGS)
class TestSpellings:
    """However a module spells its softmax."""

    def test_maps(self, spelling):
        toy = Toy(SPELLINGS[spelling]).eval()
        for rows, expected in zip(collected(toy, some_ids()), by_hand(toy, some_ids()), strict=True):
            torch.testing.assert_close(rows, expected)

    def test_gates(self, spelling):
        """A closed head is one whose values are zero."""
        toy = Toy(SPELLINGS[spelling]).eval().double()
        silent = copy.deepcopy(toy)
        with torch.no_grad():
            project = silent.layers[1].project
            assert isinstance(project, nn.Linear)
            for parameter in (project.weight, project.bias):
                parameter[2 * HEADS * WIDTH + 2 * WIDTH : 2 * HEADS * WIDTH + 3 * WIDTH] = 0
        xi = torch.ones(1, 2, HEADS)
        xi[0, 1, 2] = 0
        untouched = toy(some_ids())
        with gate_attention(toy, Way.TAP) as gates:  # pyright: ignore[reportArgumentType]
            torch.testing.assert_close(toy(some_ids()), untouched, rtol=0, atol=0)
            gates.set(xi)
            torch.testing.assert_close(toy(some_ids()), silent(some_ids()))
        assert not torch.allclose(untouched, silent(some_ids()))


def test_causal_sdpa():
    """A mask that sdpa makes by itself."""

    class CausalAttention(ToyAttention):
        def forward(self, hidden):
            parts = hidden.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)
            output = functional.scaled_dot_product_attention(parts, parts, parts, is_causal=True)
            return output.transpose(1, 2).flatten(2)

    toy = Toy(None)
    toy.layers = nn.ModuleList([CausalAttention(None), CausalAttention(None)])
    rows = collected(toy, some_ids())[0]
    parts = toy.embed.weight[some_ids()].unflatten(-1, (HEADS, WIDTH))
    scores = torch.einsum("bqhw,bkhw->bhqk", parts, parts) * WIDTH**-0.5
    ahead = torch.ones(9, 9, dtype=torch.bool).triu(1)
    torch.testing.assert_close(rows, scores.masked_fill(ahead, -torch.inf).softmax(-1))


def test_tokens_with_global_attention_are_refused():
    """The window alone would be half of the truth."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "longformer", attention_window=4, hidden_size=32, num_hidden_layers=2, num_attention_heads=HEADS
    )
    model: Any = AutoModel.from_config(config)
    everywhere = torch.zeros(2, 9, dtype=torch.long)
    everywhere[:, 0] = 1
    with (
        pytest.raises(UnsupportedModelError, match="global attention"),
        capture_attention(model, lambda _: None, Way.TAP),
    ):
        model(input_ids=some_ids(batch=2), global_attention_mask=everywhere)


@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 11), st.integers(1, 12))
def test_bands_against_a_loop(keys, side, first, queries):
    """Also where rows of padding come along, and where the window is wider than the text."""
    band = torch.rand(2, 3, queries, 2 * side + 1, generator=torch.Generator().manual_seed(0))
    expected = torch.zeros(2, 3, queries, keys)
    for row in range(queries):
        for place in range(2 * side + 1):
            key = first + row + place - side
            if 0 <= key < keys:
                expected[:, :, row, key] = band[:, :, row, place]
    assert torch.equal(spread_band(band, first, keys), expected)


def test_keys_that_attention_of_torch_adds_are_refused():
    given = [None] * 9 + [True] + [None] * 3  # add_zero_attn
    with pytest.raises(UnsupportedModelError, match="it adds keys of its own"):
        multi_head_attention(None, *given)
