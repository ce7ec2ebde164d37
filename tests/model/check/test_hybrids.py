"""Models in which only some layers attend: read under the model's own numbers, or refused."""

import copy
from functools import cache

import every_type
import numpy as np
import pytest
import torch
from scipy import special
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import attnprobe
from attnprobe.errors import AttnprobeWarning
from attnprobe.model.check.dry_run import inspect
from attnprobe.model.check.gates import check_gates
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.quirks import UnsupportedModelError

pytestmark = pytest.mark.filterwarnings("ignore")
TEXTS = [
    "word11 word20 word40 word60 word12",
    "word30 word31 word90 word8",
    "word9 word9 word77 word50 word61",
]


@cache
def spelling():
    words = {"[PAD]": 0, "[UNK]": 1} | {f"word{i}": i for i in range(2, every_type.VOCABULARY)}
    whole = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    whole.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=whole, pad_token="[PAD]", unk_token="[UNK]")


@pytest.mark.parametrize("name", ["jamba", pytest.param("qwen3_next", marks=pytest.mark.slow)])
def test_census(name):
    """Rows are of layers 1 and 3, and their entropy is that of the model's own maps."""
    model = every_type.build(name)
    with pytest.warns(AttnprobeWarning, match="attention map are left out: 2 linear_attention"):
        table = attnprobe.census(model, TEXTS, tokenizer=spelling())
    assert sorted(set(table["layer"])) == [1, 3]
    expected = []
    for text in TEXTS:
        given = {"input_ids": torch.tensor([spelling()(text)["input_ids"]])}
        output = every_type.run(every_type.eager(name, model), given, output_attentions=True)
        square = [rows for rows in output.attentions if rows is not None and rows.shape[-1] == rows.shape[-2]]
        maps = square if len(square) == 2 else [output.attentions[layer] for layer in (1, 3)]
        expected.append([special.entr(rows[0].double().numpy()).sum(-1).mean(-1) for rows in maps])
    np.testing.assert_allclose(table["entropy"], np.mean(expected, 0).ravel(), atol=1e-5)


def test_doctor():
    jamba = Checkpoint("jamba", every_type.build("jamba"), spelling())
    architecture = inspect(jamba)
    assert "left out: 2 linear_attention" in architecture.warnings[0]
    assert [str(place) for place in architecture.places] == ["layer 1", "layer 3"]
    assert "resuming at a layer gives the same" in check_gates(jamba, architecture).evidence


class TestRefused:
    """A configuration that says something else than the layers do."""

    def test_more_attend(self, tiny):
        model, tokenizer = copy.deepcopy(tiny("llama")[0]), tiny("llama")[1]
        model.config.layer_types = ["full_attention", "linear_attention", "full_attention"]
        with pytest.raises(UnsupportedModelError, match="attention of 3 layers was read"):
            inspect(Checkpoint("llama", model, tokenizer))

    def test_others_attend(self):
        """As many, but not the same."""
        model = copy.deepcopy(every_type.build("lfm2"))
        model.config.layer_types = ["full_attention", "conv"] * 2
        with pytest.raises(UnsupportedModelError, match=r"in its layers \[1, 3\], .* \[0, 2\]|can't be run"):
            inspect(Checkpoint("lfm2", model, spelling()))
