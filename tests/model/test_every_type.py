"""Every type of text encoder in transformers: read as the model itself says, or refused by name.

The reference knows nothing of attnprobe: a second model with the same weights, built for eager attention,
gives its maps through ``output_attentions``; where those are scores, they are turned into probabilities
here, and where they are bands, they are spread out key by key.

    python tests/model/test_every_type.py

prints the table of what is supported as Markdown.
"""

import re
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from scipy import special
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import CONFIG_MAPPING, AutoConfig, AutoModel, PreTrainedModel, PreTrainedTokenizerFast
from transformers.models.auto import modeling_auto

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.model import blocks
from attnprobe.model.capture import captured_attention
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.dry_run import Architecture, inspect
from attnprobe.model.gate_check import check_gates
from attnprobe.model.pieces import Piece
from attnprobe.model.support import UnsupportedModelError
from attnprobe.model.ways import Way

LAYERS, HEADS, VOCABULARY, LENGTH = 3, 4, 120, 23


@dataclass(frozen=True)
class Expected:
    """What is known about a type.

    Attributes:
        way: How its attention is reached, or None if it is refused.
        reason: What the refusal says.
        options: What its configuration needs beside ``OPTIONS``.
        own: What its ``output_attentions`` are: "maps", "scores" or "bands".
        heads: Heads that it really has.
    """

    way: Way | None = None
    reason: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    own: str = "maps"
    heads: int = HEADS


#: By the names that configurations use; a type takes those it knows.
OPTIONS = {
    **dict.fromkeys(["hidden_size", "d_model", "dim", "n_embd", "emb_dim", "embedding_size"], 32),
    **dict.fromkeys(["num_hidden_layers", "n_layers", "n_layer", "num_layers", "encoder_layers"], LAYERS),
    **dict.fromkeys(["num_encoder_layers"], LAYERS),
    **dict.fromkeys(["decoder_layers", "num_decoder_layers"], 1),
    **dict.fromkeys(["num_attention_heads", "n_heads", "n_head", "num_heads"], HEADS),
    **dict.fromkeys(["encoder_attention_heads", "decoder_attention_heads"], HEADS),
    **dict.fromkeys(["num_encoder_attention_heads", "num_decoder_attention_heads"], HEADS),
    **dict.fromkeys(["intermediate_size", "d_inner", "d_ff", "hidden_dim"], 48),
    **dict.fromkeys(["encoder_ffn_dim", "decoder_ffn_dim"], 48),
    **{"head_dim": 8, "d_kv": 8, "num_key_value_heads": 2, "max_position_embeddings": 96},
    **{"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3},
    "vocab_size": VOCABULARY,
}  # fmt: skip

REGISTRY, TAP = Expected(Way.REGISTRY), Expected(Way.TAP)
_SHARED = ("hidden_size", "intermediate_size", "num_attention_heads", "head_dim", "num_key_value_heads")
_PART = {key: OPTIONS[key] for key in (*_SHARED, "max_position_embeddings", "vocab_size")}
_RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
CAUSAL = Expected(reason="earlier tokens only")
NO_MAP = Expected(reason="no attention map")

TYPES: dict[str, Expected] = {
    **dict.fromkeys(
        (
            "albert", "bart", "bert", "bert-generation", "blenderbot", "blenderbot-small", "camembert",
            "data2vec-text", "distilbert", "electra", "ernie", "esm", "eurobert", "gte", "jina_embeddings_v3",
            "layoutlm", "m2m_100", "marian", "markuplm", "mbart", "modernbert", "mt5", "nllb-moe",
            "nomic_bert", "pegasus", "plbart", "roberta", "roberta-prelayernorm", "splinter", "t5",
            "tipsv2_text_model", "ultrabert", "umt5", "xlm-roberta", "xlm-roberta-xl", "switch_transformers",
        ),
        REGISTRY,
    ),
    "embedding_gemma2_text": REGISTRY,
    "esmc": Expected(Way.REGISTRY, options={"num_key_value_heads": HEADS}),
    "mobilebert": Expected(
        Way.REGISTRY,
        options={"embedding_size": 16, "intra_bottleneck_size": 32, "num_feedforward_networks": 1},
    ),
    "neomme": Expected(Way.REGISTRY, options={"head_dim": 16}),
    "roc_bert": Expected(
        Way.REGISTRY, options={"pronunciation_vocab_size": VOCABULARY, "shape_vocab_size": VOCABULARY}
    ),
    "t5gemma": Expected(
        Way.REGISTRY,
        options={
            "encoder": _PART | {"num_hidden_layers": LAYERS},
            "decoder": _PART | {"num_hidden_layers": 1},
        },
    ),
    "xmod": Expected(Way.REGISTRY, options={"default_language": "en_XX", "languages": ["en_XX"]}),
    **dict.fromkeys(
        (
            "flaubert", "ibert", "megatron-bert", "mpnet", "mvp", "rembert",
            "roformer", "tapas", "visual_bert", "xlm", "xlnet",
        ),
        TAP,
    ),
    "deberta": Expected(Way.TAP, options=_RELATIVE),
    "deberta-v2": Expected(
        Way.TAP, options=_RELATIVE | {"position_buckets": 8, "norm_rel_ebd": "layer_norm"}
    ),
    **dict.fromkeys(
        ("big_bird", "bigbird_pegasus"),
        Expected(Way.TAP, options={"block_size": 2, "num_random_blocks": 1}),
    ),
    "convbert": Expected(Way.TAP, heads=2),
    "layoutlmv3": Expected(Way.TAP, options={"coordinate_size": 6, "shape_size": 4}),
    **dict.fromkeys(
        ("led", "longformer"),
        Expected(
            Way.TAP,
            options={"attention_window": 4, "max_encoder_position_embeddings": 96,
                     "max_decoder_position_embeddings": 96},
            own="bands",
        ),
    ),
    "lilt": Expected(Way.SECOND_TAP, options={"hidden_size": 48, "channel_shrink_ratio": 2}),
    "luke": Expected(Way.TAP, options={"entity_vocab_size": 10, "entity_emb_size": 16}),
    "prophetnet": Expected(Way.TAP, own="scores"),
    "squeezebert": Expected(Way.TAP, own="scores"),
    **dict.fromkeys(("biogpt", "bloom", "clip_text_model", "ctrl", "molmo2_text", "xglm"), CAUSAL),
    **dict.fromkeys(("fnet", "longt5", "mra", "nystromformer", "pegasus_x", "yoso"), NO_MAP),
    "reformer": Expected(
        reason="no attention map",
        options={"axial_pos_shape": [4, 24], "axial_pos_embds_dim": [16, 16], "attention_head_size": 8},
    ),
    "bros": Expected(reason="can't be run on token ids alone .*bbox"),
    "canine": Expected(reason="reads characters"),
    "fsmt": Expected(
        reason="no model of its own",
        options={"langs": ["en", "de"], "src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY},
    ),
    "funnel": Expected(reason="pool the queries", options={"block_sizes": [1, 1, 1]}),
    "lxmert": Expected(reason="can't be run on token ids alone .*visual_feats"),
    "openai_privacy_filter": Expected(reason="do not sum to 1"),
    "udop": Expected(reason="can't be run on token ids alone .*Bbox"),
}  # fmt: skip

#: Made for images or sound beside text, or not to be built small: no text encoders to be tried here.
ELSEWHERE = {"emu3", "llama4", "mllama", "modernvbert", "perceiver", "t5gemma2", "ultravbert", "layoutlmv2"}
#: Whatever the installed transformers holds is tried, also what is not in the table yet.
INSTALLED = {
    *modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    *modeling_auto.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES,
}
ALL = sorted((INSTALLED | set(TYPES)) - ELSEWHERE)
VERIFIED = [name for name, known in TYPES.items() if known.way]


def tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer that adds nothing, so that any type can be asked."""
    words = {name: place for place, name in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])}
    words |= {f"word{i}": i for i in range(len(words), VOCABULARY)}
    marks = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    whole = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    whole.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=whole, mask_token="[MASK]", **marks)


def configuration(name: str, **changes: Any) -> Any:
    known = {*vars(CONFIG_MAPPING[name]()), *CONFIG_MAPPING[name].attribute_map}
    extra = TYPES.get(name, Expected()).options
    options = {key: value for key, value in (OPTIONS | extra).items() if key in known or key in extra}
    return AutoConfig.for_model(name, **options | changes)


@torch.no_grad()
def build(name: str) -> PreTrainedModel:
    """Build a tiny model whose attention has contrast."""
    torch.manual_seed(0)
    config = configuration(name)
    config.architectures = [name]  # Funnel asks for it
    model = AutoModel.from_config(config).eval().requires_grad_(False)
    for weight in model.parameters():
        if weight.ndim == 1:
            weight.add_(torch.randn_like(weight) * 0.1)
        else:
            weight.copy_(torch.randn_like(weight) * (2.0 / weight[0].numel()) ** 0.5)
    return model


def eager(name: str, model: PreTrainedModel) -> Any:
    """Build the model once more, for eager attention from the beginning, and give its encoder."""
    changes = {"attention_type": "original_full"} if "big" in name and "bird" in name else {}
    config = configuration(name, **changes)
    twin = AutoModel.from_config(config, attn_implementation="eager").eval()
    twin.load_state_dict(model.state_dict())
    return twin.get_encoder() if config.is_encoder_decoder else twin


def spread_by_hand(band: Tensor) -> Tensor:
    """Put each probability of a band in the column of its key."""
    batch, heads, length, width = band.shape
    whole = torch.zeros(batch, heads, length, length)
    for query in range(length):
        for place in range(width):
            key = query + place - width // 2
            if 0 <= key < length:
                whole[:, :, query, key] = band[:, :, query, place]
    return whole


def own_maps(name: str, model: PreTrainedModel, ids: Tensor) -> tuple[list[Tensor], Tensor]:
    """Give the maps that a model returns as probabilities, and its hidden states."""
    with torch.inference_mode():
        given = eager(name, model)(input_ids=ids, output_attentions=True)
    own = TYPES.get(name, Expected()).own
    maps = [rows.softmax(-1) if own == "scores" else rows for rows in given.attentions]
    return [spread_by_hand(rows) if own == "bands" else rows for rows in maps], given[0]


def read_maps(found: Checkpoint, way: Way, ids: Tensor) -> tuple[list[Tensor], Tensor]:
    """Put the pieces of a capture together."""
    maps: list[Tensor] = []

    def keep(piece: Piece):
        batch, heads, queries, keys = piece.probabilities.shape
        if piece.layer == len(maps):
            maps.append(torch.full((len(ids), heads, keys, keys), torch.nan))
        rows = slice(piece.query, piece.query + queries)
        maps[piece.layer][piece.sequence : piece.sequence + batch, :, rows] = piece.probabilities

    with captured_attention(found.body, keep, way):
        hidden = found.forward({"input_ids": ids})
    return maps, hidden


def apart(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ALL)
def test_verified_or_refused(name: str, monkeypatch: pytest.MonkeyPatch):
    """On texts longer than those of the dry run, and than any window, in blocks of some queries each."""
    if name not in CONFIG_MAPPING:
        pytest.skip("not in this transformers")
    known, found = TYPES.get(name), Checkpoint(name, build(name), tokenizer())
    if known is not None and known.way is None:
        with pytest.raises(UnsupportedModelError, match=f"'{name}': .*{known.reason}"):
            inspect(found)
        return
    try:
        architecture = inspect(found)
    except UnsupportedModelError:
        if known is not None:
            raise
        return  # a type that is not in the table may be refused, but never be read wrongly
    assert known is None or architecture.way is known.way
    assert architecture.layers == LAYERS
    assert known is None or architecture.heads == known.heads
    ids = torch.randint(6, VOCABULARY, (2, LENGTH), generator=torch.Generator().manual_seed(5))
    expected, states = own_maps(name, found.model, ids)
    monkeypatch.setattr(blocks, "BLOCK_CPU", 1)
    monkeypatch.setattr(blocks, "LEAST_QUERIES", 7)
    maps, hidden = read_maps(found, architecture.way, ids)
    assert [rows.shape for rows in maps] == [rows.shape for rows in expected]
    assert max(map(apart, maps, expected)) < 1e-4  # MobileBERT normalises nothing, and rounds the most
    assert apart(hidden, states) < 2e-5 * float(states.abs().max())
    # Contrast enough for a mistake to show: no map is that of another head, or turned over.
    assert all(apart(rows, rows.roll(1, 1)) > 0.01 for rows in maps)
    assert all(apart(rows, rows.transpose(2, 3)) > 0.01 for rows in maps)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", VERIFIED)
def test_census(name: str):
    """From texts to a table; its entropy is that of the model's own maps."""
    if name not in CONFIG_MAPPING:
        pytest.skip("not in this transformers")
    model, splits = build(name), tokenizer()
    texts = [f"word{9 * k + 11} word{5 * k + 20} word40 word{60 - k} word12" for k in range(3)]
    found = attnprobe.census(model, texts, tokenizer=splits)
    maps, _ = own_maps(name, model, torch.tensor(splits(texts)["input_ids"]))
    expected = [special.entr(rows.double().numpy()).sum(-1).mean((0, 2)) for rows in maps]
    np.testing.assert_allclose(found["entropy"], np.concatenate(expected), atol=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", VERIFIED)
def test_gates(name: str):
    """Whatever is read can be switched off, head by head."""
    if name not in CONFIG_MAPPING:
        pytest.skip("not in this transformers")
    found = Checkpoint(name, build(name), tokenizer())
    architecture = inspect(found)
    assert check_gates(found, architecture).replays == (architecture.way is Way.REGISTRY)


def support_row(name: str) -> tuple[str, str, str]:
    """Name a type, how it is reached, and how that is known or why it is not."""
    try:
        found: Architecture = inspect(Checkpoint(name, build(name), tokenizer()))
    except AttnprobeError as error:
        return name, "refused", getattr(error, "reason", str(error))
    compared = next(sentence for sentence in found.evidence if "own" in sentence and "states" not in sentence)
    known = re.sub(r" \([^)]*\)", "", compared)
    return name, found.way, "; ".join([known, *found.warnings])


def support_table() -> str:
    """Run every type once and tabulate what came out, as Markdown."""
    rows = [support_row(name) for name in ALL if name in CONFIG_MAPPING]
    lines = [f"| `{name}` | {way} | {evidence} |" for name, way, evidence in rows]
    return "\n".join(["| model type | way | evidence, or reason |", "|---|---|---|", *lines]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(support_table())
