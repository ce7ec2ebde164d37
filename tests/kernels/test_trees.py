"""Trees of heads: the compiled loop, the path for other devices, Kruskal by hand, and scipy say the same."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import minimum_spanning_tree
from torch import Tensor

from attnprobe.kernels.words import Sentences, build_word_maps, count_gold_edges_in_trees

BATCH, HEADS, TOKENS = 3, 4, 23


def sentences(*words: list[tuple[int, int]], gold: list[set[tuple[int, int]]], sequence: list[int]):
    """Put sentences together from the tokens of their words and the places of joined words."""
    starts = np.cumsum([0, *map(len, words)])
    edges = [
        sorted((a + start, b + start) for a, b in some) for start, some in zip(starts, gold, strict=False)
    ]
    return Sentences(
        np.array(sequence, np.int64),
        np.stack([starts[:-1], starts[1:]], 1),
        np.array([span for some in words for span in some], np.int64).reshape(-1, 2),
        np.array([edge for some in edges for edge in some], np.int64).reshape(-1, 2),
    )


def drawn(seed: int, tokens: int = TOKENS) -> tuple[Sentences, list, list]:
    """Draw sentences of two to nine words, of one token or more, with gaps; many edges are gold."""
    draw = np.random.default_rng(seed)
    words, gold = [], []
    for _ in range(BATCH):
        size = int(draw.integers(2, 10))
        ends = np.sort(draw.choice(tokens + 1, 2 * size, replace=False)).tolist()
        words.append(list(zip(ends[::2], ends[1::2], strict=True)))
        gold.append({edge for edge in combinations(range(size), 2) if draw.random() < 0.4} | {(0, 1)})
    order = draw.permutation(BATCH).tolist()
    return sentences(*words, gold=gold, sequence=order), words, gold


def by_words(p: np.ndarray, words: list[tuple[int, int]]) -> np.ndarray:
    """Attention between words (word, word) of a map (query, key)."""
    return np.array([[p[a:b, c:d].sum() / (b - a) for c, d in words] for a, b in words])


def kruskal(attention: np.ndarray) -> set[tuple[int, int]]:
    """The heaviest edges that make no circle; ``sorted`` keeps ties in their order."""
    weight = attention + attention.T
    part = list(range(len(weight)))
    tree = set()
    for a, b in sorted(combinations(range(len(weight)), 2), key=lambda edge: -weight[edge]):
        if part[a] != part[b]:
            part = [part[a] if one == part[b] else one for one in part]
            tree.add((a, b))
    return tree


def expected(p: Tensor, sequence: np.ndarray, words: list, gold: list) -> np.ndarray:
    maps = p.double().numpy()
    return np.array(
        [
            [len(kruskal(by_words(maps[place, head], some)) & edges) for head in range(p.shape[1])]
            for place, some, edges in zip(sequence, words, gold, strict=True)
        ]
    )


def smooth(generator: torch.Generator) -> Tensor:
    return torch.randn(BATCH, HEADS, TOKENS, TOKENS, generator=generator).softmax(-1)


def sharp(generator: torch.Generator) -> Tensor:
    """Draw rows that vanish in most places."""
    return (40 * torch.randn(BATCH, HEADS, TOKENS, TOKENS, generator=generator)).softmax(-1)


def coarse(generator: torch.Generator) -> Tensor:
    """Draw quarters, so that most edges weigh as much as others."""
    return torch.randint(0, 3, (BATCH, HEADS, TOKENS, TOKENS), generator=generator) / 4


def causal(generator: torch.Generator) -> Tensor:
    return smooth(generator).tril()


def uniform(_: torch.Generator) -> Tensor:
    return torch.full((BATCH, HEADS, TOKENS, TOKENS), 1 / TOKENS)


@pytest.mark.parametrize("precise", [False, True], ids=["compiled", "elsewhere"])
@pytest.mark.parametrize("kind", [smooth, sharp, coarse, causal, uniform])
@pytest.mark.parametrize("seed", range(5))
def test_by_hand(kind: Callable[[torch.Generator], Tensor], precise: bool, seed: int):
    asked, words, gold = drawn(seed)
    p = kind(torch.Generator().manual_seed(seed))
    found = count_gold_edges_in_trees(p.double() if precise else p, asked)
    np.testing.assert_array_equal(found, expected(p, asked.sequence, words, gold))
    assert found.max() > 0


@pytest.mark.parametrize("seed", range(5))
def test_as_scipy_has_it(seed: int):
    """Which drops edges without weight, so that weights are turned round above 0; without ties."""
    asked, words, gold = drawn(seed)
    p = smooth(torch.Generator().manual_seed(seed))
    found = count_gold_edges_in_trees(p, asked)
    for place, (some, edges) in enumerate(zip(words, gold, strict=True)):
        for head in range(HEADS):
            attention = by_words(p[asked.sequence[place], head].double().numpy(), some)
            weight = attention + attention.T
            tree = minimum_spanning_tree(np.triu(weight.max() + 1 - weight, 1)).tocoo()
            assert tree.nnz == len(some) - 1
            assert found[place, head] == len(edges & set(zip(tree.row, tree.col, strict=True)))


def test_the_first_edges_of_a_tie():
    """Where all edges weigh the same, the first word is joined to all others."""
    words = [(place, place + 1) for place in range(5)]
    p = torch.full((1, 1, 5, 5), 0.2)
    for gold, hits in (({(0, 1), (0, 4)}, 2), ({(1, 2), (2, 3), (3, 4)}, 0), ({(0, 1), (1, 2)}, 1)):
        asked = sentences(words, gold=[gold], sequence=[0])
        assert count_gold_edges_in_trees(p, asked).item() == hits
        assert count_gold_edges_in_trees(p.double(), asked).item() == hits


def test_what_a_longer_word_gives_and_gets():
    """The mean over the tokens that attend, the sum over those that are attended to."""
    p = torch.zeros(1, 1, 4, 4)
    p[0, 0] = torch.tensor(
        [[0.0, 0.1, 0.2, 0.7], [0.4, 0.0, 0.0, 0.6], [0.0, 0.0, 0.0, 1.0], [0.5, 0.3, 0.2, 0.0]]
    )
    asked = sentences([(0, 1), (1, 3), (3, 4)], gold=[{(0, 1)}], sequence=[0])
    # 0 to 1: .3, 1 to 0: .2, 0 to 2: .7, 2 to 0: .5, 1 to 2: .8, 2 to 1: .5
    torch.testing.assert_close(
        build_word_maps(p, asked)[0, 0],
        torch.tensor([[0.0, 0.3, 0.7], [0.2, 0.0, 0.8], [0.5, 0.5, 0.0]], dtype=torch.float64),
    )
    for gold, hits in (({(0, 1)}, 0), ({(0, 2)}, 1), ({(1, 2)}, 1), ({(0, 2), (1, 2)}, 2)):
        asked = sentences([(0, 1), (1, 3), (3, 4)], gold=[gold], sequence=[0])
        assert count_gold_edges_in_trees(p, asked).item() == hits


@pytest.mark.parametrize("precise", [False, True], ids=["compiled", "elsewhere"])
def test_rows_that_are_undefined_give_nothing(precise: bool):
    asked, words, gold = drawn(1)
    p = smooth(torch.Generator().manual_seed(1))
    p[:, 2, 3:9] = torch.nan
    found = count_gold_edges_in_trees(p.double() if precise else p, asked)
    np.testing.assert_array_equal(found, expected(p.nan_to_num(0), asked.sequence, words, gold))


def test_some_sentences_at_a_time(monkeypatch: pytest.MonkeyPatch):
    asked, _, _ = drawn(2)
    p = smooth(torch.Generator().manual_seed(2)).double()
    whole = build_word_maps(p, asked)
    monkeypatch.setattr("attnprobe.kernels.words._CELLS", 1)
    torch.testing.assert_close(build_word_maps(p, asked), whole, rtol=0, atol=0)


@pytest.mark.parametrize("precise", [False, True], ids=["compiled", "elsewhere"])
def test_strides_and_threads_do_not_matter(threads: Callable[[int], None], precise: bool):
    draw = torch.Generator().manual_seed(0)
    batch = 40
    words = [(place, place + 1) for place in range(7)]
    gold = {(0, 1), (1, 4), (2, 4), (4, 6)}
    asked = sentences(*[words] * batch, gold=[gold] * batch, sequence=list(range(batch)))
    p = torch.randn(batch, HEADS, 7, 7, generator=draw).softmax(-1)
    p = p.double() if precise else p
    found = []
    for number in (1, 2, 3):
        threads(number)
        found.append(count_gold_edges_in_trees(p.transpose(1, 2).contiguous().transpose(1, 2), asked))
    assert len(np.unique(found[0])) > 2
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_to_ask(dtype: torch.dtype):
    p = torch.full((2, 3, 4, 4), 0.25, dtype=dtype)
    nobody = sentences(gold=[], sequence=[])
    assert count_gold_edges_in_trees(p, nobody).shape == (0, 3)
    alone = sentences([(1, 2)], gold=[set()], sequence=[1])
    np.testing.assert_array_equal(count_gold_edges_in_trees(p, alone), np.zeros((1, 3)))
