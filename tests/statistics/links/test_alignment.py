"""Alignment error rates against loops over the models' own maps, on planted heads, and in tables."""

from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from links_by_definition import spans, tokens_of

import attnprobe
from attnprobe.attention.annotation import TokenAnnotation, TokenLink, TokenSpan
from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.kinds import Kind, Place
from attnprobe.attention.layout import Layout
from attnprobe.statistics.alignment import (
    AER,
    BOTH,
    CUT,
    IN_POSSIBLE,
    IN_SURE,
    PLACE_IN_POSSIBLE,
    PLACE_IN_SURE,
    PROPOSED,
    SURE,
)
from attnprobe.statistics.alignment_table import (
    Direction,
    score_best_head,
)
from attnprobe.sums.blocked import Blocked
from attnprobe.sums.crossfit import assign_folds
from attnprobe.sums.documents import find_block, name_documents
from attnprobe.table.builder import Labels

WORDS = ["the", "river", "was", "slow", "a", "cat", "walks", "dogs", "ran", "quickly", "unlikely", "houses"]


def pairs(number, seed=0):
    """Give (text, target, sure, possible) with random words and links (word of text, of target)."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(number):
        text, target = (list(map(str, random.choice(WORDS, random.integers(3, 8)))) for _ in range(2))
        every = list(product(range(len(text)), range(len(target))))
        drawn = {every[at] for at in random.choice(len(every), random.integers(2, len(text) + 2), False)}
        possible = {link for link in drawn if random.random() < 0.4}
        found.append((" ".join(text), " ".join(target), drawn - possible, possible))
    return found


def lines(found, base=0):
    """Write the links as aligners do."""
    return [
        " ".join(
            f"{a + base}{'p' if (a, b) in possible else '-'}{b + base}" for a, b in sorted(sure | possible)
        )
        for *_, sure, possible in found
    ]


def error_rate(found, chosen):
    """Compute error rate, precision and recall of sets of links, one for each pair."""
    inside = certain = proposed = sure_ones = 0
    for (*_, sure, possible), links in zip(found, chosen, strict=True):
        certain += len(links & sure)
        inside += len(links & (sure | possible))
        proposed += len(links)
        sure_ones += len(sure)
    return 1 - (certain + inside) / (proposed + sure_ones), inside / proposed, certain / sure_ones


def choose(rows, asking, answering):
    """Let words (first token, behind the last) choose by rows (query, key): {asker: answer}."""
    chosen = {}
    for asker, (a, b) in enumerate(asking):
        mass = [rows[a:b, c:d].mean(0).sum().item() for c, d in answering]
        chosen[asker] = int(np.argmax(mass))
    return chosen


def cross_maps(folder, start, found, *, by_norm=False):
    """Give the links of each head, {(position, layer, head): a set for each pair}."""
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, attn_implementation="eager", dtype="float32").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    values = {}
    if by_norm:
        for number, layer in enumerate(model.decoder.layers):
            layer.encoder_attn.v_proj.register_forward_hook(
                lambda _, __, out, number=number: values.__setitem__(number, out[0].double())
            )
    links = {}
    for text, target, *_ in found:
        ids, others = tokenizer(text)["input_ids"], tokenizer(target)["input_ids"]
        with torch.no_grad():
            maps = model(
                torch.tensor([ids]), decoder_input_ids=torch.tensor([[start, *others[:-1]]]),
                output_attentions=True,
            )  # fmt: skip
        words, targets = tokens_of(tokenizer, text), tokens_of(tokenizer, target)
        for layer, whole in enumerate(maps.cross_attentions):
            rows = whole[0].double()
            lengths = torch.ones(rows.shape[0], rows.shape[2], dtype=torch.float64)
            if by_norm:
                weight = model.decoder.layers[layer].encoder_attn.out_proj.weight.detach().double()
                width = weight.shape[1] // len(rows)
                for head in range(len(rows)):
                    own = slice(head * width, (head + 1) * width)
                    lengths[head] = (values[layer][:, own] @ weight[:, own].T).norm(dim=-1)
            weighed = rows * lengths[:, None]
            each = weighed / weighed.sum(-1, keepdim=True)
            for position, later in (("output", 0), ("input", 1)):
                asking = [(a + later, b + later) for a, b in targets]
                for head, one in enumerate(each):
                    found_here = {(answer, asker) for asker, answer in choose(one, asking, words).items()}
                    links.setdefault((position, layer, head), []).append(found_here)
    return links


@pytest.mark.parametrize(("name", "by_norm"), [("t5", False), ("bart", True)])
def test_of_cross_attention(name, by_norm, saved, checkpoint):
    found = pairs(12)
    links = cross_maps(saved(name), checkpoint(name).start, found, by_norm=by_norm)
    texts = [(text, target) for text, target, *_ in found]
    given = {"alignments": lines(found), "metric": "aer", "weights": "norm" if by_norm else "attention"}
    sources, targets = zip(*texts, strict=True)
    table = attnprobe.links(str(saved(name)), list(sources), targets=list(targets), by="head", **given)
    rows = table.to_pandas()
    assert len(rows) == len(links)
    assert set(rows.direction) == {"target_to_source"}
    assert set(rows.attention) == {"cross"}
    assert set(rows.n) == {len(found)}
    assert ("weights" in rows) == by_norm
    place = [
        {(int((b + 0.5) / len(target.split()) * len(text.split())), b) for b in range(len(target.split()))}
        for text, target in texts
    ]
    for _, row in rows.iterrows():
        expected = error_rate(found, links[row.position, row.layer, row["head"]])
        assert (row.aer, row.precision, row.recall) == pytest.approx(expected, abs=1e-9)
        assert row.baseline == pytest.approx(error_rate(found, place)[0])
    assert len({round(error_rate(found, one)[0], 6) for one in links.values()}) > 3


def test_within_an_encoder(saved):
    """Two texts are asked from the second to the first, and from the first to the second."""
    from transformers import AutoModel, AutoTokenizer

    found, folder = pairs(10, seed=1), saved("bert")
    model = AutoModel.from_pretrained(folder, attn_implementation="eager", dtype="float32").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    links = {}
    for text, target, *_ in found:
        given = tokenizer(text, target, return_tensors="pt", return_offsets_mapping=True)
        offsets, parts = given.pop("offset_mapping")[0].tolist(), given.sequence_ids(0)
        with torch.no_grad():
            maps = model(**given, output_attentions=True).attentions
        sides = []
        for part, one in enumerate((text, target)):
            own = [(t, *ends) for t, ends in enumerate(offsets) if parts[t] == part]
            inside = [[t for t, c, d in own if d > a and c < b] for a, b in spans(one)]
            sides.append([(some[0], some[-1] + 1) for some in inside])
        for layer, whole in enumerate(maps):
            for head, rows in enumerate(whole[0].double()):
                back = {(answer, asker) for asker, answer in choose(rows, sides[1], sides[0]).items()}
                links.setdefault(("target_to_source", layer, head), []).append(back)
                forth = set(choose(rows, *sides).items())
                links.setdefault(("source_to_target", layer, head), []).append(forth)
    texts = [(text, target) for text, target, *_ in found]
    table = attnprobe.links(str(folder), texts, alignments=lines(found), metric="aer", by="head")
    rows = table.to_pandas()
    assert len(rows) == len(links)
    for _, row in rows.iterrows():
        expected = error_rate(found, links[row.direction, row.layer, row["head"]])
        assert (row.aer, row.precision, row.recall) == pytest.approx(expected, abs=1e-9)


def test_the_head_that_made_the_alignment_wins(saved, checkpoint):
    """Gold is what one head attends to most: it is found on one half, and makes no error on the other."""
    found = pairs(40, seed=3)
    links = cross_maps(saved("bart"), checkpoint("bart").start, found)
    gold = links["output", 1, 1]
    planted = [(text, target, one, set()) for (text, target, *_), one in zip(found, gold, strict=True)]
    rows = [
        {
            "text": text,
            "target": target,
            "words": spans(text),
            "words_target": spans(target),
            "links": [
                {"source": spans(target)[b], "source_in": "target", "target": spans(text)[a]} for a, b in one
            ],
        }
        for text, target, one, _ in planted
    ]
    table = attnprobe.links(str(saved("bart")), rows, metric="aer")
    best = table.to_pandas().set_index("alignment").loc["head"]
    assert (best.layer, best["head"], best.position) == (1, 1, "output")
    assert (best.aer, best.aer_se, best.precision, best.recall, best.aer_selected) == (0, 0, 1, 1, 0)
    assert best.gain == pytest.approx(best.baseline)
    assert best.p_adjusted < 0.01
    assert table.notes == []
    by_lines = attnprobe.links(
        str(saved("bart")), [row["text"] for row in rows], targets=[row["target"] for row in rows],
        alignments=lines(planted, base=1), one_based=True, metric="aer",
    )  # fmt: skip
    assert {**by_lines.data} == {**table.data}


def test_spans_several_answers_and_possible_links(saved):
    """A span stands for all its words, ``also`` for further links, and sure links are possible, too."""
    row = {
        "text": "a cat walks by",
        "text_pair": "the slow dogs",
        "links": [
            {"source": [0, 5], "target": [0, 3], "target_in": "pair", "possible": True},
            {"source": [0, 1], "target": [0, 3], "target_in": "pair"},
            {"source": [9, 13], "source_in": "pair", "target": [6, 11], "also": [[12, 14]], "label": "x"},
            {"source": [0, 1], "target": [6, 11], "label": "within the text"},
        ],
    }
    found = [("a cat walks by", "the slow dogs", {(0, 0), (2, 2), (3, 2)}, {(1, 0)})]
    by_rows = attnprobe.links(str(saved("bert")), [row] * 2, metric="aer", by="head")
    by_lines = attnprobe.links(
        str(saved("bert")), [found[0][:2]] * 2, alignments=lines(found) * 2, metric="aer", by="head"
    )
    np.testing.assert_equal({**by_rows.data}, {**by_lines.data})
    labelled = attnprobe.links(str(saved("bert")), [row] * 2, min_links=1, by="head").to_pandas()
    assert set(labelled.label) == {"all", "possible", "within the text", "x"}


@pytest.fixture
def block(features):
    """Make a block of cross-attention, one token a word and one special token on both sides."""
    return partial(make_block, features)


def make_block(make_features, gold, rows, cut=False):
    width, length = rows.shape[-1], rows.shape[-2]
    links = tuple(
        TokenLink(TokenSpan(b + 1, b + 2), TokenSpan(a, a + 1), label, asks="forward")
        for (a, b), label in gold.items()
    )
    said = TokenAnnotation(
        tuple(TokenSpan(b + 1, b + 2) for b in range(length - 1)), links,
        keys=tuple(TokenSpan(a, a + 1) for a in range(width - 1)), cut=cut,
    )  # fmt: skip
    return AttentionBlock(
        rows[None], Layout(make_features(length), make_features(width), annotations=(said,), shifted=True)
    )


def test_counts_of_a_map_by_hand(block):
    """Position t predicts word t; the special key in the end takes most of the attention, and is no word."""
    rows = torch.tensor(
        [
            [0.1, 0.0, 0.2, 0.7],  # predicts word 0: chooses 2
            [0.3, 0.1, 0.1, 0.5],  # reads word 0, chooses 0; predicts word 1
            [0.1, 0.4, 0.0, 0.5],  # reads word 1, chooses 1
        ]
    )
    gold = {(2, 0): "sure", (0, 1): "possible", (1, 1): "sure"}
    output, taken = AER.function(block(gold, rows[None]))[0, 0].tolist()
    expected = {
        BOTH: 4, PROPOSED: 2, SURE: 2, IN_SURE: 1, IN_POSSIBLE: 2, PLACE_IN_SURE: 0, PLACE_IN_POSSIBLE: 0,
    }  # fmt: skip
    assert output == [expected.get(number, 0) for number in range(8)]
    assert taken[IN_SURE : IN_POSSIBLE + 1] == [1, 1]
    # Of 2 words, the first stands at 1.5 / 6 of its text's length, which is word 0 of 3; the second at 2.
    assert AER.function(block({(0, 0): "sure", (2, 1): "possible"}, rows[None]))[
        0, 0, 0, PLACE_IN_SURE:
    ].tolist() == [1, 2, 0]
    cut = AER.function(block(gold, rows[None], cut=True))[0, 0]
    assert cut[:, CUT].tolist() == [1, 1]
    assert cut[:, :CUT].isnan().all()


def numbers(random, documents, cells=(1, 1, 1), hit=0.5):
    """Draw what is counted of documents (document, *cells, number)."""
    proposed = random.integers(2, 12, documents)
    sure, more = random.binomial(proposed, 0.6), random.binomial(proposed, 0.3)
    found = np.zeros((documents, *cells, 8))
    shaped = (slice(None), *(None,) * len(cells))
    easy = random.beta(2, 2, documents)[shaped]  # documents differ
    found[..., PROPOSED], found[..., SURE] = proposed[shaped], sure[shaped]
    found[..., BOTH] = (proposed + sure)[shaped]
    found[..., IN_SURE] = random.binomial(np.broadcast_to(sure[shaped], found.shape[:-1]), hit * easy)
    rest = random.binomial(np.broadcast_to(more[shaped], found.shape[:-1]), hit * easy)
    found[..., IN_POSSIBLE] = found[..., IN_SURE] + rest
    found[..., PLACE_IN_SURE] = random.binomial(np.broadcast_to(sure[shaped], found.shape[:-1]), hit * easy)
    found[..., PLACE_IN_POSSIBLE] = found[..., PLACE_IN_SURE]
    return found


CROSS = Direction(Kind.CROSS, [0, 1], "target_to_source", {0: "output", 1: "input"})
LABELS = Labels("m", "d", {"asked": {"folds": 4}}, [Place(layer, Kind.CROSS) for layer in range(2)])


def test_chosen_on_other_folds():
    """Each fold is scored with the head that a loop finds to be the best of the others."""
    random, folds = np.random.default_rng(3), 4
    names = name_documents(np.arange(80, dtype=np.uint64))
    drawn = numbers(random, 80, (2, 3, 2))
    gone = np.zeros((2, 3), bool)
    gone[0, 1] = True  # which would be the best
    drawn[:, 0, 1, :, IN_SURE] = drawn[:, 0, 1, :, IN_POSSIBLE] = drawn[:, 0, 1, :, SURE]
    row = score_best_head(Blocked.of(drawn, documents=names), CROSS, gone, LABELS, 1)
    fold = assign_folds(folds)[find_block(names)]
    cells = [cell for cell in np.ndindex(2, 3, 2) if not gone[cell[:2]]]

    def count(cell, some):
        return drawn[(some, *cell)].sum(0)

    def rate(cell, some):
        return 1 - count(cell, some)[[IN_SURE, IN_POSSIBLE]].sum() / count(cell, some)[BOTH]

    chosen = [min(cells, key=lambda cell: rate(cell, fold != one)) for one in range(folds)]
    total = sum(count(cell, fold == one) for one, cell in enumerate(chosen))
    place = drawn[:, 0, 0, 0].sum(0)
    expected = {
        "n": 80,
        "aer": 1 - total[[IN_SURE, IN_POSSIBLE]].sum() / total[BOTH],
        "precision": total[IN_POSSIBLE] / total[PROPOSED],
        "recall": total[IN_SURE] / total[SURE],
        "baseline": 1 - place[[PLACE_IN_SURE, PLACE_IN_POSSIBLE]].sum() / place[BOTH],
        "aer_selected": min(rate(cell, fold >= 0) for cell in cells),
        "chosen": chosen.count(max(set(chosen), key=chosen.count)) / folds,
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected)
    assert row["gain"] == pytest.approx(row["baseline"] - row["aer"])
    assert (row["layer"], row["head"]) == max(set(chosen), key=chosen.count)[:2]
    # All documents in one fold: nothing can be chosen.
    one = fold == 0
    alone = Blocked.of(drawn[one], documents=names[one])
    assert score_best_head(alone, CROSS, gone, LABELS, 1) == {"n": 0}
