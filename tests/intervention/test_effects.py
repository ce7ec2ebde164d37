"""What a table of ablation says of itself: an effect is said where a test finds one, and nowhere else."""

import re

import numpy as np
import pytest

from attnprobe.attention.kinds import Place
from attnprobe.intervention.effects import Effects, describe_ablation, describe_survivors
from attnprobe.intervention.metrics.mean import Mean

ACCURACY = Mean("accuracy", "share", higher_is_better=True)
LOSS = Mean("loss", "nats", higher_is_better=False)
NAN = float("nan")


def effects(metric, deltas, adjusted, errors=0.01, baseline=0.5):
    deltas, adjusted = np.array(deltas, float), np.array(adjusted, float)
    errors = np.full(deltas.shape, errors)
    places = [Place(layer) for layer in range(len(deltas))]
    return Effects(metric, baseline, baseline + deltas, deltas, errors, adjusted, places, "paired t, Holm")


def test_no_head_is_worst_where_none_has_an_effect():
    """The score rises without most heads, and the one fall is noise."""
    (said,) = describe_ablation(effects(LOSS, [[-0.1, -0.2], [-0.3, 0.01]], [[1, 1], [0.4, 1]]))
    assert (
        said
        == "With all heads, loss is 0.5. None of 4 heads changes it significantly (paired t, Holm, p < 0.05)."
    )


def test_heads_without_which_it_is_worse_and_better():
    said = [*describe_ablation(effects(ACCURACY, [[-0.1, 0.2], [-0.3, -0.4]], [[0.04, 0.01], [0.001, 0.2]]))]
    assert said == [
        "With all heads, accuracy is 0.5. It is significantly worse without 2 of 4 heads, and significantly "
        "better without 1 (paired t, Holm, p < 0.05).",
        "Among the significant, it is worst without head 0 of layer 1: 0.2 (by -0.3, standard error 0.01).",
        "Among the significant, it is best without head 1 of layer 0: 0.7 (by +0.2, standard error 0.01).",
    ]


def test_only_better():
    first, second = describe_ablation(effects(LOSS, [[-0.1, 0.2]], [[0.001, 1]]))
    assert "significantly worse without none of 2 heads, and significantly better without 1" in first
    assert second.startswith("Among the significant, it is best without head 0 of layer 0: 0.4 ")


def test_nothing_changes():
    assert [*describe_ablation(effects(LOSS, [[0, NAN]], [[1, NAN]]))] == [
        "With all heads, loss is 0.5; no head changes it."
    ]


@pytest.mark.parametrize("errors", [0.01, NAN])
def test_without_a_test(errors):
    said = [
        *describe_ablation(effects(ACCURACY, [[-0.1, 0.2], [-0.3, NAN]], [[NAN, NAN], [NAN, NAN]], errors))
    ]
    assert said[0].endswith("p is not defined: there is nothing to test, or too few examples for a test.")
    largest = "The largest change is without head 0 of layer 1: 0.2 (by -0.3, standard error 0.01)."
    assert said[1:] == ([largest] if errors == 0.01 else [])


def test_heads_alone():
    """The best of each layer is tested against all heads, and that is said."""
    said = describe_survivors(
        effects(ACCURACY, [[-0.1, -0.2], [NAN, NAN], [-0.3, 0.1]], [[0.6, 1], [NAN, NAN], [1, 0.01]])
    )
    assert [*said] == [
        "With all heads, accuracy is 0.5. Below is the head of each layer with which alone it is best, and "
        "tested against all heads (paired t, Holm), not against the others.",
        "Head 0 in layer 0: 0.4, not significantly different (p = 0.6).",
        "Head 1 in layer 2: 0.6, significantly better (p = 0.01).",
    ]
    untested = [*describe_survivors(effects(LOSS, [[0.2, 0.1]], [[NAN, NAN]]))]
    assert untested[0].endswith("with which alone it is best.")
    assert untested[1] == "Head 1 in layer 0: 0.6."


@pytest.mark.parametrize("seed", range(40))
def test_every_claim_is_one_of_the_table(seed):
    draw = np.random.default_rng(seed)
    metric = (ACCURACY, LOSS)[seed % 2]
    deltas = draw.normal(size=(3, 4)) * draw.choice([0, 0.1, 1])
    adjusted = np.where(draw.random((3, 4)) < draw.choice([0, 0.3]), draw.random((3, 4)) * 0.06, 1.0)
    found = effects(metric, deltas, adjusted)
    text = " ".join(describe_ablation(found))
    harm = -deltas if metric.higher_is_better else deltas
    worse, better = ((adjusted < 0.05) & (sign * harm > 0) for sign in (1, -1))
    counts = re.search(r"worse without (\w+) of 12 heads, and significantly better without (\w+)", text)
    assert (counts is None) == (not (worse | better).any())
    if counts:
        assert [int(word.replace("none", "0")) for word in counts.groups()] == [worse.sum(), better.sum()]
    for word, those, most in (("worst", worse, harm), ("best", better, -harm)):
        named = re.search(rf"{word} without head (\d) of layer (\d)", text)
        assert (named is None) == (not those.any())
        if named:
            assert np.where(those, most, -np.inf).argmax() == 4 * int(named[2]) + int(named[1])
    for head, layer, verdict in re.findall(
        r"Head (\d) in layer (\d): [\d.e-]+, (.*?) \(p", " ".join(describe_survivors(found))
    ):
        place = int(layer), int(head)
        assert harm[place] == harm[int(layer)].min()
        assert verdict.startswith("not") == (adjusted[place] >= 0.05)
        assert verdict.startswith("not") or verdict.endswith("worse" if harm[place] > 0 else "better")
