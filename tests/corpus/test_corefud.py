"""CorefUD: brackets become mentions, and mentions questions."""

import random

import pytest

from attnprobe.corpus.coreference import read_coreference
from attnprobe.errors import AttnprobeError

DECLARED = "# global.Entity = eid-etype-head-other"


def row(number, form, part="X", head="_", misc="_"):
    return f"{number}\t{form}\t_\t{part}\t_\t_\t{head}\t_\t_\t{misc}"


def read(lines):
    return list(read_coreference([f"{line}\n" for line in lines], "it.conllu"))


def told(document):
    """Give the links as words: kind, source, target, other right ones, candidates, first guesses."""

    def word(span):
        return document.text[span.start : span.stop]

    return [
        (
            link.label,
            word(link.source),
            word(link.target),
            [word(one) for one in link.also],
            [word(one) for one in link.candidates],
            {rule: word(at) for rule, at in reversed(link.guesses) if rule in ("nearest", "same last word")},
        )
        for link in document.annotation.links
    ]


#: "The keeper of the old lion" holds another mention, and an empty node stands for a subject without a word.
ZOO = [
    "# newdoc id = zoo",
    DECLARED,
    "# newpar",
    "# text = The keeper of the old lion slept.",
    row(1, "The", "DET", 2, "Entity=(e1-person-2-"),
    row(2, "keeper", "NOUN", 7),
    row(3, "of", "ADP", 6),
    row(4, "the", "DET", 6, "Entity=(e2-animal-3-"),
    row(5, "old", "ADJ", 6),
    row(6, "lion", "NOUN", 2, "Entity=e2)e1)"),
    row(7, "slept", "VERB", 0, "SpaceAfter=No"),
    row(8, ".", "PUNCT", 7),
    "",
    "# text = It woke him and fled; this Lion",
    row(1, "It", "PRON", 2, "Entity=(e2-animal-1)"),
    row(2, "woke", "VERB", 0),
    row(3, "him", "PRON", 2, "Entity=(e1-person-1)"),
    row("3.1", "_", "PRON", "_", "Entity=(e2-animal-1)"),
    row(4, "and", "CCONJ", 5),
    row(5, "fled", "VERB", 2, "SpaceAfter=No"),
    row(6, ";", "PUNCT", 2),
    row(7, "this", "DET", 8, "Entity=(e2-animal-2-"),
    row(8, "Lion", "PROPN", 2, "Entity=e2)"),
    "",
    "# newpar",
    row(1, "They", "PRON", 2, "Entity=(e3-thing-1)"),
    row(2, "left", "VERB", 0),
    row(3, "That", "DET", 2, "Entity=(e3-thing-1)"),
]


def test_a_document_with_nested_mentions_and_an_empty_node():
    (document,) = read(ZOO)
    assert (
        document.text == "The keeper of the old lion slept. It woke him and fled; this Lion\nThey left That"
    )
    assert told(document) == [
        ("pronoun", "It", "lion", [], ["keeper", "lion"], {"nearest": "lion"}),
        ("pronoun", "him", "keeper", [], ["keeper", "lion", "It"], {"nearest": "It"}),
        (
            "proper",
            "Lion",
            "It",
            ["lion"],
            ["keeper", "lion", "It", "him"],
            # the keeper is the first whose mention ends in "lion"
            {"nearest": "him", "same last word": "keeper"},
        ),
        ("pronoun", "That", "They", [], ["keeper", "lion", "It", "him", "Lion", "They"], {"nearest": "They"}),
    ]
    words = [document.text[word.start : word.stop] for word in document.annotation.words]
    assert words == document.text.replace(".", " .").replace(";", " ;").split()
    assert document.part_of is None


def test_mentions_that_cross_and_one_in_pieces():
    lines = [
        DECLARED,
        row(1, "red", "ADJ", 2, "Entity=(e1-x-2"),
        row(2, "roofs", "NOUN", 0, "Entity=(e2-x-1"),
        row(3, "gleam", "VERB", 2, "Entity=e1)"),
        row(4, "here", "NOUN", 2, "Entity=e2)(e3[1/2]-x-2-"),
        row(5, "now", "ADV", 2, "Entity=e3[1/2])"),
        row(6, "and", "CCONJ", 2),
        row(7, "there", "ADV", 2, "Entity=(e3[2/2]-x-2-)"),
        row(8, "they", "PRON", 2, "Entity=(e1)"),
        row(9, "do", "VERB", 2, "Entity=(e3-x-1)"),
    ]
    (document,) = read(lines)
    assert told(document) == [
        ("pronoun", "they", "roofs", [], ["roofs", "now"], {"nearest": "now"}),
        ("other", "do", "now", [], ["roofs", "now", "they"], {"nearest": "they"}),
    ]


def test_a_mention_that_goes_on_in_the_next_sentence():
    lines = [
        DECLARED,
        row(1, "a", "X", 0, "Entity=(e1--3"),
        "",
        row(1, "b", "X", 0),
        row(2, "c", "X", 1, "Entity=e1)(e2--1)"),
        row(3, "d", "X", 1, "Entity=(e1--1)"),
    ]
    # the third word of the first mention is c, which another one shares: there is nothing to choose
    with pytest.raises(AttnprobeError, match="no mention with an antecedent"):
        read(lines)
    lines[1] = lines[1].replace("(e1--3", "(e1--2")
    assert [link[1:3] for link in told(read(lines)[0])] == [("d", "b")]


def test_a_head_is_looked_for_where_none_is_declared_or_it_lies_outside():
    words = [("the", "DET", 3), ("old", "ADJ", 3), ("lion", "NOUN", 5), ("there", "ADV", 3)]
    for declared, expected in [("", "lion"), ("-x-9", "lion"), ("-x-0", "lion"), ("-x-2", "old")]:
        rows = [row(place, *word) for place, word in enumerate(words, start=1)]
        rows[0] = row(1, *words[0], f"Entity=(e1{declared}")
        rows[3] = row(4, *words[3], "Entity=e1)")
        rows += [row(5, "saw", "VERB", 0), row(6, "me", "PRON", 5, "Entity=(e2)")]
        rows += [row(7, "itself", "PRON", 5, "Entity=(e1)")]
        assert [link[1:3] for link in told(read([DECLARED, *rows])[0])] == [("itself", expected)]


def test_older_names_of_the_fields():
    rows = [
        row(1, "a", "X", 0, "Entity=(person-1-new"),
        row(2, "b", "X", 1, "Entity=person-1)(place-2-new)"),
        row(3, "c", "X", 1, "Entity=(person-1-giv)"),
    ]
    lines = ["# global.Entity = entity-GRP-infstat", *rows]
    assert [link[1:3] for link in told(read(lines)[0])] == [("c", "a")]


@pytest.mark.parametrize(
    "misc",
    ["(e1-x-1", "e1)", "(e1[1/2])", "(e1[2/2])", "(e1[3/2])", "(e1[1/2](e2)e1)", "(-x)", "(e1-x-first)",
     "e1", "(e1)e2", "()", "e" * 200_000, "(e1\x1b[2J"],
)  # fmt: skip
def test_brackets_that_make_no_mentions(misc):
    with pytest.raises(AttnprobeError, match=r"line 3 of it\.conllu") as caught:
        read([DECLARED, row(1, "a"), row(2, "b", misc=f"Entity={misc}"), row(3, "c")])
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "lines",
    [
        [DECLARED, row("1-2", "du", misc="Entity=(e1)"), row(1, "de"), row(2, "le")],
        ["# global.Entity = etype-head", row(1, "a", misc="Entity=(e1)")],
        [row(1, "a"), row(2, "b")],
    ],
)
def test_what_has_no_mentions(lines):
    with pytest.raises(AttnprobeError, match=r"it\.conllu"):
        read(lines)


def test_noise_is_refused_or_read():
    draw = random.Random(3)
    text = "\n".join(ZOO)
    for _ in range(300):
        noisy = list(text)
        for _ in range(draw.randrange(1, 6)):
            noisy[draw.randrange(len(noisy))] = draw.choice("()[]/-e12\t\n#=|._ ")
        try:
            documents = read("".join(noisy).split("\n"))
        except AttnprobeError as error:
            assert "it.conllu" in str(error)  # noqa: PT017
        else:
            assert all(document.annotation.links for document in documents)
