"""Tiny embedding models in the layouts that versions of sentence-transformers write."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file

#: Classes of modules, before version 6 and since.
OLD, NEW = "sentence_transformers.models", "sentence_transformers.sentence_transformer.modules"


def write(path: Path, content: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))


def list_modules(folder: Path, *kinds: str, first: str = "", home: str = OLD) -> None:
    """List modules as sentence-transformers does, each in a folder of its own."""
    paths = [first, *(f"{place}_{kind}" for place, kind in enumerate(kinds, 1))]
    listed = [
        {"idx": place, "name": str(place), "path": path, "type": f"{home}.{name}"}
        for place, (path, name) in enumerate(zip(paths, ["Transformer", *kinds], strict=True))
    ]
    write(folder / "modules.json", listed)


@dataclass(frozen=True)
class Layout:
    """A folder of sentence-transformers; ``kinds`` are the modules after the pooling."""

    model: str
    pooling: Mapping[str, Any]
    kinds: tuple[str, ...] = ("Normalize",)
    first: str = ""
    home: str = NEW
    settings: Mapping[str, Any] = field(default_factory=dict)
    described: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path, saved: Callable[[str], Path]) -> Path:
        """Write the folder."""
        shutil.copytree(saved(self.model), folder / self.first)
        if self.model == "t5":
            transformers.T5EncoderModel.from_pretrained(folder).save_pretrained(folder)
        list_modules(folder, "Pooling", *self.kinds, first=self.first, home=self.home)
        write(folder / "1_Pooling" / "config.json", self.pooling)
        if self.first:
            write(folder / "config.json", {"__version__": "1.0.0"})
        if self.settings:
            write(folder / self.first / "sentence_bert_config.json", self.settings)
        if self.described:
            write(folder / "config_sentence_transformers.json", self.described)
        if "Dense" in self.kinds:
            named = "torch.nn.modules.activation.Tanh"
            sizes = {"in_features": 32, "out_features": 16, "bias": True}
            write(folder / "2_Dense" / "config.json", sizes | {"activation_function": named})
            save_file(draw_dense(), folder / "2_Dense" / "model.safetensors")
        return folder


def draw_dense() -> dict[str, torch.Tensor]:
    """Draw the weights of a Dense module."""
    random = torch.Generator().manual_seed(1)
    return {
        "linear.weight": torch.randn(16, 32, generator=random),
        "linear.bias": torch.randn(16, generator=random),
    }


_PROMPTS = {"prompts": {"query": "the red house by ", "passage": "on "}, "default_prompt_name": "query"}
LAYOUTS = {
    "switches of version 1": Layout(
        "bert",
        {
            "word_embedding_dimension": 32, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True,
            "pooling_mode_max_tokens": True, "pooling_mode_mean_sqrt_len_tokens": False,
        },
        (),
        first="0_Transformer",
        home=OLD,
    ),
    "names of version 6": Layout(
        "bert",
        {"embedding_dimension": 32, "pooling_mode": "cls", "include_prompt": True},
        ("Dense", "Normalize"),
    ),
    "a prompt that is not pooled": Layout(
        "bert",
        {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True, "include_prompt": False},
        home=OLD,
        described=_PROMPTS,
    ),
    "the last token of a decoder": Layout(
        "llama", {"word_embedding_dimension": 32, "pooling_mode_lasttoken": True}, home=OLD
    ),
    "a short window": Layout(
        "bert",
        {"embedding_dimension": 32, "pooling_mode": ["weightedmean", "mean_sqrt_len_tokens"]},
        (),
        settings={"max_seq_length": 24, "do_lower_case": False},
    ),
    "lower case": Layout(
        "roberta",
        {"embedding_dimension": 32, "pooling_mode": "mean"},
        settings={"max_seq_length": 20, "do_lower_case": True},
        described=_PROMPTS,
    ),
    "an encoder without its decoder": Layout(
        "t5", {"embedding_dimension": 32, "pooling_mode": "max"}, (), described={"truncate_dim": 8}
    ),
}  # fmt: skip
#: Some longer than the windows, one of a single word, some in capitals.
TEXTS = [
    "The river bank was slow",
    "a bird ran over the red house, and the train was late; the dog ran over the road by the river, slow .",
    "stop",
    "Night AND day",
    "a bird by the river .",
]
