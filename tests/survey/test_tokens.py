"""Tokens, words and groups of them, and rollout, against loops that spell out what they are."""

import numpy as np
import pytest

from attnprobe.survey.maps import roll_out
from attnprobe.survey.tokens import find_characters, label_text
from attnprobe.table.sequence import group_tokens

DRAW = np.random.default_rng(3)


def side_of(tokenizer, *texts, **options):
    ids = tokenizer(*texts, **options)["input_ids"]
    special = np.isin(ids, tokenizer.all_special_ids)
    return label_text(tokenizer, ids, special, texts, find_characters(tokenizer, ids, texts, **options))


def test_labels_are_the_find_characters_the_text(tiny):
    side = side_of(tiny("bert")[1], "The walker's café, unlikely!")
    assert side.labels == ("[CLS]", "The", "walk", "er", "'", "s", "c", "a", "f", "é", ",", *side.labels[11:])
    assert side.names[:4] == ("[CLS]", "the", "walk", "##er")
    assert side.word_labels == ("[CLS]", "The", "walker", "'", "s", "café", ",", "unlikely", "!", "[SEP]")
    assert side.special.tolist() == [True, *[False] * (len(side) - 2), True]
    assert side.special_words.tolist() == [True, *[False] * 8, True]
    assert side.continues[:10].tolist() == [False, False, False, True, False, False, False, True, True, True]


def test_blanks_belong_to_no_label_and_bytes_of_a_character_are_one_word(tiny):
    side = side_of(tiny("roberta")[1], "the dog 京 ran")
    assert "dog" in side.word_labels
    assert "京" in side.word_labels
    pieces = [label for label in side.labels if label.startswith("京")]
    assert set(pieces) == {"京"}
    assert len({int(side.words[side.labels.index(piece)]) for piece in pieces}) == 1
    assert all(label == label.strip() or label == " " for label in side.labels)


@pytest.mark.parametrize("name", ["bert", "roberta", "t5"])
def test_the_beginning_of_a_text_has_its_characters(tiny, name):
    tokenizer, text = tiny(name)[1], "the river bank was slow , and the dog ran"
    whole, cut = tokenizer(text)["input_ids"], tokenizer(text, truncation=True, max_length=6)["input_ids"]
    every, of_cut = (find_characters(tokenizer, ids, [text]) for ids in (whole, cut))
    assert len(of_cut) == 6
    same = [place for place in range(6) if of_cut[place] is not None]
    assert [of_cut[place] for place in same] == [every[place] for place in same]
    assert len(same) >= 4


def softmax(*shape):
    rows = np.exp(DRAW.normal(size=shape) * 2)
    return rows / rows.sum(-1, keepdims=True)


def test_words_are_sums_of_keys_and_means_of_queries():
    rows, queries, keys = softmax(2, 3, 6, 5), np.array([0, 1, 1, 2, 2, 2]), np.array([0, 0, 1, 2, 2])
    grouped = group_tokens(rows, queries, keys)
    assert grouped.shape == (2, 3, 3, 3)
    for query in range(3):
        for key in range(3):
            expected = np.zeros((2, 3))
            members = [place for place in range(6) if queries[place] == query]
            for token in members:
                for key_token in range(5):
                    if keys[key_token] == key:
                        expected += rows[:, :, token, key_token] / len(members)
            np.testing.assert_allclose(grouped[:, :, query, key], expected, atol=1e-12)
    np.testing.assert_allclose(grouped.sum(-1), 1)
    np.testing.assert_array_equal(group_tokens(rows, None, None), rows)


@pytest.mark.parametrize("removed", [False, True])
def test_rollout_multiplies_half_the_mean_and_half_the_identity(removed):
    rows = softmax(4, 3, 5, 5)
    standing = np.ones((4, 3), bool)
    if removed:
        standing[1, 0] = standing[3] = False
    expected = None
    for layer, rolled in enumerate(roll_out(rows, standing if removed else None)):
        left = [rows[layer, head] for head in range(3) if standing[layer, head]]
        mean = sum(left) / len(left) if left else np.eye(5)
        step = 0.5 * mean + 0.5 * np.eye(5)
        expected = step if expected is None else step @ expected
        np.testing.assert_allclose(rolled, expected, atol=1e-12)
        np.testing.assert_allclose(rolled.sum(-1), 1)
