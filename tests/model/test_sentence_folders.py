"""Folders of sentence-transformers, as their versions write them: what ``encode`` would do is said."""

import json
import shutil
from pathlib import Path

import pytest

import attnprobe
from attnprobe import AttnprobeError, AttnprobeWarning

TEXTS = ["the river bank was slow", "a bird ran over the red house"]
#: Classes of modules, before version 6 and since.
OLD, NEW = "sentence_transformers.models", "sentence_transformers.sentence_transformer.modules"


def write(path: Path, content: object):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.fixture
def folder(saved, tmp_path):
    """Copy the tiny BERT, to be made a folder of sentence-transformers."""
    return Path(shutil.copytree(saved("bert"), tmp_path / "sentences"))


def modules(folder: Path, *kinds: str, first: str = "", home: str = OLD):
    """List modules as sentence-transformers does."""
    paths = [first, *(f"{place}_{kind}" for place, kind in enumerate(kinds, 1))]
    names = ["Transformer", *kinds]
    listed = [{"path": path, "type": f"{home}.{name}"} for path, name in zip(paths, names, strict=True)]
    write(folder / "modules.json", listed)


def notes(folder: Path, **options) -> str:
    """Give what a census says of the folder, which is on record too."""
    table = attnprobe.census(str(folder), TEXTS, statistics=["entropy"], **options)
    (said,) = [note for note in table.notes if "sentence-transformers" in note] or [""]
    recorded = table.provenance["model"].get("remarks", [])
    assert [f"{remark[0].upper()}{remark[1:]}." for remark in recorded] == ([said] if said else [])
    return said


class TestTexts:
    def test_a_plain_folder(self, folder):
        assert notes(folder) == ""
        modules(folder, "Pooling")
        write(folder / "sentence_bert_config.json", {"max_seq_length": 512, "do_lower_case": True})
        write(folder / "config_sentence_transformers.json", {"prompts": {"query": ""}})
        assert notes(folder) == ""  # the tokenizer ignores case, and takes less than 512

    def test_a_default_prompt(self, folder):
        modules(folder, "Pooling", home=NEW)
        prompts = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"}
        write(folder / "config_sentence_transformers.json", prompts)
        assert notes(folder) == (
            "With encode(), sentence-transformers puts the prompt 'query: ' before each text, and attnprobe "
            "does not; to read what it reads, write it into the texts."
        )

    def test_prompts_without_a_default(self, folder):
        modules(folder, "Pooling", home=NEW)
        write(folder / "config_sentence_transformers.json", {"prompts": {"query": "query: ", "none": ""}})
        assert "knows prompts (query) to put before texts" in notes(folder)

    @pytest.mark.parametrize("name", ["sentence_bert_config.json", "sentence_roberta_config.json"])
    def test_a_shorter_window(self, folder, name):
        modules(folder, "Pooling")
        write(folder / name, {"max_seq_length": 6})
        said = notes(folder)
        assert "cuts texts after 6 tokens" in said
        assert "--max-length 6 --truncate" in said

    def test_letter_case(self, saved, tmp_path):
        folder = Path(shutil.copytree(saved("xlm-roberta"), tmp_path / "cased"))
        modules(folder, "Pooling")
        write(folder / "sentence_xlm-roberta_config.json", {"max_seq_length": 6, "do_lower_case": True})
        assert "cuts texts after 6 tokens and writes texts in lower case" in notes(folder)

    def test_it_is_warned_of_and_diagnosed(self, folder):
        modules(folder, "Pooling")
        write(folder / "sentence_bert_config.json", {"max_seq_length": 6})
        with pytest.warns(AttnprobeWarning, match="cuts texts after 6 tokens"):
            attnprobe.entropy(str(folder), TEXTS)
        table = attnprobe.doctor(str(folder), TEXTS)
        found = dict(zip(table["detail"], table["status"], strict=True))
        assert [status for detail, status in found.items() if "after 6 tokens" in detail] == ["warning"]

    @pytest.mark.parametrize("content", [[], {}, "text", [1], [{"path": 3, "type": None}], None])
    @pytest.mark.parametrize("listed", [True, False])
    def test_odd_files(self, folder, content, listed):
        if listed:
            modules(folder, "Pooling")
        else:
            write(folder / "modules.json", content)
        write(folder / "sentence_bert_config.json", content)
        write(folder / "config_sentence_transformers.json", {"prompts": content, "default_prompt_name": []})
        assert notes(folder) == ""


class TestPlace:
    """Before version 2, the transformer lies in a folder of its own."""

    @pytest.fixture
    def old(self, folder, tmp_path):
        root = tmp_path / "old"
        shutil.copytree(folder, root / "0_Transformer")
        modules(root, "Pooling", first="0_Transformer")
        return root

    @pytest.mark.parametrize("config", [True, False])
    def test_it_is_named(self, old, config):
        if config:
            write(old / "config.json", {"__version__": "1.0"})
        with pytest.raises(AttnprobeError, match=f"give {old}/0_Transformer"):
            attnprobe.census(str(old), TEXTS)

    def test_its_settings_are_found(self, old):
        write(old / "0_Transformer" / "sentence_bert_config.json", {"max_seq_length": 6})
        write(old / "1_Pooling" / "config.json", {"pooling_mode_cls_token": True})
        assert "cuts texts after 6 tokens" in notes(old / "0_Transformer")
        assert "pools by cls" in pooling(old / "0_Transformer")

    def test_what_is_not_there(self, folder):
        """Of a repository of the hub, folders within are not fetched."""
        (folder / "model.safetensors").unlink()
        modules(folder, "Pooling", first="0_Transformer")
        with pytest.raises(AttnprobeError, match="in a folder of its own, 0_Transformer; download all of"):
            attnprobe.census(str(folder), TEXTS)


def pooling(folder: Path) -> str:
    """Give what is said where texts become vectors."""
    said = []

    class Told:
        def stage(self, name, total): ...
        def advance(self, steps): ...
        def say(self, sentence):
            said.append(sentence)

    attnprobe.importance(str(folder), TEXTS, objective="representation", progress=Told())
    return " ".join(one for one in said if "representation measured" in one)


@pytest.mark.parametrize(
    ("config", "kinds", "expected"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, ["Pooling", "Normalize"], ""),
        ({"pooling_mode": "mean"}, ["Pooling"], ""),
        ({"pooling_mode": "lasttoken"}, ["Pooling"], "pools by lasttoken;"),
        ({"pooling_mode": ["mean", "max"]}, ["Pooling"], "pools by mean and max;"),
        (
            {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
            ["Pooling"],
            "pools by mean and cls;",
        ),
        ({"pooling_mode": "cls"}, ["Pooling", "Dense"], "pools by cls and applies Dense;"),
        (None, ["Pooling"], "pools as 1_Pooling says;"),
    ],
)
def test_pooling(folder, config, kinds, expected):
    """The mean over tokens is measured; what sentence-transformers does beside it is said."""
    modules(folder, *kinds)
    if config is not None:
        write(folder / "1_Pooling" / "config.json", config)
    said = pooling(folder)
    assert expected in said
    assert bool(said) == bool(expected)
