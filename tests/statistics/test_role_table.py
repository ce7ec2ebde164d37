"""When a head has a role, and not without a reason; in how many folds of documents a name holds."""

from dataclasses import replace

import numpy as np
import pytest

from attnprobe.attention.kinds import number_layers
from attnprobe.statistics.links import SYNTAX_TASK
from attnprobe.statistics.positional import FURTHEST
from attnprobe.statistics.registry import all_statistics
from attnprobe.statistics.role_table import (
    ROLES,
    THRESHOLDS,
    RoleEvidence,
    decide_roles,
    find_known_relations,
    name_patterns,
)
from attnprobe.sums.base import Measurement
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.inference import half_width
from attnprobe.sums.links import LinkCounts
from attnprobe.table.builder import Labels
from attnprobe.table.naming import MIXED, ROLE_MARKS, find_role_kind

NUMBER = 4
DOCUMENTS, HEADS = 256, 3


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
    return RoleEvidence(columns, NUMBER, dict.fromkeys(columns, DOCUMENTS))


def names(evidence, thresholds=THRESHOLDS, more=None):
    every = decide_roles(evidence, thresholds, more or [[]] * NUMBER)
    return [[role["role"] for role in held] for held in every]


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
    far = (value - threshold) / half_width(np.ones(NUMBER), DOCUMENTS)[0]
    errors = [0.0, 0.5 * far, 0.99 * far, 1.01 * far]
    assert names(heads(**{measure: (value, errors)})) == [[role], [role], [role], []]
    assert names(heads(**{measure: (value, np.nan)})) == [[]] * NUMBER  # one document has no error


def test_few_documents_need_more():
    """The value lies 4 errors beyond: enough for 4 heads and 128 documents, not for 5 (t = 5.6) or 1."""
    evidence = heads(special_excess=(0.34, 0.01))
    for documents, expected in ((128, ["delimiter"]), (12, ["delimiter"]), (5, []), (1, [])):
        few = replace(evidence, documents=evidence.documents | {"special_excess": documents})
        assert names(few) == [expected] * NUMBER


def test_places_and_their_names():
    share = {"offset_share": (0.97, 0.001), "offset_share_shuffled": (0.95, 0.001)}
    evidence = heads(**share, offset=[-1, 0, 1, -3])
    assert names(evidence) == [["previous"], ["self"], ["next"], ["offset -3"]]
    assert [find_role_kind(held[0]) for held in names(evidence)] == ["previous", "self", "next", "offset"]


def test_a_share_that_is_lost_when_shuffled_is_none():
    """In between, where the interval still reaches the threshold, the head has its role."""
    evidence = heads(offset_share=(0.97, 0.001), offset_share_shuffled=([0.97, 0.899, 0.88, 0.3], 0.002))
    assert names(evidence) == [["previous"], ["previous"], [], []]
    without = {name: cells for name, cells in evidence.columns.items() if "shuffled" not in name}
    assert names(replace(evidence, columns=without)) == [["previous"]] * NUMBER


def test_most_attended_by_a_hair_is_no_role():
    """Attention is nearly uniform, and still most at one offset, or at the rarest token."""
    evidence = heads(
        offset_share=(1.0, 0.0), offset_share_shuffled=(1.0, 0.0), rarest_excess=(0.9, 0.0),
        rare_lift=(1.5, 0.01),
        effective_share=([0.99, 0.4, 0.99, 0.4], 0.0),
    )  # fmt: skip
    assert names(evidence) == [["broad"], ["previous", "rare words"]] * 2


def test_the_first_names_the_head_and_thresholds_move():
    evidence = heads(special_excess=(0.7, 0.01), duplicate=(0.6, 0.01), effective_share=(0.65, 0.001))
    assert names(evidence) == [["delimiter", "duplicate", "broad"]] * NUMBER
    higher = THRESHOLDS | {"delimiter": 0.75, "broad": 0.7}
    assert names(evidence, higher) == [["duplicate"]] * NUMBER
    order = list(ROLE_MARKS)
    assert order.index("delimiter") < order.index("duplicate") < order.index(MIXED)
    assert len({mark.letter for mark in ROLE_MARKS.values()}) == len(ROLE_MARKS)


# Patterns


def test_patterns_by_hand():
    far = 0.1 / half_width(np.ones(NUMBER), DOCUMENTS)[0]
    evidence = heads(
        vertical_excess=([0.6, 0.6, 0.1, 0.3], [0.99 * far, 1.01 * far, 0.01, 0.01]),
        diagonal_excess=([0.1, -0.1, 0.6, 0.3], 0.01),
        vertical_diagonal_excess=(0.6, 0.01),
    )
    # The second reaches below the threshold; what is on either is beyond it, and none on the diagonal.
    assert name_patterns(evidence, THRESHOLDS) == [
        "vertical",
        "heterogeneous",
        "diagonal",
        "vertical+diagonal",
    ]
    evidence = heads(
        segment_excess=([0.9, 0.7, 0.9, 0.9], 0.01), diagonal_excess=([0.1, 0.1, 0.6, 0.1], 0.01)
    )
    assert name_patterns(evidence, THRESHOLDS) == ["block", "heterogeneous", "diagonal", "block"]
    assert name_patterns(evidence, THRESHOLDS | {"block": 0.95})[0] == "heterogeneous"
    assert name_patterns(RoleEvidence({}, NUMBER, {}), THRESHOLDS) == [None] * NUMBER


# Relations


def tally(random, chance, rule, documents=400, links=2):
    """Count links of one label that heads (2 layers of 2) answer with some chance, and one rule."""
    counts = LinkCounts.empty([("det", SYNTAX_TASK.forward)], [0, 0], 2, len(SYNTAX_TASK.rules))
    for document in range(documents):
        block = document % BLOCKS
        counts.number[0, 0, block] += links
        counts.hits[0, :, :, block] += random.binomial(links, chance).astype(np.int32)
        counts.guessed[0, 0, 3, block] += random.binomial(links, rule)
    return counts


def test_a_relation_that_a_head_knows():
    chance = np.array([[0.2, 0.9], [0.5, 0.58]])
    relations = find_known_relations(
        tally(np.random.default_rng(0), chance, 0.5), SYNTAX_TASK, "syntactic", 0.1
    )
    assert [[role["role"] for role in held] for held in relations] == [[], ["syntactic: det"], [], []]
    (role,) = relations[1]
    assert role["measure"] == "accuracy, dependent to head"
    assert role["value"] == pytest.approx(0.9, abs=0.04)
    assert role["threshold"] == pytest.approx(0.6, abs=0.08)
    assert 0 < role["value_se"] < 0.03


def test_false_alarms():
    """Simulated: heads that are ahead by exactly the threshold; at most 5 % of models have one named."""
    random, runs = np.random.default_rng(2), 150
    chance = np.full((2, 2), 0.6)
    alarms = sum(
        any(find_known_relations(tally(random, chance, 0.5, documents=120), SYNTAX_TASK, "syntactic", 0.1))
        for _ in range(runs)
    )
    assert alarms / runs < 0.08


def tabulated(corpus=None, documents=slice(None), **given):
    """Tabulate one layer of heads from what is given of each document, (document, head) or alike in all."""
    usual = {
        "special_excess": 0.1, "special_preference": 0.95, "punctuation_excess": 0.1,
        "punctuation_preference": 0.6, "effective_share": 0.3, "rarest_excess": 0.1, "segment_excess": np.nan,
        "offset_share": 0.1, "offset_share_shuffled": 0.1, "rare_lift": 0.9,
        "vertical_excess": 0.1, "diagonal_excess": 0.1, "vertical_diagonal_excess": 0.2,
        "aligned_excess": np.nan, "first_token_excess": np.nan, "first_token_preference": np.nan,
    }  # fmt: skip
    statistics = [all_statistics()[name] for name in usual]
    sums, numbers = {}, np.arange(DOCUMENTS)[documents]
    for statistic in statistics:
        values = np.broadcast_to(given.get(statistic.name, usual[statistic.name]), (DOCUMENTS, HEADS))[
            :, None
        ]
        if statistic.name.startswith("offset"):
            offsets = np.zeros((DOCUMENTS, 1, HEADS, 2 * FURTHEST + 1))
            offsets[..., FURTHEST - 1] = values
            values = offsets
        sums[statistic.name] = statistic.sums.of(values[documents], None, numbers)
    record = {"corpus": corpus or {}}
    labels = Labels("tiny", "text", record, number_layers(("encoder",)))
    return ROLES.table("roles", Measurement(sums, len(numbers)), statistics, labels)


@pytest.mark.parametrize("decided", [True, False])
def test_what_the_text_cannot_decide_is_no_role(decided):
    corpus = {"rare_decided": decided, "sequences": 40, "clusters": 30 - decided}
    table = tabulated(corpus, rarest_excess=0.9, rare_lift=2.0)
    assert set(table["role"]) == {"rare words" if decided else "mixed"}
    assert any("intervals are wide" in note for note in table.notes) == decided
