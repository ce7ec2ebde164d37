"""The best head and the best rule, cross-fitted: by hand, of planted heads, beside controls, merged."""

import numpy as np
import pytest
from gold import documents
from test_by_label import PLANTED, model, sentences, tokenizer

import attnprobe
from attnprobe.corpus.sources.text import Embedded, open_embedded
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.run.options import CorpusOptions
from attnprobe.run.progress import SilentProgress
from attnprobe.statistics.best_heads import BestHead, LinkCondition, choose, compare_with_control, score
from attnprobe.statistics.links import BY_RELATION, SYNTAX, make_control
from attnprobe.statistics.rules import Asking, offsets_to
from attnprobe.sums.crossfit import assign_folds
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.link_counts import FAR, LinkCounts
from attnprobe.survey.survey import CorpusRequest, TableRequest, survey_corpora

ASKING = Asking("to", "", (*offsets_to(1), "nearest"), "label")
LAYERS, HEADS = 2, 3


def find_best(tally, cells, gone, folds=5):
    """Choose and score; give what was chosen too."""
    choice = choose(tally, cells, gone, ASKING, folds)
    return choice, BestHead() if choice is None else score(choice, tally, gone, 1)


def tally_of(random, *, positions=1, rules=4):
    """Draw links in each block, and who answers them rightly; behind them, those at a distance."""
    keys = [("x", "to", name) for name in ("output", "input")] if positions > 1 else [("x", "to")]
    every = [*keys, *((*key, FAR) for key in keys)]
    tally = LinkCounts.empty(every, [0] * LAYERS, HEADS, rules)
    asked = random.integers(0, 6, BLOCKS)
    for some, links in ((slice(0, positions), asked), (slice(positions, None), asked // 2)):
        tally.asked[some] = links
        hits = random.binomial(links, random.random((positions, LAYERS, HEADS, 1)))
        tally.hits[some] = hits
        tally.guessed[some] = random.binomial(links, random.random((rules, 1)))
    return tally


@pytest.mark.parametrize("positions", [1, 2])
@pytest.mark.parametrize("folds", [2, 5])
def test_by_hand(folds, positions):
    """All heads, of all layers and positions, that are there; of equals the first, and the nearest offset."""
    random = np.random.default_rng(folds)
    for _ in range(20):
        tally = tally_of(random, positions=positions)
        tally.guessed[:, :, 0] = tally.guessed[:, :, 2]  # as good: of -1 and +1, the first
        gone = random.random((LAYERS, HEADS)) < 0.3
        gone[0, 0] = False
        names = ["output", "input"] if positions > 1 else [""]
        cells = [
            LinkCondition(at, "x", "to", None, range(LAYERS), name, positions + at)
            for at, name in enumerate(names)
        ]
        _, best = find_best(tally, cells, gone, folds)

        fold, asked = assign_folds(folds), tally.asked[0, 0]
        there = [one for one in np.ndindex(positions, LAYERS, HEADS) if not gone[one[1:]]]
        order = [1, 0, 2, 3]  # offset 0, then -1, then +1, then what has a name
        rule = max(order, key=lambda at: tally.guessed[0, 0, at].sum())
        right, far, heads = 0, 0, []
        for one in range(folds):
            here = fold == one
            head = max(there, key=lambda at: tally.hits[at][~here].sum())
            right += tally.hits[head][here].sum()
            far += tally.hits[(positions + head[0], *head[1:])][here].sum()
            heads.append(head)
        assert best.n == asked.sum()
        assert best.accuracy == pytest.approx(right / asked.sum())
        assert best.baseline == pytest.approx(tally.guessed[0, 0, rule].sum() / asked.sum())
        n_far = tally.asked[positions, 0].sum()
        assert best.n_far == n_far
        assert best.accuracy_far == pytest.approx(far / n_far)
        assert best.baseline_far == pytest.approx(tally.guessed[positions, 0, rule].sum() / n_far)
        assert 0 <= best.error_far < 0.5
        named = (names.index(best.position), best.layer, best.head)
        assert best.chosen == heads.count(named) / folds == max(map(heads.count, heads)) / folds
        assert best.rule == rule
        assert best.selected == pytest.approx(max(tally.hits[one].sum() for one in there) / asked.sum())


def test_a_head_is_chosen_by_the_others_and_not_by_itself():
    """Lucky in one fold alone, and so never where it is scored."""
    tally = LinkCounts.empty([("x", "to")], [0], 2, 4)
    tally.asked[:] = 10
    tally.hits[0, 0, 0] = 5
    tally.hits[0, 0, 1, assign_folds(5) == 3] = 10
    tally.guessed[0, 0, 1] = 1
    cell = LinkCondition(0, "x", "to", None, [0])
    choice, best = find_best(tally, [cell], np.zeros((1, 2), bool))
    assert (best.layer, best.head, best.chosen, len(choice.names)) == (0, 0, 1, 2)
    assert best.accuracy == 0.5
    assert (best.rule, best.baseline) == (1, pytest.approx(0.1))


def test_links_in_one_fold_are_no_choice():
    tally = LinkCounts.empty([("x", "to")], [0], 2, 4)
    tally.asked[..., :3] = tally.hits[..., :3] = 4
    cell = LinkCondition(0, "x", "to", None, [0])
    choice, best = find_best(tally, [cell], np.zeros((1, 2), bool))
    assert choice is None
    assert np.isnan(best.accuracy)


@pytest.mark.parametrize("folds", [2, 5])
def test_the_rule_is_the_best_over_all_links(folds):
    """Of near ties, other folds choose the one that does worse next: no fold chooses a rule."""
    tally = LinkCounts.empty([("x", "to")], [0], 1, 4)
    fold = assign_folds(folds)
    tally.asked[:] = 10
    tally.hits[:] = 6
    tally.guessed[0, 0, 0] = np.where(fold % 2, 7, 3)
    tally.guessed[0, 0, 2] = np.where(fold % 2, 3, 7)
    _, best = find_best(tally, [LinkCondition(0, "x", "to", None, [0])], np.zeros((1, 1), bool), folds)
    most = tally.guessed[0, 0].sum(-1).max() / 640
    assert best.baseline == most >= 0.5
    assert best.rule in {0, 2}


def test_the_rule_is_at_least_chance_among_candidates():
    """A head that is right in 6 of 10 is no news where two candidates are named, and any rule finds 4."""
    tally = LinkCounts.empty([("x", "to")], [0], 1, 4)
    tally.asked[:], tally.hits[:], tally.guessed[:] = 10, 5, 4
    cell = LinkCondition(0, "x", "to", None, [0])
    assert find_best(tally, [cell], np.zeros((1, 1), bool))[1].baseline == 0.4
    tally.chance[:] = 5
    _, best = find_best(tally, [cell], np.zeros((1, 1), bool))
    assert (best.baseline, ASKING.name_of(best.rule)) == (0.5, "chance")
    assert best.p > 0.05


def test_a_control_is_cross_fitted_alike():
    """With the head that finds most of its own links, at its own place among the keys."""
    random = np.random.default_rng(8)
    tally, one = (tally_of(random, rules=rules) for rules in (4, 0))
    spare = LinkCounts.empty([("y", "to")], [0] * LAYERS, HEADS, 0)
    spare.asked[:] = 9
    control = spare + one  # whose keys come in another order
    gone = np.zeros((LAYERS, HEADS), bool)
    choice, plain = find_best(tally, [LinkCondition(0, "x", "to", None, range(LAYERS))], gone)
    best = compare_with_control(plain, choice, control, gone, 5)
    place, fold = control.keys.index(("x", "to")), assign_folds(5)
    hits = control.hits[place].reshape(-1, BLOCKS)
    right = sum(hits[hits[:, fold != n].sum(1).argmax(), fold == n].sum() for n in range(5))
    alone = right / control.asked[place].sum()
    assert best.control == pytest.approx(alone)
    assert best.selectivity == pytest.approx(best.accuracy - alone)
    assert 0 < best.control_error < best.error * 3
    missing = compare_with_control(plain, choice, spare, gone, 5)
    assert np.isnan(missing.control)
    assert missing.accuracy == best.accuracy


def survey(checkpoint, gold, statistics, **asked):
    request = TableRequest(
        [CorpusRequest(documents(gold), statistics, CorpusOptions())], "gold", {"asked": asked}, BY_RELATION
    )
    (found,) = survey_corpora(checkpoint, [request], progress=SilentProgress())
    return found.table


def test_a_planted_head_is_selective():
    """It finds its partner wherever that stands, and links between other words as rarely as any."""
    checkpoint = Checkpoint("planted", model(0, planted=True), tokenizer())
    found = survey(checkpoint, sentences(60, 0), [SYNTAX, make_control(SYNTAX)], control="links")
    assert list(zip(found.data["layer"], found.data["head"], strict=True)) == [PLANTED] * 6
    assert (found["chosen"] == 1).all()
    assert (found["control"] < 0.4).all()
    np.testing.assert_allclose(found["selectivity"], 1 - found["control"])
    assert (found["selectivity"] > 5 * found["selectivity_se"]).all()


def test_a_head_that_looks_at_a_place_is_not_selective():
    """All links are to the next word, which is what a rule finds, and a head, of any two neighbours."""
    gold = [(text, spans, [(at, at + 1, "x") for at in range(9)]) for text, spans, _ in sentences(30, 1)]
    checkpoint = Checkpoint("random", model(0), tokenizer())
    found = survey(checkpoint, gold, [SYNTAX, make_control(SYNTAX)])
    assert (found["accuracy"] > 0.05).all()
    assert (np.abs(found["selectivity"]) < 3 * found["selectivity_se"]).all()


@pytest.fixture(scope="session")
def parts(tmp_path_factory):
    """Write some sentences of the package's treebank, whole and in two parts."""
    folder = tmp_path_factory.mktemp("parts")
    whole = b"".join(stream.read() for stream, _ in open_embedded(Embedded.TREEBANK)).decode()
    some = whole.strip().split("\n\n")[:40]
    for name, these in (("whole", some), ("first", some[:15]), ("second", some[15:])):
        (folder / f"{name}.conllu").write_text("\n\n".join(these) + "\n\n")
    return folder


def test_merged_parts_are_the_whole(parts):
    options = {"folds": 3, "control": "links"}
    tables = [attnprobe.syntax("demo", parts / f"{name}.conllu", **options) for name in ("first", "second")]
    merged = attnprobe.merge(tables)
    whole = attnprobe.syntax("demo", parts / "whole.conllu", **options)
    assert "control" in whole.data
    for name, cells in whole.data.items():
        if name != "dataset":
            np.testing.assert_equal(merged.data[name], cells)  # to the bit
