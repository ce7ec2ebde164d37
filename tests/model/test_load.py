"""Checkpoints that can't be loaded are refused by file or name; layers that a config leaves out are noted."""

import contextlib
import re
import shutil
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from spoil import edit_json, edit_weights, refuses
from transformers import AutoConfig

import attnprobe
from attnprobe.errors import AttnprobeError, AttnprobeWarning
from attnprobe.model.load import describe_unread_layers, load_checkpoint
from attnprobe.model.locate import LoadOptions
from attnprobe.model.quirks import REFUSED

TEXTS = ["the river bank was slow", "a bird ran"]


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
    edit_json(folder / "config.json", **change)
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
        edit_json(folder / file, **content)
    else:
        (folder / file).write_text(content, encoding="latin-1")
    with pytest.raises(AttnprobeError, match=f"^{file} of broken is damaged: "):
        load_checkpoint(str(folder), LoadOptions())


@pytest.mark.parametrize("name", ["tokenizer_class", "model_max_length", "added_tokens_decoder"])
def test_an_impossible_tokenizer(folder, name):
    edit_json(folder / "tokenizer_config.json", **{name: [5]})
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


@pytest.mark.parametrize("model_type", ["encoder-decoder", "hiera", "lilt"])
def test_by_name(folder, model_type):
    """Before weights are read: the folder holds those of a BERT."""
    AutoConfig.for_model(model_type).save_pretrained(folder)
    sentence = refuses(lambda: load_checkpoint(str(folder)), re.escape(REFUSED[model_type]))
    assert f"'{model_type}'" in sentence


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(folder, value):
    name = "encoder.layer.1.attention.self.query.weight"
    edit_weights(folder, lambda weights: weights[name].view(-1)[7:8].fill_(value))
    assert name in refuses(lambda: load_checkpoint(str(folder)), "NaN or infinite")


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, sign):
        self.sign = sign

    def __reduce__(self):
        return Path.touch, (self.sign,)


class TestFolders:
    """A folder that is not quite a checkpoint."""

    def test_bin_needs_a_flag(self, folder):
        expected = attnprobe.census(str(folder), TEXTS)["entropy"]
        torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
        refuses(lambda: load_checkpoint(str(folder)), "--allow-bin")
        np.testing.assert_array_equal(
            attnprobe.census(str(folder), TEXTS, allow_bin=True)["entropy"], expected
        )

    def test_safetensors_go_before_bin(self, folder):
        (folder / "pytorch_model.bin").write_bytes(b"not a pickle")
        loaded = load_checkpoint(str(folder), LoadOptions(allow_bin=True))
        assert list(loaded.origin["weights"]) == ["model.safetensors"]

    def test_a_pickle_is_not_read_in_place_of_safetensors(self, folder):
        """Transformers would take it, as safetensors of another name are none to it."""
        torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
        (folder / "model.safetensors").rename(folder / "other.safetensors")
        refuses(lambda: load_checkpoint(str(folder)), "can't be loaded")

    def test_a_pickle_runs_nothing_even_if_it_is_allowed(self, folder, tmp_path):
        torch.save(Bomb(tmp_path / "ran"), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
        refuses(lambda: load_checkpoint(str(folder), LoadOptions(allow_bin=True)), "can't be loaded")
        assert not (tmp_path / "ran").exists()

    @pytest.mark.parametrize(
        ("file", "classes"),
        [
            ("config.json", {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Evil"}}),
            ("config.json", {"auto_map": {"AutoModel": "evil.Evil"}}),
            ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.Evil", None]}}),
        ],
    )
    def test_code_of_a_folder_is_not_run(self, folder, file, classes):
        edit_json(folder / file, **classes)
        (folder / "evil.py").write_text("raise SystemExit('code of the folder ran')")
        with contextlib.suppress(AttnprobeError):
            load_checkpoint(str(folder))
        with pytest.raises(SystemExit):
            load_checkpoint(str(folder), LoadOptions(trust_remote_code=True))

    @pytest.mark.parametrize(
        ("options", "fetched"),
        [({}, set()), ({"allow_bin": True}, {"*.bin"}), ({"trust_remote_code": True}, {"*.py"})],
    )
    def test_neither_pickles_nor_code_are_fetched(self, monkeypatch, options, fetched):
        def fetch(name, *, allow_patterns, **_):
            assert {"*.bin", "*.py"} & {*allow_patterns} == fetched
            raise OSError

        monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
        refuses(lambda: load_checkpoint("org/model", LoadOptions(**options)), "nor to be had from the hub")

    @pytest.mark.parametrize(
        ("spoil", "pattern"),
        [
            (
                lambda f: (f / "config.json").write_text('{"model_type": "none-such"}'),
                "config.json .* can't be used",
            ),
            (lambda f: (f / "model.safetensors").unlink(), "no weights"),
        ],
        ids=["unknown-type", "no-weights"],
    )
    def test_spoiled(self, folder, spoil, pattern):
        spoil(folder)
        refuses(lambda: load_checkpoint(str(folder)), pattern)


class TestHub:
    """The cache as huggingface_hub lays it out, and no network."""

    COMMITS: ClassVar = {"main": "a" * 40, "v2": "b" * 40}

    @pytest.fixture(autouse=True)
    def cache(self, saved, use_cache, tmp_path):
        """Two commits of org/tiny: BERT on main, T5 on the branch v2."""
        repository = tmp_path / "models--org--tiny"
        (repository / "refs").mkdir(parents=True)
        for (ref, commit), name in zip(self.COMMITS.items(), ("bert", "t5"), strict=True):
            (repository / "refs" / ref).write_text(commit)
            shutil.copytree(saved(name), repository / "snapshots" / commit)
        use_cache(tmp_path)

    def test_main(self):
        loaded = load_checkpoint("org/tiny", LoadOptions())
        assert (loaded.name, loaded.model_type) == ("org/tiny", "bert")
        assert loaded.origin["hub"] == "org/tiny"
        assert loaded.origin["commit"] == self.COMMITS["main"]

    @pytest.mark.parametrize("revision", ["v2", "b" * 40])
    def test_revision(self, revision):
        loaded = load_checkpoint("org/tiny", LoadOptions(revision=revision))
        assert loaded.model_type == "t5"
        assert loaded.origin["commit"] == self.COMMITS["v2"]

    @pytest.mark.parametrize("name", ["org/other", "bert-base-uncased"])
    def test_not_cached(self, name):
        sentence = refuses(lambda: load_checkpoint(name, LoadOptions()), "nor in the local cache")
        assert name in sentence
        assert "HF_HUB_OFFLINE is set" in sentence


@pytest.fixture
def edited(saved, tmp_path):
    """Copy a tiny checkpoint, with another configuration."""

    def edit(name, **changes):
        folder = Path(shutil.copytree(saved(name), tmp_path / name))
        edit_json(folder / "config.json", **changes)
        return folder

    return edit


@pytest.mark.parametrize(
    ("name", "changes", "parts"),
    [
        ("bert", {"num_hidden_layers": 2}, ["encoder.layer hold 3 layers, of which the config leaves out 2"]),
        (
            "t5", {"num_layers": 1, "num_decoder_layers": 1},
            ["encoder.block hold 3 layers, of which the config leaves out 1 and 2 (counted from 0)",
             "decoder.block hold 2 layers, of which the config leaves out 1"],
        ),
    ],
)  # fmt: skip
def test_layers_left_out(edited, name, changes, parts):
    remarks = load_checkpoint(str(edited(name, **changes))).remarks
    assert len(remarks) == len(parts)
    assert all(part in remark for part, remark in zip(parts, remarks, strict=True))


@pytest.mark.parametrize("name", ["bert", "albert", "t5"])
def test_nothing_is_said_of_a_checkpoint_that_is_whole(saved, name):
    assert load_checkpoint(str(saved(name))).remarks == ()


class TestOrdinary:
    """Weights without a place that are no layers of attention."""

    @pytest.mark.parametrize(
        "keys",
        [
            ["pooler.dense.weight", "cls.predictions.bias", "embeddings.position_ids", "lm_head.weight"],
            ["mtp.layers.0.self_attn.q_proj.weight", "mtp.fc.weight"],
            ["layers.3.self_attn.q_proj.weight", "layers.3.eh_proj.weight", "layers.3.enorm.weight"],
            ["layers.1.self_attn.rotary_emb.inv_freq", "layers.2.self_attn.masked_bias"],
            ["vision_model.layers.5.self_attn.q_proj.weight", "vision.layers.7.attn.weight"],
            ["layers.5.mlp.gate.weight"],
        ],
    )
    def test_no_false_alarm(self, tiny, keys):
        model, _ = tiny("llama")
        prefixed = [f"model.{key}" for key in keys]
        assert describe_unread_layers(model, keys) == describe_unread_layers(model, prefixed) == ()

    def test_layers_that_predict_ahead(self, tiny, copied):
        """GLM and DeepSeek hold them behind the others, and the configuration counts them by themselves."""
        keys = ["model.layers.3.self_attn.q_proj.weight", "model.layers.3.mlp.up_proj.weight"]
        assert describe_unread_layers(tiny("llama")[0], keys)
        model, _ = copied("llama")
        model.config.num_nextn_predict_layers = 1
        assert describe_unread_layers(model, keys) == ()


def test_a_census_says_so(edited, saved):
    with pytest.warns(AttnprobeWarning, match="leaves out 2"):
        table = attnprobe.census(str(edited("bert", num_hidden_layers=2)), TEXTS)
    whole = attnprobe.census(str(saved("bert")), TEXTS)
    np.testing.assert_allclose(table["entropy"], whole["entropy"][: 2 * 4], atol=1e-6)
