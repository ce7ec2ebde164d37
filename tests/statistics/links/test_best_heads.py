"""The best head and the best rule, cross-fitted: by hand, of planted heads, beside controls, merged."""

import numpy as np
import pytest
from gold import survey
from test_by_label import PLANTED, model, sentences, tokenizer

from attnprobe.attention.kinds import number_layers
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.statistics.best_heads import LinkCondition
from attnprobe.statistics.links import BY_RELATION, SYNTAX, make_control, score_best_head
from attnprobe.statistics.rules import LinkTask
from attnprobe.sums.documents import BLOCKS
from attnprobe.sums.links import FAR, LinkCounts, assign_folds
from attnprobe.table.builder import Labels

TASK = LinkTask("to", "", ("-1", "0", "1", "nearest"), "label")
LAYERS, HEADS = 2, 3


def find_best(counts, gone=None, folds=5, positions=("",), **more):
    """Choose and score the best head."""
    layers, heads = counts.shape
    keys = [("x", "to", position) if position else ("x", "to") for position in positions]
    removed = set() if gone is None else {place for place in np.ndindex(layers, heads) if gone[place]}
    places = number_layers(("encoder",) * layers)
    labels = Labels("m", "d", {"asked": {"folds": folds}}, places, removed=removed)
    condition = LinkCondition("x", "to", None, range(layers), keys)
    return score_best_head(counts, condition, TASK, labels, 1, **more)


def tally_of(random, *, positions=1, rules=4):
    """Draw links in each block, and who answers them rightly; behind them, those at a distance."""
    keys = [("x", "to", name) for name in ("output", "input")] if positions > 1 else [("x", "to")]
    every = [*keys, *((*key, FAR) for key in keys)]
    counts = LinkCounts.empty(every, [0] * LAYERS, HEADS, rules)
    drawn = random.integers(0, 6, BLOCKS)
    for keys_of_kind, links in ((slice(0, positions), drawn), (slice(positions, None), drawn // 2)):
        counts.number[keys_of_kind] = links
        counts.hits[keys_of_kind] = random.binomial(links, random.random((positions, LAYERS, HEADS, 1)))
        counts.guessed[keys_of_kind] = random.binomial(links, random.random((rules, 1)))
    return counts


def one_layer(heads=1):
    return LinkCounts.empty([("x", "to")], [0], heads, 4)


@pytest.mark.parametrize("positions", [1, 2])
@pytest.mark.parametrize("folds", [2, 5])
def test_by_hand(folds, positions):
    """All heads, of all layers and positions, that are there; of equals the first, and the nearest offset."""
    random = np.random.default_rng(folds)
    for _ in range(20):
        counts = tally_of(random, positions=positions)
        counts.guessed[:, :, 0] = counts.guessed[:, :, 2]  # as good: of -1 and +1, the first
        gone = random.random((LAYERS, HEADS)) < 0.3
        gone[0, 0] = False
        names = ["output", "input"] if positions > 1 else [""]
        row = find_best(counts, gone, folds, names)

        fold, links_of_block = assign_folds(folds), counts.number[0, 0]
        there = [left_out for left_out in np.ndindex(positions, LAYERS, HEADS) if not gone[left_out[1:]]]
        order = [1, 0, 2, 3]  # offset 0, then -1, then +1, then what has a name
        rule = max(order, key=lambda at: counts.guessed[0, 0, at].sum())
        right, far, heads = 0, 0, []
        for left_out in range(folds):
            here = fold == left_out
            head = max(there, key=lambda at: counts.hits[at][~here].sum())
            right += counts.hits[head][here].sum()
            far += counts.hits[(positions + head[0], *head[1:])][here].sum()
            heads.append(head)
        n, n_far = links_of_block.sum(), counts.number[positions, 0].sum()
        expected = {
            "n": n,
            "accuracy": right / n,
            "baseline": counts.guessed[0, 0, rule].sum() / n,
            "gain": (right - counts.guessed[0, 0, rule].sum()) / n,
            "n_far": n_far,
            "accuracy_far": far / n_far,
            "baseline_far": counts.guessed[positions, 0, rule].sum() / n_far,
            "baseline_rule": TASK.name_of(rule),
            "accuracy_selected": max(counts.hits[left_out].sum() for left_out in there) / n,
            "chosen": max(map(heads.count, heads)) / folds,
        }
        assert {name: row[name] for name in expected} == pytest.approx(expected)
        assert row["baseline_offset"] == (rule - 1 if rule < 3 else None)
        assert 0 <= row["accuracy_far_se"] < 0.5
        named = (names.index(row["position"] or ""), row["layer"], row["head"])
        assert row["chosen"] == heads.count(named) / folds


def test_the_rule_is_at_least_chance_among_candidates():
    """A head that is right in 6 of 10 is no news where two candidates are named, and any rule finds 4."""
    counts = one_layer()
    counts.number[:], counts.hits[:], counts.guessed[:] = 10, 5, 4
    assert find_best(counts)["baseline"] == 0.4
    counts.chance[:] = 5
    row = find_best(counts)
    assert (row["baseline"], row["baseline_rule"]) == (0.5, "chance")
    assert row["p"] > 0.05


def test_a_control_is_cross_fitted_alike():
    """With the head that finds most of its own links, at its own place among the keys."""
    random = np.random.default_rng(8)
    counts, moved = (tally_of(random, rules=rules) for rules in (4, 0))
    spare = LinkCounts.empty([("y", "to")], [0] * LAYERS, HEADS, 0)
    spare.number[:] = 9
    control = spare + moved  # whose keys come in another order
    row = find_best(counts, control=control)
    place, fold = control.keys.index(("x", "to")), assign_folds(5)
    hits = control.hits[place].reshape(-1, BLOCKS)
    right = sum(hits[hits[:, fold != n].sum(1).argmax(), fold == n].sum() for n in range(5))
    alone = right / control.number[place].sum()
    assert row["control"] == pytest.approx(alone)
    assert row["selectivity"] == pytest.approx(row["accuracy"] - alone)
    assert 0 < row["control_se"] < row["accuracy_se"] * 3
    assert "control" not in find_best(counts, control=spare)


def test_a_planted_head_is_selective():
    """It finds its partner wherever that stands, and links between other words as rarely as any."""
    checkpoint = Checkpoint("planted", model(0, planted=True), tokenizer())
    statistics, request = [SYNTAX, make_control(SYNTAX)], {"control": "links"}
    table = survey(checkpoint, sentences(60, 0), statistics, BY_RELATION, request).table
    assert list(zip(table.data["layer"], table.data["head"], strict=True)) == [PLANTED] * 6
    assert (table["chosen"] == 1).all()
    assert (table["control"] < 0.4).all()
    np.testing.assert_allclose(table["selectivity"], 1 - table["control"])
    assert (table["selectivity"] > 5 * table["selectivity_se"]).all()
