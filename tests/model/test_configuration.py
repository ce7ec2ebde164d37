"""Configurations that no model can have end in what is wrong with them, and what to do."""

import json
import re
import shutil
from pathlib import Path

import pytest

from attnprobe.errors import AttnprobeError
from attnprobe.model.load import load_checkpoint
from attnprobe.model.locate import LoadOptions


@pytest.fixture
def folder(saved, tmp_path):
    """Copy a checkpoint, whose files may be changed."""
    return Path(shutil.copytree(saved("bert"), tmp_path / "broken"))


@pytest.mark.parametrize(
    "change",
    [
        {"num_attention_heads": 0},
        {"num_attention_heads": "four"},
        {"hidden_act": "nosuch"},
        {"dtype": "floatx"},
        {"id2label": 7},
    ],
)
def test_impossible_configurations(folder, change):
    config = json.loads((folder / "config.json").read_text()) | change
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(AttnprobeError, match=r"config\.json"):
        load_checkpoint(str(folder), LoadOptions())


@pytest.mark.parametrize(
    ("file", "content"),
    [
        *(("config.json", content) for content in ("[", "[]", "null", '{"a":' * 50_000)),
        *(("tokenizer.json", content) for content in ("{}", "null", "{{", "[" * 50_000)),
        ("tokenizer.json", {"added_tokens": [1]}),
        ("tokenizer.json", {"model": None}),
        *(("tokenizer_config.json", content) for content in ("[]", "null")),
        *(("model.safetensors", content) for content in ("", "\x10\0\0\0\0\0\0\0garbage and more")),
    ],
)
def test_a_damaged_file_is_named(folder, file, content):
    if isinstance(content, dict):
        content = json.dumps(json.loads((folder / file).read_text()) | content)
    (folder / file).write_text(content, encoding="latin-1")
    with pytest.raises(AttnprobeError, match=f"^{file} of broken is damaged: "):
        load_checkpoint(str(folder), LoadOptions())


@pytest.mark.parametrize("name", ["tokenizer_class", "model_max_length", "added_tokens_decoder"])
def test_an_impossible_tokenizer(folder, name):
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {name: [5]}))
    with pytest.raises(AttnprobeError, match="broken holds no tokenizer that loads"):
        load_checkpoint(str(folder), LoadOptions())


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("", {}, "neither a folder here nor to be had from the hub"),
        ("/nowhere/at/all", {}, "There is no folder"),
        ("LOOP", {}, "There is no folder"),
        ("demo", {"adapter": "x"}, "--adapter: choose one of the adapters in demo, which are none"),
    ],
)
def test_names_that_lead_nowhere(tmp_path, name, options, sentence):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(AttnprobeError, match=re.escape(sentence)):
        load_checkpoint(str(tmp_path / "loop") if name == "LOOP" else name, LoadOptions(**options))


@pytest.mark.parametrize("left", [[], ["tokenizer_config.json"]])
def test_what_transformers_makes_up_is_no_tokenizer(saved, tmp_path, left):
    for name in ("config.json", "model.safetensors", *left):
        shutil.copy(saved("bert") / name, tmp_path / name)
    if left:
        (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    with pytest.raises(AttnprobeError, match=r"no tokenizer that loads \(such as .* copy the files"):
        load_checkpoint(str(tmp_path))
