"""Attention to special tokens, and within the query's own text of two."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout
from attnprobe.attention.tokens import Modalities, TokenFeatures
from attnprobe.statistics.roles import (
    EFFECTIVE,
    RAREST,
    SEGMENT,
    SPECIAL,
)

FIRST, SEPARATOR, WORD = "[", "|", "w"
SEGMENT_EXCESS, (SPECIAL_EXCESS, SPECIAL_PREFERENCE) = SEGMENT, SPECIAL


def tokens(text):
    """Read a sequence off its signs: ``[ww|www|``."""
    first, separator = (torch.tensor([[sign == mark for sign in text]]) for mark in (FIRST, SEPARATOR))
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


def rows_of(length, causal):
    rows = np.random.default_rng(0).dirichlet(np.ones(length), (1, 2, length)).astype(np.float32)
    if causal:
        rows = np.tril(rows)
        rows /= rows.sum(-1, keepdims=True)
    return rows


def in_parts(function, block):
    """Ask about one query at a time."""
    length = block.probabilities.shape[2]
    parts = [AttentionBlock(block.probabilities[:, :, at : at + 1], block.layout, at) for at in range(length)]
    return torch.cat([function(part) for part in parts], 2)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("text", ["[ww|www|", "[w||ww|", "[www|"])
def test_by_definition(text, causal):
    """Query by query, in numpy: the mass on some keys, how many of how many they are, and the means."""
    rows, length = rows_of(len(text), causal), len(text)
    layout = Layout.of(tokens(text), causal=causal)
    block = AttentionBlock(torch.from_numpy(rows), layout)
    segments, special = layout.keys.segments[0].numpy(), np.array([sign != WORD for sign in text])
    excess, preference, broad, within = [], [], [], []
    for query, row in enumerate(rows[0].transpose(1, 0, 2).astype(float)):
        keys = query + 1 if causal else length
        special_keys, mass = special[:keys].sum(), row[:, special].sum(-1)
        if 0 < special_keys < keys:
            excess.append((mass - special_keys / keys) / (1 - special_keys / keys))
            to_special, to_other = mass / special_keys, (1 - mass) / (keys - special_keys)
            preference.append(to_special / (to_special + to_other))
        if keys > 1:
            entropy = -(row * np.log(row, where=row > 0, out=np.zeros_like(row))).sum(-1)
            broad.append(np.exp(entropy) / keys)
        own_text = segments == segments[query]
        if segments[query if causal else -1] > 0 and own_text[:keys].mean() < 1:
            within.append((row[:, own_text].sum(-1) - own_text[:keys].mean()) / (1 - own_text[:keys].mean()))
    for statistic, expected in (
        (SPECIAL_EXCESS, excess), (SPECIAL_PREFERENCE, preference),
        (EFFECTIVE, broad), (SEGMENT_EXCESS, within),
    ):  # fmt: skip
        values = statistic.reduce_sequences(in_parts(statistic, block), layout)
        mean = np.mean(expected, 0) if expected else [np.nan, np.nan]
        np.testing.assert_allclose(values[0], mean, atol=1e-6, err_msg=statistic.name)


@pytest.mark.parametrize("words", [1, 2, 5, 40])
@pytest.mark.parametrize("causal", [False, True])
def test_uniform_attention_has_none_whatever_the_length(words, causal):
    layout = Layout.of(tokens(f"[{WORD * words}|{WORD * words}|"), causal=causal)
    rows = torch.ones(1, 3, 2 * words + 3, 2 * words + 3)
    rows = rows.tril() if causal else rows
    block = AttentionBlock(rows / rows.sum(-1, keepdim=True), layout)
    for statistic, expected in (
        (SPECIAL_EXCESS, 0),
        (SPECIAL_PREFERENCE, 0.5),
        (EFFECTIVE, 1),
        (SEGMENT_EXCESS, 0),
    ):
        values = statistic.reduce_sequences(statistic(block), layout)
        np.testing.assert_allclose(values, expected, atol=1e-5, err_msg=statistic.name)


@pytest.mark.parametrize("causal", [False, True])
def test_the_rarest_token_beyond_chance(causal):
    """By numpy, with a tie; a head that looks anywhere comes to 0, one that looks there to 1."""
    rank = torch.tensor([[-1, 3, 9, 1, 9, 5, -1]])
    special = rank < 0
    no = torch.zeros_like(special)
    features = TokenFeatures(special, no, no, ~special, no.float(), ~no, rank, rank)
    layout = Layout.of(features, causal=causal)
    random, draws = torch.Generator().manual_seed(0), 4000
    peaks = torch.zeros(1, draws + 1, 7)
    for query in range(7):
        keys = query + 1 if causal else 7
        peaks[0, :-1, query] = torch.randint(keys, (draws,), generator=random)
        peaks[0, -1, query] = int(rank[0, :keys].argmax())
    values = RAREST.reduce_sequences(peaks, layout)[0]
    assert values[-1] == 1
    assert abs(float(values[:-1].mean())) < 0.02
    ranks = rank[0].numpy()
    expected = []
    for query in range(7):
        seen = ranks[: query + 1] if causal else ranks
        chance = (seen == seen.max()).mean()
        if seen.max() >= 0 and chance < 1:
            expected.append(((ranks[int(peaks[0, 0, query])] == seen.max()) - chance) / (1 - chance))
    assert values[0] == pytest.approx(np.mean(expected), abs=1e-6)


def test_uniform_attention_prefers_no_text_where_tokens_of_an_image_see_each_other():
    text, image = tokens("[w|wwww|w"), torch.tensor([[0, 0, 0, 0, 1, 1, 1, 0, 0]]).bool()
    sees = torch.tensor([[0, 1, 2, 3, 6, 6, 6, 7, 8]])
    read = replace(text, mixed=Modalities(image, torch.ones_like(image), sees))
    rows = (torch.arange(9) <= sees[0, :, None]) / (1 + sees[0, :, None])
    block = AttentionBlock(rows[None, None], Layout.of(read, causal=True))
    assert SEGMENT_EXCESS.reduce_sequences(SEGMENT_EXCESS(block), block.layout).item() == pytest.approx(
        0, abs=1e-6
    )
