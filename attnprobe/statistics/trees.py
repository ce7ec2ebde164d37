"""How much of a sentence's tree the attention of a head holds: its maximum spanning trees against gold."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.annotation import TokenAnnotation, TokenLink, TokenSpan
from attnprobe.corpus.sources.document import SEVERAL
from attnprobe.statistics.links import FAMILY
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.inference import Estimate
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.table import Column, HeadTable

if TYPE_CHECKING:
    from torch import Tensor

    from attnprobe.attention.block import AttentionBlock
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
#: The directed trees that need no attention.
_SIMPLE_TREES = (LEFT, RIGHT, CHAIN)
_Pairs = set[tuple[int, int]]


# Gold trees


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


# The trees of heads


def compare_with_gold(block: AttentionBlock) -> Tensor:
    """Draw the trees of each head, and count what they have of the gold.

    Returns:
        (batch, head, 12) what is counted of the undirected tree, and what of the directed one; NaN for
        sequences without annotation, and in cross-attention, which leads from one text to another.
    """
    import torch

    from attnprobe.kernels.trees import compare_trees

    p, gold = block.probabilities, block.layout.once(gold_trees)
    counts = np.concatenate([gold.edges, gold.arcs], 1)[:, None].repeat(p.shape[1], 1)
    of_heads = compare_trees(p, gold.sentences).swapaxes(1, 2)
    counts[gold.sentences.sequence[:, None], :, [HELD, EDGE_COUNTS + RIGHT_HEADS]] = of_heads
    # Halves of float32 count no further than 256 words.
    return torch.from_numpy(counts).to(p.device, torch.promote_types(p.dtype, torch.float32))


def edges_in_trees(counts: Tensor, _: Layout) -> Tensor:
    """Share of gold edges that are edges of a head's tree (UUAS, the undirected unlabelled attachment score).

    With A the attention between words, the mean over the tokens that attend of the sum over the tokens that
    are attended to, the tree of a head is the maximum spanning tree of A + A^T over the words of a sentence;
    of a tie, the edge comes first whose earlier word does, then the one whose later word does. Punctuation
    is left out, with its edges. Words that share all their tokens are one. The share is over all sentences
    together, and ``n`` counts the sentences. A part of a sentence that was cut asks nothing, and neither
    does a sentence without a gold edge. The baseline is the chain that joins each word to the next, which is
    the left- and the right-branching tree without directions; ``uuas_random`` is what a tree that is drawn
    from all trees over a sentence's n words holds on average, 2 / n of its gold edges.

    Limits: 0 to 1.

    Source: Ravishankar et al. (2021), Attention can reflect syntactic structure (if you let it), for the
    tree; Hewitt and Manning (2019), A structural probe for finding syntax in word representations, for UUAS.
    """
    return counts[..., :EDGE_COUNTS]


def arcs_in_trees(counts: Tensor, _: Layout) -> Tensor:
    """Share of words whose head is right in a head's directed tree (UAS, the unlabelled attachment score).

    Over the same words as UUAS, the tree is the heaviest one in which all words descend from the gold root
    (Chu-Liu/Edmonds). The arc from a head u to its dependent v weighs A_vu, what the dependent gives to its
    head. A word takes the earlier of two heads of equal weight. Words are counted that have a gold head, so
    the root is none of them. A sentence's gold root is the word without a gold head; of several, as where one
    depends on a mark that was left out, the one from which most words descend.

    ``uas_baseline`` is the best of three trees over all sentences, which know the gold root too: the
    left-branching tree, in which the head of a word is the next word, and that of the last is the root; the
    right-branching tree, in which it is the word before, and that of the first is the root; the chain in
    which it is the neighbour on the root's side. ``uas_random`` is the mean over all directed trees with this
    root: a word among n depends on the root in 2 / n of them, and on any other word in 1 / n.

    Limits: 0 to 1.

    Source: Raganato and Tiedemann (2018), An analysis of encoder representations in Transformer-based machine
    translation; Htut et al. (2019), Do attention heads in BERT track syntactic dependencies?, for trees from
    the gold root. Cayley (1889), A theorem on trees, for the number of trees.
    """
    return counts[..., EDGE_COUNTS:]


def edge_columns(statistic: Statistic, counts: Blocked, build: TableBuilder) -> None:
    """Append the score of each tree, that of the chain, and whether the tree's is significantly higher.

    p is one-sided, of Student's t over blocks of documents (Holm).
    """
    unit = statistic.unit
    score = find_share(counts, HELD)
    build.measure("uuas", unit, score.value, score.error, headline=statistic.headline, title=statistic.title)
    baseline = find_share(counts, NEIGHBOURS).value
    build.add(Column("baseline", unit, title="edges that the chain finds"), baseline.ravel())
    gain = find_share(counts, HELD, NEIGHBOURS)
    build.measure("gain", unit, gain.value, gain.error, title="gain over the chain")
    build.test(gain.p(one_sided=True))


def arc_columns(statistic: Statistic, counts: Blocked, build: TableBuilder) -> None:
    """Append the score of each directed tree, and how far it is above the best simple tree, as above."""
    unit, simple = statistic.unit, find_best(counts)
    score, gain = find_share(counts, RIGHT_HEADS), find_share(counts, RIGHT_HEADS, simple)
    title = "words with their gold head"
    build.measure("uas", unit, score.value, score.error, headline=statistic.headline, title=title)
    build.measure("uas_gain", unit, gain.value, gain.error, title="gain over the best simple tree")
    build.test(gain.p(one_sided=True), name="uas_p")
    for name, tree, title in (
        ("uas_baseline", simple, "words with their gold head, best simple tree"),
        ("uas_random", RANDOM, "words with their gold head, random trees"),
    ):
        build.add(Column(name, unit, title=title), find_share(counts, tree).value.ravel())


def find_share(counts: Blocked, number: int, less: int | None = None) -> Estimate:
    """Divide a number, or what it is ahead of another, by the edges or words that are asked for."""
    weights = [float(place == number) - float(place == less) for place in range(counts.totals.shape[-1])]
    return counts.ratio(weights)


def find_best(counts: Blocked) -> int:
    """Find the simple tree that has most heads right, over all rows."""
    right = counts.total.reshape(-1, ARC_COUNTS).sum(0)
    return max(_SIMPLE_TREES, key=lambda tree: right[tree])


TREES = Statistic(
    "uuas", "share of edges", compare_with_gold, edges_in_trees, scope="map", sums=Blocked,
    columns=edge_columns, family=FAMILY, title="gold edges in the tree of a head", headline=True, order=3,
)  # fmt: skip
DIRECTED = Statistic(
    "uas", "share of words", compare_with_gold, arcs_in_trees, scope="map", sums=Blocked, columns=arc_columns,
    family=FAMILY, title="words with their gold head in the tree of a head", headline=True, order=6,
)  # fmt: skip


def by_head_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate the trees of all heads, one row a head; ``n`` is the number of sentences."""
    edges: Blocked = measurement.sums[TREES.name]
    arcs: Blocked = measurement.sums[DIRECTED.name]
    layers, heads, _ = edges.count.shape
    build = TableBuilder(labels, layers * heads)
    build.heads(heads)
    build.count("n", edges.count[..., GOLD], "sentences")
    edge_columns(TREES, edges, build)
    with np.errstate(invalid="ignore"):
        random = arcs.total[..., RANDOM_EDGES] / edges.total[..., GOLD]
    build.add(Column("uuas_random", TREES.unit, title="edges of random trees"), random.ravel())
    arc_columns(DIRECTED, arcs, build)
    return build.table(title, list(_left_out(edges, labels)))


def _left_out(edges: Blocked, labels: Labels) -> Iterator[str]:
    kinds = [place.kind for place in labels.places]
    # All heads of a kind are asked the same, but those that are removed are asked nothing.
    cut, bare = (
        sum(int(edges.total[[other is kind for other in kinds], :, one].max()) for kind in set(kinds))
        for one in (CUT, BARE)
    )
    if cut:
        parts = "1 part of a sentence was" if cut == 1 else f"{cut:,} parts of sentences were"
        yield f"{parts} left out: a sentence that is longer than a window is cut, and a part is no tree."
    if bare:
        noun, verb = ("sentence was", "it has") if bare == 1 else ("sentences were", "they have")
        yield f"{bare:,} {noun} left out: {verb} no gold edge between two words other than punctuation."


BY_HEAD = Tabulation("tree", by_head_table, "syntax: how much of the tree of a sentence each head holds")
