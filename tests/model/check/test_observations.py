"""Scores, values, outputs and contributions: what they are, and where they can't be had."""

import numpy as np
import pytest
import torch

import attnprobe
from attnprobe.attention.block import factor_projection, measure_lengths
from attnprobe.errors import AttnprobeError
from attnprobe.model.check import observed
from attnprobe.model.check.dry_run import examine
from attnprobe.model.check.observed import (
    BIASED,
    CAPPED,
    NEITHER,
    PLAIN,
    UnobservableError,
    check_observations,
    compare_logits,
)
from attnprobe.model.check.projections import find_output_weights, find_projections
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.capture import capture_attention
from attnprobe.model.reading.ways import evaluation_mode
from attnprobe.statistics.statistic import statistic

ALL = {"scores", "values", "outputs", "queries", "keys", "projection"}
ROUTED = ["bert", "t5", "llama"]


@pytest.fixture(params=ROUTED)
def routed(request, copied):
    checkpoint, architecture = examine(Checkpoint(request.param, *copied(request.param)))
    return checkpoint, architecture


def test_everything_can_be_had_and_is_checked(routed):
    sentences = check_observations(*routed, ALL)
    biased = {BIASED} if routed[0].name == "t5" else set()  # and from decoder to encoder, without a bias
    assert {sentence.split(" (")[0] for sentence in sentences} == biased | {
        "the softmax of the scores is the probabilities",
        PLAIN,
        "probabilities times values are what the heads give",
        "the contributions of the heads add up to what their layer gives",
    }
    assert all(float(sentence.split("difference ")[1].rstrip(")")) < 1e-5 for sentence in sentences)


def test_contributions_of_heads_one_at_a_time(routed, monkeypatch):
    """o_h W_O,h, with all other heads zeroed by hand in front of the model's own output projection."""
    checkpoint, architecture = routed
    monkeypatch.setattr("attnprobe.model.reading.blocks.BLOCK_CPU", 1)
    inputs = {"input_ids": torch.tensor([checkpoint.tokenizer("the dog ran to the river")["input_ids"]])}
    if checkpoint.decodes:
        inputs["decoder_input_ids"] = inputs["input_ids"][:, :4]
    pieces, given = [], []
    projections = find_projections(checkpoint)
    layer = architecture.layers - 1
    module = checkpoint.body.get_submodule(projections[layer].output)
    hook = module.register_forward_pre_hook(lambda _, arguments: given.append(arguments[0].detach()))
    with (
        evaluation_mode(checkpoint.body),
        capture_attention(
            checkpoint.body, lambda piece: pieces.append((piece.layer, piece.observed.outputs.clone())),
            architecture.way, {"outputs"},
        ),
    ):  # fmt: skip
        checkpoint.forward(inputs)
    hook.remove()
    outputs = torch.cat([part for at, part in pieces if at == layer], 2)
    contributions = outputs @ find_output_weights(checkpoint)[layer]
    joined, width = given[-1], projections[layer].width
    bias = 0 if module.bias is None else module.bias
    for head in range(architecture.heads):
        alone = torch.zeros_like(joined)
        columns = slice(head * width, (head + 1) * width)
        alone[..., columns] = joined[..., columns]
        with torch.no_grad():
            expected = (module(alone) - bias).reshape(contributions[:, head].shape)
        torch.testing.assert_close(contributions[:, head], expected, atol=1e-6, rtol=1e-5)


def test_a_factor_keeps_lengths_where_a_gram_matrix_loses_them():
    """Directions that nearly vanish in the projection: v (W W^T) v is a difference of large numbers there."""
    generator = torch.Generator().manual_seed(0)
    left, right = (
        torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64)).Q
        for size in (8, 24)
    )
    scale = torch.logspace(0, -5, 8, dtype=torch.float64)
    weight = (left * scale) @ right[:8]
    values = (left[:, -1:].T).float()  # what the projection shortens most
    expected = torch.linalg.vector_norm(values.double() @ weight.float().double(), dim=-1)
    lengths = measure_lengths(values[None, None], factor_projection(weight.float()[None]))[0, 0]
    gram = weight.float() @ weight.float().T
    naive = torch.einsum("kw,wv,kv->k", values, gram, values).clamp_min(0).sqrt()
    assert abs(lengths / expected - 1).max() < 0.02
    assert abs(naive / expected - 1).max() > 0.5


def test_a_tap_shows_scores_alone(copied):
    name = "deberta-v2"
    checkpoint, architecture = examine(Checkpoint(name, *copied(name)))
    assert len(check_observations(checkpoint, architecture, {"scores"})) == 1
    for missing in ("values", "outputs", "queries", "keys", "projection"):
        with pytest.raises(UnobservableError, match=f"'{name}'"):
            check_observations(checkpoint, architecture, {missing})


@statistic(unit="norm", needs={"contributions"})
def contribution(block):
    """Norm of what a head adds to the residual stream."""
    return block.contributions.norm(dim=-1)


@statistic(unit="nats", needs="scores")
def largest(block):
    """Largest score of a row."""
    return block.scores.amax(-1)


def test_refused_by_name_with_the_reason(copied):
    model, tokenizer = copied("deberta-v2")
    says = "'contribution' can't be measured: .*'deberta-v2'.*registry"
    with pytest.raises(AttnprobeError, match=says):
        attnprobe.census(model, ["the dog"], tokenizer=tokenizer, statistics=["entropy", contribution])
    table = attnprobe.census(model, ["the dog ran", "a bird"], tokenizer=tokenizer, statistics=[largest])
    assert np.isfinite(table["largest"]).all()


def test_what_is_not_what_it_should_be_is_refused(copied, monkeypatch):
    checkpoint, architecture = examine(Checkpoint("bert", *copied("bert")))
    right = observed.split_by_head
    monkeypatch.setattr(observed, "split_by_head", lambda *given: right(*given).flip(0))  # of other heads
    with pytest.raises(UnobservableError, match="does not hold that the contributions"):
        check_observations(checkpoint, architecture, {"projection"})


class TestLogits:
    """What may lie between queries times keys and scores, and what may not."""

    @pytest.mark.parametrize(
        ("change", "holds"),
        [
            (lambda scores: scores.masked_fill(torch.ones(9, 9).triu(1) > 0, -torch.inf), PLAIN),
            (lambda scores: scores - torch.arange(9), BIASED),
            (lambda scores: 2 * (scores / 2).tanh(), CAPPED),
            (lambda scores: -scores, NEITHER),
            (lambda scores: scores.flip(1), NEITHER),  # of other heads
            (lambda scores: scores + 0.3 * torch.arange(18).view(2, 1, 1, 9).sin(), NEITHER),  # by text
            (lambda scores: torch.full_like(scores, torch.nan), NEITHER),
            (torch.zeros_like, NEITHER),
        ],
    )
    def test_what_holds_of_a_layer_of_two_sequences(self, change, holds):
        generator = torch.Generator().manual_seed(0)
        queries, keys = (torch.randn(2, 3, 9, 5, generator=generator) for _ in range(2))
        product = (queries @ keys.transpose(2, 3)).double()
        scores = change(2 * product.float()).double()
        scores = scores.where(scores > torch.finfo(torch.float32).min / 2, torch.nan)
        assert compare_logits(scores, product, 1e-3)[0] == holds

    def test_it_is_refused_by_name(self, copied, monkeypatch):
        """Where a way shows the keys of other heads."""
        checkpoint, architecture = examine(Checkpoint("bert", *copied("bert")))
        take = observed.compare_logits
        monkeypatch.setattr(observed, "compare_logits", lambda s, p, t: take(s, p.flip(1), t))
        with pytest.raises(UnobservableError, match=f"the keys of the heads of 'bert': .*{NEITHER}"):
            check_observations(checkpoint, architecture, {"keys"})
