"""Trees of heads: the compiled loop and the path for other devices agree with Kruskal, scipy and networkx."""

from collections.abc import Callable
from itertools import combinations, permutations

import networkx
import numpy as np
import pytest
import torch
from torch import Tensor

from attnprobe.kernels.words import (
    EDGES,
    HEADS,
    Sentences,
    compare_trees,
)

BATCH, NUMBER, TOKENS = 3, 4, 23


def sentences(
    *words: list[tuple[int, int]],
    gold: list[set[tuple[int, int]]],
    sequence: list[int],
    roots: list[int] | None = None,
    arcs: list[set[tuple[int, int]]] | None = None,
):
    """Put sentences together from the tokens of their words and the places of words: joined, and with a head.

    Without any, the first word is the root, and nothing is asked of directed trees.
    """
    starts = np.cumsum([0, *map(len, words)])

    def place(pairs: list[set[tuple[int, int]]]) -> np.ndarray:
        placed = (
            sorted((a + start, b + start) for a, b in of_sentence)
            for start, of_sentence in zip(starts, pairs, strict=False)
        )
        return np.array([pair for of_sentence in placed for pair in of_sentence], np.int64).reshape(-1, 2)

    return Sentences(
        np.array(sequence, np.int64),
        np.stack([starts[:-1], starts[1:]], 1),
        np.array([span for of_sentence in words for span in of_sentence], np.int64).reshape(-1, 2),
        place(gold),
        starts[:-1] + (roots or [0] * len(words)),
        place(arcs or [set() for _ in words]),
    )


def count_edges(p: Tensor, gold_trees: Sentences) -> np.ndarray:
    return compare_trees(p, gold_trees)[..., EDGES]


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
            [len(kruskal(by_words(maps[place, head], words_of)) & edges) for head in range(p.shape[1])]
            for place, words_of, edges in zip(sequence, words, gold, strict=True)
        ]
    )


def smooth(generator: torch.Generator) -> Tensor:
    return torch.randn(BATCH, NUMBER, TOKENS, TOKENS, generator=generator).softmax(-1)


def sharp(generator: torch.Generator) -> Tensor:
    """Draw rows that vanish in most places."""
    return (40 * torch.randn(BATCH, NUMBER, TOKENS, TOKENS, generator=generator)).softmax(-1)


def coarse(generator: torch.Generator) -> Tensor:
    """Draw quarters, so that most edges weigh as much as others."""
    return torch.randint(0, 3, (BATCH, NUMBER, TOKENS, TOKENS), generator=generator) / 4


def uniform(_: torch.Generator) -> Tensor:
    return torch.full((BATCH, NUMBER, TOKENS, TOKENS), 1 / TOKENS)


@pytest.mark.parametrize("kind", [smooth, sharp, coarse, uniform])
@pytest.mark.parametrize("seed", range(2))
def test_by_hand(kind: Callable[[torch.Generator], Tensor], seed: int):
    gold_trees, words, gold = drawn(seed)
    p = kind(torch.Generator().manual_seed(seed))
    counts = count_edges(p, gold_trees)
    np.testing.assert_array_equal(counts, expected(p, gold_trees.sequence, words, gold))
    assert counts.max() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_to_ask(dtype: torch.dtype):
    p = torch.full((2, 3, 4, 4), 0.25, dtype=dtype)
    nobody = sentences(gold=[], sequence=[])
    assert count_edges(p, nobody).shape == (0, 3)
    alone = sentences([(1, 2)], gold=[set()], sequence=[1])
    np.testing.assert_array_equal(compare_trees(p, alone), np.zeros((1, 3, 2)))


# Directed trees


def read_trees(p: Tensor, words: list[tuple[int, int]], root: int) -> list[dict[int, int]]:
    """Read the heads of all words off the counts, tree by tree: each sentence has one of all arcs."""
    arcs = [(word, head) for word, head in permutations(range(len(words)), 2) if word != root]
    gold_trees = sentences(
        *[words] * len(arcs),
        gold=[set() for _ in arcs],
        sequence=[0] * len(arcs),
        roots=[root] * len(arcs),
        arcs=[{arc} for arc in arcs],
    )
    right = compare_trees(p[:1], gold_trees)[..., HEADS]
    assert set(right.ravel()) <= {0, 1}
    return [dict(arc for arc, there in zip(arcs, row, strict=True) if there) for row in right.T]


def weigh_arcs(p: Tensor, words: list[tuple[int, int]]) -> np.ndarray:
    """Weigh the arcs (head of the model, word, its head)."""
    return np.array([by_words(one, words) for one in p[0].double().nan_to_num(0).numpy()])


def by_networkx(weight: np.ndarray, root: int) -> dict[int, int]:
    """Give the heads of the heaviest tree: nothing leads to the root."""
    graph = networkx.DiGraph()
    for word, head in permutations(range(len(weight)), 2):
        if word != root:
            graph.add_edge(head, word, weight=weight[word, head])
    tree = networkx.maximum_spanning_arborescence(graph)
    return {word: head for head, word in tree.edges}


def total(weight: np.ndarray, heads: dict[int, int]) -> float:
    return sum(weight[arc] for arc in heads.items())


@pytest.mark.parametrize("kind", [smooth, sharp, coarse, uniform])
@pytest.mark.parametrize("seed", range(2))
def test_directed_trees_are_those_of_networkx(kind: Callable, seed: int):
    """The very same tree, unless several weigh the same up to rounding: then one of them."""
    _, (words, *_), _ = drawn(seed)
    p = kind(torch.Generator().manual_seed(seed))
    root = seed % len(words)
    counts = read_trees(p, words, root)
    for weight, heads in zip(weigh_arcs(p, words), counts, strict=True):
        expected = by_networkx(weight, root)
        assert heads.keys() == expected.keys() == set(range(len(words))) - {root}
        assert networkx.is_arborescence(networkx.DiGraph((head, word) for word, head in heads.items()))
        assert total(weight, heads) == pytest.approx(total(weight, expected), rel=1e-12)
        if kind is smooth:
            assert heads == expected


def test_several_gold_heads_of_a_word():
    """Words that share their tokens have those of both."""
    words = [(at, at + 1) for at in range(3)]
    p = torch.full((1, 1, 3, 3), 0.01)
    p[0, 0, 1, 0] = p[0, 0, 2, 1] = 0.9
    for arcs, right in (({(1, 0), (1, 2), (2, 1)}, 2), ({(1, 2), (2, 0)}, 0)):
        gold_trees = sentences(words, gold=[set()], sequence=[0], arcs=[arcs])
        assert compare_trees(p, gold_trees)[0, 0, HEADS] == right
