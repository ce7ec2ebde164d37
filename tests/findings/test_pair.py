"""Two sides brought together: heads of different checkpoints, and whether their documents are the same."""

from dataclasses import replace

import numpy as np
import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.findings.correlation import correlate_sides, tabulate_disagreement
from attnprobe.findings.noise import Sample
from attnprobe.findings.pair import Pair, Side


def side(model, shape=(3, 4), seed=0, **more):
    """Make a side with a value for every head of an encoder."""
    places = [(layer, head) for layer in range(shape[0]) for head in range(shape[1])]
    return named(model, ("layer", "head"), places, seed, **more)


def both(model, seed=0, *, encoder=(3, 4), decoder=(2, 4), **more):
    """Make a side of an encoder-decoder."""
    shapes = {"encoder": encoder, "decoder": decoder, "cross": decoder}
    places = [
        (kind, layer, head)
        for kind, (layers, heads) in shapes.items()
        for layer in range(layers)
        for head in range(heads)
    ]
    return named(model, ("attention", "layer", "head"), places, seed, **more)


def named(model, keys, places, seed, **more):
    draw = np.random.default_rng(seed)
    values = dict(zip(places, draw.gamma(2.0, size=len(places)).tolist(), strict=True))
    total = draw.normal(size=(10, len(places)))
    sample = Sample(np.ones(10), total, 6 * np.arange(10))
    kind = {"objective": "representation", "method": "gradient"}
    found = Side(f"{model}.csv", model, "d", kind, "importance", keys, values, sample)
    return replace(found, **more)


def test_different_models_are_compared_only_where_it_is_asked_for():
    with pytest.raises(AttnprobeError, match=r"only heads of the same model.*--across-models"):
        Pair.of(side("a"), side("b"))
    pair = Pair.of(side("a"), side("b", seed=1), across=True)
    assert pair.notes == ()
    np.testing.assert_array_equal(pair.values[1], list(side("b", seed=1).values.values()))


def test_heads_are_matched_by_their_places():
    there = side("b", seed=1)
    turned = there.select_heads(list(there.values)[::-1], there.keys, list(there.values)[::-1])
    assert next(iter(turned.values)) == (2, 3)
    pairs = [Pair.of(side("a"), one, across=True) for one in (there, turned)]
    np.testing.assert_array_equal(pairs[0].values, pairs[1].values)
    np.testing.assert_array_equal(pairs[0].outside.sample.total, pairs[1].outside.sample.total)
    assert pairs[0].outside.reliability == pytest.approx(pairs[1].outside.reliability)


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (side("a"), side("b", (6, 4)), "a has 3 layers of 4 heads and b has 6 layers of 4 heads"),
        (side("a"), side("b", (3, 2)), "a has 3 layers of 4 heads and b has 3 layers of 2 heads"),
        (
            both("a", encoder=(1, 2), decoder=(1, 2)),
            side("b"),
            r"a has 1 layer of 2 heads \(encoder\), 1 layer of 2 heads \(decoder\) and 1 layer of 2 heads "
            r"\(cross\) and b has 3 layers of 4 heads",
        ),
    ],
)
def test_other_shapes_are_refused(ours, theirs, said):
    for one, other in ((ours, theirs), (theirs, ours)):
        with pytest.raises(AttnprobeError, match="`attnprobe compare"):
            Pair.of(one, other, across=True)
    with pytest.raises(AttnprobeError, match=said):
        Pair.of(ours, theirs, across=True)


def test_an_encoder_and_an_encoder_decoder_share_the_encoder():
    whole, part = both("whole"), side("part", seed=1)
    for one, other in ((whole, part), (part, whole)):
        pair = Pair.of(one, other, across=True)
        assert list(pair.inside.values) == [("encoder", *place) for place in part.values]
        assert any("decoder and cross attention in whole have no counterpart" in note for note in pair.notes)
    np.testing.assert_array_equal(pair.values[1], list(whole.values.values())[:12])
    np.testing.assert_array_equal(pair.outside.sample.total, whole.sample.total[:, :12])
    found = tabulate_disagreement(whole, part, {}, across=True).to_pandas()
    assert found.groupby("model_out").size().to_dict() == {"part": 12}
    assert set(found["attention"]) == {"encoder"}


def test_the_kind_of_an_only_kind_is_on_record():
    """A decoder of the encoder's shape is none."""
    decoder = side("part", (2, 4), record={"architecture": {"kinds": ["decoder"] * 2, "heads": 4}})
    pair = Pair.of(both("whole", encoder=(2, 4)), decoder, across=True)
    assert {place[0] for place in pair.inside.values} == {"decoder"}


def test_encoder_decoders_of_which_the_decoders_differ():
    pair = Pair.of(both("a"), both("b", seed=1, decoder=(1, 4)), across=True)
    assert {place[0] for place in pair.inside.values} == {"encoder"}
    assert len(pair.notes) == 2


def test_heads_that_were_removed_are_left_out():
    """Also if the last one of every layer is gone, which the shape on record tells."""
    whole = side("whole")
    for gone in ([(0, 1)], [(0, 3), (1, 3), (2, 3)]):
        left = [place for place in whole.values if place not in gone]
        record = {"architecture": {"layers": 3, "heads": 4, "removed": gone}}
        pruned = replace(side("pruned", seed=1).select_heads(left, whole.keys, left), record=record)
        pair = Pair.of(whole, pruned, across=True)
        assert list(pair.inside.values) == left
        verb = "1 head is" if len(gone) == 1 else "3 heads are"
        assert pair.notes == (f"{verb} left out, which pruned has lost by pruning.",)


CORPUS = {"documents": 9, "empty": 0, "unanswered": 0, "words_lost": 0}


@pytest.mark.parametrize(
    ("ours", "theirs", "shared"),
    [
        ({"texts": {"x"}}, {"texts": {"x"}}, True),
        ({"texts": {"x"}}, {"texts": {"x", "y"}}, None),
        ({"texts": {"x"}}, {"texts": {"y"}}, True),  # another tokenizer, the same data
        ({"texts": {"x"}}, {"texts": {"y"}, "dataset": "other"}, False),
        ({"texts": {"x"}}, {"texts": {"y"}, "corpus": {**CORPUS, "empty": 1}}, None),
        ({"texts": {"x"}}, {"texts": {"y"}, "kind": {"objective": "masked-lm"}}, None),
        ({"sha": "1"}, {"sha": "2"}, False),
        ({"sha": "1"}, {"sha": "1", "dataset": "renamed"}, True),
    ],
)
def test_whether_documents_are_the_same(ours, theirs, shared):
    sides = []
    for model, about in (("a", ours), ("b", theirs)):
        record = {"corpus": about.get("corpus", CORPUS), "dataset": {"sha256": about.get("sha")}}
        made = side(model, seed=len(sides), record=record, texts=frozenset(about.get("texts", ())))
        more = {name: about[name] for name in ("dataset", "kind") if name in about}
        sides.append(replace(made, **more))
    assert Pair.of(*sides, across=True).shared is shared
    notes = " ".join(correlate_sides(*sides, {}, across=True).notes)
    assert ("the same examples" in notes) is (shared is not False)
