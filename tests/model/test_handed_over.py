"""Models as Python users hold them: wrapped, compiled, with adapters of peft."""

import copy

import numpy as np
import peft
import pytest
import torch
from torch import distributed
from torch.nn.parallel import DataParallel, DistributedDataParallel

import attnprobe
from attnprobe import AttnprobeError

#: Packages that wrap models use what transformers and torch are about to rename.
pytestmark = pytest.mark.filterwarnings("ignore")

TEXTS = ["the river bank was slow", "a bird ran over the red house"]
DENSE = ["query", "key", "value", "dense"]

#: Adapters within the layers of the base, by what a table calls them.
WITHIN = {
    "lora": lambda: peft.LoraConfig(target_modules=DENSE, init_lora_weights=False),
    "ia3": lambda: peft.IA3Config(
        target_modules=["key", "value", "output.dense"], feedforward_modules=["output.dense"],
        init_ia3_weights=False,
    ),
}  # fmt: skip
#: Adapters beside them.
BESIDE = {
    "PREFIX_TUNING": lambda: peft.PrefixTuningConfig(num_virtual_tokens=3, task_type="FEATURE_EXTRACTION"),
    "PROMPT_TUNING": lambda: peft.PromptTuningConfig(num_virtual_tokens=3, task_type="FEATURE_EXTRACTION"),
}


def adapted(model, kind):
    """Put a loud adapter into a copy of a model."""
    torch.manual_seed(3)
    loaded = peft.get_peft_model(copy.deepcopy(model), WITHIN[kind]())  # type: ignore[arg-type]
    for name, weight in loaded.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight, std=0.3)
    return loaded.eval()


def compare(table, expected, without="no column"):
    """Hold every number of a table against another's, but for columns that begin with something."""
    for name, values in table.data.items():
        if not name.startswith(without) and np.asarray(values).dtype.kind == "f":
            np.testing.assert_allclose(values, expected.data[name], rtol=1e-3, atol=1e-5, err_msg=name)


class TestWrappers:
    @pytest.fixture(scope="class", autouse=True)
    def alone(self, tmp_path_factory):
        """Be a group of one process, as DistributedDataParallel asks for."""
        met = tmp_path_factory.mktemp("group") / "met"
        distributed.init_process_group("gloo", init_method=f"file://{met}", rank=0, world_size=1)
        yield
        distributed.destroy_process_group()

    @pytest.mark.parametrize(
        "wrap",
        [
            DataParallel,
            DistributedDataParallel,
            lambda model: torch.compile(DistributedDataParallel(model), backend="eager"),
        ],
        ids=["DataParallel", "DistributedDataParallel", "compiled DDP"],
    )
    def test_what_is_inside_is_asked(self, tiny, wrap):
        model, tokenizer = tiny("bert")
        wrapped = wrap(copy.deepcopy(model).requires_grad_(True)).train()
        table = attnprobe.census(wrapped, TEXTS, tokenizer=tokenizer)
        compare(table, attnprobe.census(model, TEXTS, tokenizer=tokenizer))
        assert table["model"][0] == "BertModel"
        assert all(part.training for part in wrapped.modules())

    def test_what_is_no_model_of_transformers(self, tiny):
        model, tokenizer = tiny("bert")
        with pytest.raises(AttnprobeError, match=r"Sequential is no model of transformers"):
            attnprobe.census(torch.nn.Sequential(model), TEXTS, tokenizer=tokenizer)
        with pytest.raises(AttnprobeError, match=r"The loaded Linear is no model of transformers\."):
            attnprobe.census(torch.nn.Linear(2, 2), TEXTS, tokenizer=tokenizer)


class TestAdapters:
    @pytest.mark.parametrize("kind", WITHIN)
    def test_every_number_is_that_of_the_merged_model(self, tiny, kind):
        """Columns that need the output projection are left out where an adapter changes what it gives."""
        model, tokenizer = tiny("bert")
        loaded = adapted(model, kind)
        table = attnprobe.census(loaded, TEXTS, tokenizer=tokenizer, everything=True)
        merged = copy.deepcopy(loaded).merge_and_unload()
        expected = attnprobe.census(merged, TEXTS, tokenizer=tokenizer, everything=True)
        compare(table, expected, without="qk_")
        bare = attnprobe.census(model, TEXTS, tokenizer=tokenizer)
        assert np.abs(table["entropy"] - bare["entropy"]).max() > 1e-2
        assert "norm_total" not in table.data
        assert "norm_total" in expected.data

    @pytest.mark.parametrize("kind", BESIDE)
    def test_virtual_tokens_are_refused(self, tiny, kind):
        model, tokenizer = tiny("bert")
        loaded = peft.get_peft_model(copy.deepcopy(model), BESIDE[kind]())
        with pytest.raises(AttnprobeError, match=rf"The adapter default \({kind}\) .*get_base_model"):
            attnprobe.census(loaded, TEXTS, tokenizer=tokenizer)

    def test_an_adapter_is_merged_before_it_is_saved(self, tiny, tmp_path):
        model, tokenizer = tiny("bert")
        loaded = adapted(model, "lora")
        with pytest.raises(AttnprobeError, match="while an adapter is in it; merge it first"):
            attnprobe.prune(loaded, TEXTS, tokenizer=tokenizer, save=tmp_path / "pruned", share=0.3)
