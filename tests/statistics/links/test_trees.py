"""Trees of heads against scipy on eager maps, by hand, and in a table."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from gold import documents
from scipy.stats import ttest_rel
from transformers import AutoModel, AutoTokenizer
from trees_by_definition import decoder_maps, tree_sentences, trees

from attnprobe.attention.annotation import TokenAnnotation, TokenLink, TokenSpan
from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.features import TokenFeatures
from attnprobe.attention.kinds import number_layers
from attnprobe.attention.layout import Layout
from attnprobe.corpus.sources.text import read_embedded
from attnprobe.findings.merge import merge_tables
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.load import load_checkpoint
from attnprobe.model.reading.blocks import limit_block_memory
from attnprobe.run.options import CorpusOptions
from attnprobe.run.progress import SilentProgress
from attnprobe.statistics.trees import BARE, CUT, GOLD, HELD, NEIGHBOURS, TREE, TREES, build_tree
from attnprobe.sums.base import Measurement
from attnprobe.sums.groups import Ratio
from attnprobe.sums.resampling import adjust
from attnprobe.survey.survey import CorpusRequest, Survey, TableRequest, survey_corpora
from attnprobe.table.builder import Labels
from attnprobe.table.head_table import HeadTable

#: WordPiece, byte-level and sentencepiece vocabularies; the registry and both taps; encoders and decoders.
ARCHITECTURES = (
    *("albert", "bert", "bert-unframed", "camembert", "deberta-v2", "gpt2"),
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("llama", "modernbert")),
)
COLUMNS = [
    *("model", "dataset", "layer", "head", "n", "uuas", "uuas_se", "baseline"),
    *("gain", "gain_se", "p", "p_adjusted"),
]


def surveyed(checkpoint: Checkpoint, sentences: list, **options) -> Survey:
    corpus = CorpusRequest(documents(sentences), [TREES], CorpusOptions(**options))
    facts = {"command": "syntax", "dataset": {"name": "gold"}}
    (found,) = survey_corpora(
        checkpoint, [TableRequest([corpus], "gold", facts, TREE)], progress=SilentProgress()
    )
    return found


def eager(folder: Path | str):
    return AutoModel.from_pretrained(folder, attn_implementation="eager", dtype="float32").eval()


def check(found: Survey, gold: np.ndarray, chain: np.ndarray, hits: np.ndarray) -> None:
    """Compare counts bit by bit, and the table with the formulas."""
    table, sums = found.table, found.measurement.sums["uuas"]
    assert list(table.data) == COLUMNS
    assert len(gold) > 5
    _, layers, heads = hits.shape
    for layer, head in np.ndindex(layers, heads):
        ours = hits[:, layer, head]
        assert sums.totals[layer, head, [GOLD, HELD, NEIGHBOURS]].tolist() == [
            gold.sum(), ours.sum(), chain.sum(),
        ]  # fmt: skip
        row = layer * heads + head
        assert table["n"][row] == len(gold)
        assert table["uuas"][row] == pytest.approx(ours.sum() / gold.sum())
        assert table["baseline"][row] == pytest.approx(chain.sum() / gold.sum())
        for name, over in (("uuas", ours), ("gain", ours - chain)):
            apart = over - over.sum() / gold.sum() * gold
            error = (np.square(apart).sum() * len(gold) / (len(gold) - 1)) ** 0.5 / gold.sum()
            assert table[f"{name}_se"][row] == pytest.approx(error)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_tiny_models(
    name: str, saved: Callable[[str], Path], checkpoint: Callable[[str], Checkpoint], texts: list
):
    sentences = tree_sentences(texts * 2)
    folder = saved(name)
    expected = trees(eager(folder), AutoTokenizer.from_pretrained(folder), sentences)
    check(surveyed(checkpoint(name), sentences), *expected)


def test_the_embedded_encoder():
    checkpoint = load_checkpoint("demo")
    sentences = tree_sentences([document.text for document in read_embedded()][:20])
    expected = trees(eager(checkpoint.folder), AutoTokenizer.from_pretrained(checkpoint.folder), sentences)
    check(surveyed(checkpoint, sentences), *expected)


def test_parts_of_sentences_are_no_trees(
    saved: Callable[[str], Path], checkpoint: Callable[[str], Checkpoint], texts: list
):
    sentences, folder = tree_sentences(texts * 2), saved("bert")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    lengths = [len(tokenizer(text)["input_ids"]) for text, _, _ in sentences]
    longest = sorted(lengths)[-5]
    assert max(lengths) > longest
    expected = trees(eager(folder), tokenizer, sentences, longest)
    found = surveyed(checkpoint("bert"), sentences, max_length=longest)
    check(found, *expected)
    room = longest - 2
    windows = sum(-(-(length - 2) // room) for length in lengths if length > longest)
    (note,) = (note for note in found.table.notes if "is cut" in note)
    assert note.startswith(f"{windows} parts of sentences were left out")
    assert not any("is cut" in note for note in surveyed(checkpoint("bert"), sentences).table.notes)


@pytest.mark.parametrize("options", [{"batch_tokens": 1}, {"batch_tokens": 64}, {"memory": "33MiB"}])
def test_batches_and_blocks_change_nothing(
    checkpoint: Callable[[str], Checkpoint], texts: list, options: dict
):
    """Also where maps are put together: with little memory, a block is a query."""
    sentences = tree_sentences(texts)
    whole = surveyed(checkpoint("bert"), sentences)
    with limit_block_memory(1):
        parts = surveyed(checkpoint("bert"), sentences, **options)
    for name, values in whole.measurement.arrays().items():
        np.testing.assert_array_equal(parts.measurement.arrays()[name], values, err_msg=name)


def test_tables_add_up(checkpoint: Callable[[str], Checkpoint], texts: list):
    sentences = tree_sentences(texts)
    whole, *parts = (
        surveyed(checkpoint("bert"), some).table for some in (sentences, sentences[::2], sentences[1::2])
    )
    table = merge_tables(parts, "attnprobe merge")
    assert list(table.data) == COLUMNS
    assert table.notes == whole.notes
    for name in COLUMNS[2:]:
        np.testing.assert_allclose(table[name], whole[name], rtol=1e-12, err_msg=name)


def test_an_encoder_and_its_decoder(
    saved: Callable[[str], Path], checkpoint: Callable[[str], Checkpoint], texts: list
):
    """Which reads the same, one place later; between the two there are no trees."""
    sentences, folder = tree_sentences(texts), saved("t5")
    table = surveyed(checkpoint("t5"), sentences).table
    kinds, (n, *_) = table["attention"], table["n"]
    assert (table["n"] == np.where(kinds == "cross", 0, n)).all()
    gold, _, hits = trees(
        eager(folder), AutoTokenizer.from_pretrained(folder), sentences, maps_of=decoder_maps
    )
    assert len(gold) == n > 5
    np.testing.assert_allclose(table["uuas"][kinds == "decoder"], hits.sum(0).ravel() / gold.sum())
    for name in ("uuas", "uuas_se", "baseline", "gain", "gain_se", "p", "p_adjusted"):
        assert (np.isnan(table[name]) == (kinds == "cross")).all(), name
    assert any(note.startswith("Heads of cross-attention have no trees") for note in table.notes)


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


def find_block(maps: list[torch.Tensor], said: TokenAnnotation | None, **layout) -> AttentionBlock:
    no = torch.zeros(1, maps[0].shape[1], dtype=torch.bool)
    ranks = torch.zeros_like(no, dtype=torch.long)
    tokens = TokenFeatures(no, no, no, ~no, no.float(), ~no, ranks, ranks)
    annotations = () if said is None else (said,)
    layout = replace(Layout.of(tokens), annotations=annotations, **layout)
    return AttentionBlock(torch.stack(maps)[None], layout)


def test_planted_trees():
    """The gold tree, whichever end of an edge attends; the chain; a star; nothing."""
    turned = [(b, a) if place % 2 else (a, b) for place, (a, b) in enumerate(GOLD_EDGES)]
    chain = list(pairwise(LEFT_IN))
    star = [(0, other) for other in LEFT_IN[1:]]
    maps = [map_of(edges) for edges in (GOLD_EDGES, turned, chain, star)]
    found = TREES(find_block([*maps, torch.full((10, 10), 0.1)], SENTENCE))
    neighbours = 3  # 0-1, 1-3 and 6-7
    held = [5, 5, neighbours, 1, 1]  # where all weigh the same, the first word is joined to all
    assert found[0].tolist() == [[5, hits, neighbours, 0, 0] for hits in held]


def test_punctuation_is_looked_through():
    """What words give to a comma or a special token does not matter, however much it is."""
    p = map_of(GOLD_EDGES)
    p[:, [0, 3, 5, 9]] += 5
    found = TREES(find_block([p / p.sum(-1, keepdim=True)], SENTENCE))
    assert found[0, 0, HELD] == 5


def test_a_decoder_sees_half_of_each_edge():
    later_to_earlier = [(max(edge), min(edge)) for edge in GOLD_EDGES]
    p = map_of(later_to_earlier).tril()
    found = TREES(find_block([p / p.sum(-1, keepdim=True)], SENTENCE, causal=True))
    assert found[0, 0].tolist() == [5, 5, 3, 0, 0]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (replace(SENTENCE, cut=True), CUT),
        (annotated([], 9), BARE),  # no tree
        (annotated([(1, 0, "punct")], 2), BARE),  # "Yes ."
        (annotated([(0, 1, "obj"), (1, 2, "punct")], 3), BARE),  # the only edge leads to a mark
        (annotated([], 0), BARE),
    ],
)
def test_sentences_that_ask_nothing(said: TokenAnnotation, reason: int):
    (row,) = TREES(find_block([map_of(GOLD_EDGES)], said))[0].tolist()
    assert row == [float(place == reason) for place in range(5)]


def test_nobody_says_anything():
    assert TREES(find_block([map_of(GOLD_EDGES)], None)).isnan().all()


class TestTreeOf:
    """Words that are left in, and gold edges between them."""

    @staticmethod
    def edges(*links: tuple[tuple[int, int], tuple[int, int], str], words: str = "01 12 23 34"):
        spans = tuple(TokenSpan(int(a), int(b)) for a, b in words.split())
        made = tuple(TokenLink(TokenSpan(*a), TokenSpan(*b), label) for a, b, label in links)
        left, edges = build_tree(TokenAnnotation(spans, made))
        return [(word.start, word.stop) for word in left], edges

    def test_each_edge_once_whichever_way(self):
        left, edges = self.edges(((0, 1), (1, 2), "a"), ((1, 2), (0, 1), "b"), ((3, 4), (1, 2), "c"))
        assert left == [(0, 1), (1, 2), (2, 3), (3, 4)]
        assert edges == {(0, 1), (1, 3)}

    def test_labels_of_punctuation(self):
        for label, is_punctuation in (("punct", 1), ("punct:end", 1), ("punctual", 0), ("punct|x", 1)):
            left, edges = self.edges(((0, 1), (1, 2), label), ((2, 3), (1, 2), "a"))
            assert len(left) == 4 - is_punctuation
            assert len(edges) == 2 - is_punctuation

    def test_edges_to_punctuation_are_left_out(self):
        left, edges = self.edges(
            ((1, 2), (0, 1), "punct"), ((2, 3), (1, 2), "a"), ((3, 4), (0, 1), "a"), words="01 12 23 34"
        )
        assert left == [(0, 1), (2, 3), (3, 4)]
        assert edges == {(0, 2)}

    def test_words_of_the_same_tokens_are_one(self):
        """An edge between them is none, and a mark that shares the tokens of a word does not remove it."""
        left, edges = self.edges(
            ((0, 1), (0, 1), "case"), ((1, 2), (0, 1), "obj"), ((1, 2), (0, 1), "punct"), words="01 01 12 12"
        )
        assert left == [(0, 1), (1, 2)]
        assert edges == {(0, 1)}
        left, edges = self.edges(((0, 1), (0, 1), "punct"), ((1, 2), (0, 1), "obj"), words="01 01 12")
        assert left == [(0, 1), (1, 2)]
        left, edges = self.edges(((0, 1), (1, 2), "punct"), ((0, 1), (1, 2), "punct"), words="01 01 12")
        assert left == [(1, 2)]
        assert not edges

    def test_spans_that_are_no_words_have_no_edges(self):
        _, edges = self.edges(((0, 2), (2, 3), "a"), ((3, 4), (2, 3), "b"))
        assert edges == {(2, 3)}


# The table


def tabulated(values: np.ndarray, **labels) -> HeadTable:
    """Tabulate (sentence, layer, head, number)."""
    kinds = labels.pop("kinds", ["encoder"] * values.shape[1])
    found = Measurement({"uuas": Ratio.of(values)}, len(values))
    return TREE.build(TREE.title, found, [TREES], Labels("tiny", "gold", {}, number_layers(kinds), **labels))


def counted(sentences: int = 50, heads: int = 3, gold: int = 8) -> np.ndarray:
    """One layer: a head like the chain, one that holds more, one that holds fewer edges."""
    draw = np.random.default_rng(3)
    values = np.zeros((sentences, 1, heads, 5))
    values[..., GOLD] = gold
    values[..., NEIGHBOURS] = draw.integers(2, 5, (sentences, 1, 1))
    for head, more in enumerate((0, 1, -1)):
        noise = draw.integers(-1, 2, (sentences, 1)) * (more != 0)
        values[..., head, HELD] = values[..., head, NEIGHBOURS] + more + noise
    return values


def test_heads_against_the_chain():
    """Where all sentences have as many gold edges, this is the paired t test."""
    values = counted()
    table = tabulated(values)
    for head in range(1, 3):
        ours, chain = values[:, 0, head, HELD], values[:, 0, head, NEIGHBOURS]
        expected = ttest_rel(ours, chain, alternative="greater").pvalue
        assert table["p"][head] == pytest.approx(expected)
        assert table["gain"][head] == pytest.approx((ours - chain).mean() / 8)
        assert table["gain_se"][head] == pytest.approx((ours - chain).std(ddof=1) / 8 / 50**0.5)
    assert (table["gain"][0], table["gain_se"][0], table["p"][0]) == (0, 0, 1)
    np.testing.assert_allclose(table["p_adjusted"], adjust(table["p"]))
    assert len(set(table["baseline"])) == 1
    assert table["n"].tolist() == [50] * 3
    share = values[..., HELD].sum(0)[0] / 400
    (note,) = table.notes
    assert note == (
        "1 of 3 heads has a tree that holds significantly more gold edges than the chain of neighbours "
        "(one-sided test over documents, Holm, p < 0.05): "
        f"0-1 ({share[1]:.2f} against {table['baseline'][0]:.2f})."
    )


def test_no_head_beats_the_chain():
    (note,) = tabulated(counted()[:, :, [0, 2]]).notes
    assert note.startswith("No tree of 2 heads holds significantly more gold edges than the chain")


def test_removed_heads_have_no_rows_and_count_nothing_away():
    values = counted()
    values[:7, ..., :] = np.eye(5)[CUT]
    values[7, ..., :] = np.eye(5)[BARE]
    values[:, 0, 0] = np.nan
    table = tabulated(values, removed={(0, 0)})
    assert table["head"].tolist() == [1, 2]
    assert table["n"].tolist() == [42, 42]
    said = " ".join(table.notes)
    assert "1 of 2 heads has a tree" in said
    assert "7 parts of sentences were left out" in said
    assert "1 sentence was left out: it has no gold edge" in said
    expected = adjust(tabulated(values[8:, :, 1:])["p"])
    np.testing.assert_allclose(table["p_adjusted"], expected)


def test_kinds_of_attention_are_counted_apart():
    """Encoder and decoder have texts of their own; cross-attention joins two."""
    values = np.concatenate([counted(), counted(), np.full((50, 1, 3, 5), np.nan)], 1)
    values[:2, 0] = np.eye(5)[BARE]
    values[:3, 1] = np.eye(5)[BARE]
    table = tabulated(values, kinds=["encoder", "decoder", "cross"])
    assert table["attention"].tolist() == ["encoder"] * 3 + ["decoder"] * 3 + ["cross"] * 3
    assert table["n"].tolist() == [48] * 3 + [47] * 3 + [0] * 3
    said = " ".join(table.notes)
    assert "2 of 6 heads have trees" in said
    assert "encoder 0-1 (" in said
    assert "5 sentences were left out: they have no gold edge" in said
    assert "cross-attention have no trees" in said


def test_nothing_was_asked():
    values = np.full((4, 1, 2, 5), np.nan)
    table = tabulated(values)
    assert table["n"].tolist() == [0, 0]
    assert np.isnan(table["uuas"]).all()
    assert table.notes == []
