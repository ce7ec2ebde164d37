"""Quantised checkpoints give the numbers of the plain weights behind their packing, or say no by name."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from spoil import edit_json

import attnprobe
from attnprobe import AttnprobeError

pytestmark = pytest.mark.filterwarnings("ignore")

TEXTS = ["the river bank was slow", "a bird ran over the red house", "the dog and the cat came late ."]


class Packed(torch.Tensor):
    """A weight that models multiply by, and that nobody looks into."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func == torch.Tensor.T.__get__ or func.__name__ in {"reshape", "unflatten", "abs", "isfinite"}:
            raise NotImplementedError(f"Packed does not know {func}")
        given = super().__torch_function__(func, types, args, kwargs or {})
        return given.as_subclass(torch.Tensor) if func is torch.nn.functional.linear else given


class Named(Packed):
    """A packed weight that its package unpacks."""

    def dequantize(self):
        return self.as_subclass(torch.Tensor)


class Locked(Packed):
    """A packed weight that is made for batches alone, and is not unpacked."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.nn.functional.linear and args[0].ndim < 3:
            raise RuntimeError("three axes, please")
        return super().__torch_function__(func, types, args, kwargs)


@pytest.fixture
def pack(copied):
    """Pack the weights of queries, keys and output projections of a tiny model."""

    def change(kind):
        model, tokenizer = copied("bert")
        for name, part in [*model.named_modules()]:
            if not name.endswith(("attention.output.dense", "query", "key")):
                continue
            part.weight = torch.nn.Parameter(part.weight.detach().as_subclass(kind), requires_grad=False)
        return model, tokenizer

    return change


def assert_close(result, expected, atol=1e-5):
    assert [column.name for column in result.columns] == [column.name for column in expected.columns]
    for column in result.columns:
        if column.role in {"measure", "error"}:
            ours, theirs = (np.asarray(table.data[column.name], float) for table in (result, expected))
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=atol, err_msg=column.name)


class TestStandIn:
    def test_weights_are_read_dequantised(self, pack, tiny):
        (model, tokenizer), plain = pack(Named), tiny("bert")[0]
        for command, options in (("census", {"weights": "both"}), ("rank", {})):
            run = getattr(attnprobe, command)
            table, expected = (run(one, TEXTS, tokenizer=tokenizer, **options) for one in (model, plain))
            assert_close(table, expected)
            assert command != "rank" or not np.isnan(table["qk_rank"]).any()

    def test_those_that_nobody_unpacks(self, pack, tiny):
        model, tokenizer = pack(Locked)
        table = attnprobe.census(model, TEXTS, tokenizer=tokenizer)
        assert "norm_total" not in table.data
        plain = attnprobe.entropy(tiny("bert")[0], TEXTS, tokenizer=tokenizer)
        np.testing.assert_allclose(table["entropy"], plain["entropy"], atol=1e-5)
        with pytest.raises(AttnprobeError, match=r"weights are quantised \(Locked\) in a way that can't be"):
            attnprobe.census(model, TEXTS, tokenizer=tokenizer, weights="norm")
        notes = attnprobe.rank(model, TEXTS, tokenizer=tokenizer).notes
        assert any(note.startswith("qk_rank and qk_top_half are empty") for note in notes), notes

    def test_no_gradients(self, pack):
        model, tokenizer = pack(Named)
        with pytest.raises(AttnprobeError, match=r"quantised \(Named\); use ablate"):
            attnprobe.importance(model, TEXTS, tokenizer=tokenizer)
        assert np.isfinite(attnprobe.ablate(model, TEXTS, tokenizer=tokenizer)["score"]).all()

    def test_heads_are_not_removed(self, pack, tmp_path):
        model, tokenizer = pack(Named)
        with pytest.raises(
            AttnprobeError, match=r"can't remove heads .*quantised \(Named\); save it from before"
        ):
            attnprobe.prune(model, TEXTS, tokenizer=tokenizer, save=tmp_path / "pruned", share=0.3)
        assert not (tmp_path / "pruned").exists()


def test_a_package_that_is_missing_is_named(saved, tmp_path):
    folder = Path(shutil.copytree(saved("bert"), tmp_path / "model"))
    edit_json(folder / "config.json", quantization_config={"quant_method": "gptq", "bits": 4})
    with pytest.raises(AttnprobeError, match=r"weights of model can't be loaded .* requires optimum"):
        attnprobe.entropy(str(folder), TEXTS)
