"""When a head has a role, and not without a reason; in how many folds of documents a name holds."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import attnprobe
from attnprobe.attention.kinds import number_layers
from attnprobe.statistics.links import ASKING_SYNTAX
from attnprobe.statistics.parts_of_speech import PARTS
from attnprobe.statistics.positional import FURTHEST
from attnprobe.statistics.registry import all_statistics
from attnprobe.statistics.role_evidence import (
    Heads,
    decide_roles,
    find_nearest,
    lost_when_shuffled,
    name_patterns,
)
from attnprobe.statistics.role_table import (
    ROLES,
    _note_roles,
    find_known_relations,
    find_nearest_relation,
    stability,
)
from attnprobe.statistics.roles import THRESHOLDS
from attnprobe.statistics.rules import ALL, OFFSETS
from attnprobe.sums.base import Measurement
from attnprobe.sums.documents import find_block
from attnprobe.sums.groups import FOLDS
from attnprobe.sums.resampling import half_width
from attnprobe.sums.tally import CHOOSING, SCORING, Tally
from attnprobe.table.builder import Labels
from attnprobe.table.naming import LETTERS, MIXED, find_role_kind

NUMBER = 4
DOCUMENTS, HEADS = 256, 3
FOLD = find_block(np.arange(DOCUMENTS)) * FOLDS // 64


def heads(**given):
    """Give heads that have no role, but for what is given: (value, error) of a measure, for all or each."""
    usual = {
        "offset_share": (0.2, 0.01), "offset_share_shuffled": (0.2, 0.01), "special_excess": (0.1, 0.01),
        "special_preference": (0.95, 0.0), "punctuation_excess": (0.1, 0.01),
        "punctuation_preference": (0.95, 0.0), "rarest_excess": (0.1, 0.01), "rare_lift": (0.9, 0.01),
        "effective_share": (0.3, 0.01), "induction": (0.01, 0.001), "duplicate": (0.01, 0.001),
        "segment_excess": (np.nan, np.nan), "aligned_excess": (np.nan, np.nan),
        "first_token_excess": (np.nan, np.nan), "first_token_preference": (0.95, 0.0),
        "vertical_excess": (0.1, 0.01), "diagonal_excess": (0.1, 0.01),
        "vertical_diagonal_excess": (0.2, 0.01),
    }  # fmt: skip
    columns = {"offset": given.pop("offset", [-1] * NUMBER)}
    for name, (value, error) in (usual | given).items():
        columns[name] = np.broadcast_to(value, NUMBER).tolist()
        columns[f"{name}_se"] = np.broadcast_to(error, NUMBER).tolist()
    return Heads(columns, NUMBER)


def names(found, thresholds=THRESHOLDS, more=None):
    every = decide_roles(found, thresholds, more or [[]] * NUMBER)
    return [[role.name for role in held] for held in every]


def test_no_role_without_a_reason():
    assert names(heads()) == [[]] * NUMBER


@pytest.mark.parametrize(
    ("measure", "value", "threshold", "role"),
    [
        ("special_excess", 0.4, 0.3, "delimiter"),
        ("punctuation_excess", 0.4, 0.3, "delimiter"),
        ("induction", 0.6, 0.5, "induction"),
        ("duplicate", 0.6, 0.5, "duplicate"),
        ("effective_share", 0.7, 0.6, "broad"),
        ("segment_excess", 0.9, 0.8, "block"),
        ("aligned_excess", 0.6, 0.5, "aligns"),
        ("first_token_excess", 0.4, 0.3, "sink"),
    ],
)
def test_the_whole_interval_lies_beyond(measure, value, threshold, role):
    """Not the mean alone: the interval of the last head reaches the threshold."""
    far = (value - threshold) / half_width(np.full(NUMBER, 1.0))[0]
    errors = [0.0, 0.5 * far, 0.99 * far, 1.01 * far]
    assert names(heads(**{measure: (value, errors)})) == [[role], [role], [role], []]
    assert names(heads(**{measure: (value, np.nan)})) == [[]] * NUMBER  # one document has no error


def test_places_and_their_names():
    share = {"offset_share": (0.97, 0.001), "offset_share_shuffled": (0.95, 0.001)}
    found = heads(**share, offset=[-1, 0, 1, -3])
    assert names(found) == [["previous"], ["self"], ["next"], ["offset -3"]]
    assert [find_role_kind(held[0]) for held in names(found)] == ["previous", "self", "next", "offset"]


def test_a_share_that_is_lost_when_shuffled_is_none():
    """In between, where the interval still reaches the threshold, the head has its role."""
    found = heads(offset_share=(0.97, 0.001), offset_share_shuffled=([0.97, 0.899, 0.88, 0.3], 0.002))
    assert names(found) == [["previous"], ["previous"], [], []]
    assert lost_when_shuffled(found, 0.9).tolist() == [False, False, True, True]
    without = {name: cells for name, cells in found.columns.items() if "shuffled" not in name}
    assert names(Heads(without, NUMBER)) == [["previous"]] * NUMBER


def test_most_attended_by_a_hair_is_no_role():
    """Attention is nearly uniform, and still most at one offset, or at the rarest token."""
    found = heads(
        offset_share=(1.0, 0.0), offset_share_shuffled=(1.0, 0.0), rarest_excess=(0.9, 0.0),
        rare_lift=(1.5, 0.01),
        effective_share=([0.99, 0.4, 0.99, 0.4], 0.0),
    )  # fmt: skip
    assert names(found) == [["broad"], ["previous", "rare words"]] * 2


def test_rare_words_need_more_than_their_share():
    found = heads(rarest_excess=(0.7, 0.01), rare_lift=([0.9, 1.01, 1.5, 3.0], 0.02))
    assert names(found) == [[], [], ["rare words"], ["rare words"]]
    undecided = decide_roles(found, THRESHOLDS, [[]] * NUMBER, rare=False)
    assert undecided == [[]] * NUMBER


def test_a_mass_alone_makes_no_delimiter():
    """A little more than uniform attention to 2 special tokens of 4, or a preference for 2 of 500 keys."""
    found = heads(
        special_excess=([0.4, 0.4, 0.1, 0.4], 0.0), special_preference=([0.7, 0.95, 0.99, 0.9], 0.0)
    )
    assert names(found) == [[], ["delimiter"], [], ["delimiter"]]


def test_means_alone():
    """A fold of documents decides by its means: errors, also unknown ones, are taken for 0."""
    found = heads(special_excess=(0.31, [0.0, 0.1, 10.0, np.nan]))
    assert names(found) == [["delimiter"], [], [], []]
    assert names(found.without_errors) == [["delimiter"]] * NUMBER


def test_the_first_names_the_head_and_thresholds_move():
    found = heads(special_excess=(0.7, 0.01), duplicate=(0.6, 0.01), effective_share=(0.65, 0.001))
    assert names(found) == [["delimiter", "duplicate", "broad"]] * NUMBER
    higher = THRESHOLDS | {"delimiter": 0.75, "broad": 0.7}
    assert names(found, higher) == [["duplicate"]] * NUMBER
    assert list(LETTERS).index("delimiter") < list(LETTERS).index("duplicate") < list(LETTERS).index(MIXED)
    assert len(set(LETTERS.values())) == len(LETTERS)


def test_a_mass_alone_makes_no_sink_and_a_hair_no_alignment():
    found = heads(
        first_token_excess=(0.4, 0.0), first_token_preference=([0.7, 0.95, 0.9, np.nan], 0.0),
        aligned_excess=(0.7, 0.0), effective_share=([0.5, 0.5, 0.9, 0.3], 0.0),
    )  # fmt: skip
    assert names(found) == [["aligns"], ["aligns", "sink"], ["broad", "sink"], ["aligns"]]


def test_new_roles_name_no_head_that_has_another():
    """They come behind those that were there before; gold links of one's own behind antecedents."""
    found = heads(special_excess=(0.7, 0.01), first_token_excess=(0.7, 0.01), segment_excess=(0.9, 0.01))
    assert names(found) == [["delimiter", "block", "sink"]] * NUMBER
    kinds = list(LETTERS)
    assert kinds.index("block") < kinds.index("aligns") < kinds.index("sink") < kinds.index("part of speech")
    assert kinds.index("coreference") < kinds.index("links") < kinds.index("induction")


def test_parts_of_speech_the_largest_first():
    """Intervals hold for all parts of speech together, so one that is just beyond for heads alone is none."""
    among, alone = (half_width(np.full(NUMBER * times, 1.0))[0] for times in (len(PARTS), 1))
    error = 0.1 / ((among + alone) / 2)
    found = heads(
        part_of_speech_excess_noun=(0.4, [0.0, error, 0.99 * 0.1 / among, np.nan]),
        part_of_speech_excess_verb=([0.5, 0.1, 0.1, 0.1], 0.01),
    )
    noun, verb = "part of speech: NOUN", "part of speech: VERB"
    assert names(found) == [[verb, noun], [], [noun], []]
    assert find_role_kind(noun) == "part of speech"


# The nearest role, and patterns


def nearest(found, known=(), **more):
    return find_nearest(found, THRESHOLDS, known, **more)


def test_the_nearest_role_by_hand():
    """Of every role, by how much of the way from nothing to the threshold its mean has come."""
    found = heads(
        offset=[-1, 1, 0, 2], offset_share=([0.8, 0.2, 0.2, 0.2], 0.01),
        special_excess=([0.1, 0.29, 0.29, 0.1], 0.01), special_preference=([0.95, 0.95, 0.7, 0.95], 0.01),
        effective_share=([0.3, 0.3, 0.36, 0.3], 0.0), rarest_excess=([0.1, 0.1, 0.1, 0.45], 0.01),
        rare_lift=([0.9, 0.9, 0.9, 2.0], 0.01),
    )  # fmt: skip
    one, two, three, four = nearest(found)
    assert (one.name, one.measure, one.value, one.threshold) == ("previous", "offset_share", 0.8, 0.9)
    assert one.way == pytest.approx(8 / 9)
    assert (two.name, two.measure, two.value, two.threshold) == ("delimiter", "special_excess", 0.29, 0.3)
    # The preference is half of the way from .5 to .9, and the breadth .6 of that from 0 to .6.
    assert (three.name, three.way) == ("broad", pytest.approx(0.6))
    assert (four.name, four.measure, four.way) == ("rare words", "rarest_excess", pytest.approx(0.9))
    assert nearest(found, rare=False)[3].name == "broad"


def test_the_condition_that_is_furthest_counts():
    found = heads(special_excess=(0.5, 0.0), special_preference=(0.88, 0.0))
    assert {(one.name, one.measure) for one in nearest(found)} == {("delimiter", "special_preference")}
    assert nearest(found)[0].way == pytest.approx(0.95)


def test_no_place_is_near_whose_share_is_lost():
    found = heads(offset_share=(0.97, 0.001), offset_share_shuffled=([0.97, 0.3, 0.97, 0.3], 0.001))
    assert [one.name == "previous" for one in nearest(found)] == [True, False, True, False]


def test_nothing_is_near_where_nothing_points_there():
    below = dict.fromkeys(("special_excess", "punctuation_excess", "rarest_excess"), (-0.1, 0.01))
    below |= dict.fromkeys(("offset_share", "induction", "duplicate", "effective_share"), (-0.1, 0.01))
    assert nearest(heads(**below)) == [None] * NUMBER


def test_patterns_by_hand():
    far = 0.1 / half_width(np.full(NUMBER, 1.0))[0]
    found = heads(
        vertical_excess=([0.6, 0.6, 0.1, 0.3], [0.99 * far, 1.01 * far, 0.01, 0.01]),
        diagonal_excess=([0.1, -0.1, 0.6, 0.3], 0.01),
        vertical_diagonal_excess=(0.6, 0.01),
    )
    # The second reaches below the threshold; what is on either is beyond it, and none on the diagonal.
    assert name_patterns(found, THRESHOLDS) == ["vertical", "heterogeneous", "diagonal", "vertical+diagonal"]
    found = heads(segment_excess=([0.9, 0.7, 0.9, 0.9], 0.01), diagonal_excess=([0.1, 0.1, 0.6, 0.1], 0.01))
    assert name_patterns(found, THRESHOLDS) == ["block", "heterogeneous", "diagonal", "block"]
    assert name_patterns(found, THRESHOLDS | {"block": 0.95})[0] == "heterogeneous"
    assert name_patterns(Heads({}, NUMBER), THRESHOLDS) == [None] * NUMBER


# Relations


def tally(random, chance, rule, documents=400, links=2):
    """Count links of one label that heads (2 layers of 2) answer with some chance, and one rule."""
    found = Tally.empty(
        [("det", ASKING_SYNTAX.forward)], [0, 0], 2, len(ASKING_SYNTAX.rules), np.zeros(0, np.int64)
    )
    for document in range(documents):
        half = document % 2
        h = random.binomial(links, chance)
        g = random.binomial(links, rule)
        found.asked[0, :, half] += links
        found.clusters[0, :, half] += 1
        found.asked_squared[0, :, half] += links**2
        found.hits[0, :, :, half] += h
        found.hits_squared[0, :, :, half] += h**2
        found.products[0, :, :, half] += h * links
        found.guessed[0, :, 3, half] += g
        if half == SCORING:
            found.agreed[0, :, :, 3] += h * g
            found.guessed_squared[0, :, 3] += g**2
            found.guess_products[0, :, 3] += g * links
    return found


def test_a_relation_that_a_head_knows():
    chance = np.array([[0.2, 0.9], [0.5, 0.58]])
    found = find_known_relations(
        tally(np.random.default_rng(0), chance, 0.5), ASKING_SYNTAX, "syntactic", 0.1
    )
    assert [[role.name for role in held] for held in found] == [[], ["syntactic: det"], [], []]
    (role,) = found[1]
    assert role.measure == "accuracy, dependent to head"
    assert role.value == pytest.approx(0.9, abs=0.04)
    assert role.threshold == pytest.approx(0.6, abs=0.08)
    assert 0 < role.error < 0.03


def test_both_halves_have_a_say():
    """A head that is ahead on the half that it is chosen on, and not on the other, has no role."""
    found = tally(np.random.default_rng(1), np.full((2, 2), 0.9), 0.5)
    for name in ("hits", "hits_squared", "products"):
        getattr(found, name)[..., CHOOSING] = 0
    assert find_known_relations(found, ASKING_SYNTAX, "syntactic", 0.1) == [[]] * 4
    found = tally(np.random.default_rng(1), np.full((2, 2), 0.9), 0.5)
    found.hits[..., SCORING] = found.guessed[:, :, 3, SCORING][..., None]
    found.hits_squared[..., SCORING] = found.guessed_squared[:, :, 3][..., None]
    found.products[..., SCORING] = found.guess_products[:, :, 3][..., None]
    found.agreed[..., 3] = found.guessed_squared[:, :, 3][..., None]
    assert find_known_relations(found, ASKING_SYNTAX, "syntactic", 0.1) == [[]] * 4


def test_false_alarms():
    """Simulated: heads that are ahead by exactly the threshold; at most 5 % of models have one named."""
    random, runs = np.random.default_rng(2), 150
    chance = np.full((2, 2), 0.6)
    alarms = sum(
        any(find_known_relations(tally(random, chance, 0.5, documents=120), ASKING_SYNTAX, "syntactic", 0.1))
        for _ in range(runs)
    )
    assert alarms / runs < 0.08


def test_the_nearest_relation():
    """Chosen on one half, and read off the other: a head has come (accuracy - baseline) / .1 of the way."""
    found = tally(np.random.default_rng(3), np.array([[0.2, 0.56], [0.5, 0.58]]), 0.5)
    near = find_nearest_relation(found, ASKING_SYNTAX, "syntactic", 0.1)
    accuracy = found.hits[0, :, :, SCORING] / found.asked[0, :, None, SCORING]
    baseline = (found.guessed[0, 0, 3, SCORING] / found.asked[0, 0, SCORING]).item()
    for one, share in zip(near, accuracy.ravel(), strict=True):
        assert (one.name, one.measure) == ("syntactic: det", "accuracy, dependent to head")
        assert (one.value, one.threshold) == (share, pytest.approx(baseline + 0.1))
        assert one.way == pytest.approx((share - baseline) / 0.1)
    few = find_nearest_relation(
        tally(np.random.default_rng(3), np.full((2, 2), 0.9), 0.5, documents=18), ASKING_SYNTAX, "x", 0.1
    )
    assert few == [None] * 4


def test_of_two_relations_the_one_with_more_links():
    """Of 24 links of one relation, a head finds 6 more than the rule; of 400 of another, 50 more."""
    found = Tally.empty([("det", "a"), ("obj", "a")], [0], 1, len(OFFSETS), np.zeros(0, np.int64))
    found.asked[:] = np.array([24, 400])[:, None, None]
    found.hits[:, 0, 0] = np.array([6, 50])[:, None]
    (near,) = find_nearest_relation(found, ASKING_SYNTAX, "syntactic", 0.1)
    assert near.name == "syntactic: obj"
    assert near.value == 50 / 400


def test_links_without_labels_are_tried_together():
    found = replace(tally(np.random.default_rng(0), np.full((2, 2), 0.9), 0.5), keys=((ALL, "a"),))
    assert {
        role.name for held in find_known_relations(found, ASKING_SYNTAX, "mine", 0.1) for role in held
    } == {"mine: all"}


def test_of_a_tie_the_nearest_offset():
    """Two offsets find as much on the one half, and the nearer one finds everything on the other."""
    documents = 200
    tally = Tally.empty([("det", ASKING_SYNTAX.forward)], [0], 1, len(OFFSETS), np.zeros(0, np.int64))
    tally.asked[:], tally.clusters[:], tally.asked_squared[:] = documents, documents, documents
    for whole in (tally.hits, tally.hits_squared, tally.products):
        whole[:] = documents
    near, far = OFFSETS.index("1"), 0
    tally.guessed[0, 0, [near, far], CHOOSING] = 50
    assert [role.name for role in find_known_relations(tally, ASKING_SYNTAX, "syntactic", 0.1)[0]] == [
        "syntactic: det"
    ]
    tally.guessed[0, 0, near, SCORING] = documents
    for whole in (tally.guessed_squared, tally.guess_products):
        whole[0, 0, near] = documents
    for whole in (tally.both, tally.agreed):
        whole[0, 0, 0, near] = documents
    assert find_known_relations(tally, ASKING_SYNTAX, "syntactic", 0.1) == [[]]


def tabulated(corpus=None, documents=slice(None), **given):
    """Tabulate one layer of heads from what is given of each document, (document, head) or alike in all."""
    usual = {
        "special_excess": 0.1, "special_preference": 0.95, "punctuation_excess": 0.1,
        "punctuation_preference": 0.6, "effective_share": 0.3, "rarest_excess": 0.1, "segment_excess": np.nan,
        "offset_share_by_fold": 0.1, "offset_share_shuffled_by_fold": 0.1, "rare_lift_by_fold": 0.9,
        "vertical_excess": 0.1, "diagonal_excess": 0.1, "vertical_diagonal_excess": 0.2,
        "aligned_excess": np.nan, "first_token_excess": np.nan, "first_token_preference": np.nan,
        "part_of_speech_excess": np.nan,
    }  # fmt: skip
    statistics = [one for one in all_statistics().values() if one.family.name == "roles"]
    sums, numbers = {}, np.arange(DOCUMENTS)[documents]
    for one in statistics:
        values = np.broadcast_to(given.get(one.name, usual[one.name]), (DOCUMENTS, HEADS))[:, None]
        if one.name.startswith("offset"):
            offsets = np.zeros((DOCUMENTS, 1, HEADS, 2 * FURTHEST + 1))
            offsets[..., FURTHEST - 1] = values
            values = offsets
        if one.name == "part_of_speech_excess":
            values = np.stack([values] * len(PARTS), -1)
        sums[one.name] = one.sums.of(values[documents], None, numbers)
    record = {"corpus": corpus or {}}
    labels = Labels("tiny", "text", record, number_layers(("encoder",)))
    return ROLES.table("roles", Measurement(sums, len(numbers)), statistics, labels)


def test_share_of_folds_by_hand():
    """A head above the threshold on all documents, and below it in the documents of three folds of eight."""
    high = np.where(FOLD < 3, 0.25, 0.5)
    found = tabulated(special_excess=np.stack([high, np.full(DOCUMENTS, 0.5), np.full(DOCUMENTS, 0.1)], 1))
    assert list(found["role"]) == ["delimiter", "delimiter", "mixed"]
    assert found["stability"].tolist() == [5 / 8, 1, 1]
    said = "Of 3 heads whose name folds of the documents can decide, 1 has another name in one or more of 8"
    assert any(note.startswith(said) for note in found.notes)


def test_one_fold_says_nothing():
    found = tabulated(documents=slice(1))
    assert np.isnan(found["stability"]).all()
    assert "stability is empty: it takes documents in two folds at least." in found.notes


def test_what_folds_do_not_decide_has_none():
    names = ["previous", "syntactic: det", "induction", "mixed"]
    found = stability(names, [names, ["previous", "mixed", "broad", "self"]])
    np.testing.assert_array_equal(found, [1, np.nan, np.nan, 0.5])


@pytest.mark.parametrize("decided", [True, False])
def test_what_the_text_cannot_decide_is_no_role(decided):
    found = tabulated({"rare_decided": decided}, rarest_excess=0.9, rare_lift_by_fold=2.0)
    assert set(found["role"]) == {"rare words" if decided else "mixed"}
    assert any("no head is called rare words" in note for note in found.notes) == (not decided)


def test_a_text_of_types_that_occur_once_names_no_rare_words():
    """From the text to the record: every type but one occurs once, or all types often."""
    texts = ["the dog ran", "a cat slept", "who rang there", "she signed it"]
    for corpus, decided in ((texts, False), (texts * 20, True)):
        found = attnprobe.roles("demo", corpus)
        assert found.provenance["corpus"]["rare_decided"] is decided


@pytest.mark.parametrize(
    ("held", "note"),
    [
        ([["previous"], ["next"], []], "previous: 0-0; next: 0-1 (layer-head, counted from 0)."),
        (
            [["previous", "next"], [], []],
            "previous: 0-0; next: 0-0 (layer-head, counted from 0; a head may have several roles).",
        ),
        ([["broad"]] * 9, "broad: 9 heads."),
    ],
)
def test_a_note_explains_the_signs_that_occur(held, note):
    there = np.ones(len(held), bool)
    roles = [[SimpleNamespace(name=name) for name in some] for some in held]
    found = _note_roles(roles, [None] * len(held), [f"0-{head}" for head in range(len(held))], there)
    assert next(iter(found)) == note
