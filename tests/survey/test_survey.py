"""Tables of a survey: of one corpus, of everything in one pass, and what their notes say."""

import numpy as np
import pytest

import attnprobe

TEXTS = [
    "the dog ran to the river",
    "a parcel came late, and she knew",
    "it rained",
    "why did the train stop",
]


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_as_the_commands_give_them(saved, name):
    whole = attnprobe.census(saved(name), TEXTS, everything=True)
    parts = [
        attnprobe.census(saved(name), TEXTS, weights="both"),
        attnprobe.rank(saved(name), TEXTS),
        attnprobe.mixing(saved(name), TEXTS),
    ]
    there = [name for part in parts for name in part.data]
    assert set(whole.data) == set(there)
    for part in parts:
        for column in part.columns:
            found, expected = whole[column.name], part[column.name]
            if column.role in {"measure", "error"}:
                np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9, err_msg=column.name)
            else:
                assert found.tolist() == expected.tolist()
            assert whole.column(column.name).unit == column.unit
        missing = [note for note in part.notes if note not in whole.notes and "empty" not in note]
        assert not missing


def test_what_a_model_does_not_give_is_left_out(saved):
    table = attnprobe.census(saved("deberta-v2"), TEXTS, everything=True)
    assert {"entropy", "jsd_mean", "explained_by_others"} <= set(table.data)
    assert not {"entropy_norm", "norm_total", "contribution_norm", "logit_rank"} & set(table.data)
    assert np.isfinite(table["explained_by_others"]).all()
    said = " ".join(table.notes)
    for name in ("contribution_norm", "logit_rank", "entropy_norm"):
        assert name in said
    assert "could not be measured: attnprobe can't read" in said
