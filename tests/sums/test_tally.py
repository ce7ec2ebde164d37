"""Counts of right answers: they add up whatever labels came by, and their errors are those of a ratio."""

from dataclasses import fields

import numpy as np
import pytest

from attnprobe.sums.base import Sum
from attnprobe.sums.link_counts import LinkCounts

LAYERS, HEADS, RULES = 3, 3, 4
#: The kind of each layer, in which links and rules are alike.
KINDS = [0, 1, 1]


def drawn(keys, documents, seed, *, grouped=False):
    """Draw links of some documents; give their tally, and what was drawn.

    Returns:
        The tally; links (document, key, layer), right answers of heads (document, key, layer, head).
    """
    random = np.random.default_rng(seed)
    asked = random.integers(0, 5, (documents, len(keys), 2))
    guessed = random.binomial(asked[..., None], 0.3, (*asked.shape, RULES))
    by_layer = asked[:, :, KINDS]
    hits = random.binomial(by_layer[..., None], 0.4, (*by_layer.shape, HEADS))
    names = 1000 * seed + np.arange(documents) if grouped else np.zeros(0, np.int64)
    tally = LinkCounts.empty(keys, KINDS, HEADS, RULES, names)
    for document in range(documents):
        n, h, block = by_layer[document], hits[document], document % 7
        tally.blocks.asked[..., block] += asked[document].astype(np.int32)
        tally.blocks.hits[..., block] += h.astype(np.int32)
        tally.blocks.guessed[..., block] += guessed[document].astype(np.int32)
        tally.blocks.chance[..., block] += asked[document] / 4
        if grouped:
            tally.groups.count[document] += asked[document]
            tally.group_hits[document] += h
            continue
        tally.clusters[:] += n > 0
        tally.asked_squared[:] += n**2
        tally.hits_squared[:] += h**2
        tally.products[:] += h * n[..., None]
    return tally, by_layer, hits


@pytest.mark.parametrize("grouped", [False, True])
def test_the_error_of_a_ratio(grouped):
    tally, asked, hits = drawn([("a", "to"), ("b", "to")], 40, 1, grouped=grouped)
    share, error = tally.accuracy()
    for key, layer, head in np.ndindex(2, LAYERS, HEADS):
        n, h = asked[:, key, layer], hits[:, key, layer, head]
        r, clusters = h.sum() / n.sum(), (n > 0).sum()
        squared = clusters / (clusters - 1) * ((h - r * n) ** 2).sum() / n.sum() ** 2
        assert share[key, layer, head] == pytest.approx(r, rel=1e-12)
        assert error[key, layer, head] == pytest.approx(squared**0.5, rel=1e-9)


def test_documents_of_both_sorts_add_up():
    """Some documents are whole, others were cut: the error is that of all of them."""
    keys = [("a", "to")]
    (one, *first), (two, *second) = drawn(keys, 25, 2), drawn(keys, 15, 3, grouped=True)
    n, h = (np.concatenate([first[at][:, 0], second[at][:, 0]]) for at in (0, 1))
    n = n[..., None]
    r = h.sum(0) / n.sum(0)
    squares = ((h - r * n) ** 2).sum(0)
    clusters = (n > 0).sum(0)
    _, error = (one + two).accuracy()
    assert error[0] == pytest.approx(np.sqrt(squares * clusters / (clusters - 1)) / n.sum(0), rel=1e-9)


def test_the_error_is_honest():
    """Simulated: 95 % intervals hold the truth where the links of a document agree with one another."""
    random = np.random.default_rng(0)
    held, runs = 0, 400
    for _ in range(runs):
        n = random.integers(1, 6, 80)
        chance = random.beta(2, 2, 80)  # of each document
        h = random.binomial(n, chance)
        tally = LinkCounts.empty([("a", "to")], [0], 1, 1, np.zeros(0, np.int64))
        tally.blocks.asked[0, 0, 0], tally.blocks.hits[0, 0, 0, 0] = n.sum(), h.sum()
        tally.clusters[0, 0], tally.asked_squared[0, 0] = 80, (n**2).sum()
        tally.hits_squared[0, 0, 0], tally.products[0, 0, 0] = (h**2).sum(), (h * n).sum()
        share, error = (values.item() for values in tally.accuracy())
        held += abs(share - 0.5) < 1.96 * error
    assert 0.92 < held / runs < 0.975


@pytest.mark.parametrize("grouped", [False, True])
def test_labels_of_either_side(grouped):
    one, *_ = drawn([("a", "to"), ("b", "to")], 10, 6, grouped=grouped)
    two, *_ = drawn([("c", "from"), ("a", "to")], 10, 7, grouped=grouped)
    both = one + two
    assert both.keys == (("a", "to"), ("b", "to"), ("c", "from"))
    assert (both.asked[0] == one.asked[0] + two.asked[1]).all()
    assert (both.hits[1] == one.hits[1]).all()
    assert (both.hits[2] == two.hits[0]).all()
    for name, whole in vars(both.blocks).items():
        first, second = (getattr(side.blocks, name) for side in (one, two))
        assert (whole[0] == first[0] + second[1]).all()
        assert (whole[1] == first[1]).all()
        assert (whole[2] == second[0]).all()
    other = two + one
    order = [other.keys.index(key) for key in both.keys]
    for found, expected in zip(other.accuracy(), both.accuracy(), strict=True):
        assert np.allclose(found[order], expected, equal_nan=True, rtol=1e-12)


@pytest.mark.parametrize("grouped", [False, True])
def test_there_and_back(grouped):
    tally, *_ = drawn([("a é", "to"), ("", "to")], 10, 8, grouped=grouped)
    arrays = tally.arrays()
    assert all(isinstance(array, np.ndarray) and not array.dtype.hasobject for array in arrays.values())
    back = LinkCounts.from_arrays(arrays)
    assert back.keys == tally.keys
    for field in fields(tally):
        ours, theirs = getattr(tally, field.name), getattr(back, field.name)
        if isinstance(ours, Sum):
            for name, array in vars(ours).items():
                assert np.array_equal(array, getattr(theirs, name))
        else:
            assert np.array_equal(ours, theirs)
    assert np.array_equal((back + back).hits, 2 * tally.hits)


def test_labels_of_any_characters_and_length():
    keys = [("a", "to"), ("a\0", "to"), ("", "to"), ("\ud800|é", "to"), ("long" * 250_000, "to")]
    tally = drawn(keys, 5, 4)[0]
    arrays = tally.arrays()
    assert LinkCounts.from_arrays(arrays).keys == tuple(keys)
    assert arrays["keys"].nbytes < 2_000_000
