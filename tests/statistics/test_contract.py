"""What every statistic promises, whichever it is; a new one is tested by being found."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from block_parts import in_double, in_every_way, of_heads, of_sequences
from numpy.typing import NDArray
from torch import Tensor

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.layout import Layout
from attnprobe.attention.tokens import TokenFeatures
from attnprobe.statistics import Statistic, all_statistics, census_statistics
from attnprobe.statistics.positional import FURTHEST
from attnprobe.statistics.registry import families
from attnprobe.statistics.statistic import weight_by_norm
from attnprobe.statistics.trees import TREES
from attnprobe.sums.base import Measurement
from attnprobe.sums.documents import name_documents
from attnprobe.table.naming import REACH

Drawn = Callable[..., AttentionBlock]
Number = Callable[[Statistic, AttentionBlock], Tensor]
Shown = Callable[[Statistic, AttentionBlock], AttentionBlock]
Pieced = Callable[[Statistic, AttentionBlock, tuple[int, ...]], Tensor]

every_statistic = pytest.mark.parametrize("statistic", all_statistics().values(), ids=lambda s: s.name)
#: Those that look at blocks; links are asked otherwise, see tests/statistics/links, and for weights of the
#: model see tests/survey/test_rank.py.
BLOCKS = [one for one in all_statistics().values() if one.scope not in {"links", "parameters"}]
#: Some of them about attention weighted by what it carries, which is another block to the same functions.
WEIGHTED = [
    weight_by_norm(all_statistics()[name])
    for name in (
        "entropy",
        "previous",
        "offset_share",
        "first",
        "sink_share",
        "rare_lift",
        "jsd_mean",
    )
]
of_blocks = pytest.mark.parametrize("statistic", [*BLOCKS, *WEIGHTED], ids=lambda s: s.name)
WAYS = {"content_only": [False, True], "kind": ["encoder", "decoder", "cross"]}

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
    "distance": ["jsd", "jsd_mean", "jsd_layer", "jsd_all_pairs"],
    "norm": ["norm_total", "norm_first", "norm_separator", "norm_punctuation", "norm_other"],
    "induction": ["induction", "duplicate", "previous_again", "copying"],
    "links": [
        *("syntax", "coreference", "links", "uuas", "aer"),
    ],
    "roles": [
        "special_excess",
        "special_preference",
        "punctuation_excess",
        "punctuation_preference",
        "effective_share",
        "rarest_excess",
        "segment_excess",
        "vertical_excess",
        "diagonal_excess",
        "vertical_diagonal_excess",
        "aligned_excess",
        "first_token_excess",
        "first_token_preference",
    ],
    "rank": ["longer", "logit_rank", "qk_rank", "qk_top_half", "map_rank"],
    "mixing": [
        "logit_correlation",
        "logit_correlation_null",
        "contribution_norm",
        "contribution_cosine",
        "cancellation",
    ],
    "modality": [
        *("image_mass", "text_mass", "special_mass", "image_lift", "text_lift"),
        *("text_to_image", "text_to_text", "text_to_special"),
        *("image_to_image", "image_to_text", "image_to_special"),
        *("text_to_image_lift", "text_to_text_lift", "image_to_image_lift", "image_to_text_lift"),
        *("text_to_image_entropy", "text_to_text_entropy", "image_to_image_entropy", "image_to_text_entropy"),
        "text_to_image_peak",
    ],
    "profile": ["profile"],
}


def cells(statistic: Statistic, heads: int) -> tuple[int, ...]:
    """The shape of the number of one sequence."""
    rows = {"head": heads, "pair": heads * (heads - 1) // 2, "layer": 1}[statistic.rows]
    more = {"offset_share": (2 * FURTHEST + 1,), "longer": (2,), "logit_rank": (2,)}
    more |= {"uuas": (10,)}
    more |= {"profile": (2 * REACH + 5,)}
    name = (statistic.of or statistic).name.removesuffix(f"_{statistic.control}")
    return (rows, *more.get(name, ()))


@of_blocks
class TestEvery:
    """Tests that every statistic takes."""

    @in_every_way(**WAYS, heads=[1, 2, 5])
    def test_shapes(
        self, statistic: Statistic, drawn: Drawn, shown: Shown, number: Number, content_only: bool, kind: str,
        heads: int,
    ):  # fmt: skip
        whole = drawn(3, heads, 9, content_only=content_only, kind=kind)
        values = statistic(shown(statistic, whole))
        if statistic.scope == "layer" or statistic.function in {TREES.function}:
            # What blocks or several statistics share is between a function and its reduction.
            assert len(values) == 3
            assert number(statistic, whole).shape == (3, *cells(statistic, heads))
            return
        over_pairs = statistic.rows == "pair" or statistic.function is all_statistics()["jsd"].function
        of_layer = statistic.scope == "map" and statistic.rows == "layer"
        promised = (3, heads * (heads - 1) // 2 if over_pairs else 1 if of_layer else heads)
        by_query = statistic.scope == "query"
        more = (whole.layout.queries.length,) if by_query else cells(statistic, heads)[1:]
        assert values.shape == (*promised, *more)
        assert values.is_floating_point()
        assert number(statistic, whole).shape == (3, *cells(statistic, heads))

    @in_every_way(**WAYS)
    def test_defined_where_there_is_every_kind_of_token(
        self, statistic: Statistic, drawn: Drawn, number: Number, content_only: bool, kind: str
    ):
        """Finite everywhere, or undefined for every head for a reason that the definitions give."""
        found = number(statistic, drawn(content_only=content_only, kind=kind))
        assert not found.isinf().any()
        name = (statistic.of or statistic).name
        across = kind == "cross" and (
            statistic.family.name in {"positional", "induction", "links"} or name.startswith("offset_share")
        )
        ahead = kind == "decoder" and name.startswith("next")
        framing = {"entropy_first", "first", "separator", "norm_first", "norm_separator"}
        framing |= {"special_excess", "special_preference", "vertical_excess"}
        unframed = content_only and name in framing
        unframed |= name.startswith("first_token")  # the first one is special
        unframed |= name == "aligned_excess" and kind != "cross"
        if name in {"segment_excess"}:  # only of two texts that are read together
            return
        if name == "profile":  # at some offsets; see test_profile.py
            return
        if unframed or across or ahead or statistic.about == "patches":
            assert found.isnan().all()
        elif name.startswith("offset_share"):
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

    @in_every_way(**WAYS)
    def test_a_sequence_is_alone_in_its_batch(
        self, statistic: Statistic, drawn: Drawn, number: Number, content_only: bool, kind: str
    ):
        whole = drawn(4, 3, 10, content_only=content_only, kind=kind)
        together = number(statistic, whole)
        for place in range(4):
            alone = of_sequences(whole, place, place + 1)
            torch.testing.assert_close(number(statistic, alone)[0], together[place], equal_nan=True)

    @in_every_way(**WAYS, cuts=[(1,), (5,), (2, 3, 7)])
    def test_blocks_of_queries_make_the_whole(
        self, statistic: Statistic, drawn: Drawn, shown: Shown, pieced: Pieced, content_only: bool,
        kind: str, cuts: tuple[int, ...],
    ):  # fmt: skip
        whole = drawn(2, 3, 10, content_only=content_only, kind=kind)
        expected = statistic(shown(statistic, whole))
        torch.testing.assert_close(pieced(statistic, whole, cuts), expected, equal_nan=True)

    @in_every_way(**WAYS)
    def test_heads_in_another_order(
        self, statistic: Statistic, drawn: Drawn, number: Number, content_only: bool, kind: str
    ):
        whole = drawn(2, 4, 9, content_only=content_only, kind=kind)
        order = [2, 0, 3, 1]
        found, before = number(statistic, of_heads(whole, order)), number(statistic, whole)
        if statistic.rows == "pair":
            pairs = list(itertools.combinations(range(4), 2))
            moved = [pairs.index(tuple(sorted((order[a], order[b])))) for a, b in pairs]
        else:
            moved = [0] if statistic.rows == "layer" else order
        torch.testing.assert_close(found, before[:, moved], equal_nan=True)

    @in_every_way(**WAYS)
    def test_precision_does_not_matter(
        self, statistic: Statistic, drawn: Drawn, number: Number, content_only: bool, kind: str
    ):
        """The compiled float32 loops and the float64 path of torch agree."""
        whole = drawn(content_only=content_only, kind=kind)
        found = number(statistic, whole).double()
        expected = number(statistic, in_double(whole)).double()
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


def test_columns_are_the_ones_that_programs_rely_on():
    every = [statistic for statistic in all_statistics().values() if not statistic.control]
    of_text = [statistic for statistic in every if statistic.about != "patches"]
    found = {
        family.name: [statistic.name for statistic in of_text if statistic.family is family]
        for family in families()
    }
    assert found == COLUMNS
    columns = list(itertools.chain(*COLUMNS.values()))
    assert [statistic.name for statistic in of_text] == columns
    over_heads = [s.name for s in census_statistics() if s.about != "patches"]
    elsewhere = {"jsd", "jsd_layer", "jsd_all_pairs"}
    elsewhere |= {
        name
        for family in ("norm", "induction", "links", "roles", "rank", "mixing", "modality", "profile")
        for name in COLUMNS[family]
    }
    assert over_heads == [name for name in columns if name not in elsewhere]


def test_families_have_a_name_and_a_place_of_their_own():
    names = [family.name for family in families()]
    assert sorted(set(names)) == sorted(names)
    assert all(family.title for family in families())
    orders = [family.order for family in families()]
    assert orders == sorted(set(orders))


@every_statistic
def test_where_it_comes_from(statistic: Statistic):
    """The formula or the reduction says whose definition it is, and the statistic says what they say."""
    given = [function for function in (statistic.function, statistic.reduce) if function is not None]
    functions = [f.func if isinstance(f, partial) else f for f in given]
    assert all(function.__doc__ for function in functions)
    assert "Source:" in statistic.definition
    first_lines = [function.__doc__.strip().splitlines()[0] for function in functions]
    assert all(line in statistic.definition for line in first_lines)


def same(found: dict[str, NDArray[Any]], expected: dict[str, NDArray[Any]]) -> bool:
    return found.keys() == expected.keys() and all(
        found[name].dtype == expected[name].dtype and np.array_equal(found[name], expected[name])
        for name in expected
    )


#: One statistic for each sum and shape of what is found in a sequence.
SUMMED = {(one.sums, one.rows, cells(one, 4)): one for one in reversed(BLOCKS)}


@pytest.mark.parametrize("statistic", SUMMED.values(), ids=lambda s: s.name)
class TestSums:
    """What is kept of a statistic can be put away, taken up again, and added to."""

    @pytest.fixture(params=["alone", "windows"])
    def clusters(self, request: pytest.FixtureRequest) -> NDArray[np.int64] | None:
        """Documents of one sequence, or some of several; one lies in both parts."""
        if request.param == "alone":
            return None
        documents = np.array([-1, 1, 1, 2, 2, 1, -1])
        return np.where(documents < 0, -1, name_documents(documents))

    @pytest.fixture
    def sample(self, statistic: Statistic, drawn: Drawn, number: Number) -> NDArray[np.float64]:
        """What was found in seven sequences of two layers; in some of them, it is undefined."""
        layers = [number(statistic, drawn(7, seed=seed)) for seed in range(2)]
        values = torch.stack(layers, 1).double().numpy().copy()
        values[2, 0] = values[5] = np.nan
        return values

    @in_every_way(cut=[0, 1, 4, 7])
    def test_parts_make_the_whole(
        self, statistic: Statistic, sample: NDArray[np.float64], clusters: NDArray[np.int64] | None, cut: int
    ):
        sums = statistic.sums
        documents = np.arange(len(sample))

        def of(some: slice) -> Any:
            return sums.of(sample[some], None if clusters is None else clusters[some], documents[some])

        found, expected = (of(slice(cut)) + of(slice(cut, None))).arrays(), of(slice(None)).arrays()
        assert found.keys() == expected.keys()
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values, rtol=1e-12, atol=1e-12, err_msg=name)

    def test_there_and_back(
        self, statistic: Statistic, sample: NDArray[np.float64], clusters: NDArray[np.int64] | None
    ):
        """Bit by bit, also among others in a measurement; what comes back can be added to."""
        kept = statistic.sums.of(sample, clusters)
        back = statistic.sums.from_arrays(kept.arrays())
        assert same(back.arrays(), kept.arrays())
        assert same((back + back).arrays(), (kept + kept).arrays())
        whole = Measurement({statistic.name: kept, "another": kept}, 7, 77)
        kinds = {statistic.name: statistic.sums, "another": statistic.sums}
        restored = Measurement.from_arrays(whole.arrays(), kinds)
        assert same(restored.arrays(), whole.arrays())
        assert (restored.sequences, restored.tokens) == (7, 77)


@pytest.mark.parametrize(
    ("shape", "offset"), [((1, 4, 4), 0), ((2, 1, 4, 4), 0), ((1, 1, 4, 5), 0), ((1, 1, 2, 4), 3)]
)
def test_blocks_that_do_not_fit_are_refused(features: Callable[..., TokenFeatures], shape: Any, offset: int):
    with pytest.raises(ValueError, match=r"query|queries"):
        AttentionBlock(torch.ones(shape), Layout.of(features(4)), offset)
