"""What only some types of models have is named in ``quirks`` and nowhere else."""

import ast
import re
from pathlib import Path

from transformers import CONFIG_MAPPING

import attnprobe

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
