"""The dry run: the way that it takes, the layers that attend, the grid of patches, and what it refuses."""

import copy
from functools import cache, partial
from typing import Any, cast

import every_type
import numpy as np
import pytest
import torch
from scipy import special
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

import attnprobe
from attnprobe.attention.layout import Grid
from attnprobe.corpus.tokenizer import NoTokenizer
from attnprobe.errors import AttnprobeError, AttnprobeWarning
from attnprobe.model.check.dry_run import check_maps, inspect
from attnprobe.model.check.gates import check_gates
from attnprobe.model.check.trace import catch_tokens, find_grid
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.processing import Processor
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


TEXTS = [
    "word11 word20 word40 word60 word12",
    "word30 word31 word90 word8",
    "word9 word9 word77 word50 word61",
]


@cache
def spelling():
    words = {"[PAD]": 0, "[UNK]": 1} | {f"word{i}": i for i in range(2, every_type.VOCABULARY)}
    whole = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    whole.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=whole, pad_token="[PAD]", unk_token="[UNK]")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["jamba", pytest.param("qwen3_next", marks=pytest.mark.slow)])
def test_census(name):
    """Rows are of layers 1 and 3, and their entropy is that of the model's own maps."""
    model = every_type.build(name)
    with pytest.warns(AttnprobeWarning, match="attention map are left out: 2 linear_attention"):
        table = attnprobe.census(model, TEXTS, tokenizer=spelling())
    assert sorted(set(table["layer"])) == [1, 3]
    expected = []
    for text in TEXTS:
        given = {"input_ids": torch.tensor([spelling()(text)["input_ids"]])}
        output = every_type.run(every_type.eager(name, model), given, output_attentions=True)
        square = [rows for rows in output.attentions if rows is not None and rows.shape[-1] == rows.shape[-2]]
        maps = square if len(square) == 2 else [output.attentions[layer] for layer in (1, 3)]
        expected.append([special.entr(rows[0].double().numpy()).sum(-1).mean(-1) for rows in maps])
    np.testing.assert_allclose(table["entropy"], np.mean(expected, 0).ravel(), atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_doctor():
    jamba = Checkpoint("jamba", every_type.build("jamba"), spelling())
    architecture = inspect(jamba)
    assert "left out: 2 linear_attention" in architecture.warnings[0]
    assert [str(place) for place in architecture.places] == ["layer 1", "layer 3"]
    assert "resuming at a layer gives the same" in check_gates(jamba, architecture).evidence


@pytest.mark.filterwarnings("ignore")
class TestOtherLayers:
    """A configuration that says something else than the layers do."""

    def test_more_attend(self, tiny):
        model, tokenizer = copy.deepcopy(tiny("llama")[0]), tiny("llama")[1]
        model.config.layer_types = ["full_attention", "linear_attention", "full_attention"]
        with pytest.raises(UnsupportedModelError, match="attention of 3 layers was read"):
            inspect(Checkpoint("llama", model, tokenizer))

    def test_others_attend(self):
        """As many, but not the same."""
        model = copy.deepcopy(every_type.build("lfm2"))
        model.config.layer_types = ["full_attention", "conv"] * 2
        with pytest.raises(UnsupportedModelError, match=r"in its layers \[1, 3\], .* \[0, 2\]|can't be run"):
            inspect(Checkpoint("lfm2", model, spelling()))


class Noise:
    """Stands for a processor: gives noise of the shape that a test asks for."""

    def __init__(self, name, *shape):
        self._name, self._shape = name, shape

    def noise(self, number):
        draw = torch.Generator().manual_seed(number)
        return {self._name: torch.randn(1, *self._shape, generator=draw)}


def build_seeing(name, *shape, given="pixel_values", **changes):
    model, processor = every_type.build(name, **changes), cast(Processor, Noise(given, *shape))
    modality = "image" if given == "pixel_values" else "sound"
    return Checkpoint(name, model, NoTokenizer(name), modality=modality, processor=processor)


AST = "audio-spectrogram-transformer"


OVERLAPPING = {
    "given": "input_values",
    "num_mel_bins": 21,
    "max_length": 65,
    "frequency_stride": 6,
    "time_stride": 5,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("build", "grid"),
    [
        (partial(build_seeing, "vit", 3, 24, 40, image_size=(24, 40)), Grid(1, 3, 5)),
        (partial(build_seeing, "dinov3_vit", 3, 32, 48, num_register_tokens=2), Grid(3, 4, 6)),
        (partial(build_seeing, "vit_mae", 3, 32, 32, mask_ratio=0.75), Grid(1, 4, 4)),
        # Patches that overlap, and leave rows and columns unread at the borders, as those of the real one.
        (partial(build_seeing, AST, 65, 21, **OVERLAPPING), Grid(2, 3, 12)),
    ],
    ids=lambda value: str(value.args) if isinstance(value, partial) else "",
)  # fmt: skip
def test_known_grids(build, grid):
    architecture = inspect(build())
    assert architecture.grid == grid
    assert any(f"{grid.rows} x {grid.columns} patches" in sentence for sentence in architecture.evidence)


def test_a_single_row_is_no_grid():
    architecture = inspect(build_seeing("dinov2", 3, 8, 48))
    assert architecture.grid is None
    assert any("no patches in rows" in warning for warning in architecture.warnings)


def test_mixed_tokens_are_no_patches():
    """Convolutions in front of the layers spread a corner over several tokens."""
    whisper = build_seeing("whisper", 8, 46, given="input_features", decoder_start_token_id=2)
    whisper = Checkpoint(**(vars(whisper) | {"encoder_only": True}))
    site = "layers.0.self_attn"
    inputs = {"input_features": torch.randn(2, 8, 46)}
    assert catch_tokens(whisper, inputs, site) is not None
    assert find_grid(whisper, inputs, site) is None
