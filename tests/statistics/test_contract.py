"""What every statistic promises, whichever it is; a new one is tested by being found."""

import itertools
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial

import pytest
import torch
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.features import TokenFeatures
from attnprobe.attention.layout import Layout
from attnprobe.statistics import Statistic, all_statistics, statistics_of
from attnprobe.statistics.positional.offset import FURTHEST
from attnprobe.statistics.registry import FAMILIES
from attnprobe.survey.tabulate import census_statistics

Drawn = Callable[..., AttentionBlock]
Number = Callable[[Statistic, AttentionBlock], Tensor]

every_statistic = pytest.mark.parametrize("statistic", all_statistics().values(), ids=lambda s: s.name)
#: On images these are defined; what they say there is tested in test_grids.py.
OF_IMAGES = {"above", "below"}
every_kind = pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
both_ways = pytest.mark.parametrize("content_only", [False, True], ids=["plain", "content-only"])

#: The columns that other programs rely on (INTERFACE.md), by family.
COLUMNS = {
    "entropy": ["entropy", "entropy_normalized", "entropy_first", "confidence"],
    "positional": [
        "previous",
        "self",
        "next",
        "offset_share",
        "attention_distance",
        "attention_distance_ratio",
    ],
    "special": ["first", "separator", "punctuation", "other", "sink_share"],
    "rare": ["rare_mass", "rare_lift", "rarest_share", "rarest_two_share"],
    "distance": ["jsd", "jsd_mean", "jsd_layer"],
}


def cells(statistic: Statistic, heads: int) -> tuple[int, ...]:
    """The shape of the number of one sequence."""
    pairs = heads * (heads - 1) // 2
    return {"head": (heads,), "pair": (pairs,), "layer": (1,), "offset": (heads, 2 * FURTHEST + 1)}[
        statistic.over
    ]


@every_statistic
@both_ways
@every_kind
class TestEvery:
    """Tests that every statistic takes."""

    @pytest.mark.parametrize("heads", [1, 2, 5])
    def test_shapes(
        self, statistic: Statistic, drawn: Drawn, number: Number, content_only: bool, kind: str, heads: int
    ):
        whole = drawn(3, heads, 9, content_only=content_only, kind=kind)
        values = statistic.per_query(whole.restricted())
        over_pairs = statistic.over == "pair" or statistic.per_query is all_statistics()["jsd"].per_query
        queries = whole.layout.queries.length
        assert values.shape == (3, heads * (heads - 1) // 2 if over_pairs else heads, queries)
        assert number(statistic, whole).shape == (3, *cells(statistic, heads))

    def test_defined_where_there_is_every_kind_of_token(
        self, statistic: Statistic, drawn: Drawn, number: Number, content_only: bool, kind: str
    ):
        """Finite everywhere, or undefined for every head for a reason that the definitions give."""
        found = number(statistic, drawn(content_only=content_only, kind=kind))
        assert not found.isinf().any()
        across = kind == "cross" and statistic.family == "positional"
        ahead = kind == "decoder" and statistic.name == "next"
        unframed = content_only and statistic.name in {"entropy_first", "first", "separator"}
        if unframed or across or ahead or statistic.of == "images":
            assert found.isnan().all()
        elif statistic.over == "offset":
            kept = drawn(content_only=content_only, kind=kind).layout.keys.kept
            exists = kept[:, :, None] & kept[:, None]
            if kind == "decoder":
                exists = exists.tril()
            place = torch.arange(kept.shape[1])
            for offset in range(-FURTHEST, FURTHEST + 1):
                possible = (exists & (place - place[:, None] == offset)).sum((1, 2))
                defined = (possible > 0) & (2 * possible >= kept.sum(1))
                assert torch.equal(~found[:, 0, offset + FURTHEST].isnan(), defined)
        else:
            assert found.isfinite().all()

    def test_a_sequence_is_alone_in_its_batch(
        self, statistic: Statistic, drawn: Drawn, number: Number, content_only: bool, kind: str
    ):
        whole = drawn(4, 3, 10, content_only=content_only, kind=kind)
        together = number(statistic, whole)
        for place in range(4):
            alone = AttentionBlock(
                whole.probabilities[place : place + 1], whole.layout.rows(place, place + 1)
            )
            torch.testing.assert_close(number(statistic, alone)[0], together[place], equal_nan=True)

    @pytest.mark.parametrize("cuts", [(1,), (5,), (2, 3, 7)])
    def test_blocks_of_queries_make_the_whole(
        self, statistic: Statistic, drawn: Drawn, content_only: bool, kind: str, cuts: tuple[int, ...]
    ):
        whole = drawn(2, 3, 10, content_only=content_only, kind=kind)
        expected = statistic.per_query(whole.restricted())
        pieces = [
            statistic.per_query(
                AttentionBlock(whole.probabilities[:, :, start:stop], whole.layout, start).restricted()
            )
            for start, stop in itertools.pairwise((0, *cuts, whole.layout.queries.length))
        ]
        torch.testing.assert_close(torch.cat(pieces, 2), expected, equal_nan=True)

    def test_heads_in_another_order(
        self, statistic: Statistic, drawn: Drawn, number: Number, content_only: bool, kind: str
    ):
        whole = drawn(2, 4, 9, content_only=content_only, kind=kind)
        order = [2, 0, 3, 1]
        turned = AttentionBlock(whole.probabilities[:, order], whole.layout)
        found, before = number(statistic, turned), number(statistic, whole)
        if statistic.over == "pair":
            pairs = list(itertools.combinations(range(4), 2))
            moved = [pairs.index(tuple(sorted((order[a], order[b])))) for a, b in pairs]
        else:
            moved = [0] if statistic.over == "layer" else order
        torch.testing.assert_close(found, before[:, moved], equal_nan=True)

    def test_precision_does_not_matter(
        self, statistic: Statistic, drawn: Drawn, number: Number, content_only: bool, kind: str
    ):
        """The compiled float32 loops and the float64 path of torch agree."""
        whole = drawn(content_only=content_only, kind=kind)
        precise = AttentionBlock(whole.probabilities.double(), whole.layout)
        found, expected = number(statistic, whole).double(), number(statistic, precise).double()
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)

    def test_pure(self, statistic: Statistic, drawn: Drawn, number: Number, content_only: bool, kind: str):
        """Asking twice gives the same and changes neither probabilities nor tokens."""
        whole, untouched = (
            drawn(content_only=content_only, kind=kind),
            drawn(content_only=content_only, kind=kind),
        )
        first = number(statistic, whole)
        assert torch.equal(first.nan_to_num(-1), number(statistic, whole).nan_to_num(-1))
        assert torch.equal(whole.probabilities, untouched.probabilities)
        for side in ("queries", "keys"):
            now, before = getattr(whole.layout, side), getattr(untouched.layout, side)
            for field in fields(TokenFeatures):
                assert torch.equal(getattr(now, field.name), getattr(before, field.name))


@both_ways
@pytest.mark.parametrize("name", ["confidence", "previous", "entropy_normalized", "sink_share", "rare_mass"])
def test_shares_are_shares(drawn: Drawn, number: Number, name: str, content_only: bool):
    found = number(all_statistics()[name], drawn(content_only=content_only))
    assert ((found >= 0) & (found <= 1 + 1e-6)).all()


@both_ways
def test_masses_make_one(drawn: Drawn, number: Number, content_only: bool):
    """Every token is first, separator, punctuation or other, and nothing else."""
    whole = drawn(content_only=content_only)
    parts = [number(all_statistics()[n], whole) for n in ("first", "separator", "punctuation", "other")]
    torch.testing.assert_close(torch.stack(parts).nansum(0), torch.ones(3, 4))


class TestUniformAttention:
    """Uniform attention to whatever is in sight is the yardstick, for every kind."""

    @pytest.fixture
    def uniform(self, drawn: Drawn, content_only: bool, kind: str) -> AttentionBlock:
        whole = drawn(content_only=content_only, kind=kind)
        seen = (whole.probabilities > 0).float()
        return AttentionBlock(seen / seen.sum(-1, keepdim=True), whole.layout)

    @both_ways
    @every_kind
    @pytest.mark.parametrize("name", ["entropy_normalized", "rare_lift"])
    def test_is_one(self, uniform: AttentionBlock, number: Number, name: str):
        torch.testing.assert_close(number(all_statistics()[name], uniform), torch.ones(3, 4))

    @both_ways
    @pytest.mark.parametrize("kind", ["encoder", "decoder"])
    def test_distance(self, uniform: AttentionBlock, number: Number):
        ratio = number(all_statistics()["attention_distance_ratio"], uniform)
        torch.testing.assert_close(ratio, torch.ones(3, 4))


def test_columns_are_the_ones_that_programs_rely_on():
    assert {family: [s.name for s in statistics_of(family)] for family in FAMILIES} == COLUMNS
    columns = list(itertools.chain(*COLUMNS.values()))
    assert [name for name in all_statistics() if name not in OF_IMAGES] == columns
    over_heads = [s.name for s in census_statistics() if s.of == "everything"]
    assert over_heads == [name for name in columns if name not in {"jsd", "jsd_layer"}]


def test_images_have_two_more():
    """Rows above and below; of a text there is no such thing."""
    assert {name for name, statistic in all_statistics().items() if statistic.of == "images"} == OF_IMAGES
    for family in FAMILIES:
        more = [s.name for s in statistics_of(family, images=True)]
        assert [name for name in more if name not in OF_IMAGES] == COLUMNS[family]
        assert set(more) - set(COLUMNS[family]) == (OF_IMAGES if family == "positional" else set())


@every_statistic
def test_names_and_units(statistic: Statistic):
    assert all_statistics()[statistic.name] is statistic
    assert statistic.name.isidentifier()
    assert not statistic.name.endswith(("_se", "_n"))
    assert statistic.unit in {"nats", "share", "tokens", "ratio"}
    assert statistic.family in FAMILIES
    assert statistic.over in {"head", "pair", "layer", "offset"}


@every_statistic
def test_where_it_comes_from(statistic: Statistic):
    """The formula or the reduction says whose definition it is."""
    functions = [f.func if isinstance(f, partial) else f for f in (statistic.per_query, statistic.reduce)]
    assert all(function.__doc__ for function in functions)
    assert any("Source:" in function.__doc__ for function in functions)


class TestMalformed:
    """Blocks that do not fit are refused in words, axis by axis."""

    @pytest.mark.parametrize("shape", [(4, 4), (1, 4, 4), (1, 1, 2, 4, 4)])
    def test_axes(self, features: Callable[..., TokenFeatures], shape: tuple[int, ...]):
        with pytest.raises(ValueError, match=r"\(batch, head, query, key\), got .*4"):
            AttentionBlock(torch.ones(shape), Layout.of(features(4)))

    @pytest.mark.parametrize("shape", [(2, 1, 4, 4), (1, 1, 4, 5), (1, 1, 4, 3)])
    def test_tokens(self, features: Callable[..., TokenFeatures], shape: tuple[int, ...]):
        with pytest.raises(
            ValueError, match=r"\(batch, head, query, key\) = .* \(batch, position\) = \(1, 4\)"
        ):
            AttentionBlock(torch.ones(shape), Layout.of(features(4)))

    @pytest.mark.parametrize("offset", [-1, 3, 4])
    def test_queries_outside(self, features: Callable[..., TokenFeatures], offset: int):
        with pytest.raises(ValueError, match=r"queries .* outside the sequence"):
            AttentionBlock(torch.ones(1, 1, 2, 4), Layout.of(features(4)), offset)

    @pytest.mark.parametrize("name", [field.name for field in fields(TokenFeatures)])
    def test_features(self, features: Callable[..., TokenFeatures], name: str):
        with pytest.raises(ValueError, match=rf"\(batch, position\), got .*'{name}': \(1, 5\)"):
            replace(features(4), **{name: torch.ones(1, 5, dtype=torch.bool)})

    def test_features_of_one_sequence_without_its_axis(self, features: Callable[..., TokenFeatures]):
        flat = {field.name: getattr(features(4), field.name)[0] for field in fields(TokenFeatures)}
        with pytest.raises(ValueError, match=r"\(batch, position\)"):
            TokenFeatures(**flat)

    def test_sides_of_different_sequences(self, features: Callable[..., TokenFeatures]):
        with pytest.raises(ValueError, match="2 sequences can't attend to 1"):
            Layout(features(4, batch=2), features(4))

    def test_causal_attention_across_lengths(self, features: Callable[..., TokenFeatures]):
        with pytest.raises(ValueError, match="before or after"):
            Layout(features(5), features(4), causal=True)
