"""The gold alignment of one pair of texts: against loops over its maps, and against the table of `links`."""

import re

import numpy as np
import pytest
from transformers import AutoTokenizer

import attnprobe
from attnprobe.errors import AttnprobeError

TEXT, TARGET = "the unlikely river was slow", "a cat walks quickly"
LINE = "0-0 1-1 2p1 2-3 4-2"
SURE, POSSIBLE = {(0, 0), (1, 1), (2, 3), (4, 2)}, {(2, 1)}


def words_of(tokenizer, text, before=0):
    """Give the tokens of each word, from the first to behind the last."""
    offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    ends = [one.span() for one in re.finditer(r"\S+", text)]
    found = [[t for t, (a, b) in enumerate(offsets) if a < stop and b > start] for start, stop in ends]
    return [(some[0] + before, some[-1] + 1 + before) for some in found]


def choose(rows, asking, answering):
    """Let each word that asks choose the one that it attends to most: {(asker, answer)}."""
    mass = [[rows[a:b, c:d].sum(1).mean() for c, d in answering] for a, b in asking]
    return {(asker, int(np.argmax(line))) for asker, line in enumerate(mass)}


def rate(links, turned=False):
    """Compute hits, error rate, precision and recall of links (word of the text, word of the target)."""
    links = {(b, a) for a, b in links} if turned else links
    inside, certain = len(links & (SURE | POSSIBLE)), len(links & SURE)
    return (
        certain,
        1 - (certain + inside) / (len(links) + len(SURE)),
        inside / len(links),
        certain / len(SURE),
    )


def test_across_it_is_what_loops_find(saved):
    folder = saved("t5")
    view = attnprobe.view(folder, TEXT, target=TARGET, alignment=LINE)
    maps = view.seen.of("cross")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    words = words_of(tokenizer, TEXT)
    assert [way.name for way in maps.alignment.ways] == [
        "where the decoder predicts a word", "where the decoder reads a word",
    ]  # fmt: skip
    seen = set()
    for later, way in enumerate(maps.alignment.ways):
        # What the decoder begins with moves each of its tokens one place on.
        shift = len(maps.queries) - len(tokenizer(TARGET)["input_ids"])
        targets = words_of(tokenizer, TARGET, later + min(shift, 0))
        for layer, head in np.ndindex(*maps.rows.shape[:2]):
            hits, *rates = rate(choose(maps.rows[layer, head].astype(float), targets, words), turned=True)
            assert way.hits[layer, head] == hits
            assert way.rates[layer, head] == pytest.approx(rates, abs=1e-9)
            seen.add(round(rates[0], 6))
    assert len(seen) > 2
    # Marks stand where the decoder reads a word.
    expected = {
        (targets[b], words[a], (a, b) in SURE) for a, b in SURE | POSSIBLE
    }  # fmt: skip
    assert set(maps.alignment.links) == expected
    for layer, head in np.ndindex(*maps.rows.shape[:2]):
        links = choose(maps.rows[layer, head].astype(float), targets, words)
        assert maps.alignment.hits[layer, head].tolist() == [
            (targets.index(asker), words.index(answer)) in links for asker, answer, _ in maps.alignment.links
        ]
    assert 0 < maps.alignment.hits.mean() < 1
    assert [one.alignment is None for one in view.seen.maps] == [True, True, False]


@pytest.mark.parametrize(
    ("name", "given"),
    [("bart", {"target": TARGET}), ("bert", {"text_pair": TARGET}), ("llama", {"text_pair": TARGET})],
)
def test_it_is_what_links_tabulates(name, given, saved):
    """One pair of texts is a corpus too: the same numbers, in the same columns."""
    folder = saved(name)
    view = attnprobe.view(folder, TEXT, alignment=LINE, **given)
    (maps,) = [one for one in view.seen.maps if one.alignment is not None]
    given = {"alignments": [LINE], "metric": "aer", "by": "head", "targets": [TARGET]}
    table = attnprobe.links(str(folder), [TEXT], **given).to_pandas()
    names = {
        "where the decoder predicts a word": ("target_to_source", "output"),
        "where the decoder reads a word": ("target_to_source", "input"),
        "from the second text to the first": ("target_to_source", ""),
        "from the first text to the second": ("source_to_target", ""),
    }
    compared = 0
    for way in maps.alignment.ways:
        direction, position = names[way.name]
        rows = table[table.direction == direction]
        rows = rows[rows.position == position] if position else rows
        for _, row in rows.iterrows():
            place = maps.layers.index(row.layer), row["head"]
            assert way.rates[place] == pytest.approx([row.aer, row.precision, row.recall], abs=1e-12)
            compared += 1
    assert compared == len(table)


def test_it_opens_on_the_head_with_the_fewest_errors(saved):
    view = attnprobe.view(saved("bart"), TEXT, target=TARGET, alignment=LINE)
    maps = view.seen.of("cross")
    every = np.stack([way.rates[..., 0] for way in maps.alignment.ways]).min(0)
    assert view.start.kind == "cross"
    assert every[view.start.layer, view.start.head] == every.min()
    assert view.chosen  # so that a graphic shows it too
    named = attnprobe.view(saved("bart"), TEXT, target=TARGET, alignment=LINE, layer=1, head=0)
    assert (named.start.layer, named.start.head) == (1, 0)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("bart", {"target": TARGET, "alignment": "0-4"}),
        ("bart", {"target": TARGET, "alignment": "0x0"}),
        ("bart", {"target": TARGET, "alignment": " "}),
        ("bart", {"alignment": "0-0"}),
        ("bert", {"alignment": "0-0", "target": TARGET}),
        ("bert", {"alignment": "0-0", "text_pair": TARGET, "attention": "cross"}),
        ("bert", {"alignment": "0-0", "text_pair": TARGET, "max_length": 5}),
    ],
)
def test_what_can_not_be_aligned_is_refused(name, given, saved):
    with pytest.raises(AttnprobeError):
        attnprobe.view(saved(name), TEXT, **given)
