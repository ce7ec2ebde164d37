"""Folders that hold an adapter of peft: read with it, or refused with the way out."""

import copy
import shutil
from importlib.util import find_spec

import numpy as np
import peft
import pytest
import torch

import attnprobe
from attnprobe import AttnprobeError
from attnprobe.model import folders

pytestmark = pytest.mark.filterwarnings("ignore")

TEXTS = ["the river bank was slow", "a bird ran over the red house"]


@pytest.fixture
def adapter(tiny, tmp_path):
    """Save an adapter of the tiny BERT, and give it loaded and its folder."""
    torch.manual_seed(3)
    config = peft.LoraConfig(target_modules=["query", "value"], init_lora_weights=False)
    loaded = peft.get_peft_model(copy.deepcopy(tiny("bert")[0]), config).eval()
    loaded.get_base_model().config.name_or_path = loaded.peft_config["default"].base_model_name_or_path = (
        "a/b"
    )
    loaded.save_pretrained(tmp_path / "adapter")
    return loaded, tmp_path / "adapter"


def test_an_adapter_beside_a_configuration_without_weights(adapter, tiny):
    _, folder = adapter
    tiny("bert")[0].config.save_pretrained(folder)
    expected = (
        r"an adapter \(LORA\) of a/b beside a config.json without its weights; take the config.json away"
    )
    with pytest.raises(AttnprobeError, match=expected):
        attnprobe.census(str(folder), TEXTS)


class TestBesideItsBase:
    @pytest.fixture
    def both(self, adapter, saved, tmp_path):
        folder = tmp_path / "both"
        shutil.copytree(saved("bert"), folder)
        shutil.copytree(adapter[1], folder, dirs_exist_ok=True)
        return folder

    def test_it_is_read(self, both, adapter, tiny):
        merged = copy.deepcopy(adapter[0]).merge_and_unload()
        expected = attnprobe.census(merged, TEXTS, tokenizer=tiny("bert")[1])
        found = attnprobe.census(str(both), TEXTS)
        np.testing.assert_allclose(found["entropy"], expected["entropy"], atol=1e-5)
        assert {"model.safetensors", "adapter_model.safetensors"} == {*found.provenance["model"]["weights"]}

    def test_without_peft_it_is_refused(self, both, monkeypatch):
        """Not read without the adapter, whose hash would be on record."""
        monkeypatch.setattr(folders, "find_spec", lambda name: None if name == "peft" else find_spec(name))
        with pytest.raises(AttnprobeError, match="needs peft: pip install peft"):
            attnprobe.census(str(both), TEXTS)

    @pytest.mark.parametrize("content", ["{", "[]", "\xff", "[" * 100_000])
    def test_a_broken_description(self, both, content):
        (both / "adapter_config.json").write_text(content, encoding="latin-1")
        with pytest.raises(AttnprobeError, match="is damaged: "):
            attnprobe.census(str(both), TEXTS)
