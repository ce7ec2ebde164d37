"""How much of a sentence's tree the attention of a head holds: its maximum spanning trees against gold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnprobe.statistics.gold_trees import (
    ARC_COUNTS,
    BARE,
    CHAIN,
    CUT,
    EDGE_COUNTS,
    GOLD,
    HELD,
    LEFT,
    NEIGHBOURS,
    RANDOM,
    RANDOM_EDGES,
    RIGHT,
    RIGHT_HEADS,
    gold_trees,
)
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


Floats = NDArray[np.float64]
#: The directed trees that need no attention.
_SIMPLE_TREES = (LEFT, RIGHT, CHAIN)


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
