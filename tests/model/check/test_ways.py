"""The dry run chooses a way by what it finds, and says why it took none."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from attnprobe.errors import AttnprobeError
from attnprobe.model.check.dry_run import check_maps, inspect
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quirks import UnsupportedModelError
from attnprobe.model.reading.ways import Way

HEADS, WIDTH = 4, 8


class OwnConfig(PreTrainedConfig):
    model_type = "own"

    def __init__(self, kind="exponentials", vocab_size=600, layers=2, **options):
        super().__init__(**options)
        self.kind, self.vocab_size, self.num_hidden_layers = kind, vocab_size, layers
        self.hidden_size, self.num_attention_heads = HEADS * WIDTH, HEADS


class OwnAttention(nn.Module):
    """Attention as somebody might write it for himself."""

    def __init__(self, config):
        super().__init__()
        self.kind = config.kind
        self.query, self.key, self.value = (nn.Linear(HEADS * WIDTH, HEADS * WIDTH) for _ in range(3))

    def forward(self, hidden, *, maps):
        query, key, value = (
            project(hidden).unflatten(2, (HEADS, WIDTH)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(2, 3) * 0.2
        powers = scores.exp()
        mixed = powers / powers.sum(-1, keepdim=True)
        if self.kind not in {"exponentials", "aside"}:
            mixed = scores.softmax(-1)
        shown = {"other maps": mixed.flip(-1), "few maps": mixed[:, 1:]}.get(self.kind, mixed)
        if self.kind == "aside":  # a softmax that the hidden states don't depend on, and maps of it
            shown = (scores * 2).softmax(-1)
        output = hidden + (mixed @ value).transpose(1, 2).flatten(2)
        return output, shown if maps else None


class OwnModel(PreTrainedModel):
    """An encoder that asks no registry, as repositories with code of their own have it."""

    config_class = OwnConfig

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, HEADS * WIDTH)
        self.place = nn.Embedding(64, HEADS * WIDTH)
        built = config.num_hidden_layers - (config.kind == "too few")
        self.layers = nn.ModuleList(OwnAttention(config) for _ in range(built))
        self.post_init()

    def forward(self, input_ids, output_attentions=None, **_):
        wanted = self.config.output_attentions if output_attentions is None else output_attentions
        hidden = self.embed(input_ids) + self.place(torch.arange(input_ids.shape[1]))
        watched = torch.overrides._get_current_function_mode_stack()
        if self.config.kind == "random" or (self.config.kind == "shy" and watched):
            hidden = hidden + torch.randn_like(hidden)
        kept: tuple[Any, ...] = ()
        for layer in self.layers:
            hidden, shown = layer(hidden, maps=bool(wanted))
            kept += (shown,)
        self.kept = kept
        return _Output(hidden, kept) if wanted else (hidden,)


class _Output(tuple):
    """Hidden states, and maps by name."""

    attentions: tuple[Tensor, ...]

    def __new__(cls, hidden, maps):
        made = super().__new__(cls, (hidden,))
        made.attentions = maps
        return made


@torch.no_grad()
def build(kind, tokenizer):
    torch.manual_seed(0)
    model = OwnModel(OwnConfig(kind, len(tokenizer))).eval()
    for weight in model.parameters():
        weight.copy_(torch.randn_like(weight) * 0.4)
    return Checkpoint("own", model, tokenizer)


def test_softmax_is_tapped(tiny):
    architecture = inspect(build("softmax", tiny("bert")[1]))
    assert (architecture.way, architecture.layers, architecture.heads, architecture.head_width) == (
        Way.TAP,
        2,
        HEADS,
        WIDTH,
    )
    text = " ".join(architecture.evidence)
    assert "maps equal the model's own eager maps" in text
    assert "hidden states depend on every tapped softmax" in text


def test_a_gap_in_a_later_layer_is_seen():
    """Rows that never came by are NaN, and a later NaN must not hide behind an earlier number."""
    whole = torch.full((2, HEADS, 5, 5), 0.2)
    gap = whole.clone()
    gap[1, 2, 3] = torch.nan
    assert check_maps("own", {}, [whole, whole], 1e-3)
    for maps in ([gap, whole], [whole, gap]):
        with pytest.raises(UnsupportedModelError, match="do not sum to 1"):
            check_maps("own", {}, maps, 1e-3)
    with pytest.raises(UnsupportedModelError, match="does not attend from tokens to tokens"):
        check_maps("own", {"input_ids": whole[:, 0]}, [whole[..., :4]], 1e-3)


class TestRefused:
    """By name, with the reason of each way that had one."""

    @pytest.mark.parametrize(
        ("kind", "reason"),
        [
            ("exponentials", "no attention was found"),
            ("aside", "do not depend on the softmax tapped in layer 0"),
            ("too few", "attention of 1 layers was read, its configuration says 2"),
            ("random", "what was tapped can't be checked"),
            ("shy", "hidden states under capture differ from its own by"),
            ("other maps", "the maps read differ from its own eager maps by"),
            ("few maps", "the maps read are of other shapes than its own eager maps"),
        ],
    )
    def test_kinds(self, tiny, kind, reason):
        with pytest.raises(AttnprobeError, match=reason) as caught:
            inspect(build(kind, tiny("bert")[1]))
        assert "'own'" in str(caught.value)
        assert str(caught.value).endswith(".")
