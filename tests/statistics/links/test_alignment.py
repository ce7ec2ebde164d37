"""Alignment error rates against loops over the models' own maps, on planted heads, and in tables."""

from itertools import product

import numpy as np
import pytest
import torch
from links_by_definition import load_eagerly, run_beside, spans, tokens_of

import attnprobe
from attnprobe.attention.kinds import Kind, Place
from attnprobe.statistics.alignment import PAIRS, SURE, WORDS, score_best_head
from attnprobe.statistics.best_heads import LinkCondition
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.links import LinkCounts, assign_folds
from attnprobe.table.builder import Labels

VOCABULARY = [
    "the", "river", "was", "slow", "a", "cat", "walks", "dogs", "ran", "quickly", "unlikely", "houses",
]  # fmt: skip


def pairs(number, seed=0):
    """Give (text, target, sure, possible) with random words and links (word of text, of target)."""
    random = np.random.default_rng(seed)
    drawn = []
    for _ in range(number):
        text, target = (list(map(str, random.choice(VOCABULARY, random.integers(3, 8)))) for _ in range(2))
        every = list(product(range(len(text)), range(len(target))))
        links = {every[at] for at in random.choice(len(every), random.integers(2, len(text) + 2), False)}
        possible = {link for link in links if random.random() < 0.4}
        drawn.append((" ".join(text), " ".join(target), links - possible, possible))
    return drawn


def lines(gold, base=0):
    """Write the links as aligners do."""
    return [
        " ".join(
            f"{a + base}{'p' if (a, b) in possible else '-'}{b + base}" for a, b in sorted(sure | possible)
        )
        for *_, sure, possible in gold
    ]


def error_rate(gold, chosen):
    """Compute error rate, precision and recall of sets of links, one for each pair."""
    inside = certain = proposed = sure_ones = 0
    for (*_, sure, possible), links in zip(gold, chosen, strict=True):
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


def cross_maps(folder, gold, *, by_norm=False):
    """Give the links of each head, {(position, layer, head): a set for each pair}."""
    (model, tokenizer), values = load_eagerly(folder), {}
    if by_norm:
        for number, layer in enumerate(model.decoder.layers):
            layer.encoder_attn.v_proj.register_forward_hook(
                lambda _, __, out, number=number: values.__setitem__(number, out[0].double())
            )
    links = {}
    for text, target, *_ in gold:
        maps = run_beside(model, tokenizer(text)["input_ids"], tokenizer(target)["input_ids"])
        words, targets = tokens_of(tokenizer, text), tokens_of(tokenizer, target)
        for layer, whole in enumerate(maps.cross_attentions):
            rows = whole[0].double()
            lengths = torch.ones(rows.shape[0], rows.shape[2], dtype=torch.float64)
            if by_norm:
                weight = model.decoder.layers[layer].encoder_attn.out_proj.weight.detach().double()
                width = weight.shape[1] // len(rows)
                for head in range(len(rows)):
                    columns = slice(head * width, (head + 1) * width)
                    lengths[head] = (values[layer][:, columns] @ weight[:, columns].T).norm(dim=-1)
            weighed = rows * lengths[:, None]
            each = weighed / weighed.sum(-1, keepdim=True)
            for position, later in (("output", 0), ("input", 1)):
                asking = [(a + later, b + later) for a, b in targets]
                for head, map_of_head in enumerate(each):
                    chosen = {(answer, asker) for asker, answer in choose(map_of_head, asking, words).items()}
                    links.setdefault((position, layer, head), []).append(chosen)
    return links


@pytest.mark.parametrize(("name", "by_norm"), [("t5", False), ("bart", True)])
def test_of_cross_attention(name, by_norm, saved):
    gold = pairs(12)
    links = cross_maps(saved(name), gold, by_norm=by_norm)
    texts = [(text, target) for text, target, *_ in gold]
    given = {"alignments": lines(gold), "metric": "aer", "weights": "norm" if by_norm else "attention"}
    sources, targets = zip(*texts, strict=True)
    table = attnprobe.links(str(saved(name)), list(sources), targets=list(targets), by="head", **given)
    rows = table.to_pandas()
    assert len(rows) == len(links)
    assert set(rows.direction) == {"target_to_source"}
    assert set(rows.attention) == {"cross"}
    assert set(rows.n) == {len(gold)}
    assert ("weights" in rows) == by_norm
    place = [
        {(int((b + 0.5) / len(target.split()) * len(text.split())), b) for b in range(len(target.split()))}
        for text, target in texts
    ]
    for _, row in rows.iterrows():
        expected = error_rate(gold, links[row.position, row.layer, row["head"]])
        assert (row.aer, row.precision, row.recall) == pytest.approx(expected, abs=1e-9)
        assert row.baseline == pytest.approx(error_rate(gold, place)[0])
    assert len({round(error_rate(gold, one)[0], 6) for one in links.values()}) > 3


def test_within_an_encoder(saved):
    """Two texts are asked from the second to the first, and from the first to the second."""
    gold, folder, links = pairs(10, seed=1), saved("bert"), {}
    model, tokenizer = load_eagerly(folder)
    for text, target, *_ in gold:
        given = tokenizer(text, target, return_tensors="pt", return_offsets_mapping=True)
        offsets, parts = given.pop("offset_mapping")[0].tolist(), given.sequence_ids(0)
        with torch.no_grad():
            maps = model(**given, output_attentions=True).attentions
        sides = []
        for part, sentence in enumerate((text, target)):
            tokens_of_part = [(t, *ends) for t, ends in enumerate(offsets) if parts[t] == part]
            inside = [[t for t, c, d in tokens_of_part if d > a and c < b] for a, b in spans(sentence)]
            sides.append([(tokens[0], tokens[-1] + 1) for tokens in inside])
        for layer, whole in enumerate(maps):
            for head, rows in enumerate(whole[0].double()):
                back = {(answer, asker) for asker, answer in choose(rows, sides[1], sides[0]).items()}
                links.setdefault(("target_to_source", layer, head), []).append(back)
                forth = set(choose(rows, *sides).items())
                links.setdefault(("source_to_target", layer, head), []).append(forth)
    texts = [(text, target) for text, target, *_ in gold]
    table = attnprobe.links(str(folder), texts, alignments=lines(gold), metric="aer", by="head")
    rows = table.to_pandas()
    assert len(rows) == len(links)
    for _, row in rows.iterrows():
        expected = error_rate(gold, links[row.direction, row.layer, row["head"]])
        assert (row.aer, row.precision, row.recall) == pytest.approx(expected, abs=1e-9)


def test_the_head_that_made_the_alignment_wins(saved):
    """Gold is what one head attends to most: it is found on one half, and makes no error on the other."""
    drawn = pairs(40, seed=3)
    links = cross_maps(saved("bart"), drawn)
    chosen = links["output", 1, 1]
    planted = [
        (text, target, links_of_pair, set())
        for (text, target, *_), links_of_pair in zip(drawn, chosen, strict=True)
    ]
    rows = [
        {
            "text": text,
            "target": target,
            "words": spans(text),
            "words_target": spans(target),
            "links": [
                {"source": spans(target)[b], "source_in": "target", "target": spans(text)[a]}
                for a, b in links_of_pair
            ],
        }
        for text, target, links_of_pair, _ in planted
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


def test_chosen_on_other_folds():
    """Each fold is scored with the head that a loop finds to be the best of the others."""
    random, folds, positions = np.random.default_rng(3), 4, ("output", "input")
    keys = [(label, "target_to_source", position) for label in (WORDS, SURE, PAIRS) for position in positions]
    counts = LinkCounts.empty(keys, [0, 0], 3, 1)
    words, sure = counts.number[0, 0], counts.number[2, 0]
    for place, number in ((0, random.integers(2, 12, BLOCKS)), (2, random.integers(1, 9, BLOCKS))):
        counts.number[place : place + 2] = number
        counts.hits[place : place + 2] = random.binomial(number, random.random((2, 2, 3, 1)))
        counts.guessed[place : place + 2] = random.binomial(number, 0.2)
    counts.number[4:] = 2
    counts.hits[:4, 0, 1] = counts.number[:4, 0]  # which would be the best
    labels = Labels(
        "m", "d", {"asked": {"folds": folds}}, [Place(layer, Kind.CROSS) for layer in range(2)],
        removed={(0, 1)},
    )  # fmt: skip
    condition = LinkCondition(WORDS, "target_to_source", Kind.CROSS, [0, 1], keys[:2])
    row = score_best_head(counts, condition, labels, 1)
    fold = assign_folds(folds)
    cells = [cell for cell in np.ndindex(2, 2, 3) if cell[1:] != (0, 1)]

    def rate(cell, blocks):
        position, *head = cell
        right = sum(counts.hits[(place + position, *head)][blocks].sum() for place in (0, 2))
        return 1 - right / (words + sure)[blocks].sum()

    chosen = [min(cells, key=lambda cell: rate(cell, fold != left_out)) for left_out in range(folds)]
    in_words, in_sure = (
        sum(
            counts.hits[(place + cell[0], *cell[1:])][fold == left_out].sum()
            for left_out, cell in enumerate(chosen)
        )
        for place in (0, 2)
    )
    total = words.sum() + sure.sum()
    expected = {
        "n": 2 * BLOCKS,
        "aer": 1 - (in_words + in_sure) / total,
        "precision": in_words / words.sum(),
        "recall": in_sure / sure.sum(),
        "baseline": 1 - counts.guessed[[0, 2], 0, 0].sum() / total,
        "aer_selected": min(rate(cell, fold >= 0) for cell in cells),
        "chosen": chosen.count(max(set(chosen), key=chosen.count)) / folds,
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected)
    assert row["gain"] == pytest.approx(row["baseline"] - row["aer"])
    assert (row["layer"], row["head"]) == max(set(chosen), key=chosen.count)[1:]
    # All documents in one fold: nothing can be chosen.
    for name in ("number", "hits", "guessed"):
        getattr(counts, name)[..., fold > 0] = 0
    row = score_best_head(counts, condition, labels, 1)
    assert (row["n"], "layer" in row) == (0, False)
