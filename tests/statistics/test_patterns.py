"""Columns, the diagonal, both, the same relative place and the first token: by loops, and planted maps."""

import numpy as np
import pytest
import torch
from test_roles import in_parts, tokens

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout
from attnprobe.statistics.roles import ALIGNED, DIAGONAL, EITHER, FIRST_TOKEN, VERTICAL

HEADS = 3
FIRST_EXCESS, FIRST_PREFERENCE = FIRST_TOKEN
#: An encoder, a decoder, and a decoder of other tokens beside an encoder.
KINDS = ["encoder", "decoder", "cross"]


def lay_out(text, kind, queries="[wwww|w"):
    keys = tokens(text)
    return Layout(tokens(queries), keys) if kind == "cross" else Layout.of(keys, causal=kind == "decoder")


def draw(layout, seed=0):
    random = np.random.default_rng(seed)
    rows = random.dirichlet(np.full(layout.keys.length, 0.5), (1, HEADS, layout.queries.length))
    if layout.causal:
        rows = np.tril(rows + 1e-9)
        rows /= rows.sum(-1, keepdims=True)
    return AttentionBlock(torch.from_numpy(rows), layout)


def find(statistic, block):
    return statistic.reduce_sequences(in_parts(statistic, block), block.layout)[0].numpy()


def list_keys(text, kind, query, queries):
    """Give what a query sees, what stands at its place, and what attracts attention whatever it means."""
    seen = range(query + 1) if kind == "decoder" else range(len(text))
    if kind == "cross":
        place = (query + 0.5) * len(text) / queries - 0.5
        near = [key for key in seen if abs(key - place) <= max(1, len(text) / 10) + 1e-9]
    else:
        near = [key for key in seen if abs(key - query) <= 1]
    return list(seen), near, [key for key in seen if text[key] != "w" or key == 0]


def beyond(row, keys, seen):
    uniform = len(keys) / len(seen)
    return (row[:, keys].sum(-1) - uniform) / (1 - uniform)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["[wwww|wwwwwwwww|", "wwwwwwww|", "wwwwwwwwwwwwwwwwwwwwwwwwwwwww", "www"])
def test_by_definition(text, kind):
    """Query by query and key by key, without a tensor."""
    layout = lay_out(text, kind)
    block = draw(layout)
    rows, number = block.probabilities[0].numpy().transpose(1, 0, 2), layout.queries.length
    expected = {
        statistic: [] for statistic in (VERTICAL, DIAGONAL, EITHER, ALIGNED, FIRST_EXCESS, FIRST_PREFERENCE)
    }
    for query, row in enumerate(rows):
        seen, near, sinks = list_keys(text, kind, query, number)
        for statistic, keys in ((VERTICAL, sinks), (DIAGONAL, near), (EITHER, sorted({*near, *sinks}))):
            if 0 < len(keys) < len(seen):
                expected[statistic].append(beyond(row, keys, seen))
        if kind == "cross" and len(near) < len(seen):
            chance = len(near) / len(seen)
            expected[ALIGNED].append((np.isin(row.argmax(-1), near) - chance) / (1 - chance))
        if text[0] == "w" and len(seen) > 1:
            expected[FIRST_EXCESS].append(beyond(row, [0], seen))
            other = (1 - row[:, 0]) / (len(seen) - 1)
            expected[FIRST_PREFERENCE].append(row[:, 0] / (row[:, 0] + other))
    for statistic, values in expected.items():
        mean = np.mean(values, 0) if values else np.full(HEADS, np.nan)
        np.testing.assert_allclose(find(statistic, block), mean, atol=1e-6, err_msg=statistic.name)
