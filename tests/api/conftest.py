"""Texts and reviews to ask about."""

import pytest

LINES = [
    "the river bank was slow , and the dog ran to the water .",
    "stone",
    "is it late ?",
    "the parcel came by day , and she walks quickly between the red house and the green house .",
]
#: Texts and their classes.
REVIEWS = [
    ("the river bank was slow", "bad"),
    ("a bird ran over the red house", "bad"),
    ("the dog and the cat", "so-so"),
    ("never stop by the river at night", "so-so"),
    ("he and she walk to the train stop , never by night", "good"),
    ("the parcel came early", "good"),
    ("light", ""),
    ("a cat ran under the green house", "bad"),
    ("blue water and red light", "so-so"),
    ("quick bird", "good"),
]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.fixture
def reviews(tmp_path):
    path = tmp_path / "reviews.tsv"
    path.write_text("\n".join(map("\t".join, [("review", "stars"), *REVIEWS])) + "\n")
    return path
