"""A decoder beside an encoder is asked where it predicts a word, and where it reads it, one place later."""

from itertools import pairwise

import pytest
import torch
from links_by_definition import load_eagerly, run_beside, spans, tokens_of

import attnprobe

PAIRS = [
    ("the river bank was slow", "a cat walks by night", "0-0 1-1 2-3 3-2 4-4"),
    ("she said it was late", "it came early unlikely so", "0-4 1-3 2-0 4-2"),
    ("dogs ran quickly home", "birds flew south again", "0-0 1-1 2-2 3-3"),
]


def rows(*, turned=False):
    """Link words of the target with those of the text, and each word of the target with the one before."""
    linked = []
    for text, target, pairs in PAIRS:
        words, others, links = spans(text), spans(target), []
        for pair in pairs.split():
            word, target_word = map(int, pair.split("-"))
            text_end, target_end = words[word], others[target_word]
            out = {"source": target_end, "source_in": "target", "target": text_end, "label": "aligned"}
            into = {"source": text_end, "target": target_end, "target_in": "target", "label": "aligned"}
            links.append(into if turned else out)
        inside = {"source_in": "target", "target_in": "target", "label": "inside"}
        links += [{"source": b, "target": a, **inside} for a, b in pairwise(others)]
        linked.append({"text": text, "target": target, "links": links})
    return linked


def by_definition(model, tokenizer):
    """Count right answers, (kind, position, layer, head), with loops over the model's own maps."""
    right, number = {}, {}
    for text, target, pairs in PAIRS:
        maps = run_beside(model, tokenizer(text)["input_ids"], tokenizer(target)["input_ids"])
        words, targets = tokens_of(tokenizer, text), tokens_of(tokenizer, target)
        read = [(a + 1, b + 1) for a, b in targets]
        aligned = [(int(b), int(a)) for a, b in (pair.split("-") for pair in pairs.split())]
        inside = [(at, at - 1) for at in range(1, len(targets))]
        kinds = {
            "cross": (maps.cross_attentions, words, aligned),
            "decoder": (maps.decoder_attentions, read, inside),
        }
        for kind, (layers, keys, links) in kinds.items():
            for asker, answer in links:
                # Position t predicts token t of the target, and reads token t - 1.
                for position, (a, b) in (("output", targets[asker]), ("input", read[asker])):
                    number[kind, position] = number.get((kind, position), 0) + 1
                    for layer, rows_of_heads in enumerate(layers):
                        mean = rows_of_heads[0, :, a:b].double().mean(1)
                        mass = torch.stack([mean[:, c:d].sum(1) for c, d in keys], 1)
                        if kind == "decoder":
                            mass[:, asker] = -1
                        for head, choice in enumerate(mass.argmax(1).tolist()):
                            cell = kind, position, layer, head
                            right[cell] = right.get(cell, 0) + (choice == answer)
    return right, number


@pytest.mark.parametrize("turned", [False, True])
def test_of_a_target(turned, saved):
    """Links out of the target and into it are both asked from the decoder, whatever they are called."""
    model, tokenizer = load_eagerly(saved("t5"))
    right, number = by_definition(model, tokenizer)
    assert any(b - a > 1 for _, target, _ in PAIRS for a, b in tokens_of(tokenizer, target))
    table = attnprobe.links(str(saved("t5")), rows(turned=turned), by="head", min_links=1).to_pandas()
    side = "target_to_source" if turned else "source_to_target"
    assert set(table.loc[table.attention == "cross", "direction"]) == {side}
    labelled = {"cross": ("aligned", side), "decoder": ("inside", "source_to_target")}
    for (kind, position, layer, head), hits in right.items():
        label, direction = labelled[kind]
        row = table[
            (table.label == label) & (table.attention == kind) & (table.direction == direction)
            & (table.position == position) & (table.layer == layer) & (table["head"] == head)
        ]  # fmt: skip
        assert len(row) == 1
        assert row.n.item() == number[kind, position]
        assert row.accuracy.item() == pytest.approx(hits / number[kind, position])
    assert "position" not in attnprobe.links("demo", by="head", limit=4, min_links=1).data
