"""Counts of right answers: they add up whatever labels came by, and come back from a file."""

from dataclasses import fields

import numpy as np

from attnprobe.sums.links import FAR, LinkCounts

HEADS, RULES = 3, 4
#: The kind of each layer, in which links and rules are alike.
KINDS = [0, 1, 1]
COUNTS = ("number", "hits", "guessed", "chance")


def drawn(keys, seed):
    """Draw links of each block and who answers them rightly."""
    random = np.random.default_rng(seed)
    counts = LinkCounts.empty(keys, KINDS, HEADS, RULES)
    counts.number[:] = random.integers(0, 5, counts.number.shape)
    counts.hits[:] = random.binomial(counts.number[:, KINDS][:, :, None], 0.4, counts.hits.shape)
    counts.guessed[:] = random.binomial(counts.number[:, :, None], 0.3, counts.guessed.shape)
    counts.chance[:] = counts.number / 4
    counts.left_out[:] = random.integers(0, 9, 3)
    return counts


def test_labels_of_either_side():
    """Each count is that of its label on both sides; links at a distance come last."""
    first = drawn([("a", "to"), ("b", "to"), ("a", "to", FAR)], 6)
    second = drawn([("c", "from"), ("a", "to")], 7)
    first.number[1] = 0
    assert first.documents == max(len(np.flatnonzero(blocks)) for blocks in first.number[0]) > 0
    both = first + second
    assert both.keys == (("a", "to"), ("b", "to"), ("c", "from"), ("a", "to", FAR))
    assert (both.left_out == first.left_out + second.left_out).all()
    for name in COUNTS:
        whole, first_counts, second_counts = (getattr(side, name) for side in (both, first, second))
        expected = [first_counts[0] + second_counts[1], first_counts[1], second_counts[0], first_counts[2]]
        np.testing.assert_array_equal(whole, expected)


def test_groups_of_documents():
    """Keys that begin with the name of a group: the counts of one, and of all."""
    every = drawn([("x", "a", "to"), ("y", "a", "to"), ("y", "b", "to")], 3)
    alone, joined = every.take_group("y"), every.join_groups()
    assert alone.keys == joined.keys == (("a", "to"), ("b", "to"))
    assert not alone.left_out.any()
    for name in COUNTS:
        counts = getattr(every, name)
        np.testing.assert_array_equal(getattr(alone, name), counts[1:])
        np.testing.assert_array_equal(getattr(joined, name), [counts[0] + counts[1], counts[2]])
    alike = drawn([("x", "a", "to"), ("x", "b", "to")], 4)
    assert alike.join_groups().keys == (("a", "to"), ("b", "to"))
    np.testing.assert_array_equal(alike.join_groups().hits, alike.hits)


def test_labels_of_any_characters_and_length():
    keys = [("a", "to"), ("a\0", "to"), ("", "to"), ("\ud800|é", "to"), ("long" * 250_000, "to")]
    counts = drawn(keys, 4)
    arrays = counts.arrays()
    assert arrays["keys"].nbytes < 2_000_000
    assert all(isinstance(array, np.ndarray) and not array.dtype.hasobject for array in arrays.values())
    back = LinkCounts.from_arrays(arrays)
    for field in fields(counts):
        np.testing.assert_array_equal(getattr(back, field.name), getattr(counts, field.name))
