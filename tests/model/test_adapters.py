"""Adapters of peft are read on their base, as their merged model; or refused with the way out."""

import copy
import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from spoil import edit_json

import attnprobe
from attnprobe import AttnprobeError
from attnprobe.files import hash_file
from attnprobe.model import folders

pytestmark = pytest.mark.filterwarnings("ignore")

TEXTS = ["the river bank was slow", "a bird ran over the red house", "the dog and the cat came late ."]
LABELS = [0, 1, 2]
TARGETS = {
    "bert": ["query", "value", "attention.output.dense"],
    "gpt2": ["c_attn", "c_proj"],
    "t5": ["q", "v", "o"],
}
KINDS = {
    "dora": lambda: peft.LoraConfig(target_modules=["query"], use_dora=True, init_lora_weights=False),
    "ia3": lambda: peft.IA3Config(
        target_modules=["key", "value"], feedforward_modules=[], init_ia3_weights=False
    ),
    "saved beside": lambda: peft.LoraConfig(
        target_modules=["query"], modules_to_save=["embeddings.LayerNorm"], init_lora_weights=False
    ),
}


@pytest.fixture
def adapt(saved, tmp_path):
    """Write an adapter of a tiny model with random weights; give its folder and the merged model."""

    def write(name, config, auto=transformers.AutoModel, target="adapter", **options):
        torch.manual_seed(3)
        model = peft.get_peft_model(auto.from_pretrained(saved(name), dtype=torch.float32, **options), config)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.requires_grad:
                    weight.add_(0.02 * torch.randn_like(weight))
        model.eval().save_pretrained(tmp_path / target)
        return tmp_path / target, copy.deepcopy(model).merge_and_unload()

    return write


def lora(name, **options):
    return peft.LoraConfig(target_modules=TARGETS[name], **options)


def assert_same(result, expected):
    assert [column.name for column in result.columns] == [column.name for column in expected.columns]
    for column in result.columns:
        if column.role in {"measure", "error", "count"}:
            ours, theirs = (np.asarray(table.data[column.name], float) for table in (result, expected))
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5, err_msg=column.name)


@pytest.mark.parametrize("name", TARGETS)
def test_every_column_is_that_of_the_merged_model(adapt, tiny, saved, name):
    """Those of weights, too: merging leaves ordinary projections."""
    folder, merged = adapt(name, lora(name))
    table = attnprobe.census(str(folder), TEXTS, weights="both")
    assert_same(table, attnprobe.census(merged, TEXTS, tokenizer=tiny(name)[1], weights="both"))
    base = attnprobe.census(saved(name), TEXTS)
    assert np.abs(base["entropy"] - table["entropy"]).max() > 1e-3  # or the adapter does nothing


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(adapt, tiny, kind):
    folder, merged = adapt("bert", KINDS[kind]())
    table = attnprobe.census(str(folder), TEXTS)
    assert_same(table, attnprobe.census(merged, TEXTS, tokenizer=tiny("bert")[1]))
    assert table.provenance["model"]["adapter"] == json.loads(
        (folder / "adapter_config.json").read_text()
    ).get("peft_type")


class TestClassifier:
    """With a head that was trained along, of more labels than the base says."""

    @pytest.fixture
    def both(self, adapt):
        config = lora("bert", task_type="SEQ_CLS")
        return adapt("bert", config, transformers.AutoModelForSequenceClassification, num_labels=3)

    @pytest.mark.parametrize("command", ["importance", "ablate"])
    def test_interventions(self, both, tiny, command):
        folder, merged = both
        run = getattr(attnprobe, command)
        table = run(str(folder), TEXTS * 2, LABELS * 2)
        assert_same(table, run(merged, TEXTS * 2, LABELS * 2, tokenizer=tiny("bert")[1]))
        assert set(table["objective"]) == {"classification"} if command == "importance" else True

    def test_pruned_it_is_an_ordinary_checkpoint(self, both, tmp_path):
        folder, merged = both
        options = {"share": 0.5, "step": 0.5, "random_orders": 0, "save": str(tmp_path / "pruned")}
        attnprobe.prune(str(folder), TEXTS * 4, LABELS * 4, **options)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "pruned")
        assert model.config.num_labels == 3
        assert torch.equal(model.classifier.weight, merged.classifier.weight)
        whole = merged.bert.encoder.layer[0].intermediate.dense.weight
        assert torch.allclose(model.bert.encoder.layer[0].intermediate.dense.weight, whole)


class TestBase:
    """Where an adapter finds its base."""

    def test_on_record(self, adapt, saved):
        folder, _ = adapt("bert", lora("bert"))
        record = attnprobe.entropy(str(folder), TEXTS).provenance["model"]
        assert set(record["weights"]) == {"adapter_model.safetensors"}
        digest = hash_file(Path(saved("bert")) / "model.safetensors")
        assert record["base"]["weights"] == {"model.safetensors": digest}

    def test_named_by_the_user(self, adapt, saved, tmp_path):
        folder, _ = adapt("bert", lora("bert"))
        expected = attnprobe.entropy(str(folder), TEXTS)["entropy"]
        shutil.copytree(saved("bert"), tmp_path / "moved")
        edit_json(folder / "adapter_config.json", base_model_name_or_path="/gone/from/here")
        with pytest.raises(AttnprobeError, match=r"/gone/from/here, .*; name its base with"):
            attnprobe.entropy(str(folder), TEXTS)
        table = attnprobe.entropy(str(folder), TEXTS, base=str(tmp_path / "moved"))
        assert (table["entropy"] == expected).all()

    @pytest.mark.parametrize(
        ("stated", "says"),
        [
            ({"base_model_name_or_path": None}, "names no base model"),
            ({"base_model_name_or_path": "../../gone"}, "another machine; name its base"),
            ({"base_model_name_or_path": "<b>x</b>"}, "neither a folder here nor to be had"),
            ({"base_model_name_or_path": "/"}, "holds no config.json"),
            ({"peft_type": "PREFIX_TUNING"}, "adds virtual tokens"),
            ({"peft_type": "NOTHING_KNOWN"}, "can't be merged into .*NOTHING_KNOWN"),
            ({"peft_type": "SHADOW", "shadow_model": "/"}, "other parts outside of its base"),
            ({"r": 10**12}, "can't be merged into"),
            ({"base_model_name_or_path": "a\0b/c/d"}, "another machine; name its base"),
        ],
    )
    def test_hostile(self, adapt, use_cache, tmp_path, stated, says):
        use_cache(tmp_path)
        folder, _ = adapt("bert", lora("bert"))
        edit_json(folder / "adapter_config.json", **stated)
        with pytest.raises(AttnprobeError, match=says):
            attnprobe.entropy(str(folder), TEXTS)

    def test_of_another_model(self, adapt, saved, monkeypatch):
        folder, _ = adapt("bert", lora("bert"))
        with pytest.raises(AttnprobeError, match="merged on one device; leave out --device-map"):
            attnprobe.entropy(str(folder), TEXTS, device_map="auto")
        with pytest.raises(AttnprobeError, match=r"can't be merged into .*gpt2: .*--base"):
            attnprobe.entropy(str(folder), TEXTS, base=str(saved("gpt2")))
        monkeypatch.setattr("attnprobe.model.task_heads.describe_quantisation", lambda _: "gptq")
        with pytest.raises(AttnprobeError, match="is quantised; name it in full precision"):
            attnprobe.entropy(str(folder), TEXTS)

    def test_weights_that_are_lacking_or_broken(self, adapt):
        folder, _ = adapt("bert", lora("bert"))
        path = folder / "adapter_model.safetensors"
        weights = load_file(path)
        save_file(dict(list(weights.items())[:-1]), path)
        with pytest.raises(AttnprobeError, match="can't be merged into"):
            attnprobe.entropy(str(folder), TEXTS)
        path.write_bytes(b"no tensors")
        with pytest.raises(AttnprobeError, match=r"weights of the adapter .* can't be loaded"):
            attnprobe.entropy(str(folder), TEXTS)

    def test_a_folder_of_the_hub_s_machine_is_not_opened(self, adapt, saved, monkeypatch):
        """A stranger's adapter may not choose a folder of mine."""
        folder, _ = adapt("bert", lora("bert"))
        monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(folder))
        with pytest.raises(AttnprobeError, match="a folder of another machine; name its base with"):
            attnprobe.entropy("org/adapter", TEXTS)
        table = attnprobe.entropy("org/adapter", TEXTS, base=str(saved("bert")))
        assert (table["entropy"] == attnprobe.entropy(str(folder), TEXTS)["entropy"]).all()

    def test_a_folder_here_is_not_taken_for_a_base_of_the_hub(self, adapt, saved, tmp_path, monkeypatch):
        folder, _ = adapt("bert", lora("bert"))
        monkeypatch.chdir(tmp_path)
        shutil.copytree(saved("bert"), tmp_path / "org" / "base")
        edit_json(folder / "adapter_config.json", base_model_name_or_path="org/base")
        monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(folder))
        with pytest.raises(AttnprobeError, match="may be a folder of another machine; name its base with"):
            attnprobe.entropy("org/adapter", TEXTS)

    def test_weights_of_another_name(self, adapt, monkeypatch):
        """Peft would look for those of the usual name on the hub, or open the pickle beside them."""
        folder, _ = adapt("bert", lora("bert"))
        (folder / "adapter_model.safetensors").rename(folder / "adapter_model-1.safetensors")
        monkeypatch.setattr(peft, "load_peft_weights", pytest.fail)
        with pytest.raises(AttnprobeError, match=r"holds no weights \(adapter_model.safetensors\)"):
            attnprobe.entropy(str(folder), TEXTS)
        torch.save({}, folder / "adapter_model.bin")
        with pytest.raises(AttnprobeError, match="only pickled weights"):
            attnprobe.entropy(str(folder), TEXTS)

    @pytest.mark.parametrize("beside_base", [False, True])
    def test_without_peft(self, adapt, saved, monkeypatch, beside_base):
        """An adapter beside its base is not left out, either."""
        folder, _ = adapt("bert", lora("bert"))
        if beside_base:
            shutil.copytree(saved("bert"), folder, dirs_exist_ok=True)
        monkeypatch.setattr(folders, "find_spec", lambda name: None if name == "peft" else find_spec(name))
        with pytest.raises(AttnprobeError, match="needs peft: pip install peft"):
            attnprobe.entropy(str(folder), TEXTS)

    def test_beside_its_base(self, adapt, saved, tiny):
        folder, merged = adapt("bert", lora("bert"))
        shutil.copy(saved("bert") / "config.json", folder)
        with pytest.raises(AttnprobeError, match=r"adapter \(LORA\), beside a config.json .* take it away"):
            attnprobe.entropy(str(folder), TEXTS)
        shutil.copytree(saved("bert"), folder, dirs_exist_ok=True)
        table = attnprobe.entropy(str(folder), TEXTS)
        assert_same(table, attnprobe.entropy(merged, TEXTS, tokenizer=tiny("bert")[1]))
        assert {"model.safetensors", "adapter_model.safetensors"} == {*table.provenance["model"]["weights"]}

    @pytest.mark.parametrize("content", ["{", "[]", "\xff", "[" * 100_000])
    def test_a_broken_description(self, adapt, content):
        folder, _ = adapt("bert", lora("bert"))
        (folder / "adapter_config.json").write_text(content, encoding="latin-1")
        with pytest.raises(AttnprobeError, match="is damaged: "):
            attnprobe.entropy(str(folder), TEXTS)

    def test_pickled(self, adapt):
        folder, _ = adapt("bert", lora("bert"))
        weights = load_file(folder / "adapter_model.safetensors")
        torch.save(weights, folder / "adapter_model.bin")
        expected = attnprobe.entropy(str(folder), TEXTS)["entropy"]
        (folder / "adapter_model.safetensors").unlink()
        with pytest.raises(AttnprobeError, match="only pickled weights"):
            attnprobe.entropy(str(folder), TEXTS)
        assert (attnprobe.entropy(str(folder), TEXTS, allow_bin=True)["entropy"] == expected).all()
