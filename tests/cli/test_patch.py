"""patch from the command line and from Python: files, formats, options, what is said, and what is refused."""

import numpy as np
import pandas
import pytest

import attnprobe
from attnprobe import AttnprobeError
from attnprobe.intervention.objectives.contrast import MaskContrast

SUBJECTS = [("boy", "boys"), ("man", "men"), ("girl", "girls"), ("woman", "women"), ("house", "houses")]
PAIRS = [
    {"clean": f"The {boy} {where} [MASK] late .", "corrupted": f"The {boys} {where} [MASK] late .",
     "answer": "was", "other": "were"}
    for boy, boys in SUBJECTS for where in ("there", "in the garden")
]  # fmt: skip


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "pairs.csv"
    pandas.DataFrame(PAIRS).to_csv(path, index=False)
    return path


def test_what_the_sum_of_effects_is_shared_by(data):
    """The share of the gap is the sum of effects over the sum of gaps, which stands on record."""
    table = attnprobe.patch("demo", data)
    gap = table.provenance["patching"]["total_effect"]
    np.testing.assert_allclose(table["recovered"], table["effect"] / gap)
    noised = attnprobe.patch("demo", data, noising=True)
    assert noised.provenance["patching"]["total_effect"] == pytest.approx(-gap)
    assert set(noised["method"]) == {"noising"}
    assert not np.allclose(noised["effect"], -table["effect"])


def test_fast_confirms_the_first_heads_and_no_others(data):
    every = attnprobe.patch("demo", data)
    fast = attnprobe.patch("demo", data, fast=True, top=3)
    np.testing.assert_allclose(fast["attribution"], every["attribution"], rtol=1e-9)
    chosen = np.isfinite(fast["effect"])
    assert chosen.sum() == 3
    assert set(np.flatnonzero(chosen)) == set(np.argsort(-np.abs(every["attribution"]))[:3])
    np.testing.assert_allclose(fast["effect"][chosen], every["effect"][chosen], rtol=1e-6)
    np.testing.assert_allclose(fast["p"][chosen], every["p"][chosen], rtol=1e-6)
    # The smallest p is multiplied by all 24 heads that could have been chosen.
    assert np.nanmin(fast["p_adjusted"]) == pytest.approx(min(1, 24 * np.nanmin(fast["p"])))
    none = attnprobe.patch("demo", data, fast=True, top=0)
    assert np.isnan(none["effect"]).all()
    assert np.isfinite(none["attribution"]).all()


def test_positions(invoke, data, tmp_path):
    path = tmp_path / "positions.csv"
    code, _, _ = invoke("patch", "demo", "-d", data, "--positions", "-L", "4", "-o", path, "-q")
    table = pandas.read_csv(path)
    assert code == 0
    longest = table["position"].max() + 1
    assert len(table) == 24 * longest
    assert table["token"][:2].tolist() == ["[CLS]", "the"]
    counts = table[table["layer"].eq(0) & table["head"].eq(0)]["n"].tolist()
    assert counts[:7] == [4] * 7
    assert counts[-1] == 2  # of the longer sentences alone


def test_what_ships_with_attnprobe(refused, tabulate):
    table = tabulate("patch", "demo")
    assert (set(table["dataset"]), set(table["n"])) == ({"embedded"}, {36})
    assert "m is the logit of the answer" in table.attrs["error"]
    assert "leave out --label-column" in refused("patch", "demo", "--label-column", "answer")


@pytest.mark.parametrize(
    ("pairs", "options", "says"),
    [
        ([], {}, "no pairs"),
        (["a"], {}, "Pair 1 is of type str"),
        ([{"clean": "a", "corrupted": "b"}], {}, "write \\[MASK\\] for one word"),
        ([{"text": "a"}], {}, "no column called clean"),
        (PAIRS, {"top": 3}, "fast"),
        (PAIRS, {"truncate": True}, "truncate"),
        (PAIRS, {"objective": "similarity"}, "reads nothing off"),
        (PAIRS, {"objective": "classification"}, "no trained"),
        (PAIRS, {"max_length": 2}, "--max-length"),
    ],
)
def test_refusals(pairs, options, says):
    with pytest.raises(AttnprobeError, match=says):
        attnprobe.patch("demo", pairs, **options)


def test_what_a_classifier_does_not_read(classifier):
    pair = {"clean": "a dog", "corrupted": "a cat"}
    for pairs, says in (
        (None, "ask for a word, and three gives none"),
        ([pair], "three is asked for representation"),
        ([{**pair, "answer": "good", "other": "2"}], "Both answers are the same in a pair"),
    ):
        with pytest.raises(AttnprobeError, match=says):
            attnprobe.patch(classifier, pairs)


def test_a_run_that_is_stopped_goes_on(invoke, data, tmp_path, monkeypatch):
    words, state = ["patch", "demo", "-d", data, "--batch-tokens", "16"], tmp_path / "state"
    code, expected, _ = invoke(*words)
    assert code == 0
    compute_m, count = MaskContrast.compute_m, {"left": 60}

    def stopped(self, batch, *, corrupted):
        count["left"] -= 1
        if not count["left"]:
            raise KeyboardInterrupt
        return compute_m(self, batch, corrupted=corrupted)

    with monkeypatch.context() as patch:
        patch.setattr(MaskContrast, "compute_m", stopped)
        assert invoke(*words, "--resume", state)[0] == 130
    code, out, error = invoke(*words, "--resume", state)
    assert (code, out) == (0, expected)

    assert "2 of 8 batches are done" in error
    assert invoke(*words, "--noising", "--resume", state)[0] == 2  # another question
