"""Trees of heads against scipy and networkx on eager maps, by hand, and in a table."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from gold import survey
from links_by_definition import load_eagerly
from scipy.stats import ttest_1samp, ttest_rel
from trees_by_definition import Counts, decoder_maps, tree_sentences, trees

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.kinds import number_layers
from attnprobe.attention.layout import Layout
from attnprobe.attention.tokens import TokenAnnotation, TokenFeatures, TokenLink, TokenSpan
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.statistics.trees import BY_HEAD, COUNTS, TREES
from attnprobe.sums import documents as documents_module
from attnprobe.sums.base import Measurement
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.inference import adjust
from attnprobe.survey.survey import TableRun
from attnprobe.table.builder import Labels
from attnprobe.table.table import HeadTable

#: The place of each number.
AT = {name: place for place, name in enumerate(COUNTS)}
COLUMNS = [
    *("model", "dataset", "layer", "head", "n", "uuas", "uuas_se", "baseline"),
    *("gain", "gain_se", "p", "p_adjusted"),
    *("uas", "uas_se", "uas_gain", "uas_gain_se", "uas_p", "uas_p_adjusted"),
    "uas_baseline",
]


def surveyed(checkpoint: Checkpoint, sentences: list) -> TableRun:
    return survey(checkpoint, sentences, [TREES], BY_HEAD)


def check(run: TableRun, by_hand: Counts) -> None:
    """Compare counts bit by bit, and the table with the formulas."""
    table = run.table
    (counts,) = run.measurement.sums.values()
    assert list(table.data) == COLUMNS
    assert len(by_hand.gold) > 5
    _, layers, heads = by_hand.hits.shape
    simple = {"left": by_hand.left, "right": by_hand.right, "chain": by_hand.to_root}
    best = max(simple.values(), key=np.sum)
    for row, (layer, head) in enumerate(np.ndindex(layers, heads)):
        ours, to_head = by_hand.hits[:, layer, head], by_hand.to_head[:, layer, head]
        expected = {
            "gold": by_hand.gold, "held": ours, "neighbours": by_hand.chain, "words": by_hand.words,
            "right heads": to_head, **simple,
        }  # fmt: skip
        for name, number in expected.items():
            assert counts.total[layer, head, AT[name]] == number.sum(), name
        assert table["n"][row] == len(by_hand.gold)
        for name, over, number in (
            ("uuas", ours, by_hand.gold),
            ("gain", ours - by_hand.chain, by_hand.gold),
            ("uas", to_head, by_hand.words),
            ("uas_gain", to_head - best, by_hand.words),
        ):
            assert table[name][row] == pytest.approx(over.sum() / number.sum())
        held, gold = (counts.totals[:, layer, head, AT[name]] for name in ("held", "gold"))
        without = np.array(
            [np.delete(held, one).sum() / np.delete(gold, one).sum() for one in np.flatnonzero(gold)]
        )
        pulls = np.square(without - table["uuas"][row]).sum()
        error = (pulls * (len(without) - 1) / len(without)) ** 0.5
        assert table["uuas_se"][row] == pytest.approx(error)
        for name, over, number in (
            ("baseline", by_hand.chain, by_hand.gold),
            ("uas_baseline", best, by_hand.words),
        ):
            assert table[name][row] == pytest.approx(over.sum() / number.sum()), name


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_tiny_models(
    name: str, saved: Callable[[str], Path], checkpoint: Callable[[str], Checkpoint], texts: list
):
    sentences = tree_sentences(texts * 2)
    expected = trees(*load_eagerly(saved(name)), sentences)
    check(surveyed(checkpoint(name), sentences), expected)


def test_an_encoder_and_its_decoder(
    saved: Callable[[str], Path], checkpoint: Callable[[str], Checkpoint], texts: list
):
    """Which reads the same, one place later; between the two there are no trees."""
    sentences = tree_sentences(texts)
    table = surveyed(checkpoint("t5"), sentences).table
    kinds, (n, *_) = table["attention"], table["n"]
    assert (table["n"] == np.where(kinds == "cross", 0, n)).all()
    expected = trees(*load_eagerly(saved("t5")), sentences, maps_of=decoder_maps)
    assert len(expected.gold) == n > 5
    for name, right, number in (
        ("uuas", expected.hits, expected.gold),
        ("uas", expected.to_head, expected.words),
    ):
        np.testing.assert_allclose(table[name][kinds == "decoder"], right.sum(0).ravel() / number.sum())
    for name in COLUMNS[5:]:
        assert (np.isnan(table[name]) == (kinds == "cross")).all(), name


# By hand


def annotated(links: list[tuple[int, int, str]], words: int) -> TokenAnnotation:
    """Say of a sentence of one-token words, behind a special token, who depends on whom."""
    spans = [TokenSpan(place + 1, place + 2) for place in range(words)]
    return TokenAnnotation(tuple(spans), tuple(TokenLink(spans[a], spans[b], label) for a, b, label in links))


#: "She saw , surely , the old dog ." with saw as its root.
LINKS = [
    (0, 1, "nsubj"), (2, 3, "punct"), (3, 1, "advmod"), (4, 3, "punct"), (5, 7, "det"), (6, 7, "amod"),
    (7, 1, "obj"), (8, 1, "punct"),
]  # fmt: skip
SENTENCE = annotated(LINKS, 9)
LEFT_IN = (0, 1, 3, 5, 6, 7)  # of which the gold edges are 0-1, 1-3, 1-7, 5-7, 6-7
GOLD_EDGES = [(0, 1), (1, 3), (1, 7), (5, 7), (6, 7)]


def map_of(edges: list[tuple[int, int]], words: int = 9) -> torch.Tensor:
    """Make a map of a special token and words whose heaviest edges these are."""
    p = torch.full((words + 1, words + 1), 0.01)
    for a, b in edges:
        p[a + 1, b + 1] = 0.5
    return p / p.sum(-1, keepdim=True)


def find_block(maps: list[torch.Tensor], annotation: TokenAnnotation | None, **layout) -> AttentionBlock:
    no = torch.zeros(1, maps[0].shape[1], dtype=torch.bool)
    ranks = torch.zeros_like(no, dtype=torch.long)
    tokens = TokenFeatures(no, no, no, ~no, no.float(), ~no, ranks, ranks)
    layout = replace(Layout.of(tokens), annotations=(annotation,), **layout)
    return AttentionBlock(torch.stack(maps)[None], layout)


def count(block: AttentionBlock, *names: str) -> list[list[float]]:
    """Give some numbers of each head."""
    return TREES.reduce_sequences(TREES(block), block.layout)[0][:, [AT[name] for name in names]].tolist()


def test_planted_trees():
    """The gold tree, whichever end of an edge attends; the chain; a star; nothing."""
    turned = [(b, a) if place % 2 else (a, b) for place, (a, b) in enumerate(GOLD_EDGES)]
    chain = list(pairwise(LEFT_IN))
    star = [(0, other) for other in LEFT_IN[1:]]
    maps = [map_of(edges) for edges in (GOLD_EDGES, turned, chain, star)]
    block = find_block([*maps, torch.full((10, 10), 0.1)], SENTENCE)
    neighbours = 3  # 0-1, 1-3 and 6-7
    held = [5, 5, neighbours, 1, 1]  # where all weigh the same, the first word is joined to all
    assert count(block, "gold", "held", "neighbours", "cut", "bare") == [
        [5, hits, neighbours, 0, 0] for hits in held
    ]


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (SENTENCE._replace(cut=True), "cut"),
        (annotated([], 9), "bare"),  # no tree
        (annotated([(1, 0, "punct")], 2), "bare"),  # "Yes ."
        (annotated([(0, 1, "obj"), (1, 2, "punct")], 3), "bare"),  # the only edge leads to a mark
        (annotated([], 0), "bare"),
        (None, ""),
    ],
)
def test_sentences_that_ask_nothing(annotation: TokenAnnotation | None, reason: str):
    block = find_block([map_of(GOLD_EDGES)], annotation)
    (row,) = count(block, *COUNTS)
    counted = [float(name == reason) if annotation else np.nan for name in ("cut", "bare")]
    np.testing.assert_equal(row, [np.nan] * 8 + counted)


# The table


def tabulated(counts: np.ndarray, documents: np.ndarray | None = None, **labels) -> HeadTable:
    """Tabulate (sentence, layer, head, number)."""
    if documents is None:  # each in a block of its own
        documents = np.unique(documents_module.find_block(np.arange(500)), return_index=True)[1]
    sums = {"uuas": Blocked.of(counts, documents=documents[: len(counts)])}
    kinds = number_layers(["encoder"] * counts.shape[1])
    measurement = Measurement(sums, len(counts))
    return BY_HEAD.build(BY_HEAD.title, measurement, [TREES], Labels("tiny", "gold", {}, kinds, **labels))


def counted(sentences: int = 50, heads: int = 3, gold: int = 8) -> np.ndarray:
    """One layer: a head like the simple trees, one that holds more, one that holds fewer edges and arcs."""
    draw = np.random.default_rng(3)
    values = np.zeros((sentences, 1, heads, len(COUNTS)))
    values[..., [AT["gold"], AT["words"]]] = gold
    for name, simple in (("held", "neighbours"), ("right heads", "right")):
        values[..., AT[simple]] = draw.integers(2, 5, (sentences, 1, 1))
        for head, more in enumerate((0, 1, -1)):
            noise = draw.integers(-1, 2, (sentences, 1)) * (more != 0)
            values[..., head, AT[name]] = values[..., head, AT[simple]] + more + noise
    values[..., [AT["left"], AT["chain"]]] = 1
    return values


@pytest.mark.parametrize(
    ("names", "held", "simple", "baseline"),
    [
        (("gain", "p"), "held", "neighbours", "baseline"),
        (("uas_gain", "uas_p"), "right heads", "right", "uas_baseline"),
    ],
)
def test_heads_against_the_simple_trees(names, held, simple, baseline):
    """Where all sentences have as many gold edges, this is the paired t test."""
    values, (gain, p) = counted(), names
    table = tabulated(values)
    for head in range(1, 3):
        ours, theirs = values[:, 0, head, AT[held]], values[:, 0, head, AT[simple]]
        assert table[p][head] == pytest.approx(ttest_rel(ours, theirs, alternative="greater").pvalue)
        assert table[gain][head] == pytest.approx((ours - theirs).mean() / 8)
        assert table[f"{gain}_se"][head] == pytest.approx((ours - theirs).std(ddof=1) / 8 / 50**0.5)
    assert (table[gain][0], table[f"{gain}_se"][0], table[p][0]) == (0, 0, 1)
    np.testing.assert_allclose(table[f"{p}_adjusted"], adjust(table[p]))
    np.testing.assert_allclose(table[baseline], values[..., AT[simple]].sum() / (50 * 3 * 8))


def test_p_is_over_documents():
    values = counted()
    table = tabulated(values, np.arange(50) // 10 + 1000)
    gains = (values[:, 0, 1, AT["right heads"]] - values[:, 0, 1, AT["right"]]).reshape(5, 10).sum(1)
    assert table["uas_p"][1] == pytest.approx(ttest_1samp(gains, 0, alternative="greater").pvalue)
    assert table["uas_p"][0] == 1


def test_removed_heads_have_no_rows_and_count_nothing_away():
    values = counted()
    values[:8, ..., : AT["cut"]] = np.nan
    values[:7, ..., AT["cut"]] = values[7, ..., AT["bare"]] = 1
    values[:, 0, 0] = np.nan
    table = tabulated(values, removed={(0, 0)})
    assert table["head"].tolist() == [1, 2]
    assert table["n"].tolist() == [42, 42]
    notes = " ".join(table.notes)
    assert "no trees, left out: 7." in notes
    assert "punctuation, left out: 1." in notes
    expected = adjust(tabulated(values[8:, :, 1:])["p"])
    np.testing.assert_allclose(table["p_adjusted"], expected)
