"""The rules of relevance: function by function, head by head, and against another implementation."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel
from transformers.activations import ACT2FN

from attnprobe.model.reading.gates import gate_attention
from attnprobe.model.reading.ways import Way
from attnprobe.model.relevance import Relevance

LAYERS, HEADS = 3, 4
DRAW = torch.Generator().manual_seed(5)
ROWS = torch.randn(3, 6, generator=DRAW, dtype=torch.float64)
TABLE = torch.randn(20, 6, generator=DRAW, dtype=torch.float64)
ALONG = torch.randn(3, 6, generator=DRAW, dtype=torch.float64)


def pulled(function, given=ROWS):
    """Give the value of a function of computed rows, and the gradient by them of its product with ALONG."""
    with Relevance():
        rows = functional.embedding(torch.arange(len(given)), given)
        value = function(rows)
        if not value.requires_grad:
            return value, torch.zeros_like(given)
        (gradient,) = torch.autograd.grad((value * ALONG).sum(), rows)
    return value.detach(), gradient


#: Activations with f(0) = 0, as code spells them.
HOMOGENEOUS: dict[str, Callable[[Tensor], Tensor]] = {
    "functional.gelu": functional.gelu,
    "silu, in place": lambda x: functional.silu(x.clone(), inplace=True),
    "method": lambda x: x.tanh(),
    "module": nn.Tanh(),
    "cube": lambda x: x**3,
    "by itself": lambda x: x * x,
    **{name: ACT2FN[name] for name in ("gelu_new", "gelu_python", "quick_gelu", "relu", "relu2")},
}


class TestRules:
    @pytest.mark.parametrize("name", HOMOGENEOUS)
    def test_activations_keep_their_slope(self, name):
        function = HOMOGENEOUS[name]
        value, gradient = pulled(function)
        expected = function(ROWS)
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(gradient, ALONG * expected / ROWS)

    @pytest.mark.parametrize(
        "function", [torch.sigmoid, lambda x: x.softmax(-1), lambda x: 1 + torch.tanh(x), lambda x: 1 / x]
    )
    def test_constants(self, function):
        _, gradient = pulled(function)
        assert not gradient.any()

    def test_products_are_shared_out(self):
        weight = torch.randn(6, 6, generator=DRAW, dtype=torch.float64)

        def function(rows):
            return rows * (rows @ weight)

        _, gradient = pulled(function)
        expected = (ALONG * (ROWS @ weight) + (ALONG * ROWS) @ weight.T) / 2
        torch.testing.assert_close(gradient, expected)
        torch.testing.assert_close((gradient * ROWS).sum(), (ALONG * function(ROWS)).sum())

    @pytest.mark.parametrize("affine", [False, True])
    def test_layer_norm(self, affine):
        norm = nn.LayerNorm(6, elementwise_affine=affine).double().requires_grad_(False)
        if affine:
            norm.weight.copy_(TABLE[0])
            norm.bias.copy_(TABLE[1])
        value, gradient = pulled(norm)
        torch.testing.assert_close(value, norm(ROWS))
        wanted = ALONG * TABLE[0] if affine else ALONG
        deviation = (ROWS.var(-1, correction=0, keepdim=True) + norm.eps).sqrt()
        torch.testing.assert_close(gradient, (wanted - wanted.mean(-1, keepdim=True)) / deviation)
        without = value - TABLE[1] if affine else value
        torch.testing.assert_close((gradient * ROWS).sum(), (without * ALONG).sum())

    @pytest.mark.parametrize(
        "norm",
        [
            nn.RMSNorm(6, eps=1e-3).double(),
            lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-3),
            lambda x: x / (x.norm(dim=-1, keepdim=True) + 1e-3),
            lambda x: functional.glu(torch.cat([x, 2 * x], -1)),
        ],
    )
    def test_other_norms_keep_everything(self, norm):
        if isinstance(norm, nn.Module):
            norm.requires_grad_(False)
        value, gradient = pulled(norm)
        torch.testing.assert_close(value, norm(ROWS))
        torch.testing.assert_close((gradient * ROWS).sum(), (value * ALONG).sum())

    def test_attention_is_linear_in_values(self):
        def attend(rows):
            return functional.scaled_dot_product_attention(*(rows[None, None] * k for k in (3, 2, 1)))[0, 0]

        value, gradient = pulled(attend)
        probabilities = (6 * ROWS @ ROWS.T / 6**0.5).softmax(-1)
        torch.testing.assert_close(value, probabilities @ ROWS)
        torch.testing.assert_close(gradient, probabilities.T @ ALONG)


def some_ids(tokenizer):
    return torch.randint(5, len(tokenizer), (2, 9), generator=torch.Generator().manual_seed(1))


def relevance(model, ids, way=Way.REGISTRY):
    """Explain the last states along a direction: (example, layer, head)."""
    xi = torch.ones(len(ids), LAYERS, HEADS, requires_grad=True)
    with Relevance(), gate_attention(model, way) as gates:
        gates.set(xi)
        return torch.autograd.grad(explained(model(input_ids=ids)[0]), xi)[0]


def explained(states):
    along = torch.randn(states.shape[1:], generator=torch.Generator().manual_seed(3))
    return (states * along).sum()


#: The linear map that reads the heads of a layer.
READERS = {
    "bert": "encoder.layer.{}.attention.output.dense",
    "llama": "layers.{}.self_attn.o_proj",
    "deberta-v2": "encoder.layer.{}.attention.output.dense",
}


@pytest.mark.parametrize("name", READERS)
def test_is_value_times_gradient_of_what_the_head_gives(tiny, name):
    """Gates change nothing about the rules: without any, the heads' outputs have the same relevance."""
    model, tokenizer = tiny(name)
    ids, given = some_ids(tokenizer), []
    hooks = [
        model.get_submodule(READERS[name].format(layer)).register_forward_pre_hook(
            lambda _, arguments: given.append(arguments[0])
        )
        for layer in range(LAYERS)
    ]
    with Relevance():
        states = model(input_ids=ids)[0]
        gradients = torch.autograd.grad(explained(states), given)
    for hook in hooks:
        hook.remove()
    expected = torch.stack(
        [
            (output.detach() * gradient).unflatten(-1, (HEADS, -1)).sum((1, 3))
            for output, gradient in zip(given, gradients, strict=True)
        ],
        1,
    )
    way = Way.TAP if name == "deberta-v2" else Way.REGISTRY
    ours = relevance(model, ids, way)
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))


# Against lxt


def filled(model):
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            waves = torch.sin(
                torch.arange(weight.numel(), dtype=torch.float64).view(weight.shape) * 0.7 + number
            )
            weight.copy_(waves * (0.3 if weight.ndim > 1 else 0.2) + (weight.ndim == 1) * 0.1)
    return model.double().eval().requires_grad_(False)


def margin(logits):
    best = logits.topk(2, -1).values
    return best[..., 0] - best[..., 1]


_TINY: dict[str, Any] = {"vocab_size": 20}
_BERT = BertConfig(
    **_TINY, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=16,
    max_position_embeddings=8, num_labels=3,
)  # fmt: skip
_GPT2 = GPT2Config(**_TINY, n_embd=12, n_layer=2, n_head=3, n_positions=8, bos_token_id=0, eos_token_id=0)
#: Relevance (example, layer, head) as lxt 2.1 gives it under torch 2.13 and transformers 5.23, whose default
#: maps are for AttnLRP, where relevance flows through the softmax as well. So its parts for CP-LRP were put
#: together, in an environment of its own, with the models and inputs of the test below:
#:
#:     from lxt.efficient.patches import (
#:         layer_norm_forward, non_linear_forward, patch_cp_attention, patch_method)
#:     patch_method(layer_norm_forward, nn.LayerNorm)
#:     for activation in (GELUActivation, NewGELUActivation, nn.Tanh):
#:         patch_method(non_linear_forward, activation, keep_original=True)
#:     patch_cp_attention(modeling_bert)  # and modeling_gpt2; attn_implementation="eager"
#:
#: and for o, what ``attention.output.dense`` or ``attn.c_proj`` of each layer is given, after z.backward():
#: (o * o.grad).unflatten(-1, (3, -1)).sum((1, 3)).
BY_LXT = {
    "bert": [
        [[0.00030278067313027965, 0.001235834367075688, 0.0004894071735672116],
         [-0.0015352356136182988, -0.0038992317692172936, -0.00264065029625067]],
        [[0.00028761226219170376, 0.0012269891441447143, 0.0005067258503858948],
         [-0.001525241499152028, -0.0038670510469778676, -0.0026177231431402065]],
    ],
    "gpt2": [
        [[0.00032908090220006383, 0.0005172717043169407, -0.0010017339873204796],
         [0.00032875478218995127, -0.000654287732948652, -0.001510130481174818]],
        [[-8.83964559705787e-06, 0.000415442394976536, -0.0007719228022727897],
         [0.00018222632260868614, -0.00047900251079415667, -0.0015415263226687772]],
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", BY_LXT)
def test_against_lxt(name):
    """Their divisions add 1e-10 to every x of f(x) / x."""
    ids = torch.tensor([[2, 9, 5, 7, 3], [2, 11, 4, 6, 3]])
    model: Any = filled(BertForSequenceClassification(_BERT) if name == "bert" else GPT2LMHeadModel(_GPT2))
    xi = torch.ones(2, 2, 3, dtype=torch.float64, requires_grad=True)
    with Relevance(), gate_attention(model.base_model) as gates:
        gates.set(xi)
        logits = model(input_ids=ids).logits
        explained = margin(logits) if name == "bert" else margin(logits[:, :-1]).mean(-1)
        ours = torch.autograd.grad(explained.sum(), xi)[0]
    torch.testing.assert_close(ours, torch.tensor(BY_LXT[name], dtype=torch.float64), rtol=1e-6, atol=1e-12)
