"""How much of a sentence's tree the attention of a head holds: its maximum spanning trees against gold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprobe.attention.kinds import Kind
from attnprobe.statistics.gold_trees import (
    ARC_COUNTS,
    BARE,
    CHAIN,
    CUT,
    EDGE_COUNTS,
    FROM_HEAD,
    GOLD,
    HELD,
    LEFT,
    NEIGHBOURS,
    RANDOM,
    RANDOM_EDGES,
    RIGHT,
    TO_HEAD,
    gold_trees,
)
from attnprobe.statistics.links import FAMILY
from attnprobe.statistics.rules import TESTED
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement
from attnprobe.sums.groups import Ratio
from attnprobe.sums.resampling import SIGNIFICANT, adjust, find_gain
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

if TYPE_CHECKING:
    from torch import Tensor

    from attnprobe.attention.block import AttentionBlock
    from attnprobe.attention.layout import Layout


Floats = NDArray[np.float64]
#: The directed trees that need no attention: what their column ends in, and what notes call them.
_SIMPLE_TREES = {
    LEFT: ("left", "left-branching tree"),
    RIGHT: ("right", "right-branching tree"),
    CHAIN: ("chain", "chain that leads to the root"),
}
#: Both directed trees of a head: the column, who attends to whom, and its title.
_DIRECTED = {
    TO_HEAD: ("uas", "dependent to head", "words with their gold head (dependent to head)"),
    FROM_HEAD: ("uas_from_head", "head to dependent", "words with their gold head (head to dependent)"),
}
#: So many trees are named in a note.
_NAMED = 6


def compare_with_gold(block: AttentionBlock, *, mean: bool = False) -> Tensor:
    """Draw the trees of each head, or of the mean over a layer's heads, and count what they have of the gold.

    Returns:
        (batch, head or 1, 13) what is counted of undirected trees, and what of directed ones; NaN where
        nobody said anything of a sequence, and in cross-attention, which leads from one text to another.
    """
    import torch

    from attnprobe.kernels.trees import compare_trees

    p, gold = block.probabilities, block.layout.once(gold_trees)
    p = p.mean(1, keepdim=True) if mean else p
    counts = np.concatenate([gold.edges, gold.arcs], 1)[:, None].repeat(p.shape[1], 1)
    found = compare_trees(p, gold.sentences).swapaxes(1, 2)
    counts[gold.sentences.sequence[:, None], :, [HELD, EDGE_COUNTS + TO_HEAD, EDGE_COUNTS + FROM_HEAD]] = (
        found
    )
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
    (Chu-Liu/Edmonds). The arc from a head u to its dependent v weighs A_vu in ``uas``, what the dependent
    gives to its head, and A_uv in ``uas_from_head``, what the head gives to its dependent. A word takes the
    earlier of two heads of equal weight. Words are counted that have a gold head, so the root is none of
    them. A sentence's gold root is the word without a gold head; of several, as where one depends on a mark
    that was left out, the one from which most words descend.

    Baselines know the gold root too. In the left-branching tree, ``uas_left``, the head of a word is the next
    word, and that of the last is the root; in the right-branching tree, ``uas_right``, it is the word before,
    and that of the first is the root; in the chain that leads to the root, ``uas_chain``, it is the neighbour
    on the root's side. ``uas_random`` is the mean over all directed trees with this root: a word among n
    depends on the root in 2 / n of them, and on any other word in 1 / n. ``uas_baseline`` is the best of the
    first three over all sentences, which favours the baseline.

    Limits: 0 to 1.

    Source: Raganato and Tiedemann (2018), An analysis of encoder representations in Transformer-based machine
    translation; Htut et al. (2019), Do attention heads in BERT track syntactic dependencies?, for trees from
    the gold root. Cayley (1889), A theorem on trees, for the number of trees.
    """
    return counts[..., EDGE_COUNTS:]


def edges_in_layer_trees(counts: Tensor, layout: Layout) -> Tensor:
    """Share of gold edges that are edges of the tree of a layer's mean attention: ``uuas`` by layer.

    Limits: 0 to 1.

    Source: after Ravishankar et al. (2021), Attention can reflect syntactic structure (if you let it).
    """
    return edges_in_trees(counts, layout)


def arcs_in_layer_trees(counts: Tensor, layout: Layout) -> Tensor:
    """Share of words whose head is right in a directed tree of a layer's mean attention: ``uas`` by layer.

    Limits: 0 to 1.

    Source: after Htut et al. (2019), Do attention heads in BERT track syntactic dependencies?
    """
    return arcs_in_trees(counts, layout)


def edge_columns(statistic: Statistic, found: Ratio, build: TableBuilder) -> None:
    """Append the score of each tree, that of the chain, and whether the tree's is significantly higher.

    The p value is one-sided, of Student's t: gain over its error, which pairs tree and chain in each
    sentence; where sentences are parts of documents, of the sign-flip test over documents. It is adjusted for
    the number of rows (Holm).
    """
    unit = statistic.unit
    build.measure("uuas", unit, *find_share(found, HELD), headline=statistic.headline, title=statistic.title)
    baseline, _ = find_share(found, NEIGHBOURS)
    build.add(Column("baseline", unit, title="edges that the chain finds"), baseline.ravel())
    gain, error, p = find_gain(found, _weigh(found, HELD, NEIGHBOURS))
    build.measure("gain", unit, gain, error, title="gain over the chain")
    build.add(Column("p", title="p"), p.ravel())
    build.add(Column("p_adjusted", title="adjusted p"), adjust(p.ravel()))


def arc_columns(statistic: Statistic, found: Ratio, build: TableBuilder) -> None:
    """Append the scores of both directed trees of each row, and whether they are above the best baseline.

    The p values are as for undirected trees, and adjusted for the number of rows and both directions (Holm).
    """
    unit, simple = statistic.unit, find_best(found)
    for tree, gain in compare_directions(found, simple).items():
        name, way, title = _DIRECTED[tree]
        build.measure(name, unit, *find_share(found, tree), headline=statistic.headline, title=title)
        build.measure(
            f"{name}_gain", unit, gain.value, gain.error, title=f"gain over the best simple tree ({way})"
        )
        build.add(Column(f"{name}_p", title=f"p ({way})"), gain.p.ravel())
        build.add(Column(f"{name}_p_adjusted", title=f"adjusted p ({way})"), gain.adjusted.ravel())
    for name, tree, called in (
        ("baseline", simple, "best simple tree"),
        *((end, tree, called) for tree, (end, called) in _SIMPLE_TREES.items()),
        ("random", RANDOM, "random trees"),
    ):
        score, _ = find_share(found, tree)
        build.add(Column(f"uas_{name}", unit, title=f"words with their gold head, {called}"), score.ravel())


def find_share(found: Ratio, number: int) -> tuple[Floats, Floats]:
    """Give a number's share of what is asked, and its error."""
    return found.of_totals(_weigh(found, number))


def _weigh(found: Ratio, number: int, less: int | None = None) -> list[int]:
    return [(place == number) - (place == less) for place in range(found.total.shape[-1])]


def find_best(found: Ratio) -> int:
    """Find the simple tree that has most heads right, over all rows; the first of a tie."""
    counts = found.totals.reshape(-1, ARC_COUNTS).sum(0)
    return max(_SIMPLE_TREES, key=lambda tree: counts[tree])


class Gain(NamedTuple):
    """By how much the trees of one direction are above a simple one, (layer, row)."""

    value: Floats
    error: Floats
    p: Floats
    adjusted: Floats


def compare_directions(found: Ratio, simple: int) -> dict[int, Gain]:
    """Compare the directed trees of both directions with a simple one; p is adjusted over both (Holm)."""
    gains = [find_gain(found, _weigh(found, tree, simple)) for tree in _DIRECTED]
    p = np.array([one[2] for one in gains])
    together = np.array(adjust(p.ravel())).reshape(p.shape)
    return {tree: Gain(*one, mine) for tree, one, mine in zip(_DIRECTED, gains, together, strict=True)}


_compare_layer = partial(compare_with_gold, mean=True)
TREES = Statistic(
    "uuas", "share of edges", compare_with_gold, edges_in_trees, scope="map", sums=Ratio,
    columns=edge_columns, family=FAMILY, title="gold edges in the tree of a head", headline=True, order=3,
)  # fmt: skip
DIRECTED = Statistic(
    "uas", "share of words", compare_with_gold, arcs_in_trees, scope="map", sums=Ratio, columns=arc_columns,
    family=FAMILY, title="words with their gold head in the tree of a head", headline=True, order=6,
)  # fmt: skip
LAYER_TREES = replace(
    TREES, name="uuas_layer", function=_compare_layer, reduce=edges_in_layer_trees, rows="layer", order=7,
    title="gold edges in the tree of a layer",
)  # fmt: skip
LAYER_DIRECTED = replace(
    DIRECTED, name="uas_layer", function=_compare_layer, reduce=arcs_in_layer_trees, rows="layer", order=8,
    title="words with their gold head in the tree of a layer",
)  # fmt: skip


def by_head_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate the trees of all heads, one row a head; ``n`` is the number of sentences."""
    layers, heads = measurement.sums[TREES.name].count.shape
    build = TableBuilder(labels, layers * heads)
    build.heads(heads)
    names = [[place.head(head) for head in range(heads)] for place in labels.places]
    return _tabulate(title, measurement, statistics, labels, build, names, "heads")


def by_layer_table(
    title: str, measurement: Measurement, statistics: Sequence[Statistic], labels: Labels
) -> HeadTable:
    """Tabulate the trees of the mean attention of each layer's heads; ``n`` is the number of sentences."""
    build = TableBuilder(labels, len(labels.places))
    build.layers(range(len(labels.places)))
    return _tabulate(
        title, measurement, statistics, labels, build, [[str(place)] for place in labels.places], "layers"
    )


def _tabulate(
    title: str,
    measurement: Measurement,
    statistics: Sequence[Statistic],
    labels: Labels,
    build: TableBuilder,
    names: Sequence[Sequence[str]],
    kind: Literal["heads", "layers"],
) -> HeadTable:
    """Append what was counted; tables of a version that drew no directed trees have none of these."""
    edges: Ratio = measurement.sums[statistics[0].name]
    build.count("n", edges.count, "sentences")
    edge_columns(statistics[0], edges, build)
    notes = [*_describe_edges(edges, names, kind)]
    for statistic in statistics[1:]:
        arcs: Ratio = measurement.sums[statistic.name]
        with np.errstate(invalid="ignore"):
            random = arcs.totals[..., RANDOM_EDGES] / edges.totals[..., GOLD]
        build.add(Column("uuas_random", statistics[0].unit, title="edges of random trees"), random.ravel())
        arc_columns(statistic, arcs, build)
        notes += _describe_arcs(arcs, names)
    return build.table(title, [*notes, *_left_out(edges, labels)], kind)


def _describe_edges(found: Ratio, names: Sequence[Sequence[str]], noun: str) -> Iterator[str]:
    (score, _), (baseline, _) = (find_share(found, number) for number in (HELD, NEIGHBOURS))
    gain, _, p = find_gain(found, _weigh(found, HELD, NEIGHBOURS))
    adjusted = np.array(adjust(p.ravel())).reshape(p.shape)
    asked, number = int(np.isfinite(score).sum()), int((adjusted < SIGNIFICANT).sum())
    than = f"significantly more gold edges than the chain of neighbours {TESTED}"
    if not number:
        if asked:
            yield f"No tree of {asked} {noun} holds {than}."
        return
    sure = sorted(np.argwhere(adjusted < SIGNIFICANT).tolist(), key=lambda at: -gain[*at])
    listed = [f"{names[at[0]][at[1]]} ({score[*at]:.2f} against {baseline[*at]:.2f})" for at in sure]
    trees = "has a tree that holds" if number == 1 else "have trees that hold"
    yield f"{number} of {asked} {noun} {trees} {than}: {_list_some(listed)}."


def _describe_arcs(found: Ratio, names: Sequence[Sequence[str]]) -> Iterator[str]:
    simple = find_best(found)
    adjusted = {tree: gain.adjusted for tree, gain in compare_directions(found, simple).items()}
    baseline, _ = find_share(found, simple)
    score = {tree: find_share(found, tree)[0] for tree in adjusted}
    asked = sum(int(np.isfinite(one).sum()) for one in score.values())
    sure = [(tree, *at) for tree, p in adjusted.items() for at in np.argwhere(p < SIGNIFICANT).tolist()]
    than = f"significantly more words their gold head than the {_SIMPLE_TREES[simple][1]} {TESTED}"
    if not sure:
        if asked:
            yield f"None of {asked} directed trees gives {than}."
        return
    sure.sort(key=lambda one: -(score[one[0]][one[1:]] - baseline[one[1:]]))
    listed = [
        f"{names[layer][row]} {_DIRECTED[tree][1]} "
        f"({score[tree][layer, row]:.2f} against {baseline[layer, row]:.2f})"
        for tree, layer, row in sure
    ]
    gives = "gives" if len(sure) == 1 else "give"
    yield f"{len(sure)} of {asked} directed trees {gives} {than}: {_list_some(listed)}."


def _list_some(listed: Sequence[str]) -> str:
    more = f", and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return f"{', '.join(listed[:_NAMED])}{more}"


def _left_out(found: Ratio, labels: Labels) -> Iterator[str]:
    kinds = [place.kind for place in labels.places]
    # All heads of a kind are asked the same, but those that are removed are asked nothing.
    cut, bare = (
        sum(int(found.totals[[other is kind for other in kinds], :, one].max()) for kind in set(kinds))
        for one in (CUT, BARE)
    )
    if cut:
        parts = "1 part of a sentence was" if cut == 1 else f"{cut:,} parts of sentences were"
        yield f"{parts} left out: a sentence that is longer than a window is cut, and a part is no tree."
    if bare:
        noun, verb = ("sentence was", "it has") if bare == 1 else ("sentences were", "they have")
        yield f"{bare:,} {noun} left out: {verb} no gold edge between two words other than punctuation."
    if Kind.CROSS in kinds:
        yield "Heads of cross-attention have no trees, since they attend from one text to another."


BY_HEAD = Tabulation("tree", by_head_table, "syntax: how much of the tree of a sentence each head holds")
BY_LAYER = Tabulation(
    "tree of a layer", by_layer_table, "syntax: how much of the tree of a sentence each layer holds"
)
