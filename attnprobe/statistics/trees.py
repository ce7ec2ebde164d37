"""How much of a sentence's tree the attention of a head holds: its maximum spanning tree against the gold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.annotation import TokenAnnotation, TokenLink, TokenSpan
from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.kinds import Kind
from attnprobe.attention.layout import Layout
from attnprobe.corpus.sources.document import SEVERAL
from attnprobe.kernels.words import Sentences, count_gold_edges_in_trees
from attnprobe.statistics.links import FAMILY
from attnprobe.statistics.rules import TESTED
from attnprobe.statistics.statistic import Statistic
from attnprobe.statistics.tabulation import Tabulation
from attnprobe.sums.base import Measurement
from attnprobe.sums.groups import Ratio
from attnprobe.sums.resampling import SIGNIFICANT, adjust, sign_flip
from attnprobe.table.builder import Labels, TableBuilder
from attnprobe.table.head_table import HeadTable
from attnprobe.table.table import Column

PUNCTUATION = "punct"
UNIT = "share of edges"
#: What is counted of a sentence: its gold edges, those in the tree of a head, those between neighbours;
#: and whether it was left out, as a part of a sentence or since it has no gold edge.
GOLD, HELD, NEIGHBOURS, CUT, BARE = range(5)
#: As weights of these numbers: what the table shows.
_UUAS, _BASELINE, _GAIN = (0, 1, 0, 0, 0), (0, 0, 1, 0, 0), (0, 1, -1, 0, 0)
#: What heads are compared with, and how many are named in a note.
_CHAIN, _NAMED = "chain of neighbours", 6

_Edges = set[tuple[int, int]]


@dataclass(frozen=True)
class GoldTrees:
    """The gold trees of a batch.

    Attributes:
        sentences: Those of which something is asked.
        counts: (sequence, 5) what is counted, the edges in a head's tree still missing; NaN where nobody
            said anything of the sequence.
    """

    sentences: Sentences
    counts: NDArray[np.float64]


def gold_trees(layout: Layout) -> GoldTrees:
    """Find the words that are left in and the gold edges between them, sentence by sentence."""
    counts = np.full((layout.queries.batch, 5), np.nan)
    sequence, words, spans, edges = [], [], list[TokenSpan](), list[tuple[int, int]]()
    for place, said in enumerate(() if layout.crossed else layout.annotations):
        if said is None:
            continue
        counts[place] = 0
        ours, gold = build_tree(said)
        if said.cut or not gold:
            counts[place, CUT if said.cut else BARE] = 1
            continue
        counts[place, [GOLD, NEIGHBOURS]] = len(gold), sum(b - a == 1 for a, b in gold)
        sequence.append(place)
        words.append((len(spans), len(spans) + len(ours)))
        edges += sorted((a + len(spans), b + len(spans)) for a, b in gold)
        spans += ours
    pairs = [(span.start, span.stop) for span in spans]
    found = (np.array(one, np.int64).reshape(-1, 2) for one in (words, pairs, edges))
    return GoldTrees(Sentences(np.array(sequence, np.int64), *found), counts)


def build_tree(said: TokenAnnotation) -> tuple[list[TokenSpan], _Edges]:
    """Give the words of a sentence that are left in, in their order, and the gold edges between them.

    Words that share all their tokens are one. A word is punctuation, and is left out, if a link from it says
    so and no other link from the same tokens says anything else.
    """
    named = [(link, _is_punctuation(link)) for link in said.links if link.source != link.target]
    left_out = {link.source for link, punctuation in named if punctuation}
    left_out -= {link.source for link, punctuation in named if not punctuation}
    words = sorted(set(said.words) - left_out, key=lambda word: (word.start, word.stop))
    place = {word: number for number, word in enumerate(words)}
    ends = (
        sorted((place[link.source], place[link.target]))
        for link, punctuation in named
        if not punctuation and link.source in place and link.target in place
    )
    return words, {(first, second) for first, second in ends}


def _is_punctuation(link: TokenLink) -> bool:
    return any(part.partition(":")[0] == PUNCTUATION for part in link.label.split(SEVERAL))


def edges_in_trees(block: AttentionBlock) -> Tensor:
    """Share of gold edges that are edges of a head's tree (UUAS, the undirected unlabelled attachment score).

    With A the attention between words, the mean over the tokens that attend of the sum over the tokens that
    are attended to, the tree of a head is the maximum spanning tree of A + A^T over the words of a sentence;
    of a tie, the edge comes first whose earlier word does, then the one whose later word does. Punctuation
    is left out, with its edges. Words that share all their tokens are one. The share is over all sentences
    together, and ``n`` counts the sentences. A part of a sentence that was cut asks nothing, and neither
    does a sentence without a gold edge. The baseline is the chain that joins each word to the next.

    Limits: 0 to 1.

    Source: Ravishankar et al. (2021), Attention can reflect syntactic structure (if you let it), for the
    tree; Hewitt and Manning (2019), A structural probe for finding syntax in word representations, for UUAS.

    Returns:
        (batch, head, 5) what is counted of each sequence; NaN where nobody said anything of it, and in
        cross-attention, which leads from one text to another.
    """
    p, gold = block.probabilities, block.layout.once(gold_trees)
    counts = torch.from_numpy(gold.counts).to(p)[:, None].repeat(1, p.shape[1], 1)
    held = torch.from_numpy(count_gold_edges_in_trees(p, gold.sentences)).to(p)
    counts[torch.from_numpy(gold.sentences.sequence).to(p.device), :, HELD] = held
    return counts


def tree_columns(statistic: Statistic, found: Ratio, build: TableBuilder) -> None:
    """Append the score of each head, that of the chain, and whether the head's is significantly higher.

    The p value is one-sided, of Student's t: gain over its error, which pairs head and chain in each
    sentence; where sentences are parts of documents, of the sign-flip test over documents. It is adjusted for
    the number of heads (Holm).
    """
    score, error = found.of_totals(_UUAS)
    gain, gain_error = found.of_totals(_GAIN)
    headline, title, chain = statistic.headline, statistic.title, found.of_totals(_BASELINE)[0]
    build.measure(statistic.name, UNIT, score, error, headline=headline, title=title)
    build.add(Column("baseline", UNIT, title="edges that the chain finds"), chain.ravel())
    build.measure("gain", UNIT, gain, gain_error, title="gain over the chain")
    p = _chance(found, gain, gain_error).ravel()
    build.add(Column("p", title="p"), p)
    build.add(Column("p_adjusted", title="adjusted p"), adjust(p))


def _chance(found: Ratio, gain: NDArray[np.float64], error: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give P(T >= gain / error); a head that holds the same edges as the chain gains nothing for sure.

    Where sentences are parts of documents, documents are compared, see ``sign_flip``.
    """
    if len(found.groups):
        apart, ahead, squares = (part.round().astype(np.int64) for part in found.part(_GAIN))
        p = [
            sign_flip(apart[:, *cell], int(ahead[cell]), int(squares[cell]))
            if np.isfinite(error[cell])
            else np.nan
            for cell in np.ndindex(error.shape)
        ]
        return np.array(p).reshape(error.shape)
    from scipy.stats import t  # takes a second to import

    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(error == 0, np.where(gain > 0, 0.0, 1.0), t.sf(gain / error, found.clusters - 1))
    return np.where(np.isfinite(error), p, np.nan)


TREES = Statistic(
    "uuas", UNIT, edges_in_trees, scope="map", sums=Ratio, columns=tree_columns, family=FAMILY,
    title="gold edges in the tree of a head", headline=True, order=3,
)  # fmt: skip


def tree_table(title: str, measurement: Measurement, _: Sequence[Statistic], labels: Labels) -> HeadTable:
    """Tabulate the trees of all heads, one row a head; ``n`` is the number of sentences."""
    found: Ratio = measurement.sums[TREES.name]
    heads = found.count.shape[1]
    build = TableBuilder(labels, found.count.size)
    build.heads(heads)
    build.count("n", found.count.ravel(), "sentences")
    TREES.columns(TREES, found, build)
    adjusted = np.array(build.data["p_adjusted"]).reshape(found.count.shape)
    return build.table(title, [*_sure(found, adjusted, labels), *_left_out(found, labels)], "heads")


def _sure(found: Ratio, adjusted: NDArray[np.float64], labels: Labels) -> Iterator[str]:
    (score, _), (baseline, _), (gain, _) = (found.of_totals(one) for one in (_UUAS, _BASELINE, _GAIN))
    asked = int(np.isfinite(score).sum())
    sure = sorted(np.argwhere(adjusted < SIGNIFICANT).tolist(), key=lambda at: -gain[*at])
    if not asked:
        return
    if not sure:
        yield f"No tree of {asked} heads holds significantly more gold edges than the {_CHAIN} {TESTED}."
        return
    listed = []
    for layer, head in sure[:_NAMED]:
        name = labels.places[layer].head(head)
        listed.append(f"{name} ({score[layer, head]:.2f} against {baseline[layer, head]:.2f})")
    more = f", and {len(sure) - _NAMED} more" if len(sure) > _NAMED else ""
    trees = "has a tree that holds" if len(sure) == 1 else "have trees that hold"
    yield (
        f"{len(sure)} of {asked} heads {trees} significantly more gold edges than the {_CHAIN} {TESTED}: "
        f"{', '.join(listed)}{more}."
    )


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


TREE = Tabulation("tree", tree_table, "syntax: how much of the tree of a sentence each head holds")
