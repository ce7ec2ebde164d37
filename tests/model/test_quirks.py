"""What only some types of models have is named in quirks alone; all patches and all keys are attended to."""

import ast
import re
from pathlib import Path

import every_type
import pytest
import torch
from left_as_found import state
from transformers import CONFIG_MAPPING, AutoConfig, AutoModel

import attnprobe
from attnprobe.corpus.tokenizer import NoTokenizer
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quirks import force_full_attention
from attnprobe.model.reading.capture import capture_attention

PACKAGE = Path(attnprobe.__file__).parent
#: What some types call what others do not have, in identifiers and strings.
WORDS = re.compile(
    r"skip_predictor|mask_ratio|one_sided_attn_window_size|s_aux|down_ops|original_full|attention_type"
    r"|inner_group_num|num_hidden_groups|num_encoder_blocks|d_kv|language_model_outputs|num_mel_bins|n_samples"
    r"|vision_(start|end)_token_id|layers_block_type|nextn|longrope|spatial_shapes|bbox|num_patches|c_attn"
    r"|image_token_index|[a-z]*_proj|[qkv]_lin|albert_\w+|(XLM|Flaubert|M?T5|UMT5)\w*Model|MTModel"
)
#: What is a type and a word as well.
COMMON = {"align", "clip", "data", "fuse", "git", "led", "sam", "timm_backbone", "edge", "mask"}


def list_words(file):
    """List the strings, attributes and keywords of a file, without its docstrings."""
    tree = ast.parse(file.read_text())
    described = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described:
            yield node.value
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg


def find_quirks(file):
    """Find the words of a file that are names of types, or of what only some types have."""
    types = {*CONFIG_MAPPING} - COMMON if "model" in file.relative_to(PACKAGE).parts else set()
    words = [word for text in list_words(file) for word in re.findall(r"[\w-]+", text)]
    return {word for word in words if WORDS.fullmatch(word) or word in types}


def test_only_quirks_knows_types():
    named = {file.relative_to(PACKAGE).as_posix(): find_quirks(file) for file in PACKAGE.rglob("*.py")}
    assert {name for name, words in named.items() if words} == {"model/quirks.py"}, named


class TestVitMae:
    @pytest.fixture
    def mae(self):
        model = every_type.build("vit_mae", mask_ratio=0.75)
        return Checkpoint("vit_mae", model, NoTokenizer("vit_mae"), modality="image")

    def test_maps_are_those_of_all_patches_in_their_order(self, mae):
        whole = every_type.build("vit_mae", mask_ratio=0.0)
        given = every_type.inputs("vit_mae", whole)
        expected = [rows for _, rows in every_type.own_maps("vit_mae", whole, given)]
        maps = []
        capture = capture_attention(mae.body, lambda piece: maps.append(piece.probabilities))
        with force_full_attention(mae.body) as warnings, capture:
            mae.forward({"pixel_values": given["pixel_values"]})
        assert "all patches" in warnings[0]
        for rows, theirs in zip(maps, expected, strict=True):
            torch.testing.assert_close(rows, theirs, atol=1e-6, rtol=0)
        assert mae.model.config.mask_ratio == 0.75


def big_bird(kind):
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "big_bird", attention_type=kind, block_size=2, num_random_blocks=1, hidden_size=32, vocab_size=600,
        num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=64,
    )  # fmt: skip
    return AutoModel.from_config(config).eval()


def test_full_attention_of_big_bird_is_what_is_read():
    sparse, full = big_bird("block_sparse"), big_bird("original_full")
    full.load_state_dict(sparse.state_dict())
    ids = torch.randint(200, 600, (2, 40), generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        expected = full(input_ids=ids)[0]
        assert not torch.allclose(sparse(input_ids=ids)[0], expected, atol=1e-3)
        with force_full_attention(sparse) as warnings:
            torch.testing.assert_close(sparse(input_ids=ids)[0], expected)
    assert len(warnings) == 1
    assert "block-sparse" in warnings[0]


def test_big_bird_is_left_as_found():
    model = big_bird("block_sparse").train()
    model.encoder.layer[1].requires_grad_(False)
    before = state(model)
    with force_full_attention(model):
        assert state(model)["modules"] != before["modules"]
        with force_full_attention(model) as inner:  # once is enough
            assert inner == ()
    assert state(model) == before
    with pytest.raises(KeyboardInterrupt), force_full_attention(model):
        raise KeyboardInterrupt
    assert state(model) == before
