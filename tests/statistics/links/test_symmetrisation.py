"""Alignments of two directions: grow-diag by hand and by another program, and two models in a table."""

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, T5Config, T5Model

import attnprobe
from attnprobe.corpus.sources.alignments import align_documents
from attnprobe.corpus.sources.document import Document
from attnprobe.statistics.alignment import BOTH, IN_POSSIBLE, IN_SURE, PROPOSED, SURE
from attnprobe.statistics.symmetrisation import GoldPair, grow_diag, turn_documents
from attnprobe.sums.choices import Choices
from attnprobe.sums.crossfit import assign_folds
from attnprobe.sums.documents import find_block, name_documents

WORDS = ["the", "river", "was", "slow", "a", "cat", "walks", "dogs", "ran", "quickly", "parcel", "house"]


@pytest.mark.parametrize(
    ("forward", "reverse", "expected"),
    [
        # Nothing in common: nothing to grow from.
        ("0-0 1-1", "0-1 1-0", ""),
        # A neighbour of a link whose words have none; and what lies apart stays out.
        ("0-0 1-1 4-4", "0-0", "0-0 1-1"),
        # Both words of 1-1 have links already, as 0-1 and 1-0 come first; so it stays out.
        ("0-0 0-1 1-1", "0-0 1-0", "0-0 0-1 1-0"),
        # A chain grows link by link, over the diagonal.
        ("0-0 1-1 2-2 3-3", "0-0 3-3", "0-0 1-1 2-2 3-3"),
        # Across a gap nothing grows.
        ("0-0 2-2", "0-0", "0-0"),
        # One of its words is free: 0-1 has the word 1 of the second text.
        ("0-0 0-1", "0-0 1-0", "0-0 0-1 1-0"),
    ],
)
def test_grow_diag_by_hand(forward, reverse, expected):
    def read(said):
        return {tuple(map(int, one.split("-"))) for one in said.split()}

    assert grow_diag(read(forward), read(reverse)) == read(expected)


def grown(forward, reverse, size):
    """Grow on a matrix with (second text, first text) as Koehn's figure has it."""
    matrix, either = (np.zeros((size, size), int) for _ in range(2))
    for a, b in forward & reverse:
        matrix[b, a] = 1
    for a, b in forward | reverse:
        either[b, a] = 1
    added = True
    while added:
        added = False
        for e in range(size):
            for f in range(size):
                if not matrix[e, f]:
                    continue
                for de, df in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                    x, y = e + de, f + df
                    if not (0 <= x < size and 0 <= y < size) or not either[x, y] or matrix[x, y]:
                        continue
                    if not matrix[x].any() or not matrix[:, y].any():
                        matrix[x, y] = added = 1
    return {(int(f), int(e)) for e, f in np.argwhere(matrix)}


def test_grow_diag_on_random_links():
    random, more = np.random.default_rng(0), 0
    for _ in range(300):
        size = int(random.integers(2, 8))
        forward = {(int(random.integers(size)), b) for b in range(size)}
        reverse = {(a, int(random.integers(size))) for a in range(size)}
        found = grow_diag(forward, reverse)
        assert found == grown(forward, reverse, size)
        assert forward & reverse <= found <= forward | reverse
        more += len(found) > len(forward & reverse)
    assert more > 100


def pairs(number, seed):
    random = np.random.default_rng(seed)
    found = []
    for _ in range(number):
        text, target = (list(map(str, random.choice(WORDS, random.integers(3, 7)))) for _ in range(2))
        links = {(int(random.integers(len(text))), b): random.random() < 0.3 for b in range(len(target))}
        line = " ".join(f"{a}{'p' if perhaps else '-'}{b}" for (a, b), perhaps in links.items())
        found.append((" ".join(text), " ".join(target), line, links))
    return found


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two tiny models, each for a direction."""
    tokenizer = AutoTokenizer.from_pretrained(attnprobe.__path__[0] + "/demo")
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_heads": 2, "num_layers": 2}
    folders = []
    for seed in range(2):
        torch.manual_seed(seed)
        model = T5Model(T5Config(vocab_size=len(tokenizer), decoder_start_token_id=0, **sizes))
        folder = tmp_path_factory.mktemp("two") / f"model{seed}"
        model.eval().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        folders.append(str(folder))
    return folders


def links_of(folder, texts, cell):
    """Give what a cell (position, layer, head) chooses, {word that asks: answer} for each pair."""
    model = T5Model.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer, found = AutoTokenizer.from_pretrained(folder), []
    position, layer, head = cell
    for text, target in texts:
        sides = []
        for one in (text, target):
            given = tokenizer(one, return_offsets_mapping=True)
            ends = np.cumsum([len(word) + 1 for word in one.split()]) - 1
            spans = [(end - len(word), end) for end, word in zip(ends, one.split(), strict=True)]
            offsets = given["offset_mapping"]
            tokens = [
                [t for t, (a, b) in enumerate(offsets) if b > a and a < stop and b > start]
                for start, stop in spans
            ]
            sides.append((given["input_ids"], tokens))
        with torch.no_grad():
            maps = model(
                torch.tensor([sides[0][0]]), decoder_input_ids=torch.tensor([[0, *sides[1][0][:-1]]]),
                output_attentions=True,
            ).cross_attentions[layer][0, head].double()  # fmt: skip
        later = position == "input"
        rows = [maps[[t + later for t in some]].mean(0) for some in sides[1][1]]
        found.append(
            {b: int(np.argmax([row[some].sum() for some in sides[0][1]])) for b, row in enumerate(rows)}
        )
    return found


def rates(gold, links):
    certain = inside = proposed = sure_ones = 0
    for known, one in zip(gold, links, strict=True):
        sure = {link for link, perhaps in known.items() if not perhaps}
        certain, inside = certain + len(one & sure), inside + len(one & set(known))
        proposed, sure_ones = proposed + len(one), sure_ones + len(sure)
    return 1 - (certain + inside) / (proposed + sure_ones), inside / proposed, certain / sure_ones


def test_two_models(two, tmp_path):
    """The table has what loops over the maps of both models make, each fold with the heads of the others."""
    found, folds = pairs(40, seed=1), 3
    texts, targets, lines, gold = map(list, zip(*found, strict=True))
    given = {"targets": targets, "alignments": lines, "metric": "aer", "folds": folds}
    table = attnprobe.links(two[0], texts, reverse=two[1], **given)
    rows = table.to_pandas().set_index("alignment")
    assert list(rows.index) == ["head", "reverse head", "intersection", "union", "grow-diag"]
    alone = attnprobe.links(two[0], texts, **given).to_pandas().set_index("alignment").loc["head"]
    same = ["n", "layer", "head", "position", "aer", "aer_se", "precision", "recall", "baseline", "gain", "p"]
    assert rows.loc["head", same].tolist() == pytest.approx(alone[same].tolist())
    assert rows.n.tolist() == [40] * 5
    names = name_documents(np.array([Document(text).digest for text in texts], np.uint64))
    fold = assign_folds(folds)[find_block(names)]
    cells = [(where, layer, head) for layer in range(2) for head in range(2) for where in ("output", "input")]
    sides, chosen = [], []
    for folder, asked, answers, turned in ((two[0], texts, targets, True), (two[1], targets, texts, False)):
        every = {
            cell: [
                {(a, b) if turned else (b, a) for b, a in one.items()}
                for one in links_of(folder, list(zip(asked, answers, strict=True)), cell)
            ]
            for cell in cells
        }

        def rate(cell, some, every=every):
            return rates([gold[at] for at in some], [every[cell][at] for at in some])[0]

        best = [min(cells, key=lambda cell: rate(cell, np.flatnonzero(fold != one))) for one in range(folds)]
        chosen.append(best)
        sides.append([every[best[fold[at]]][at] for at in range(40)])
    ours, theirs = sides
    both = list(zip(ours, theirs, strict=True))
    expected = {
        "head": ours,
        "reverse head": theirs,
        "intersection": [one & other for one, other in both],
        "union": [one | other for one, other in both],
        "grow-diag": [grown(one, other, 8) for one, other in both],
    }
    for name, links in expected.items():
        wanted = rates(gold, links)
        assert rows.loc[name, ["aer", "precision", "recall"]].tolist() == pytest.approx(wanted), name
    for name, best in zip(("head", "reverse head"), chosen, strict=True):
        row = rows.loc[name]
        assert row.chosen == best.count((row.position, row.layer, row["head"])) / folds
    assert rows.model.tolist()[:2] == ["model0", "model1"]
    assert np.isnan(rows.loc["union", "baseline"])
    state = tmp_path / "state"
    for _ in range(2):
        again = attnprobe.links(two[0], texts, reverse=two[1], resume=state, **given)
        assert again.to_pandas().equals(table.to_pandas())


def test_what_is_refused(two, saved):
    given = {"targets": ["b"], "alignments": ["0-0"], "metric": "aer"}
    with pytest.raises(attnprobe.AttnprobeError, match="reads two texts in both directions by itself"):
        attnprobe.links(str(saved("bert")), ["a"], reverse=two[1], **given)
    with pytest.raises(attnprobe.AttnprobeError, match="add metric="):
        attnprobe.links(two[0], ["a"], reverse=two[1])
    with pytest.raises(attnprobe.AttnprobeError, match=r"give weights=.norm. or leave it out"):
        attnprobe.links(two[0], ["a"], reverse=two[1], weights="both", **given)
    with pytest.raises(attnprobe.AttnprobeError, match="has no target, or no gold links"):
        attnprobe.links(two[0], [("a", "b")], reverse=two[1], alignments=["0-0"], metric="aer")


def test_gold_and_its_turn():
    (one,) = align_documents([Document("a b c", label="d e")], ["0-0 1p1 2-1"], "gold", "texts")
    pair = GoldPair.of(one)
    assert pair == GoldPair((3, 2), frozenset({(0, 0), (2, 1)}), frozenset({(0, 0), (1, 1), (2, 1)}))
    (turned,) = turn_documents([one])
    assert (turned.text, turned.label) == ("d e", "a b c")
    assert GoldPair.of(turned) == GoldPair(
        (2, 3), *(frozenset((b, a) for a, b in s) for s in (pair.sure, pair.possible))
    )
    counts = pair.count({(0, 0), (1, 1), (2, 0)})
    assert counts[[BOTH, PROPOSED, SURE, IN_SURE, IN_POSSIBLE]].tolist() == [5, 3, 2, 1, 2]


def test_choices_add_up():
    """Parts of other lengths are put below one another, and what nobody is asked is not kept."""
    first = np.full((2, 1, 1, 2, 3 + 5), np.nan)
    first[0, 0, 0, 0, :5] = [7, 2, 4, 1, 3]
    second = np.full((1, 1, 1, 2, 3 + 5), np.nan)
    second[0, 0, 0, 0, :6] = [9, 3, 4, 0, 1, 2]
    found = Choices.of(first, None, np.array([500, 600])) + Choices.of(second, None, np.array([700]))
    assert (found.numbers.tolist(), found.names.tolist()) == ([7, 9], [500, 700])
    assert found.chosen[:, 0, 0, 0].tolist() == [[1, 3, -1], [0, 1, 2]]
    assert found.sizes[:, :, 0, 0, 0].tolist() == [[2, 4], [3, 4]]
    again = Choices.from_arrays(found.arrays())
    assert (again.chosen == found.chosen).all()
    nothing = Choices.of(np.full((1, 1, 1, 2, 8), np.nan))
    assert (nothing + found).numbers.tolist() == [7, 9]
