"""Scores on tokens that come twice, on attention made by hand, and the notes that name heads."""

import numpy as np
import pytest
import torch

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout
from attnprobe.statistics import all_statistics

#: [CLS], five tokens, the same five again, [SEP].
ORDER = [-1, 10, 11, 12, 13, 14, 10, 11, 12, 13, 14, -1]
SECOND = range(6, 11)
L = 5


@pytest.fixture
def scores(features, number):
    """Give the three scores of heads (head, query, key) over the tokens above."""

    def ask(*heads, order=ORDER, causal=False, content_only=False):
        length = len(order)
        tokens = features(
            length,
            first=(0,),
            separator=(length - 1,),
            rank=[max(0, place) for place in order],
            order=order,
            content_only=content_only,
        )
        rows = torch.stack(heads)[None].float()
        block = AttentionBlock(rows / rows.sum(-1, keepdim=True), Layout.of(tokens, causal=causal))
        return {
            name: number(all_statistics()[name], block)[0].tolist()
            for name in ("induction", "duplicate", "previous_again")
        }

    return ask


def looking(step):
    """Make a head that looks so many places on, or at the first token where there is no such place."""
    length = len(ORDER)
    rows = torch.zeros(length, length)
    for query in range(length):
        rows[query, query + step if 0 <= query + step < length else 0] = 1
    return rows


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("content_only", [False, True])
def test_planted_heads(scores, causal, content_only):
    """One that looks at what came next, one at the copy, one at the token before, one nowhere in particular.

    Without special tokens, a row that goes to one of them alone has no attention left; none is asked about.
    """
    nowhere = torch.ones(12, 12).tril() if causal else torch.ones(12, 12)
    heads = looking(-L + 1), looking(-L), looking(-1), nowhere
    found = scores(*heads, causal=causal, content_only=content_only)
    first = 1 if content_only else 0
    seen = [query + 1 - first if causal else 12 - 2 * first for query in SECOND]
    uniform = np.mean([1 / number for number in seen])
    assert found["induction"] == pytest.approx([1, 0, 0, uniform])
    assert found["duplicate"] == pytest.approx([0, 1, 0, uniform])
    assert found["previous_again"] == pytest.approx([0, 0, 1, uniform])


def test_queries_of_the_second_copy_count_and_no_others(scores):
    """Whatever the first copy and the frame do."""
    rows = torch.rand(12, 12, generator=torch.Generator().manual_seed(0)) + 0.1
    other = rows.clone()
    other[[0, 1, 2, 3, 4, 5, 11]] = torch.rand(7, 12, generator=torch.Generator().manual_seed(1)) + 0.1
    one, two = scores(rows), scores(other)
    assert one == two
    shares = (rows / rows.sum(-1, keepdim=True)).double().numpy()
    assert one["induction"] == pytest.approx([np.mean([shares[i, i - L + 1] for i in SECOND])])
    assert one["duplicate"] == pytest.approx([np.mean([shares[i, i - L] for i in SECOND])])
    assert one["previous_again"] == pytest.approx([np.mean([shares[i, i - 1] for i in SECOND])])


def test_the_nearest_copy_counts(scores):
    """Of a token that comes three times, each copy looks back to the last."""
    order = [-1, 7, 7, 3, 7, -1]
    rows = torch.arange(1, 37).reshape(6, 6)
    shares = (rows / rows.sum(-1, keepdim=True)).double().numpy()
    found = scores(rows, order=order)
    assert found["duplicate"] == pytest.approx([(shares[2, 1] + shares[4, 2]) / 2])
    assert found["induction"] == pytest.approx([(shares[2, 2] + shares[4, 3]) / 2])
