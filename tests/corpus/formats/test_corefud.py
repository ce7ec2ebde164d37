"""CorefUD: brackets become mentions, and mentions questions."""

import random

import pytest

from attnprobe.corpus.formats import read_coreference
from attnprobe.corpus.sources.links import NEAREST, SAME_WORD
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
            {rule: word(span) for rule, span in reversed(link.guesses) if rule in {NEAREST, SAME_WORD}},
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
            {"nearest": "him", SAME_WORD: "keeper"},
        ),
        (
            "pronoun",
            "That",
            "They",
            [],
            ["keeper", "lion", "It", "him", "Lion", "They"],
            {"nearest": "They"},
        ),
    ]
    words = [document.text[word.start : word.stop] for word in document.annotation.words]
    assert words == document.text.replace(".", " .").replace(";", " ;").split()
    assert document.group is None


def test_what_is_guessed_by_spelling_and_kind():
    """ "this Lion" has the head word of "the old lion", and no mention has all its words."""
    (document,) = read(ZOO)
    link = next(link for link in document.annotation.links if link.label == "proper")
    guesses = dict(reversed(link.guesses))
    found = {rule: document.text[span.start : span.stop] for rule, span in guesses.items()}
    assert found["same head word"] == found["same string"] == found["nearest nominal"] == "lion"
    assert found["nearest pronoun"] == "him"


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


@pytest.mark.parametrize(
    ("part", "alone", "kind"),
    [
        ("PRON", True, "pronoun"),
        ("PRON", False, "pronoun"),
        ("DET", True, "pronoun"),
        ("DET", False, "other"),
        ("PROPN", True, "proper"),
        ("NOUN", False, "nominal"),
        ("VERB", True, "other"),
        ("_", True, "other"),
    ],
)
def test_kinds_of_mention(part, alone, kind):
    rows = [row(1, "a", "X", 0, "Entity=(e1)"), row(2, "b", "X", 1, "Entity=(e2)")]
    last = "Entity=(e1--1)" if alone else "Entity=(e1--1"
    rows += [row(3, "c", part, 1, last), row(4, "d", "X", 1, "_" if alone else "Entity=e1)")]
    assert [link[:3] for link in told(read([DECLARED, *rows])[0])] == [(kind, "c", "a")]


def test_words_of_one_token_are_no_candidates_of_each_other():
    rows = [
        row(1, "Ana", "PROPN", 2, "Entity=(e1)"),
        row(2, "vio", "VERB", 0),
        row(3, "pan", "NOUN", 2, "Entity=(e2)"),
        row("4-6", "dárselo"),
        row(4, "dar", "VERB", 2),
        row(5, "se", "PRON", 4, "Entity=(e1)"),
        row(6, "lo", "PRON", 4, "Entity=(e2)"),
    ]
    (document,) = read([DECLARED, *rows])
    candidates = ["Ana", "pan"]
    assert told(document) == [
        ("pronoun", "dárselo", "Ana", [], candidates, {"nearest": "pan"}),
        ("pronoun", "dárselo", "pan", [], candidates, {"nearest": "pan"}),
    ]
    assert len(document.annotation.words) == 4


def test_older_names_of_the_fields():
    rows = [
        row(1, "a", "X", 0, "Entity=(person-1-new"),
        row(2, "b", "X", 1, "Entity=person-1)(place-2-new)"),
        row(3, "c", "X", 1, "Entity=(person-1-giv)"),
    ]
    lines = ["# global.Entity = entity-GRP-infstat", *rows]
    assert [link[1:3] for link in told(read(lines)[0])] == [("c", "a")]


@pytest.mark.parametrize(
    ("misc", "says"),
    [
        ("Entity=(e1-x-1", "line 3 of it.conllu has a mention of 'e1' that is never closed"),
        ("Entity=e1)", "line 3 .* the end of a mention of 'e1' that is not open"),
        ("Entity=(e1[1/2])", "line 3 .* a mention of 'e1' with only 1 of its 2 parts"),
        ("Entity=(e1[2/2])", "line 3 .* part 2 of a mention of 'e1' without part 1"),
        ("Entity=(e1[3/2])", "line 3 .* names no entity"),
        ("Entity=(e1[1/2](e2)e1)", "line 3 .* the end of a mention of 'e1' that is not open"),
        ("Entity=(-x)", "line 3 .* names no entity"),
        ("Entity=(e1-x-first)", "line 3 .* 'first' for the head of a mention, which is no number"),
        ("Entity=e1", "line 3 .* not made of brackets"),
        ("Entity=(e1)e2", "line 3 .* not made of brackets"),
        ("Entity=()", "line 3 .* not made of brackets"),
        ("Entity=" + "e" * 200_000, "line 3 .* not made of brackets"),
        ("Entity=(e1\x1b[2J", r"line 3 .* 'e1\?\[2J' that is never closed"),
    ],
)
def test_brackets_that_make_no_mentions(misc, says):
    with pytest.raises(AttnprobeError, match=says):
        read([DECLARED, row(1, "a"), row(2, "b", misc=misc), row(3, "c")])


def test_an_entity_at_a_multi_word_token():
    with pytest.raises(AttnprobeError, match=r"line 2 .* multi-word token"):
        read([DECLARED, row("1-2", "du", misc="Entity=(e1)"), row(1, "de"), row(2, "le")])


@pytest.mark.parametrize("declared", [[], ["# global.Entity = etype-head"]])
def test_fields_that_nobody_declared(declared):
    with pytest.raises(AttnprobeError, match="no line above says where the entity stands"):
        read([*declared, row(1, "a", misc="Entity=(e1)")])


def test_a_treebank_without_mentions():
    with pytest.raises(AttnprobeError, match=r"it.conllu holds no mention with an antecedent"):
        read([row(1, "a"), row(2, "b")])


def test_mentions_that_ask_nothing():
    rows = [row(place, "w", misc=f"Entity=(e{entity})") for place, entity in enumerate("11221", start=1)]
    (document,) = read([DECLARED, *rows])
    assert len(document.annotation.links) == 2


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
