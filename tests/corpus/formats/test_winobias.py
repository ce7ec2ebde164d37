"""WinoBias: brackets tell the pronoun and the occupation; the file tells the other occupations."""

import pytest

from attnprobe.corpus.formats import read_coreference
from attnprobe.errors import AttnprobeError, AttnprobeWarning

LINES = [
    "1 [The welder] waved to the pilot because [he] was early.",
    "2 The welder waved to [the  tour pilot] because [she] was early.",
]


def read(*lines, name="sentences.txt"):
    return list(read_coreference([f"{line}\n" for line in lines], name))


def told(document):
    def word(span):
        return document.text[span.start : span.stop]

    return [
        (
            word(link.source),
            word(link.target),
            [word(one) for one in link.candidates],
            word(link.guesses[0][1]),
        )
        for link in document.annotation.links
    ]


def test_the_question_is_which_of_the_two():
    first, second = read(*LINES)
    assert first.text == "The welder waved to the pilot because he was early."
    assert second.text == "The welder waved to the tour pilot because she was early."
    assert told(first) == [("he", "welder", ["welder", "pilot"], "pilot")]
    assert told(second) == [("she", "pilot", ["welder", "pilot"], "pilot")]


def test_an_occupation_is_a_candidate_once():
    (found, *_) = read(
        "3 The pilot's boss met [the welder], since [they] like a welder's or a pilot's life.", *LINES
    )
    assert told(found) == [("they", "welder", ["pilot", "welder"], "welder")]
    assert found.annotation.links[0].target.start == found.text.index("welder")


def test_two_pronouns_ask_twice():
    (found, *_) = read("[The pilot] told the welder that [she] lost [her] keys.", *LINES)
    candidates = ["pilot", "welder"]
    assert told(found) == [("she", "pilot", candidates, "welder"), ("her", "pilot", candidates, "welder")]


def test_a_pronoun_that_comes_first():
    (found, *_) = read("4 Because [She] was late, [the pilot] ran past the welder.", *LINES)
    assert told(found) == [("She", "pilot", ["pilot", "welder"], "pilot")]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("a/winobias_pro_type1.dev.txt", "pronoun|pro-stereotypical"),
        ("pro_stereotyped_type1.txt.dev", "pronoun|pro-stereotypical"),
        ("Anti-type2.txt", "pronoun|anti-stereotypical"),
        ("pro/sentences.txt", "pronoun"),
        ("prose.txt", "pronoun"),
        ("pro_and_anti.txt", "pronoun"),
    ],
)
def test_what_the_name_of_the_file_says(name, label):
    assert {link.label for document in read(*LINES, name=name) for link in document.annotation.links} == {
        label
    }


def test_sentences_that_ask_nothing_are_counted():
    alone = [
        "5 [The welder] thanked a stranger because [he] helped.",
        "",
        "6 [The welder] thanked [the pilot].",
    ]
    with pytest.warns(
        AttnprobeWarning,
        match=r"left out of sentences.txt: 1 sentence with only one of .*; 1 sentence without both a pronoun",
    ):
        assert len(read(*LINES, *alone)) == 2
    with pytest.raises(
        AttnprobeError, match=r"sentences.txt holds no sentence with a pronoun in brackets and two"
    ):
        read(alone[0])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("Plain words.", "'Plain words.', without brackets: coreference reads WinoBias"),
        ("7 [The [welder]] left.", "bracket without its other half"),
        ("7 [The welder] left] him.", "bracket without its other half"),
        ("7 [ ] left.", "brackets without a word"),
        ("[" * 100_000, "without brackets"),
        ("[a" * 100_000, "without brackets"),
        ("\x1b[2J[he]", "bracket without its other half; mend '.x1b"),
    ],
)
def test_lines_that_are_made_otherwise(line, says):
    with pytest.raises(AttnprobeError, match=f"line 4 of sentences.txt .*{says}"):
        read(*LINES, "", line)
