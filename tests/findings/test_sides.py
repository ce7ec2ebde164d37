"""Two sides brought together: heads of different checkpoints, and whether their documents are the same."""

import numpy as np
import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.findings.correlation import correlate_sides, tabulate_disagreement
from attnprobe.findings.sides import PairedSides, TableSide


def side(model, shape=(3, 4), seed=0, *, removed=(), **more):
    """Make a side with a value for every head of an encoder."""
    places = [(layer, head) for layer in range(shape[0]) for head in range(shape[1])]
    return named(model, ("layer", "head"), [one for one in places if one not in removed], seed, **more)


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


def named(model, keys, heads, seed, **more):
    values = np.random.default_rng(seed).gamma(2.0, size=len(heads))
    labels = {"model": model, "dataset": "d", "objective": "representation", "method": "gradient"}
    return TableSide(
        f"{model}.csv", "importance", keys, heads, values, labels | more.pop("labels", {}), **more
    )


def test_different_models_are_compared_only_where_it_is_asked_for():
    with pytest.raises(AttnprobeError, match=r"only heads of the same model.*--across-models"):
        PairedSides.of(side("a"), side("b"))
    pair = PairedSides.of(side("a"), side("b", seed=1), across=True)
    assert pair.notes == ()
    np.testing.assert_array_equal(pair.values[1], side("b", seed=1).values)


@pytest.mark.parametrize(
    ("ours", "theirs", "says"),
    [
        (side("a"), side("b", (6, 4)), r"a has 3 layers of 4 heads .* and b has 6 layers of 4"),
        (
            both("a", encoder=(1, 2), decoder=(1, 2)),
            side("b"),
            r"a has 1 layers of 2 heads \(encoder\), 1 layers .* \(decoder\) and .* \(cross\) and b has 3",
        ),
    ],
)
def test_other_shapes_are_refused(ours, theirs, says):
    for sides in ((ours, theirs), (theirs, ours)):
        with pytest.raises(AttnprobeError, match="`attnprobe compare"):
            PairedSides.of(*sides, across=True)
    with pytest.raises(AttnprobeError, match=says):
        PairedSides.of(ours, theirs, across=True)


def test_an_encoder_and_an_encoder_decoder_share_the_encoder():
    whole, part = both("whole"), side("part", seed=1)
    for sides in ((whole, part), (part, whole)):
        pair = PairedSides.of(*sides, across=True)
        assert pair.heads == [("encoder", *place) for place in part.heads]
        assert any("decoder and cross attention in whole have no counterpart" in note for note in pair.notes)
    np.testing.assert_array_equal(pair.values[1], whole.values[:12])
    table = tabulate_disagreement(pair, {}).to_pandas()
    assert table.groupby("model_out").size().to_dict() == {"whole": 12}
    assert set(table["attention"]) == {"encoder"}


def test_the_kind_of_an_only_kind_is_on_record():
    """A decoder of the encoder's shape is none."""
    decoder = side("part", (2, 4), record={"architecture": {"kinds": ["decoder"] * 2, "heads": 4}})
    pair = PairedSides.of(both("whole", encoder=(2, 4)), decoder, across=True)
    assert {place[0] for place in pair.heads} == {"decoder"}


@pytest.mark.parametrize("gone", [[(0, 1)], [(0, 3), (1, 3), (2, 3)]])
def test_heads_that_were_removed_are_left_out(gone):
    """Also if the last one of every layer is gone, which the shape on record tells."""
    record = {"architecture": {"layers": 3, "heads": 4, "removed": gone}}
    pruned = side("pruned", seed=1, removed=gone, record=record)
    pair = PairedSides.of(side("whole"), pruned, across=True)
    assert pair.heads == pruned.heads
    assert len(pair.notes) == 1


CORPUS = {"documents": 9, "empty": 0, "unanswered": 0, "words_lost": 0}


@pytest.mark.parametrize(
    ("ours", "theirs", "shared"),
    [
        ({"texts": {"x"}}, {"texts": {"x"}}, True),
        ({"texts": {"x"}}, {"texts": {"x", "y"}}, None),
        ({"texts": {"x"}}, {"texts": {"y"}}, True),  # another tokenizer, the same data
        ({"texts": {"x"}}, {"texts": {"y"}, "dataset": "other"}, False),
        ({"texts": {"x"}}, {"texts": {"y"}, "corpus": {**CORPUS, "empty": 1}}, None),
        ({"texts": {"x"}}, {"texts": {"y"}, "objective": "masked-lm"}, None),
        ({"sha": "1"}, {"sha": "2"}, False),
        ({"sha": "1"}, {"sha": "1", "dataset": "renamed"}, True),
    ],
)
def test_whether_documents_are_the_same(ours, theirs, shared):
    sides = []
    for model, about in (("a", ours), ("b", theirs)):
        corpus = {**about.get("corpus", CORPUS), "texts": sorted(about.get("texts", ()))}
        record = {"corpus": corpus, "dataset": {"sha256": about.get("sha")}}
        labels = {name: about[name] for name in ("dataset", "objective") if name in about}
        sides.append(side(model, seed=len(sides), record=record, labels=labels))
    pair = PairedSides.of(*sides, across=True)
    assert pair.shared is shared
    notes = " ".join(correlate_sides(pair, {}).notes)
    assert ("the same examples" in notes) is (shared is not False)
