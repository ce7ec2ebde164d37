"""How much of a sentence's tree the attention of a head holds: its maximum spanning trees against gold."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.tokens import TokenAnnotation, TokenSpan
from attnprobe.corpus.document import SEVERAL
from attnprobe.statistics.links import FAMILY
from attnprobe.statistics.questions import make_array
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
    from attnprobe.kernels.words import Sentences


PUNCTUATION = "punct"
#: What is counted of a sentence. Of its undirected tree: the gold edges, those in the tree of a head, those
#: between neighbours. Of its directed tree: the words with a gold head other than the root, those whose head
#: is right in the tree of a head, the left-branching and the right-branching tree, the chain that leads to
#: the root. And whether it was left out, as it is a part of a sentence, or has no gold edge.
COUNTS = ("gold", "held", "neighbours", "words", "right heads", "left", "right", "chain", "cut", "bare")
_Pairs = set[tuple[int, int]]


# Gold trees


def gold_trees(layout: Layout) -> tuple[Sentences, NDArray[np.float64]]:
    """Find the words of each sentence, without punctuation, and the gold tree over them.

    Gives the sentences with a gold edge, and ``COUNTS`` (sequence, number), 0 for trees of heads; NaN without
    annotation, and in sequences that are left out.
    """
    from attnprobe.kernels.words import Sentences

    counts = np.full((layout.queries.batch, len(COUNTS)), np.nan)
    sequence, words, roots = list[int](), list[tuple[int, int]](), list[int]()
    spans, edges, arcs = (list[tuple[int, int]]() for _ in range(3))
    for place, annotation in enumerate(() if layout.crossed else layout.annotations):
        if annotation is None:
            continue
        sentence, gold = build_tree(annotation)
        if annotation.cut or not gold:
            counts[place, [COUNTS.index("cut"), COUNTS.index("bare")]] = annotation.cut, not annotation.cut
            continue
        joined = {(min(arc), max(arc)) for arc in gold}
        root = find_root(gold)
        counts[place] = 0
        for name, number in _count_simple_trees(joined, gold, root, len(sentence)).items():
            counts[place, COUNTS.index(name)] = number
        first = len(spans)
        sequence.append(place)
        words.append((first, first + len(sentence)))
        roots.append(root + first)
        edges += sorted((a + first, b + first) for a, b in joined)
        arcs += sorted((a + first, b + first) for a, b in gold)
        spans += [(span.start, span.stop) for span in sentence]
    sentences = Sentences(
        np.array(sequence, np.int64),
        make_array(words, 2),
        make_array(spans, 2),
        make_array(edges, 2),
        np.array(roots, np.int64),
        make_array(arcs, 2),
    )
    return sentences, counts


def build_tree(annotation: TokenAnnotation) -> tuple[list[TokenSpan], _Pairs]:
    """Give the words of a sentence without punctuation, in order, and the gold arcs from word to head.

    Words that share all their tokens are one. A word is punctuation, and is left out, if a link from it says
    so and no other link from the same tokens says anything else.
    """
    named = [
        (link, any(part.partition(":")[0] == PUNCTUATION for part in link.label.split(SEVERAL)))
        for link in annotation.links
        if link.source != link.target
    ]
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

    def count_descendants(root: int) -> int:
        descendants, seen = {root}, 0
        while len(descendants) > seen:
            seen = len(descendants)
            descendants |= {word for word, head in arcs if head in descendants}
        return seen

    return max(sorted(without or heads), key=count_descendants)


def _count_simple_trees(edges: _Pairs, arcs: _Pairs, root: int, words: int) -> dict[str, float]:
    """Count the gold edges and arcs of a sentence, and those in trees that need no attention."""
    return {
        "gold": len(edges),
        "neighbours": sum(b - a == 1 for a, b in edges),
        "words": len({word for word, _ in arcs}),
        "left": sum(head == (word + 1 if word + 1 < words else root) for word, head in arcs),
        "right": sum(head == (word - 1 if word else root) for word, head in arcs),
        "chain": sum(head == (word + 1 if word < root else word - 1) for word, head in arcs),
    }


# The trees of heads


def compare_with_gold(block: AttentionBlock) -> Tensor:
    """Shares of gold edges and of words' heads in an attention head's trees: attachment scores, UUAS and UAS.

    With A the attention between the words of a sentence without punctuation, summed over the tokens of the
    attended word and averaged over those of the query word:

    - ``uuas``, undirected and unlabelled: the share of gold edges in the maximum spanning tree of A + A^T;
      ties go to the edge with the earlier first word, then with the earlier second word. ``baseline`` is the
      chain that joins each word to the next.
    - ``uas``: the share of words, without the root, whose head is right in the heaviest tree in which all
      words descend from the gold root (Chu-Liu/Edmonds). The arc from a head u to its dependent v has the
      weight A_vu, the attention from the dependent to its head; of heads of equal weight, the earlier wins.
      The root is the word without a gold head; of several, the one with most descendants. ``uas_baseline`` is
      the best of three trees over all sentences, which also know the gold root: left-branching (the head is
      the next word, of the last word the root), right-branching (the head is the word before, of the first
      word the root), and the chain (the head is the neighbour towards the root).

    Words that share all their tokens are one. Shares are over all sentences together, and ``n`` counts these;
    cut sentences and those without a gold edge do not count. ``p`` and ``uas_p`` are one-sided, by Student's
    t over blocks of documents (Holm): is the head above its baseline?

    Limits: 0 to 1.

    Source: Ravishankar et al. (2021), Attention can reflect syntactic structure (if you let it), for the
    undirected tree; Hewitt and Manning (2019), A structural probe for finding syntax in word representations,
    for UUAS; Raganato and Tiedemann (2018), An analysis of encoder representations in Transformer-based
    machine translation, and Htut et al. (2019), Do attention heads in BERT track syntactic dependencies?, for
    trees from the gold root.

    Returns (batch, head, number) ``COUNTS``; NaN without annotation, and in cross-attention.
    """
    import torch

    from attnprobe.kernels.words import compare_trees

    p, (sentences, gold) = block.probabilities, block.layout.once(gold_trees)
    counts = gold[:, None].repeat(p.shape[1], 1)
    of_heads = compare_trees(p, sentences).swapaxes(1, 2)
    places = [COUNTS.index("held"), COUNTS.index("right heads")]
    counts[sentences.sequence[:, None], :, places] = of_heads
    # Halves of float32 count no further than 256 words.
    return torch.from_numpy(counts).to(p.device, torch.promote_types(p.dtype, torch.float32))


def divide_counts(counts: Blocked, name: str, less: str | None = None, of: str = "gold") -> Estimate:
    """Divide a number, or what it is ahead of another, by the edges or words that are asked for."""
    weights = [float(number == name) - float(number == less) for number in COUNTS]
    return counts.ratio(weights, COUNTS.index(of))


def add_tree_columns(statistic: Statistic, counts: Blocked, build: TableBuilder) -> None:
    totals = dict(zip(COUNTS, counts.total.reshape(-1, len(COUNTS)).sum(0), strict=True))
    best = max(("left", "right", "chain"), key=lambda name: totals[name])
    edges, words = statistic.unit, "share of words"
    score, gain = divide_counts(counts, "held"), divide_counts(counts, "held", "neighbours")
    build.measure("uuas", edges, score.value, score.error, headline=True, title=statistic.title)
    baseline = divide_counts(counts, "neighbours").value
    build.add(Column("baseline", edges, title="edges that the chain finds"), baseline.ravel())
    build.measure("gain", edges, gain.value, gain.error, title="gain over the chain")
    build.test(gain.p(one_sided=True))
    title = "words with their gold head"
    score, gain = (divide_counts(counts, "right heads", less, "words") for less in (None, best))
    build.measure("uas", words, score.value, score.error, headline=True, title=title)
    build.measure("uas_gain", words, gain.value, gain.error, title="gain over the best simple tree")
    build.test(gain.p(one_sided=True), name="uas_p")
    baseline = divide_counts(counts, best, of="words").value
    build.add(Column("uas_baseline", words, title=f"{title}, best simple tree"), baseline.ravel())


TREES = Statistic(
    "uuas", "share of edges", compare_with_gold, scope="map", sums=Blocked, columns=add_tree_columns,
    family=FAMILY, title="gold edges in the tree of a head", version=2, order=3,
)  # fmt: skip


def by_head_table(title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels) -> HeadTable:
    """Tabulate the trees of all heads, one row a head; ``n`` is the number of sentences."""
    counts: Blocked = measurement.sums[TREES.name]
    layers, heads, _ = counts.count.shape
    build = TableBuilder(labels, layers * heads)
    build.heads(heads)
    build.count("n", counts.count[..., COUNTS.index("gold")], "sentences")
    add_tree_columns(TREES, counts, build)
    notes = []
    for name, reason in (
        ("cut", "Parts of sentences longer than a window, which are no trees"),
        ("bare", "Sentences without a gold edge between two words other than punctuation"),
    ):
        # All heads are asked the same, but those that are removed are asked nothing.
        if number := int(counts.total[..., COUNTS.index(name)].max()):
            notes.append(f"{reason}, left out: {number:,}.")
    return build.table(title, notes)


BY_HEAD = Tabulation("tree", by_head_table, "syntax: how much of the tree of a sentence each head holds")
