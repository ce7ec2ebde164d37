"""Gold trees of sentences: words, arcs and root, and what trees that need no attention have of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.annotation import TokenAnnotation, TokenLink, TokenSpan
from attnprobe.corpus.sources.document import SEVERAL

if TYPE_CHECKING:
    from attnprobe.attention.layout import Layout
    from attnprobe.kernels.trees import Sentences


Floats = NDArray[np.float64]
PUNCTUATION = "punct"
#: What is counted of the undirected tree of a sentence: its gold edges, those in the tree of a head, those
#: between neighbours; and whether it was left out, as a part of a sentence or since it has no gold edge.
GOLD, HELD, NEIGHBOURS, CUT, BARE = range(5)
#: What is counted of its directed tree: the words with a gold head other than the root; those whose head is
#: right in the tree of a head; in the left-branching tree, the right-branching one, the chain that leads
#: to the root, and in a random tree on average; and the gold edges of a random undirected tree, on average.
WORDS, RIGHT_HEADS, LEFT, RIGHT, CHAIN, RANDOM, RANDOM_EDGES = range(7)
EDGE_COUNTS, ARC_COUNTS = 5, 7
_Pairs = set[tuple[int, int]]


@dataclass(frozen=True)
class GoldTrees:
    """The gold trees of a batch; numbers are NaN for sequences without annotation.

    Attributes:
        sentences: Those with a gold edge.
        edges: (sequence, 5) what is counted of undirected trees, without the edges in a head's tree.
        arcs: (sequence, 7) the same of directed trees.
    """

    sentences: Sentences
    edges: Floats
    arcs: Floats


def gold_trees(layout: Layout) -> GoldTrees:
    """Find the words of each sentence, without punctuation, and the gold tree over them."""
    from attnprobe.kernels.trees import Sentences

    batch = layout.queries.batch
    edge_counts, arc_counts = np.full((batch, EDGE_COUNTS), np.nan), np.full((batch, ARC_COUNTS), np.nan)
    sequence, words, roots = [], [], list[int]()
    spans, edges, arcs = list[TokenSpan](), list[tuple[int, int]](), list[tuple[int, int]]()
    for place, annotation in enumerate(() if layout.crossed else layout.annotations):
        if annotation is None:
            continue
        edge_counts[place] = arc_counts[place] = 0
        sentence, gold = build_tree(annotation)
        if annotation.cut or not gold:
            edge_counts[place, :CUT] = arc_counts[place] = np.nan
            edge_counts[place, CUT if annotation.cut else BARE] = 1
            continue
        joined = {(min(arc), max(arc)) for arc in gold}
        edge_counts[place, [GOLD, NEIGHBOURS]] = len(joined), sum(b - a == 1 for a, b in joined)
        root = find_root(gold)
        directed = {(word, head) for word, head in gold if word != root}
        arc_counts[place] = _count_arcs(directed, root, len(sentence))
        arc_counts[place, RANDOM_EDGES] = 2 * len(joined) / len(sentence)
        first = len(spans)
        sequence.append(place)
        words.append((first, first + len(sentence)))
        edges += sorted((a + first, b + first) for a, b in joined)
        roots.append(root + first)
        arcs += sorted((a + first, b + first) for a, b in directed)
        spans += sentence
    sequence, roots = (np.array(one, np.int64) for one in (sequence, roots))
    words, spans, edges, arcs = (
        np.array(pairs, np.int64).reshape(-1, 2)
        for pairs in (words, [(span.start, span.stop) for span in spans], edges, arcs)
    )
    return GoldTrees(Sentences(sequence, words, spans, edges, roots, arcs), edge_counts, arc_counts)


def build_tree(annotation: TokenAnnotation) -> tuple[list[TokenSpan], _Pairs]:
    """Give the words of a sentence without punctuation, in order, and the gold arcs from word to head.

    Words that share all their tokens are one. A word is punctuation, and is left out, if a link from it says
    so and no other link from the same tokens says anything else.
    """
    named = [(link, _is_punctuation(link)) for link in annotation.links if link.source != link.target]
    left_out = {link.source for link, punctuation in named if punctuation}
    left_out -= {link.source for link, punctuation in named if not punctuation}
    words = sorted(set(annotation.words) - left_out, key=lambda word: (word.start, word.stop))
    place = {word: number for number, word in enumerate(words)}
    return words, {
        (place[link.source], place[link.target])
        for link, punctuation in named
        if not punctuation and link.source in place and link.target in place
    }


def find_root(arcs: Collection[tuple[int, int]]) -> int:
    """Find the root of a gold tree: the word that others depend on, and that depends on none.

    Of several, it is the one from which most words descend; the first of a tie.

    >>> find_root({(0, 1), (3, 2), (2, 1)}), find_root({(0, 1), (3, 2), (4, 2)}), find_root({(0, 1), (1, 0)})
    (1, 2, 0)
    """
    heads = {head for _, head in arcs}
    without = heads - {word for word, _ in arcs}
    if len(without) == 1:
        return without.pop()

    def count_descendants(root: int) -> int:
        descendants, seen = {root}, 0
        while len(descendants) > seen:
            seen = len(descendants)
            descendants |= {word for word, head in arcs if head in descendants}
        return seen

    return max(sorted(without or heads), key=count_descendants)


def _count_arcs(arcs: _Pairs, root: int, words: int) -> Floats:
    """Count words with a gold head, and those whose head the simple trees have right."""
    counts = np.zeros(ARC_COUNTS)
    counts[WORDS] = len({word for word, _ in arcs})
    for word, head in arcs:
        counts[LEFT] += head == (word + 1 if word + 1 < words else root)
        counts[RIGHT] += head == (word - 1 if word else root)
        counts[CHAIN] += head == (word + 1 if word < root else word - 1)
        counts[RANDOM] += (1 + (head == root)) / words
    return counts


def _is_punctuation(link: TokenLink) -> bool:
    return any(part.partition(":")[0] == PUNCTUATION for part in link.label.split(SEVERAL))
