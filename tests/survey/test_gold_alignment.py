"""The gold alignment of one pair of texts: against loops over its maps, and against the table of `links`."""

import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from transformers import AutoTokenizer

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.reports.view_alignment import describe_alignment, describe_rates, list_kinds, place_marks
from attnprobe.survey.tokens import group_tokens

TEXT, TARGET = "the unlikely river was slow", "a cat walks quickly"
LINE = "0-0 1-1 2p1 2-3 4-2"
SURE, POSSIBLE = {(0, 0), (1, 1), (2, 3), (4, 2)}, {(2, 1)}
SVG = "{http://www.w3.org/2000/svg}"


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


@pytest.mark.parametrize("name", ["bart", "t5", "marian"])
def test_across_it_is_what_loops_find(name, saved):
    folder = saved(name)
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


def test_words_are_those_between_blanks(saved):
    """Punctuation is a part of its word, as aligners have it that split at blanks; marks cover words."""
    view = attnprobe.view(saved("bert"), "The dog ran.", "by night, late", alignment="2-1 0p0")
    (maps,) = view.seen.maps
    assert maps.queries is maps.keys
    assert [one for one in maps.queries.word_labels if one.isalpha() or "." in one or "," in one] == [
        "The", "dog", "ran.", "by", "night,", "late",
    ]  # fmt: skip
    assert view.start.words
    assert view.start.draw == "map"
    every = np.arange(len(maps.queries.word_labels))
    marks = place_marks(maps, every, every, words=True)
    said = {
        (maps.queries.word_labels[one.rows[0]], maps.queries.word_labels[one.columns[0]], one.name)
        for one in marks
    }
    assert said == {
        ("ran.", "night,", "sure link"), ("night,", "ran.", "sure link"),
        ("The", "by", "possible link"), ("by", "The", "possible link"),
    }  # fmt: skip
    assert all(one.rows[1] - one.rows[0] == 1 for one in marks)
    # Of tokens, a mark covers all pieces; of hidden ones, none is left.
    tokens = np.arange(len(maps.queries))
    pieces = max(place_marks(maps, tokens, tokens, words=False), key=lambda one: one.rows[1] - one.rows[0])
    assert pieces.rows[1] - pieces.rows[0] > 1
    assert place_marks(maps, tokens[:1], tokens, words=False) == []


def test_it_opens_on_the_head_with_the_fewest_errors(saved):
    view = attnprobe.view(saved("bart"), TEXT, target=TARGET, alignment=LINE)
    maps = view.seen.of("cross")
    every = np.stack([way.rates[..., 0] for way in maps.alignment.ways]).min(0)
    assert view.start.kind == "cross"
    assert every[view.start.layer, view.start.head] == every.min()
    assert view.chosen  # so that a graphic shows it too
    named = attnprobe.view(saved("bart"), TEXT, target=TARGET, alignment=LINE, layer=1, head=0)
    assert (named.start.layer, named.start.head) == (1, 0)


@pytest.mark.parametrize("draw", ["map", "lines"])
def test_a_graphic_marks_every_link_in_its_place(draw, saved):
    view = attnprobe.view(saved("bart"), TEXT, target=TARGET, alignment=LINE, draw=draw, hide_special=True)
    maps = view.seen.of("cross")
    root = ElementTree.fromstring(view.svg)
    texts = root.findall(f"{SVG}text") + root.findall(f"{SVG}g/{SVG}text")
    labels = {one.text: one for one in texts}
    marks = [one for one in root.iter() if one.find(f"{SVG}title") is not None and one.tag != f"{SVG}svg"]
    marks = marks[-5:]  # before them, a legend
    kinds = [one.find(f"{SVG}title").text.split(",")[0] for one in marks]
    assert sorted(kinds) == ["possible link"] + ["sure link"] * 4
    assert sum("stroke-dasharray" in one.attrib for one in marks) == 1
    found = set()
    for one in marks:
        sure = one.find(f"{SVG}title").text.startswith("sure link")
        assert sure == ("stroke-dasharray" not in one.attrib)
        if draw == "map":
            middle = float(one.get("y")) + float(one.get("height")) / 2
            across = float(one.get("x")) + float(one.get("width")) / 2
            columns = {
                word: float(re.match(r"translate\(([\d.]+)", group.get("transform"))[1])
                for group in root.findall(f"{SVG}g")
                if (word := group.find(f"{SVG}text").text) in TEXT.split()
            }
            answer = min(columns, key=lambda word: abs(columns[word] - across))
        else:
            start, stop = re.findall(r"[\d.]+ ([\d.]+)", one.get("d"))
            middle, across = float(start), float(stop)
            answer = min(TEXT.split(), key=lambda word: abs(float(labels[word].get("y")) - 4 - across))
        asker = min(TARGET.split(), key=lambda word: abs(float(labels[word].get("y")) - 4 - middle))
        found.add((TEXT.split().index(answer), TARGET.split().index(asker), sure))
    assert found == {(*one, one in SURE) for one in SURE | POSSIBLE}
    said = " ".join(one.text for one in texts)
    way = maps.alignment.ways[0]
    hits = way.hits[view.start.layer, view.start.head]
    aer = way.rates[view.start.layer, view.start.head, 0]
    assert f"{hits:.0f} of 4 sure links hit; alignment error rate (AER) {aer:.2f}" in said


def test_only_what_occurs_is_in_the_legend(saved):
    for line, names in (
        ("0-0", ["sure link"]), ("0p0", ["possible link"]), ("1p1 0-0", ["sure link", "possible link"]),
    ):  # fmt: skip
        view = attnprobe.view(saved("bert"), TEXT, TARGET, alignment=line, draw="lines")
        (maps,) = view.seen.maps
        every = np.arange(len(maps.queries.word_labels))
        assert [one.name for one in list_kinds(place_marks(maps, every, every, words=True))] == names
        marks = place_marks(maps, every, every, words=True, head=(view.start.layer, view.start.head))
        kinds = [one.name for one in list_kinds(marks)]
        assert set(kinds) == {one.name for one in marks}
        root = ElementTree.fromstring(view.svg)
        assert [one.text for one in root.findall(f"{SVG}text") if " link, " in one.text] == kinds


def ask_by_loops(name, folder, maps):
    """List the ways in which words are asked: who asks, who answers, whether from the target."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    words = words_of(tokenizer, TEXT)
    if name == "bart":
        shift = min(len(maps.queries) - len(tokenizer(TARGET)["input_ids"]), 0)
        read = words_of(tokenizer, TARGET, 1 + shift)  # the decoder begins with a token of its own
        return {
            "where the decoder predicts a word": ([(a - 1, b - 1) for a, b in read], words, True),
            "where the decoder reads a word": (read, words, True),
        }
    before = len(tokenizer(TEXT)["input_ids"]) - 1  # what begins a text stands once
    others = words_of(tokenizer, TARGET, before)
    return {
        "from the second text to the first": (others, words, True),
        "from the first text to the second": (words, others, False),
    }


@pytest.mark.parametrize("name", ["bart", "bert"])
def test_sentences_and_squares_of_a_picture_are_what_loops_find(name, saved):
    """The title, the sentences below it and how heavy each square is, for every head."""
    given = {"target": TARGET} if name == "bart" else {"text_pair": TARGET}
    weights, titles = set(), set()
    for layer, head in np.ndindex(2, 4):
        view = attnprobe.view(saved(name), TEXT, alignment=LINE, layer=layer, head=head, **given)
        maps = next(one for one in view.seen.maps if one.alignment is not None)
        rows = maps.rows[layer, head].astype(float)
        root = ElementTree.fromstring(view.svg)
        said = " ".join(one.text for one in root.findall(f"{SVG}text"))
        ways, expected, found = ask_by_loops(name, saved(name), maps), {}, []
        for way, (asking, answering, turned) in ways.items():
            links = choose(rows, asking, answering)
            hits, aer, precision, recall = rate(links, turned)
            found.append((-hits, aer, way))
            assert (
                f"{way[0].upper()}{way[1:]}: {hits} of 4 sure links hit; alignment error rate (AER) "
                f"{aer:.2f}, precision {precision:.2f}, recall {recall:.2f}."
            ) in said
            for a, b in SURE | POSSIBLE:
                pair = (b, a) if turned else (a, b)
                if way != "where the decoder predicts a word":
                    place = maps.queries.words[asking[pair[0]][0]], maps.keys.words[answering[pair[1]][0]]
                    expected[place] = ((a, b) in SURE, pair in links)
        hits, _, best = min(found, key=lambda one: one[:2])
        kind = "Cross " if name == "bart" else ""
        ways = [(hits, best), *((hits, way) for hits, _, way in found if way != best)]
        counted = ", ".join(f"{-hits} of 4 sure links {way}" for hits, way in ways)
        title = f"{kind}L{layer} H{head} finds {counted}"
        assert root.find(f"{SVG}title").text == title
        assert said.startswith(f"{title} {'Cross layer' if kind else 'Layer'} {layer}, head {head}. ")
        assert "the largest attention of its word within the other text" in said
        assert ("Marks show hits where the decoder reads a word" in said) == (name == "bart")
        titles.add(-hits)
        squares = [one for one in root.iter(f"{SVG}rect") if one.find(f"{SVG}title") is not None]
        frame = next(one for one in root.iter(f"{SVG}rect") if one.get("stroke-width") == "0.5")
        x, y, cell = float(frame.get("x")), float(frame.get("y")), float(frame.get("width"))
        cell /= len(maps.keys.word_labels)
        drawn = {}
        for one in squares[-len(expected) :]:
            row, column = (int((float(one.get(name)) - at) / cell) for name, at in (("y", y), ("x", x)))
            heavy = float(one.get("stroke-width")) > 2
            assert heavy == one.find(f"{SVG}title").text.endswith(", hit")
            drawn[row, column] = ("stroke-dasharray" not in one.attrib, heavy)
            weights.add(one.get("stroke-width"))
        assert drawn == expected
    assert len(weights) == 2
    assert len(titles) > 1


def test_one_link_and_none_for_sure_are_said_right(saved):
    given = {"layer": 0, "head": 0}
    one = attnprobe.view(saved("bert"), TEXT, TARGET, alignment="0-0", **given)
    assert re.search(r"<title>L0 H0 finds [01] of 1 sure link from the", one.svg)
    none = attnprobe.view(saved("bert"), TEXT, TARGET, alignment="0p0", **given)
    assert "<title>Layer 0, head 0</title>" in none.svg
    rolled = attnprobe.view(saved("bert"), TEXT, TARGET, alignment="0-0", layer=1, rollout=True)
    assert "<title>Rollout up to layer 1</title>" in rolled.svg
    assert "<title>sure link</title>" in rolled.svg  # of what is no head, nobody says what it hits
    assert "hit" not in rolled.svg


@pytest.mark.parametrize(
    ("given", "before"),
    [
        ({"text_pair": TARGET}, 7), ({"text_pair": TARGET, "alignment": LINE}, 7),
        ({"text_pair": TARGET, "hide_special": True}, 5), ({}, 0),
    ],
)  # fmt: skip
def test_lines_part_two_texts_in_one_sequence(given, before, saved):
    """So many words stand before the second text: those of the first, and what frames it."""
    view = attnprobe.view(saved("bert"), TEXT, words=True, draw="map", layer=0, head=0, **given)
    root = ElementTree.fromstring(view.svg)
    frame = next(one for one in root.iter(f"{SVG}rect") if one.get("stroke-width") == "0.5")
    x, y, wide = (float(frame.get(name)) for name in ("x", "y", "width"))
    shown = len(view.seen.maps[0].queries.word_labels) - 3 * bool(given.get("hide_special"))
    lines = [one.get("d") for one in root.iter(f"{SVG}path") if one.get("stroke-width") == "1.2"]
    at = before * wide / shown
    expected = [f"M{x - 6:g} {y + at:g}l{wide + 6:g} 0", f"M{x + at:g} {y - 6:g}l0 {wide + 6:g}"]
    assert lines == (expected if before else [])


def test_nothing_parts_two_texts_that_meet_across(saved):
    view = attnprobe.view(saved("bart"), TEXT, target=TARGET, alignment=LINE)
    assert 'stroke-width="1.2"' not in view.svg


def test_a_page_holds_links_and_what_every_head_finds(saved):
    view = attnprobe.view(saved("bart"), TEXT, target=TARGET, alignment=LINE)
    maps = view.seen.of("cross")
    gold = describe_alignment(maps)
    links = gold["links"]
    assert {((a, b), (c, d), bool(sure)) for a, b, c, d, sure in links} == set(maps.alignment.links)
    assert [[[int(one) for one in hits] for hits in layer] for layer in gold["hits"]] == (
        maps.alignment.hits.astype(int).tolist()
    )
    for note, way in zip(describe_rates(maps), maps.alignment.ways, strict=True):
        hits, *rates = note["columns"]
        assert hits["texts"] == [[f"{one:.0f} of 4" for one in line] for line in way.hits]
        for column, values in zip(rates, np.moveaxis(way.rates, -1, 0), strict=True):
            np.testing.assert_allclose(np.array(column["texts"], float), values, atol=6e-4)
    plain = attnprobe.view(saved("bart"), TEXT, target=TARGET)
    assert all(describe_alignment(one) is None and describe_rates(one) == [] for one in plain.seen.maps)
    rows = group_tokens(maps.rows, maps.queries.words, maps.keys.words)
    np.testing.assert_allclose(rows.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("bart", {"target": TARGET, "alignment": "0-4"}, "its words count from 0 to 3."),
        ("bart", {"target": TARGET, "alignment": "0-9"}, "a word of the second text that is not there"),
        ("bart", {"target": TARGET, "alignment": "5-0"}, "its words count from 0 to 4."),
        ("bart", {"target": TARGET, "alignment": "0x0"}, "'0x0' is no link"),
        ("bart", {"target": TARGET, "alignment": " "}, "The alignment is blank"),
        ("bart", {"target": TARGET, "alignment": ["0-0"]}, "not of type list"),
        ("bart", {"target": " ", "alignment": "0-0"}, "The target is blank"),
        ("bart", {"alignment": "0-0"}, "alignment is between the words of two texts"),
        ("bert", {"alignment": "0-0", "target": TARGET}, "give the second text behind the first"),
        ("bert", {"alignment": "0-0", "text_pair": TARGET, "attention": "cross"}, "has no cross attention"),
        ("bart", {"alignment": "0-0", "target": TARGET, "attention": "encoder"}, "aligned in the cross"),
        ("bert", {"alignment": "0-0", "text_pair": TARGET, "max_length": 5}, "leave out max_length"),
        ("bert", {"alignment": "0-0", "text_pair": TARGET, "image": "x.png"}, "leave out image"),
    ],
)  # fmt: skip
def test_what_can_not_be_aligned_is_one_sentence(name, given, said, saved):
    with pytest.raises(AttnprobeError) as found:
        attnprobe.view(saved(name), TEXT, **given)
    assert said in str(found.value)
    assert "\n" not in str(found.value)


def test_the_command_line_refuses_with_two(saved, tmp_path):
    command = [
        sys.executable,
        "-m",
        "attnprobe",
        "view",
        str(saved("bert")),
        TEXT,
        TARGET,
        "--alignment",
        "0-7",
    ]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "x.html")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "count from 0 to 3" in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())
