"""The table of roles: in how many folds of documents a name holds, and what a text can't decide."""

import numpy as np
import pytest

import attnprobe
from attnprobe.attention.kinds import number_layers
from attnprobe.statistics.positional import FURTHEST
from attnprobe.statistics.registry import all_statistics
from attnprobe.statistics.role_table import ROLES, stability
from attnprobe.sums.base import Measurement
from attnprobe.sums.documents import find_block
from attnprobe.sums.groups import FOLDS, ByFold
from attnprobe.table.builder import Labels

DOCUMENTS, HEADS = 256, 3
FOLD = find_block(np.arange(DOCUMENTS)) * FOLDS // 64


def tabulated(corpus=None, documents=slice(None), **given):
    """Tabulate one layer of heads from what is given of each document, (document, head) or alike in all."""
    usual = {
        "special_excess": 0.1, "special_preference": 0.95, "punctuation_excess": 0.1,
        "punctuation_preference": 0.6, "effective_share": 0.3, "rarest_excess": 0.1, "segment_excess": np.nan,
        "offset_share_by_fold": 0.1, "offset_share_shuffled_by_fold": 0.1, "rare_lift_by_fold": 0.9,
    }  # fmt: skip
    statistics = [one for one in all_statistics().values() if one.family.name == "roles"]
    sums, numbers = {}, np.arange(DOCUMENTS)[documents]
    for one in statistics:
        values = np.broadcast_to(given.get(one.name, usual[one.name]), (DOCUMENTS, HEADS))[:, None]
        if one.name.startswith("offset"):
            offsets = np.zeros((DOCUMENTS, 1, HEADS, 2 * FURTHEST + 1))
            offsets[..., FURTHEST - 1] = values
            values = offsets
        sums[one.name] = ByFold.of(values[documents], None, numbers)
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
