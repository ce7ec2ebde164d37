"""Reaching attention: rightly, leaving no trace, and saying no in one sentence."""

import contextlib
import json
import re
import shutil
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from left_as_found import state
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.model.check.dry_run import inspect
from attnprobe.model.checkpoint import Checkpoint, resolve_max_length
from attnprobe.model.load import load_checkpoint
from attnprobe.model.locate import LoadOptions
from attnprobe.model.quirks import REFUSED
from attnprobe.model.reading.capture import capture_attention
from attnprobe.model.reading.ways import Way

SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3,
}  # fmt: skip
SENTENCES = ["the dog ran .", ("is it late ?", "it is not late .")]


def from_config(model_type, size, **options):
    torch.manual_seed(0)
    return AutoModel.from_config(AutoConfig.for_model(model_type, vocab_size=size, **options)).eval()


@pytest.fixture
def folder(saved, tmp_path):
    """Copy the folder of a tiny BERT, so that a test may spoil it."""
    return Path(shutil.copytree(saved("bert"), tmp_path / "bert"))


def rewrite(folder, change):
    """Change the stored weights."""
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def refuses(ask, pattern):
    """Expect one plain sentence that matches."""
    with pytest.raises(AttnprobeError, match=pattern) as caught:
        ask()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


# Left as found


class TestLeftAsFound:
    """A model that was handed over comes back unchanged."""

    @pytest.mark.parametrize(
        ("name", "implementation"), [("bert", "eager"), ("albert", "sdpa"), ("t5", "sdpa")]
    )
    def test_after_a_census(self, copied, name, implementation):
        model, tokenizer = copied(name)
        model.set_attn_implementation(implementation)
        model.requires_grad_(True)
        before = state(model)
        attnprobe.census(model, SENTENCES, tokenizer=tokenizer)
        assert state(model) == before
        assert set(before["attention"].values()) == {implementation}

    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
    @pytest.mark.parametrize(("name", "way"), [("bert", Way.REGISTRY), ("deberta-v2", Way.TAP)])
    def test_after_an_exception(self, copied, name, way, error):
        model, tokenizer = copied(name)
        model.train()
        next(model.children()).eval()  # a module of its own mind
        before = state(model)

        def breaks(piece):
            raise error(f"at layer {piece.layer}")

        with pytest.raises(error, match="at layer 0"), capture_attention(model, breaks, way):
            model(**tokenizer("the dog", return_tensors="pt"))
        assert state(model) == before

    @pytest.mark.parametrize("name", ["bert", "modernbert", "t5"])
    def test_training_can_go_on(self, copied, name):
        """Nothing that was computed without gradients stays behind, such as cached rotations."""
        model, tokenizer = copied(name)
        model.requires_grad_(True)
        attnprobe.census(model, SENTENCES, tokenizer=tokenizer)
        encoder = model.get_encoder() if model.config.is_encoder_decoder else model
        encoder(input_ids=tokenizer("the dog ran", return_tensors="pt")["input_ids"])[0].sum().backward()


# Read rightly


@pytest.mark.parametrize("name", ["bert", "t5", "llama"])
class TestReading:
    """Maps and hidden states are the model's own."""

    def test_float64_is_exact(self, copied, name):
        model, tokenizer = copied(name)
        architecture = inspect(Checkpoint(name, model.double(), tokenizer))
        assert (architecture.layers, architecture.heads, architecture.head_width) == (
            7 if name == "t5" else 3,
            4,
            8,
        )
        text = " ".join(architecture.evidence)
        assert "maps equal the model's own eager maps" in text
        limit = 1e-5 if name == "llama" else 1e-12  # transformers keeps rotations in float32
        assert all(float(number) < limit for number in re.findall(r"[\d.]+e-\d+", text))


# Refused


class TestRefused:
    """What can't be read is refused by name, with the reason, before anything is measured."""

    def test_sinks_that_nobody_passes_on(self, copied):
        """Rows would sum to 1, and what becomes of them would not show."""
        model, tokenizer = copied("bert")
        model.encoder.layer[0].attention.self.sinks = torch.zeros(4)
        refuses(lambda: attnprobe.census(model, SENTENCES, tokenizer=tokenizer), "attention sinks")

    @pytest.mark.parametrize("model_type", ["encoder-decoder", "hiera", "lilt"])
    def test_by_name(self, folder, model_type):
        """Before weights are read: the folder holds those of a BERT."""
        AutoConfig.for_model(model_type).save_pretrained(folder)
        sentence = refuses(lambda: load_checkpoint(str(folder)), re.escape(REFUSED[model_type]))
        assert f"'{model_type}'" in sentence

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_weights_that_are_no_numbers(self, folder, value):
        name = "encoder.layer.1.attention.self.query.weight"
        rewrite(folder, lambda weights: weights[name].view(-1)[7:8].fill_(value))
        assert name in refuses(lambda: load_checkpoint(str(folder)), "NaN or infinite")

    def test_a_tokenizer_of_another_model(self, tiny):
        tokenizer = tiny("bert")[1]
        model = from_config("bert", 40, **SMALL)
        refuses(
            lambda: attnprobe.census(model, ["the zyx filler"], tokenizer=tokenizer), "do not belong together"
        )

    def test_a_loaded_model_without_its_tokenizer(self, tiny):
        refuses(lambda: attnprobe.census(tiny("bert")[0], SENTENCES), "needs its tokenizer")


# Folders and the hub


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, sign):
        self.sign = sign

    def __reduce__(self):
        return Path.touch, (self.sign,)


class TestFolders:
    """A folder that is not quite a checkpoint."""

    def test_bin_needs_a_flag(self, folder):
        expected = attnprobe.census(str(folder), SENTENCES)["entropy"]
        torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
        refuses(lambda: load_checkpoint(str(folder)), "--allow-bin")
        np.testing.assert_array_equal(
            attnprobe.census(str(folder), SENTENCES, allow_bin=True)["entropy"], expected
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
        described = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(described | classes))
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


class TestWindow:
    """The length of windows: what was asked for, or what the model takes."""

    @pytest.mark.parametrize(("name", "longest"), [("bert", 184), ("roberta", 184), ("t5", None)])
    def test_longest(self, checkpoint, name, longest):
        assert checkpoint(name).longest == longest
        assert resolve_max_length(None, checkpoint(name)) == (longest or 512)

    def test_more_than_the_model_takes(self, checkpoint):
        assert resolve_max_length(184, checkpoint("bert")) == 184
        refuses(
            lambda: resolve_max_length(185, checkpoint("bert")),
            "--max-length 185 is more than the 184 tokens",
        )
