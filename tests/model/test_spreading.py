"""A checkpoint spread by accelerate gives what the same checkpoint gives on one device."""

import importlib.util
from typing import Any

import numpy as np
import pytest
import torch

import attnprobe
from attnprobe.errors import AttnprobeError
from attnprobe.model.check.dry_run import inspect
from attnprobe.model.check.gates import check_gates
from attnprobe.model.checkpoint import Checkpoint, list_devices
from attnprobe.model.load import load_checkpoint
from attnprobe.model.locate import LoadOptions

MISSING = importlib.util.find_spec("accelerate") is None
needs_accelerate = pytest.mark.skipif(MISSING, reason="accelerate is not installed")

#: Where parts of the tiny models go: the embeddings and the second layer stay on disk.
PARTS = {
    "bert": {"embeddings": "disk", "encoder.layer.0": "cpu", "encoder.layer.1": "disk",
             "encoder.layer.2": "cpu", "pooler": "cpu"},
    "t5": {"shared": "cpu", "encoder.embed_tokens": "cpu", "encoder.block": "disk",
           "encoder.final_layer_norm": "disk", "decoder": "cpu"},
}  # fmt: skip
TEXTS = ["the river bank was slow , and the dog ran .", "a bird", "the parcel came late ."]


def numbers(table):
    return np.stack([table[name] for name in table.data if np.asarray(table[name]).dtype.kind == "f"])


@needs_accelerate
@pytest.mark.parametrize("name", PARTS)
class TestOnDisk:
    """Weights that are fetched from disk while their part runs."""

    def test_loaded(self, saved, name):
        spread = load_checkpoint(str(saved(name)), LoadOptions(device_map=PARTS[name]))
        assert any(weight.is_meta for weight in spread.model.parameters())
        assert set(list_devices(spread.model)) == {"cpu", "disk"} or list_devices(spread.model) == ["disk"]
        assert spread.device == torch.device("cpu")
        assert "disk" in spread.devices
        plain = load_checkpoint(str(saved(name)))
        inputs = {"input_ids": torch.full((2, 7), 9), "decoder_input_ids": torch.full((2, 5), 8)}
        assert torch.equal(spread.forward(inputs), plain.forward(inputs))
        assert plain.devices == "cpu"
        assert inspect(spread).sites == inspect(plain).sites
        assert inspect(spread).way is inspect(plain).way
        assert check_gates(spread, inspect(spread)) == check_gates(plain, inspect(plain))

    def test_census(self, saved, name):
        spread = attnprobe.census(str(saved(name)), TEXTS, device_map=PARTS[name])
        plain = attnprobe.census(str(saved(name)), TEXTS)
        np.testing.assert_array_equal(numbers(spread), numbers(plain))
        assert "disk" in spread.provenance["device"]


@needs_accelerate
def test_gradients_through_weights_on_disk(saved):
    folder, options = str(saved("bert")), {"objective": "representation"}
    spread = attnprobe.importance(folder, TEXTS, device_map=PARTS["bert"], **options)
    plain = attnprobe.importance(folder, TEXTS, **options)
    np.testing.assert_allclose(numbers(spread), numbers(plain), rtol=1e-6, atol=1e-7)


@needs_accelerate
def test_handed_over(saved):
    """A loaded model that is offloaded already: its weights lie in the main memory between passes."""
    import accelerate

    plain = load_checkpoint(str(saved("bert")))
    expected = attnprobe.census(plain.model, TEXTS, tokenizer=plain.tokenizer)
    model = load_checkpoint(str(saved("bert"))).model
    accelerate.cpu_offload(model, torch.device("cpu"))
    assert all(weight.is_meta for weight in model.parameters())
    table = attnprobe.census(model, TEXTS, tokenizer=plain.tokenizer)
    np.testing.assert_array_equal(numbers(table), numbers(expected))
    assert Checkpoint("offloaded", model, plain.tokenizer).device == torch.device("cpu")


@needs_accelerate
def test_not_written(saved, tmp_path):
    options: dict[str, Any] = {"objective": "representation", "share": 0.3, "device_map": PARTS["bert"]}
    with pytest.raises(AttnprobeError, match=r"spread over several devices"):
        attnprobe.prune(str(saved("bert")), TEXTS, save=tmp_path / "pruned", **options)
    assert not (tmp_path / "pruned").exists()


class TestRefused:
    """What is refused before anything is loaded."""

    def test_without_accelerate(self, monkeypatch):
        find, hidden = importlib.util.find_spec, {"accelerate"}
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in hidden else find(name))
        with pytest.raises(AttnprobeError, match="pip install accelerate"):
            attnprobe.entropy("demo", TEXTS, device_map="auto")

    def test_in_several_processes(self, monkeypatch):
        monkeypatch.setenv("WORLD_SIZE", "2")
        with pytest.raises(AttnprobeError, match="without torchrun"):
            load_checkpoint("demo", LoadOptions(device_map="auto"))
