"""Roles and patterns: query by query in numpy, of uniform attention, and the rarest token beyond chance."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import entropy

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout
from attnprobe.attention.tokens import Modalities, TokenFeatures
from attnprobe.statistics.roles import (
    ALIGNED,
    DIAGONAL,
    EFFECTIVE,
    EITHER,
    FIRST_TOKEN,
    RAREST,
    SEGMENT,
    SPECIAL,
    VERTICAL,
)

FIRST, SEPARATOR, WORD = "[", "|", "w"
(SPECIAL_EXCESS, SPECIAL_PREFERENCE), (FIRST_EXCESS, FIRST_PREFERENCE) = SPECIAL, FIRST_TOKEN
STATISTICS = (*SPECIAL, *FIRST_TOKEN, SEGMENT, VERTICAL, DIAGONAL, EITHER, EFFECTIVE, ALIGNED)


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


def lay_out(text, kind, queries="[wwww|w"):
    keys = tokens(text)
    return Layout(tokens(queries), keys) if kind == "cross" else Layout.of(keys, causal=kind == "decoder")


def draw(layout):
    """Draw the rows of three heads."""
    shape = 1, 3, layout.queries.length
    rows = np.random.default_rng(0).dirichlet(np.full(layout.keys.length, 0.5), shape)
    if layout.causal:
        rows = np.tril(rows + 1e-9)
        rows /= rows.sum(-1, keepdims=True)
    return AttentionBlock(torch.from_numpy(rows.astype(np.float32)), layout)


def list_keys(text, kind, query, queries):
    """Give what a query sees; of that, special tokens, sinks, and what stands at its place."""
    seen = range(query + 1) if kind == "decoder" else range(len(text))
    special = [key for key in seen if text[key] != WORD]
    place, reach = query, 1
    if kind == "cross":
        place, reach = (query + 0.5) * len(text) / queries - 0.5, max(1, len(text) / 10) + 1e-9
    return seen, special, sorted({0, *special}), [key for key in seen if abs(key - place) <= reach]


def excess(row, keys, seen):
    uniform = len(keys) / len(seen)
    return (row[:, keys].sum(-1) - uniform) / (1 - uniform)


def preference(row, keys, seen):
    mass = row[:, keys].sum(-1)
    of_kind, other = mass / len(keys), (1 - mass) / (len(seen) - len(keys))
    return of_kind / (of_kind + other)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("text", ["[ww|www|", "[w||ww|", "[wwww|wwwwwwwww|", "wwwwwwww|", "w" * 29, "www"])
def test_by_definition(text, kind):
    """Query by query and key by key, in numpy."""
    layout = lay_out(text, kind)
    block, segments = draw(layout), layout.keys.segments[0].numpy()
    rows, expected = block.probabilities[0].double().numpy().transpose(1, 0, 2), defaultdict(list)
    for query, row in enumerate(rows):
        seen, special, sinks, near = list_keys(text, kind, query, len(rows))
        first = [0] if text[0] == WORD else []
        same_text = [] if kind == "cross" else [key for key in seen if segments[key] == segments[query]]
        for statistic, function, keys in (
            (SPECIAL_EXCESS, excess, special), (SPECIAL_PREFERENCE, preference, special),
            (FIRST_EXCESS, excess, first), (FIRST_PREFERENCE, preference, first),
            (SEGMENT, excess, same_text), (VERTICAL, excess, sinks), (DIAGONAL, excess, near),
            (EITHER, excess, sorted({*near, *sinks})),
        ):  # fmt: skip
            if 0 < len(keys) < len(seen):
                expected[statistic].append(function(row, keys, seen))
        if len(seen) > 1:
            expected[EFFECTIVE].append(np.exp(entropy(row, axis=-1)) / len(seen))
        if kind == "cross" and len(near) < len(seen):
            chance = len(near) / len(seen)
            expected[ALIGNED].append((np.isin(row.argmax(-1), near) - chance) / (1 - chance))
    for statistic in STATISTICS:
        parts = [
            AttentionBlock(block.probabilities[:, :, at : at + 1], layout, at) for at in range(len(rows))
        ]
        values = statistic.reduce_sequences(torch.cat([statistic(part) for part in parts], 2), layout)
        mean = np.mean(expected[statistic], 0) if expected[statistic] else np.full(3, np.nan)
        np.testing.assert_allclose(values[0], mean, atol=2e-6, err_msg=statistic.name)


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
        (SEGMENT, 0),
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
    assert SEGMENT.reduce_sequences(SEGMENT(block), block.layout).item() == pytest.approx(0, abs=1e-6)
