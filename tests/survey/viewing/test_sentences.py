"""Sentences to show heads on are sentences where the data have some, and of usual length."""

import pytest

from attnprobe.corpus.sources.document import Document
from attnprobe.survey.viewing.maps import choose_sentences


def words(*texts, verbose):
    """Stand in for a tokenizer: a token for each word."""
    return {"input_ids": [word for text in texts for word in text.split()]}


def found(*texts):
    documents = [Document(text) if isinstance(text, str) else Document(*text) for text in texts]
    picked = choose_sentences(documents, words)
    return [one.text for one in picked.documents], picked.note


HEADINGS = [f"= = Section {number} of this = =" for number in range(20)]


@pytest.mark.parametrize(
    "ends",
    [
        ("late .", "late?", "late !"),
        ('late . "', "late.)", "late. \u2019 \u201d"),
        ("late . ''", "late.\u201c", "late?\u00bb\n"),  # German and French quotes; LaTeX's
        # Hindi, Arabic, Japanese
        ("\u0915\u0932 \u0964", "\u0643\u062a\u0628\u061f", "\u898b\u305f\u3002\u300d"),
        ("late\u2026", "\u6771\u4eac\uff01", "\u056c\u0561\u057e\u0589"),  # ellipsis, fullwidth, Armenian
    ],
)
def test_sentences_come_before_headings_that_are_nearer_to_the_median(ends):
    sentences = [f"the dog and the cat of the old house came {end}" for end in ends]
    texts, said = found(*HEADINGS, *sentences)
    assert texts == sentences
    assert "first 23 texts" in said
    assert "end with a full stop" in said


def test_too_few_sentences_leave_the_choice_to_length():
    sentences = ["the dog and the cat came late .", "a bird came late to the red house ."]
    texts, said = found(*HEADINGS, *sentences)
    assert texts == HEADINGS[:3]
    assert "full stop" not in said
    assert "8 tokens" in said


def test_the_median_is_that_of_the_sentences():
    sentences = [" ".join(["word"] * number + ["."]) for number in (4, 11, 12, 13, 22)]
    texts, said = found(*HEADINGS, *sentences)
    assert texts == sentences[1:4]
    assert "median, 13 tokens" in said


def test_of_two_texts_both_have_to_end():
    whole = [(f"the dog {word} .", "it ran .") for word in ("came", "went", "slept")]
    halves = [(f"the cat {word} .", "= it ran =") for word in ("came", "went", "slept")]
    assert found(*halves, *whole)[0] == [text for text, _ in whole]


def test_one_text():
    texts, said = found("stone")
    assert texts == ["stone"]
    assert said == "The only text of the data, up to 24 tokens."
