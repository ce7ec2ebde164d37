"""Attention to special tokens, and within the query's own text of two."""

import numpy as np
import pytest
import torch

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.features import TokenFeatures
from attnprobe.attention.layout import Layout
from attnprobe.statistics.reduction import mean_over_queries
from attnprobe.statistics.roles.masses import segment_mass, special_mass

FIRST, SEPARATOR, WORD = "[", "|", "w"


def tokens(text):
    """Read a sequence off its signs: ``[ww|www|``."""
    first, separator = (torch.tensor([[sign == one for sign in text]]) for one in (FIRST, SEPARATOR))
    no, rank = torch.zeros_like(first), torch.zeros(first.shape, dtype=torch.long)
    return TokenFeatures(first, separator, no, ~(first | separator), no.float(), ~no, rank, rank)


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("[ww|", "0000"),
        ("[ww|www|", "00001111"),
        ("[w||ww|", "0001111"),  # RoBERTa
        ("ww|ww|", "000111"),  # T5
        ("www", "000"),
        ("w|w|w|", "001122"),
    ],
)
def test_segments(text, segments):
    assert tokens(text).segments.tolist() == [list(map(int, segments))]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("text", ["[ww|www|", "[w||ww|", "[www|"])
def test_masses_by_definition(text, causal):
    random, length = np.random.default_rng(0), len(text)
    rows = random.dirichlet(np.ones(length), (1, 2, length)).astype(np.float32)
    if causal:
        rows = np.tril(rows)
        rows /= rows.sum(-1, keepdims=True)
    layout = Layout.of(tokens(text), causal=causal)
    block = AttentionBlock(torch.from_numpy(rows), layout)
    segments = layout.keys.segments[0].numpy()
    special = np.array([sign != WORD for sign in text])
    assert np.allclose(special_mass(block), rows[..., special].sum(-1), atol=1e-6)
    same = segments[:, None] == segments
    expected = (rows * same).sum(-1)
    expected[..., (segments == 0) if causal else (np.full(length, segments[-1] == 0))] = np.nan
    assert np.allclose(segment_mass(block), expected, atol=1e-6, equal_nan=True)
    parts = torch.cat(
        [
            segment_mass(AttentionBlock(block.probabilities[:, :, at : at + 1], layout, at))
            for at in range(length)
        ],
        2,
    )
    assert torch.equal(parts.nan_to_num(-1), segment_mass(block).nan_to_num(-1))
    assert mean_over_queries(segment_mass(block), layout).isnan().all() == ("|w" not in text)
