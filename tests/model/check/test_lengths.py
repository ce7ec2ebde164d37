"""||W_O,h v_j|| against vectors written out by the model's own output projection, one head at a time."""

import re

import pytest
import torch

from attnprobe.attention.block import measure_lengths
from attnprobe.model.check.dry_run import examine
from attnprobe.model.check.observed import find_output_factors
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.reading.capture import capture_attention
from attnprobe.model.reading.ways import evaluation_mode

#: Where values come from, and where heads are projected from there.
SITES = {
    "bert": (r"attention\.self\.value$", "attention.output.dense"),
    "gpt2": (r"attn\.c_attn$", "attn.c_proj"),
    "llama": (r"self_attn\.v_proj$", "self_attn.o_proj"),
    "t5": (r"Attention\.v$", "Attention.o"),
}  # fmt: skip


def explicit(values, output, heads, *, fused):
    """Give W_O,h v_j (head, key, model width), of values of one sequence, as the module computes it."""
    rows = output.weight.shape[1] if isinstance(output, torch.nn.Linear) else output.weight.shape[0]
    width = rows // heads
    values = values[:, -rows:] if fused else values
    by_head = values.view(len(values), -1, width)
    by_head = by_head.repeat_interleave(heads // by_head.shape[1], 1).double()
    bias = 0 if output.bias is None else output.bias
    found = []
    for head in range(heads):
        alone = torch.zeros(len(values), heads, width, dtype=torch.float64)
        alone[:, head] = by_head[:, head]
        found.append(output(alone.view(1, len(values), rows))[0] - bias)
    return torch.stack(found)


def compared(name, checkpoint, inputs, sites):
    """Run a model that is read, and find the largest relative difference over all layers."""
    pattern, target = sites
    body = checkpoint.body
    modules, given, seen = dict(body.named_modules()), [], []
    hooks = [
        module.register_forward_hook(
            lambda _, __, values, site=site: given.append((re.sub(pattern, target, site), values.clone()))
        )
        for site, module in modules.items()
        if re.search(pattern, site)
    ]
    checkpoint, architecture = examine(checkpoint)
    factors = find_output_factors(checkpoint)

    def watch(piece):
        if piece.query == 0:
            seen.append((piece.layer, measure_lengths(piece.observed.values, factors[piece.layer])))

    given.clear()
    with (
        evaluation_mode(body),
        capture_attention(body, watch, architecture.way, {"values"}),
        torch.no_grad(),
    ):
        checkpoint.forward(inputs)
    for hook in hooks:
        hook.remove()
    assert len(seen) == len(given) == architecture.layers
    furthest, doubles = 0.0, {}
    for (layer, found), (site, values) in zip(seen, given, strict=True):
        assert found.shape[1] == architecture.heads
        output = doubles.setdefault(site, modules[site].double())  # the model is this test's own
        for sequence in range(len(found)):
            with torch.no_grad():
                vectors = explicit(values[sequence], output, architecture.heads, fused=name == "gpt2")
            expected = vectors.norm(dim=-1)
            assert expected.min() > 0
            furthest = max(furthest, float(((found[sequence] - expected).abs() / expected).max()))
        assert layer < architecture.layers
    return furthest


@pytest.mark.parametrize("name", SITES)
def test_of_text(name, copied):
    checkpoint = Checkpoint(name, *copied(name))
    inputs = {"input_ids": torch.tensor([checkpoint.tokenizer("the dog ran to the river")["input_ids"]])}
    if checkpoint.decodes:
        inputs["decoder_input_ids"] = inputs["input_ids"][:, :4]
    assert compared(name, checkpoint, inputs, SITES[name]) < 1e-6
