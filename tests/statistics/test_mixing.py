"""Planted heads: copies, orthogonal ones, ones that cancel; and tables of layers with one head or none."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnprobe.attention.block import AttentionBlock
from attnprobe.attention.kinds import number_layers
from attnprobe.attention.layout import Layout
from attnprobe.attention.observed import Observed
from attnprobe.statistics import all_statistics, select_statistics
from attnprobe.statistics.mixing import (
    BY_HEAD,
    BY_LAYER,
    BY_PAIR,
    CANCELLATION,
    CORRELATION,
    COSINE,
    NORM,
    SHUFFLED,
    effective_heads,
    explained_by_others,
)
from attnprobe.sums.base import Measurement
from attnprobe.table.builder import Labels

LENGTH = 24


def logits(*heads: torch.Tensor, features, **marks) -> AttentionBlock:
    """Make a block from logits (query, key) of each head."""
    scores = torch.stack([head.float() for head in heads])[None]
    layout = Layout.of(features(scores.shape[-1], **marks))
    return AttentionBlock(scores.softmax(-1), layout, 0, Observed(scores=scores))


def orthogonal(heads: int, seed: int = 0) -> torch.Tensor:
    """Draw logits of heads that are centred and orthogonal: (head, query, key)."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(heads, LENGTH, LENGTH, generator=generator, dtype=torch.float64)
    drawn = drawn - drawn.mean(-1, keepdim=True)
    basis = torch.linalg.qr(drawn.flatten(1).T).Q.T
    return basis.view(heads, LENGTH, LENGTH) * LENGTH


class TestLogits:
    """What others explain of a head."""

    def pairs(self, number, features, *heads, **marks):
        block = logits(*heads, features=features, **marks)
        return number(CORRELATION, block)[0].double().numpy()

    def test_copies_and_orthogonal_heads(self, number, features):
        a, b, c, d = orthogonal(4)
        pairs = self.pairs(number, features, a, b, 3 * a + 7, c, d)
        np.testing.assert_allclose(pairs[1], 1, atol=1e-6)  # heads 0 and 2
        np.testing.assert_allclose(explained_by_others(pairs), [1, 0, 1, 0, 0], atol=1e-5)
        assert effective_heads(pairs) == pytest.approx(25 / 7, abs=1e-5)
        alone = self.pairs(number, features, a, b, c, d)
        np.testing.assert_allclose(explained_by_others(alone), 0, atol=1e-5)
        assert effective_heads(alone) == pytest.approx(4, abs=1e-5)
        same = self.pairs(number, features, a, a, a)
        np.testing.assert_allclose(explained_by_others(same), 1, atol=1e-5)
        assert effective_heads(same) == pytest.approx(1, abs=1e-6)

    def test_a_mix_follows_from_its_parts(self, number, features):
        a, b, c, d = orthogonal(4)
        pairs = self.pairs(number, features, a, b, 2 * a - b, c, c + d)
        np.testing.assert_allclose(explained_by_others(pairs), [1, 1, 1, 0.5, 0.5], atol=1e-5)

    def test_least_squares(self, number, features):
        generator = torch.Generator().manual_seed(2)
        mix = torch.randn(6, 6, generator=generator, dtype=torch.float64)
        heads = torch.einsum("gh,hqk->gqk", mix, orthogonal(6))
        heads = heads + torch.randn(heads.shape, generator=generator, dtype=torch.float64)
        found = explained_by_others(self.pairs(number, features, *heads))
        x = (heads - heads.mean(-1, keepdim=True)).flatten(1).numpy()
        for head in range(6):
            others = np.delete(x, head, 0).T
            left = x[head] - others @ np.linalg.lstsq(others, x[head], rcond=None)[0]
            assert found[head] == pytest.approx(1 - left @ left / (x[head] @ x[head]), abs=1e-5)

    def test_sinks_alone(self, number, features):
        """Heads that share nothing but a sink: the null says it all; without the sink, nothing is left."""
        a, b = orthogonal(2)
        sunk = [head.clone() for head in (a, b)]
        for head in sunk:
            head[:, 0] += 60
        marks = {"first": (0,), "separator": (LENGTH - 1,)}
        block = logits(*sunk, features=features, **marks)
        whole, null = (number(one, block)[0, 0].item() for one in (CORRELATION, SHUFFLED))
        assert whole > 0.9
        assert null == pytest.approx(whole, abs=0.03)
        content = logits(*sunk, features=features, **marks, content_only=True)
        assert abs(number(CORRELATION, content)[0, 0].item()) < 0.1
        assert number(SHUFFLED, content)[0, 0].item() == 0

    def test_the_null_of_copies_of_content(self, number, features):
        a, _ = orthogonal(2)
        block = logits(a, a, features=features)
        assert number(CORRELATION, block)[0, 0].item() == pytest.approx(1, abs=1e-6)
        assert abs(number(SHUFFLED, block)[0, 0].item()) < 0.15

    def test_a_head_that_prefers_nothing(self, number, features):
        a, b = orthogonal(2)
        pairs = self.pairs(number, features, a, torch.full_like(a, 3.0), a + b)
        assert np.isnan(pairs).tolist() == [True, False, True]
        np.testing.assert_allclose(explained_by_others(pairs), [0.5, np.nan, 0.5], atol=1e-5)
        assert effective_heads(pairs) == pytest.approx(4 / 3, abs=1e-5)

    def test_copies_are_not_more_than_alike(self, number, features):
        """Rounding takes a third of such correlations beyond 1."""
        a = 0.37 * torch.randn(9, LENGTH, LENGTH, generator=torch.Generator().manual_seed(1))
        pairs = self.pairs(number, features, *(head for one in a for head in (one, 3 * one, -one / 7)))
        assert np.abs(pairs).max() <= 1

    def test_a_single_head_and_a_single_token(self, number, features):
        assert np.isnan(explained_by_others(self.pairs(number, features, orthogonal(1)[0]))).all()
        assert np.isnan(effective_heads(np.zeros((3, 0)))).all()
        one = logits(torch.ones(1, 1), torch.ones(1, 1), features=features)
        assert number(CORRELATION, one).isnan().all()


class TestContributions:
    """What heads add to the residual stream."""

    @pytest.fixture
    def given(self, drawn):
        """Heads 0 and 1 give orthogonal vectors, 2 the same as 0, 3 the opposite, and 4 nothing."""

        def make() -> AttentionBlock:
            whole = drawn(2, 5, 9)
            shown = torch.zeros(5, 5, 25)
            basis = torch.linalg.qr(torch.randn(25, 10, generator=torch.Generator().manual_seed(3))).Q.T
            shown[0], shown[1] = basis[:5], basis[5:]
            shown[2], shown[3] = shown[0], -shown[0]
            outputs = whole.outputs.clone()
            outputs[:, 2] = outputs[:, 3] = outputs[:, 0]
            return replace(whole, observed=Observed(outputs=outputs, projection=shown))

        return make()

    def test_cosine(self, given, number):
        found = number(COSINE, given)[0]
        expected = [0, 1, -1, np.nan, 0, 0, np.nan, -1, np.nan, np.nan]
        torch.testing.assert_close(found, torch.tensor(expected), atol=1e-5, rtol=0, equal_nan=True)

    def test_copies_are_not_more_than_alike(self, drawn, number):
        """Rounding takes some cosines of copies beyond 1."""
        whole = drawn(40, 2, 9)
        copies = Observed(
            outputs=whole.outputs[:, :1] * torch.tensor([1.0, 3.0, -0.7, 0.11])[None, :, None, None],
            projection=whole.projection[:1].expand(4, -1, -1).clone(),
        )
        found = number(COSINE, replace(whole, observed=copies))
        torch.testing.assert_close(found.abs(), torch.ones_like(found))
        assert found.abs().max() <= 1

    @pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
    def test_half_precision(self, given, number, half):
        """Sums over a sequence are in single precision: they leave the range of the half, or its digits."""
        large = Observed(outputs=(300 * given.outputs).to(half), projection=given.projection.to(half))
        exact = Observed(outputs=large.outputs.double(), projection=large.projection.double())
        for one in (NORM, CANCELLATION, COSINE):
            found, expected = (
                number(one, replace(given, observed=observed)).double() for observed in (large, exact)
            )
            assert found.isnan().tolist() == expected.isnan().tolist()
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4, equal_nan=True)

    def test_norm(self, given, number):
        """Of an orthonormal projection, as long as what the head gives to it."""
        found = number(NORM, given)
        expected = given.outputs.square().sum(-1).mean(-1).sqrt()
        expected[:, 4] = 0
        torch.testing.assert_close(found, expected)

    def test_cancellation(self, given, number):
        squares = number(NORM, given).square()
        # 0 and 3 cancel; 1 and 2 are left.
        expected = (squares[:, 1] + squares[:, 2]) / squares.sum(1)
        torch.testing.assert_close(number(CANCELLATION, given)[:, 0], expected, atol=1e-5, rtol=1e-4)
        copies = replace(
            given,
            observed=Observed(
                outputs=given.outputs[:, :1].expand(-1, 5, -1, -1),
                projection=given.projection[:1].repeat(5, 1, 1),
            ),
        )
        torch.testing.assert_close(number(CANCELLATION, copies), torch.full((2, 1), 5.0))

    def test_a_layer_that_adds_nothing(self, given, number):
        nothing = replace(
            given, observed=replace(given.observed, projection=torch.zeros_like(given.projection))
        )
        assert number(CANCELLATION, nothing).isnan().all()
        assert number(COSINE, nothing).isnan().all()
        assert (number(NORM, nothing) == 0).all()


def measured(heads: int) -> tuple[Measurement, Labels]:
    """Make sums of two layers of so many heads."""
    shapes = {"head": heads, "pair": heads * (heads - 1) // 2, "layer": 1}
    generator = np.random.default_rng(0)
    sums = {
        one.name: one.sums.of(generator.uniform(0.1, 0.5, (9, 2, shapes[one.rows])))
        for one in select_statistics("mixing")
    }
    return Measurement(sums, 9), Labels("tiny", "texts", {}, number_layers(["encoder"] * 2))


@pytest.mark.parametrize("tabulation", [BY_HEAD, BY_LAYER, BY_PAIR])
@pytest.mark.parametrize("heads", [1, 2, 5])
@pytest.mark.parametrize("whole", [True, False], ids=["all", "logits alone"])
def test_tables(tabulation, heads, whole):
    found, labels = measured(heads)
    if not whole:
        found = Measurement({name: one for name, one in found.sums.items() if name.startswith("logit")}, 9)
    statistics = [all_statistics()[name] for name in found.sums]
    table = tabulation.build(tabulation.title, found, statistics, labels)
    rows = {BY_HEAD: 2 * heads, BY_LAYER: 2, BY_PAIR: heads * (heads - 1)}[tabulation]
    assert len(table) == rows
    names = list(table.data)
    measures = [column.name for column in table.columns if column.role == "measure"]
    expected = {
        BY_HEAD: ["explained_by_others", "explained_by_others_null", *["contribution_norm"] * whole],
        BY_LAYER: ["effective_heads", "effective_heads_null", *["cancellation"] * whole],
        BY_PAIR: ["logit_correlation", "logit_correlation_null", *["contribution_cosine"] * whole],
    }[tabulation]
    assert measures == expected
    assert all(names[names.index(name) + 1] == f"{name}_se" for name in measures)
    if heads == 1 and tabulation is BY_HEAD:
        assert np.isnan(table["explained_by_others"]).all()
    if heads == 1 and tabulation is BY_PAIR:
        assert table.notes == ["No layer has two heads, so that there are no pairs."]
    if heads == 5 and rows:
        assert np.isfinite(np.array([table.data[name] for name in measures], float)).all()
