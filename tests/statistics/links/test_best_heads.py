"""The best head and the best rule, cross-fitted: by hand, of planted heads, beside controls, merged."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gold import documents
from test_by_label import PLANTED, model, sentences, tokenizer

import attnprobe
from attnprobe.corpus.sources.text import Embedded, open_embedded
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.random_weights import randomise_weights
from attnprobe.run.options import CorpusOptions
from attnprobe.run.progress import SilentProgress
from attnprobe.statistics.best_heads import Cell, Selection, choose_and_score
from attnprobe.statistics.links import ASKING_COREFERENCE, BY_RELATION, SYNTAX, make_controls
from attnprobe.statistics.registry import find_statistic
from attnprobe.statistics.rules import Asking, offsets_to
from attnprobe.sums.crossfit import assign_folds
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.tally import FAR, Tally
from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora

ASKING = Asking("to", "", (*offsets_to(1), "nearest"), "label")
LAYERS, HEADS = 2, 3


def tally_of(random, *, positions=1, rules=4):
    """Draw links in each block, and who answers them rightly; behind them, those at a distance."""
    keys = [("x", "to", name) for name in ("output", "input")] if positions > 1 else [("x", "to")]
    every = [*keys, *((*key, FAR) for key in keys)]
    tally = Tally.empty(every, [0] * LAYERS, HEADS, rules, np.zeros(0, np.int64))
    asked = random.integers(0, 6, BLOCKS)
    for some, links in ((slice(0, positions), asked), (slice(positions, None), asked // 2)):
        tally.blocks.asked[some] = links
        hits = random.binomial(links, random.random((positions, LAYERS, HEADS, 1)))
        tally.blocks.hits[some] = hits
        tally.blocks.guessed[some] = random.binomial(links, random.random((rules, 1)))
    return tally


@pytest.mark.parametrize("positions", [1, 2])
@pytest.mark.parametrize("folds", [2, 5])
def test_by_hand(folds, positions):
    """All heads, of all layers and positions, that are there; of equals the first, and the nearest offset."""
    random = np.random.default_rng(folds)
    for _ in range(20):
        tally = tally_of(random, positions=positions)
        tally.blocks.guessed[:, :, 0] = tally.blocks.guessed[:, :, 2]  # as good: of -1 and +1, the first
        gone = random.random((LAYERS, HEADS)) < 0.3
        gone[0, 0] = False
        names = ["output", "input"] if positions > 1 else [""]
        cells = [
            Cell(at, "x", "to", None, range(LAYERS), name, positions + at) for at, name in enumerate(names)
        ]
        best = choose_and_score(tally, cells, gone, ASKING, Selection(folds))

        fold, asked = assign_folds(folds), tally.blocks.asked[0, 0]
        there = [one for one in np.ndindex(positions, LAYERS, HEADS) if not gone[one[1:]]]
        order = [1, 0, 2, 3]  # offset 0, then -1, then +1, then what has a name
        right, guessed, far, far_guessed, heads, rules = 0, 0, 0, 0, [], []
        for one in range(folds):
            here = fold == one
            head = max(there, key=lambda at: tally.blocks.hits[at][~here].sum())
            rule = max(order, key=lambda at: tally.blocks.guessed[0, 0, at, ~here].sum())
            right += tally.blocks.hits[head][here].sum()
            guessed += tally.blocks.guessed[0, 0, rule, here].sum()
            far += tally.blocks.hits[(positions + head[0], *head[1:])][here].sum()
            far_guessed += tally.blocks.guessed[positions, 0, rule, here].sum()
            heads.append(head)
            rules.append(rule)
        assert best.n == asked.sum()
        assert best.accuracy == pytest.approx(right / asked.sum())
        assert best.baseline == pytest.approx(guessed / asked.sum())
        n_far = tally.blocks.asked[positions, 0].sum()
        assert best.n_far == n_far
        assert best.accuracy_far == pytest.approx(far / n_far)
        assert best.baseline_far == pytest.approx(far_guessed / n_far)
        assert 0 <= best.error_far < 0.5
        named = (names.index(best.position), best.layer, best.head)
        assert best.times == heads.count(named) == max(map(heads.count, heads))
        assert rules.count(best.rule) == max(map(rules.count, rules))
        assert best.selected == pytest.approx(
            max(tally.blocks.hits[one].sum() for one in there) / asked.sum()
        )
        if len(there) > 1:
            others = [one for one in there if one != named]
            right = 0
            for one in range(folds):
                head = max(others, key=lambda at: tally.blocks.hits[at][fold != one].sum())
                right += tally.blocks.hits[head][fold == one].sum()
            assert best.runner_up_accuracy == pytest.approx(right / asked.sum())
            assert best.runner_up != named[1:] or positions > 1


def test_a_head_is_chosen_by_the_others_and_not_by_itself():
    """Lucky in one fold alone, and so never where it is scored."""
    tally = Tally.empty([("x", "to")], [0], 2, 4, np.zeros(0, np.int64))
    tally.blocks.asked[:] = 10
    tally.blocks.hits[0, 0, 0] = 5
    tally.blocks.hits[0, 0, 1, assign_folds(5) == 3] = 10
    tally.blocks.guessed[0, 0, 1] = 1
    cell = Cell(0, "x", "to", None, [0])
    best = choose_and_score(tally, [cell], np.zeros((1, 2), bool), ASKING, Selection())
    assert (best.layer, best.head, best.times, best.folds) == (0, 0, 5, 5)
    assert best.accuracy == 0.5
    assert (best.runner_up, best.runner_up_accuracy) == ((0, 1), 130 / 640)
    assert (best.rule, best.baseline) == (1, pytest.approx(0.1))


def test_links_in_one_fold_are_no_choice():
    tally = Tally.empty([("x", "to")], [0], 2, 4, np.zeros(0, np.int64))
    tally.blocks.asked[..., :3] = tally.blocks.hits[..., :3] = 4
    cell = Cell(0, "x", "to", None, [0])
    best = choose_and_score(tally, [cell], np.zeros((1, 2), bool), ASKING, Selection())
    assert (best.n, best.layer, best.head) == (12, None, None)
    assert np.isnan(best.accuracy)


def test_controls_are_cross_fitted_alike():
    """Each with the head that finds most of its own links, at its own place among the keys."""
    random = np.random.default_rng(8)
    tally, one, other = (tally_of(random, rules=rules) for rules in (4, 0, 0))
    spare = Tally.empty([("y", "to")], [0] * LAYERS, HEADS, 0, np.zeros(0, np.int64))
    spare.blocks.asked[:] = 9
    one = spare + one  # whose keys come in another order
    cell, gone = Cell(0, "x", "to", None, range(LAYERS)), np.zeros((LAYERS, HEADS), bool)
    best = choose_and_score(tally, [cell], gone, ASKING, Selection(controls=[one, other]))
    alone = [
        choose_and_score(
            each, [replace(cell, place=each.keys.index(("x", "to")))], gone, ASKING_COREFERENCE, Selection()
        ).accuracy
        for each in (with_rules(one), with_rules(other))
    ]
    assert best.control == pytest.approx(np.mean(alone))
    assert best.selectivity == pytest.approx(best.accuracy - np.mean(alone))
    assert 0 < best.control_error < best.error * 3
    missing = choose_and_score(tally, [cell], gone, ASKING, Selection(controls=[spare]))
    assert np.isnan(missing.control)
    assert missing.accuracy == best.accuracy


def with_rules(control):
    """Give what was counted of a control as if rules had been asked, which never answer."""
    keys, kinds = control.keys, control.kinds.tolist()
    whole = Tally.empty(keys, kinds, HEADS, len(ASKING_COREFERENCE.rules), np.zeros(0, np.int64))
    whole.blocks.asked[:], whole.blocks.hits[:] = control.blocks.asked, control.blocks.hits
    return whole


def survey(checkpoint, gold, statistics, **asked):
    request = TableRequest(
        [CorpusRequest(documents(gold), statistics, CorpusOptions())], "gold", {"asked": asked}, BY_RELATION
    )
    (found,) = survey_corpora(checkpoint, [request], progress=SilentProgress())
    return found.table


def test_a_planted_head_is_selective():
    """It finds its partner wherever that stands, and links between other words as rarely as any."""
    checkpoint = Checkpoint("planted", model(0, planted=True), tokenizer())
    found = survey(checkpoint, sentences(60, 0), [SYNTAX, *make_controls(SYNTAX, "links")], control="links")
    assert list(zip(found.data["layer"], found.data["head"], strict=True)) == [PLANTED] * 6
    assert (found["chosen"] == 1).all()
    assert "Every head that is named was chosen in 5 of 5 folds." in found.notes
    assert (found["control"] < 0.4).all()
    np.testing.assert_allclose(found["selectivity"], 1 - found["control"])
    assert (found["selectivity"] > 5 * found["selectivity_se"]).all()


def test_a_head_that_looks_at_a_place_is_not_selective():
    """All links are to the next word, which is what a rule finds, and a head, of any two neighbours."""
    gold = [(text, spans, [(at, at + 1, "x") for at in range(9)]) for text, spans, _ in sentences(30, 1)]
    checkpoint = Checkpoint("random", model(0), tokenizer())
    found = survey(checkpoint, gold, [SYNTAX, *make_controls(SYNTAX, "links")])
    assert (found["accuracy"] > 0.05).all()
    assert (np.abs(found["selectivity"]) < 3 * found["selectivity_se"]).all()


def test_random_weights_are_those_of_three_seeds():
    checkpoint, gold = Checkpoint("planted", model(0, planted=True), tokenizer()), sentences(40, 2)
    before = {name: weight.clone() for name, weight in checkpoint.model.named_parameters()}
    found = survey(checkpoint, gold, [SYNTAX, *make_controls(SYNTAX, "weights")], control="weights")
    plain = survey(checkpoint, gold, [SYNTAX])
    alone = [survey(randomise_weights(checkpoint, seed), gold, [SYNTAX]) for seed in (1, 2, 3)]
    rows, *others = (
        list(zip(one.data["relation"], one.data["direction"], strict=True)) for one in (found, *alone)
    )
    for name in plain.data:
        assert found.data[name] == plain.data[name]
    for row, name in enumerate(rows):
        accuracies = [one["accuracy"][names.index(name)] for one, names in zip(alone, others, strict=True)]
        expected = np.mean(accuracies)
        assert found["control"][row] == pytest.approx(expected)
        assert found["selectivity"][row] == pytest.approx(found["accuracy"][row] - expected)
    assert all(torch.equal(weight, before[name]) for name, weight in checkpoint.model.named_parameters())


@pytest.mark.parametrize("control", ["links", "weights"])
def test_controls_are_found_by_their_names(control):
    for one in make_controls(SYNTAX, control):
        assert find_statistic(one.name) == one
        assert one.definition


HALF = [
    ("all", "dependent_to_head", 1227, 4, 0, 509, 423, "nearest VERB", 0.061317213964316455, 509, 743),
    ("all", "head_to_dependent", 1227, 3, 2, 412, 414, "offset -1", 1.0, 412, 743),
    ("det", "dependent_to_head", 167, 4, 0, 127, 147, "NOUN after", 1.0, 127, 44),
    ("det", "head_to_dependent", 167, 1, 2, 147, 166, "DET before", 1.0, 147, 44),
]


def test_half_is_as_it_was():
    """What ``syntax demo`` gave before folds."""
    found = attnprobe.syntax("demo", selection="half")
    assert list(found.data)[-1] == "baseline_far"
    for row, (*keys, n, layer, head, right, guessed, rule, p, selected, far) in enumerate(HALF):
        names = ("relation", "direction", "n", "layer", "head", "baseline_rule", "n_far")
        assert [found.data[name][row] for name in names] == [*keys, n, layer, head, rule, far]
        assert found["accuracy"][row] == right / n
        assert found["baseline"][row] == guessed / n
        assert found["accuracy_selected"][row] == selected / n
        assert found["p_adjusted"][row] == pytest.approx(p, rel=1e-9)
    assert found["accuracy_se"][0] == pytest.approx(0.010779271127922397, rel=1e-12)
    assert found["gain_se"][1] == pytest.approx(0.0011439261164751737, rel=1e-12)
    assert found["accuracy_far"][2] == pytest.approx(0.4318181818181818, rel=1e-12)
    assert found["accuracy_far_se"][3] == pytest.approx(0.060835195867959165, rel=1e-12)
    assert found["baseline_far"][0] == pytest.approx(0.3391655450874832, rel=1e-12)
    assert "chosen on one half of the documents and scored on the other" in " ".join(found.notes)


@pytest.fixture(scope="session")
def parts(tmp_path_factory):
    """Write some sentences of the package's treebank, whole and in two parts."""
    folder = tmp_path_factory.mktemp("parts")
    whole = b"".join(stream.read() for stream, _ in open_embedded(Embedded.TREEBANK)).decode()
    some = whole.strip().split("\n\n")[:40]
    for name, these in (("whole", some), ("first", some[:15]), ("second", some[15:])):
        (folder / f"{name}.conllu").write_text("\n\n".join(these) + "\n\n")
    return folder


@pytest.mark.parametrize("options", [{}, {"folds": 3, "control": "links"}, {"control": "weights"}])
def test_merged_parts_are_the_whole(parts, options):
    tables = [attnprobe.syntax("demo", parts / f"{name}.conllu", **options) for name in ("first", "second")]
    merged = attnprobe.merge(tables)
    whole = attnprobe.syntax("demo", parts / "whole.conllu", **options)
    assert ("control" in whole.data) == ("control" in options)
    for name, cells in whole.data.items():
        if name != "dataset":
            np.testing.assert_equal(merged.data[name], cells)  # to the bit


def test_other_batches_are_the_same(parts):
    one, other = (
        attnprobe.syntax("demo", parts / "whole.conllu", control="links", batch_tokens=tokens)
        for tokens in (64, 4096)
    )
    np.testing.assert_equal(one.data, other.data)


def test_what_excludes_what():
    cases: list[tuple[dict[str, Any], str]] = [
        ({"selection": "half", "folds": 3}, "folds"),
        ({"selection": "half", "control": "links"}, "control"),
        ({"by": "head", "control": "links"}, "by"),
        ({"trees": True, "folds": 3}, "trees"),
        ({"folds": 1}, "at least 2"),
    ]
    for options, said in cases:
        with pytest.raises(attnprobe.AttnprobeError, match=said):
            attnprobe.syntax("demo", **options)
