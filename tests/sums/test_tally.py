"""Counts of right answers: they add up whatever labels came by, and their errors are those of a ratio."""

from dataclasses import fields

import numpy as np
import pytest

from attnprobe.sums.base import Sum
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.tally import CHOOSING, SCORING, Tally

LAYERS, HEADS, RULES = 3, 3, 4
#: The kind of each layer, in which links and rules are alike.
KINDS = [0, 1, 1]


def drawn(keys, documents, seed, *, grouped=False):
    """Draw links of some documents; give their tally, and what was drawn.

    Returns:
        The tally; links (document, key, layer), halves (document,), right answers of heads and of rules
        (document, key, layer, head or rule).
    """
    random = np.random.default_rng(seed)
    asked = random.integers(0, 5, (documents, len(keys), 2))
    half = random.integers(0, 2, documents)
    guessed = random.binomial(asked[..., None], 0.3, (*asked.shape, RULES))[:, :, KINDS]
    asked = asked[:, :, KINDS]
    hits = random.binomial(asked[..., None], 0.4, (*asked.shape, HEADS))
    names = (1000 * seed + np.arange(documents)) * 2 + half if grouped else np.zeros(0, np.int64)
    tally = Tally.empty(keys, KINDS, HEADS, RULES, np.sort(names) if grouped else names)
    order = {name: place for place, name in enumerate(np.sort(names))}
    for document in range(documents):
        n, h, g, side = asked[document], hits[document], guessed[document], half[document]
        tally.asked[:, :, side] += n
        tally.hits[..., side] += h
        tally.guessed[..., side] += g
        block = BLOCKS // 2 * side + document % 7
        tally.blocks.asked[..., block] += n[:, :2]
        tally.blocks.hits[..., block] += h
        tally.blocks.guessed[..., block] += g[:, :2]
        if grouped:
            at = order[names[document]]
            tally.groups.count[at] += n[:, :2]  # the first two layers are one of each kind
            tally.group_guesses[at] += g[:, :2]
            tally.group_hits[at] += h
            continue
        tally.clusters[:, :, side] += n > 0
        tally.asked_squared[:, :, side] += n**2
        tally.hits_squared[..., side] += h**2
        tally.products[..., side] += h * n[..., None]
        if side == SCORING:
            tally.agreed[:] += h[..., None] * g[:, :, None]
            tally.guessed_squared[:] += g**2
            tally.guess_products[:] += g * n[..., None]
    return tally, asked, half, hits, guessed


@pytest.mark.parametrize("half", [None, CHOOSING, SCORING])
@pytest.mark.parametrize("grouped", [False, True])
def test_the_error_of_a_ratio(half, grouped):
    keys = [("a", "to"), ("b", "to")]
    tally, asked, halves, hits, _ = drawn(keys, 40, 1, grouped=grouped)
    share, error = tally.accuracy(half)
    mine = np.ones(40, bool) if half is None else halves == half
    for key in range(2):
        for layer in range(LAYERS):
            n = asked[mine, key, layer]
            for head in range(HEADS):
                h = hits[mine, key, layer, head]
                r = h.sum() / n.sum()
                clusters = (n > 0).sum()
                squared = clusters / (clusters - 1) * ((h - r * n) ** 2).sum() / n.sum() ** 2
                assert share[key, layer, head] == pytest.approx(r, rel=1e-12)
                assert error[key, layer, head] == pytest.approx(squared**0.5, rel=1e-9)


def test_documents_of_both_sorts_add_up():
    """Some documents are whole, others were cut: the error is that of all of them."""
    keys = [("a", "to")]
    (one, *first), (two, *second) = drawn(keys, 25, 2), drawn(keys, 15, 3, grouped=True)
    n, h = (np.concatenate([first[at][:, 0], second[at][:, 0]]) for at in (0, 2))
    n = n[..., None]
    r = h.sum(0) / n.sum(0)
    squares = ((h - r * n) ** 2).sum(0)
    clusters = (n > 0).sum(0)
    _, error = (one + two).accuracy()
    assert error[0] == pytest.approx(np.sqrt(squares * clusters / (clusters - 1)) / n.sum(0), rel=1e-9)


def test_links_of_both_sorts_and_a_head_against_a_rule_by_group():
    (one, *first), (two, *second) = drawn([("a", "to")], 25, 2), drawn([("a", "to")], 15, 3, grouped=True)
    _, squares, _ = (one + two).disagreement()
    hits, guessed = (
        np.concatenate([part[at][part[1] == SCORING] for part in (first, second)]) for at in (2, 3)
    )
    assert (squares == ((hits[..., None] - guessed[..., None, :]) ** 2).sum(0)).all()
    asked, half, hits, guessed = second
    mine = half == SCORING
    for layer in range(LAYERS):
        apart = (hits[mine, 0, layer, 1] - guessed[mine, 0, layer, 2])[asked[mine, 0, layer] > 0]
        assert sorted((one + two).ahead_by_group((0, layer, 1, 2))) == sorted(apart)


@pytest.mark.parametrize("grouped", [False, True])
def test_how_far_heads_and_rules_disagree(grouped):
    keys = [("a", "to"), ("b", "to")]
    tally, asked, halves, hits, guessed = drawn(keys, 40, 4, grouped=grouped)
    clusters, squares, around = tally.disagreement()
    mine = halves == SCORING
    apart = hits[mine][..., None] - guessed[mine][..., None, :]
    n = asked[mine][..., None, None]
    ahead = apart.sum(0) / n.sum(0)
    assert (clusters == (n > 0).sum(0)).all()
    assert np.allclose(squares, (apart**2).sum(0))
    assert np.allclose(around, ((apart - ahead * n) ** 2).sum(0))


def test_one_document_has_no_error():
    tally, *_ = drawn([("a", "to")], 1, 5)
    assert np.isnan(tally.accuracy()[1]).all()


def test_the_error_is_honest():
    """Simulated: 95 % intervals hold the truth where the links of a document agree with one another."""
    random = np.random.default_rng(0)
    held, runs = 0, 400
    for _ in range(runs):
        n = random.integers(1, 6, 80)
        chance = random.beta(2, 2, 80)  # of each document
        h = random.binomial(n, chance)
        tally = Tally.empty([("a", "to")], [0], 1, 1, np.zeros(0, np.int64))
        tally.asked[0, 0, 0], tally.hits[0, 0, 0, 0], tally.clusters[0, 0, 0] = n.sum(), h.sum(), 80
        tally.asked_squared[0, 0, 0] = (n**2).sum()
        tally.hits_squared[0, 0, 0, 0], tally.products[0, 0, 0, 0] = (h**2).sum(), (h * n).sum()
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
def test_blocks_are_the_halves(grouped):
    tally, *_ = drawn([("a", "to"), ("b", "to")], 30, 3, grouped=grouped)
    for half in (CHOOSING, SCORING):
        mine = slice(BLOCKS // 2 * half, BLOCKS // 2 * (half + 1))
        assert (tally.blocks.hits[..., mine].sum(-1) == tally.hits[..., half]).all()


def test_room_for_blocks_is_bounded():
    """What folds need is at most twice what halves need, for few rules and for many."""
    for rules in (21, 101):
        tally = Tally.empty([("a", "to")] * 10, [0] * 12, 12, rules, np.zeros(0, np.int64))
        more = sum(array.nbytes for array in tally.blocks.arrays().values())
        assert more < sum(array.nbytes for array in tally.arrays().values()) / 2


@pytest.mark.parametrize("grouped", [False, True])
def test_there_and_back(grouped):
    tally, *_ = drawn([("a é", "to"), ("", "to")], 10, 8, grouped=grouped)
    arrays = tally.arrays()
    assert all(isinstance(array, np.ndarray) and not array.dtype.hasobject for array in arrays.values())
    back = Tally.from_arrays(arrays)
    assert back.keys == tally.keys
    for field in fields(tally):
        ours, theirs = getattr(tally, field.name), getattr(back, field.name)
        if isinstance(ours, Sum):
            for name, array in vars(ours).items():
                assert np.array_equal(array, getattr(theirs, name))
        else:
            assert np.array_equal(ours, theirs)
    assert np.array_equal((back + back).hits, 2 * tally.hits)


def test_nothing_came_by():
    empty = Tally.from_arrays(Tally.empty([], KINDS, HEADS, RULES, np.zeros(0, np.int64)).arrays())
    tally, *_ = drawn([("a", "to")], 5, 9)
    assert (empty + tally).keys == tally.keys
    assert np.array_equal((empty + tally).hits, tally.hits)


def test_many_documents_share_groups():
    """Memory does not grow with the number of documents that were cut, and halves stay apart."""
    parts = [drawn([("a", "to")], 60, seed, grouped=True)[0] for seed in range(1, 6)]
    whole = sum(parts[1:], parts[0])
    assert len(whole.groups) <= 128
    for half in (CHOOSING, SCORING):
        mine = whole.groups.keys % 2 == half
        assert (whole.group_hits[mine].sum(0) == whole.hits[..., half]).all()
        assert (whole.group_guesses[mine].sum(0)[:, KINDS] == whole.guessed[..., half]).all()


def test_labels_of_any_characters_and_length():
    keys = [("a", "to"), ("a\0", "to"), ("", "to"), ("\ud800|é", "to"), ("long" * 250_000, "to")]
    tally = drawn(keys, 5, 4)[0]
    arrays = tally.arrays()
    assert Tally.from_arrays(arrays).keys == tuple(keys)
    assert arrays["keys"].nbytes < 2_000_000


def test_rules_of_groups_are_kept_once_for_each_kind():
    """Memory grows with heads times layers, and with rules times kinds, but not with rules times layers."""
    names = np.arange(500, 510)
    few, many = (Tally.empty([("a", "to")], [0] * 12, 12, rules, names) for rules in (20, 100))
    sizes = [sum(array.nbytes for array in one.groups.arrays().values()) for one in (few, many)]
    assert sizes[1] - sizes[0] == 10 * 80 * 8
