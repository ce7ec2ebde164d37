"""What a reader sees of tokens, and which of them make a word."""

import numpy as np
import pytest

from attnprobe.survey.viewing.tokens import Side, find_characters


def side_of(tokenizer, *texts, **options):
    ids = tokenizer(*texts, **options)["input_ids"]
    special = np.isin(ids, tokenizer.all_special_ids)
    return Side.of_text(tokenizer, ids, special, texts, find_characters(tokenizer, ids, texts, **options))


def test_labels_are_the_find_characters_the_text(tiny):
    side = side_of(tiny("bert")[1], "The walker's café, unlikely!")
    assert side.labels == ("[CLS]", "The", "walk", "er", "'", "s", "c", "a", "f", "é", ",", *side.labels[11:])
    assert side.names[:4] == ("[CLS]", "the", "walk", "##er")
    assert side.word_labels == ("[CLS]", "The", "walker", "'", "s", "café", ",", "unlikely", "!", "[SEP]")
    assert side.special.tolist() == [True, *[False] * (len(side) - 2), True]
    assert side.special_words.tolist() == [True, *[False] * 8, True]
    assert side.continues[:10].tolist() == [False, False, False, True, False, False, False, True, True, True]


def test_pairs(tiny):
    side = side_of(tiny("bert")[1], "the dog", "the dog ran")
    assert side.word_labels == ("[CLS]", "the", "dog", "[SEP]", "the", "dog", "ran", "[SEP]")
    assert side.words.tolist() == list(range(8))


def test_blanks_belong_to_no_label_and_bytes_of_a_character_are_one_word(tiny):
    side = side_of(tiny("roberta")[1], "the dog 京 ran")
    assert "dog" in side.word_labels
    assert "京" in side.word_labels
    pieces = [label for label in side.labels if label.startswith("京")]
    assert pieces == [f"京 {part}/{len(pieces)}" for part in range(1, len(pieces) + 1)]
    assert len({int(side.words[side.labels.index(piece)]) for piece in pieces}) == 1
    assert all(label == label.strip() or label == " " for label in side.labels)


def test_a_token_that_bridges_words_makes_one_of_them(tiny):
    text = "out of late"
    covered = [None, (0, 0, 5), (0, 5, 6), (0, 7, 11), None]
    side = Side.of_text(tiny("bert")[1], [2, 9, 9, 9, 3], np.zeros(5, bool), [text], covered)
    assert side.labels[1:4] == ("out o", "f", "late")
    assert side.word_labels[1:3] == ("out of", "late")
    assert side.words.tolist() == [0, 1, 1, 2, 3]


def test_without_offsets(tiny):
    tokenizer = tiny("bert")[1]
    ids = tokenizer("walker ran")["input_ids"]
    side = Side.of_text(tokenizer, ids, np.isin(ids, tokenizer.all_special_ids), ["walker ran"], None)
    assert side.labels == ("[CLS]", "walk", "##er", "ran", "[SEP]")
    assert side.word_labels == ("[CLS]", "walker", "ran", "[SEP]")
    tokenizer = tiny("t5")[1]
    ids = tokenizer("the dogs ran")["input_ids"]
    side = Side.of_text(tokenizer, ids, np.isin(ids, tokenizer.all_special_ids), ["the dogs ran"], None)
    assert side.word_labels[:3] == ("the", "dogs", "ran")


@pytest.mark.parametrize("name", ["bert", "roberta", "t5"])
def test_the_beginning_of_a_text_has_its_characters(tiny, name):
    tokenizer, text = tiny(name)[1], "the river bank was slow , and the dog ran"
    whole, cut = tokenizer(text)["input_ids"], tokenizer(text, truncation=True, max_length=6)["input_ids"]
    every, some = (find_characters(tokenizer, ids, [text]) for ids in (whole, cut))
    assert len(some) == 6
    same = [place for place in range(6) if some[place] is not None]
    assert [some[place] for place in same] == [every[place] for place in same]
    assert len(same) >= 4


def test_other_tokens_have_no_characters(tiny):
    assert find_characters(tiny("bert")[1], [2, 99, 98, 97, 3], ["the dog ran"]) is None
