"""Folders of sentence-transformers given as they are: which texts are read, what is said, what is refused."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sentence_layouts import LAYOUTS, TEXTS, draw_dense, list_modules, write
from test_embedding import embed_texts

import attnprobe
from attnprobe import AttnprobeError, AttnprobeWarning
from attnprobe.model import load
from attnprobe.model.folders import copy_modules, is_inside, read_folder
from attnprobe.model.hub import CheckpointFiles
from attnprobe.model.load import load_checkpoint
from attnprobe.model.location import LoadOptions

PROMPTED = "a prompt that is not pooled"
SHORT = "a short window"


class Told:
    """Keeps what is said on the way."""

    def __init__(self):
        self.said = []

    def stage(self, name, total): ...
    def advance(self, steps): ...
    def say(self, sentence):
        self.said.append(sentence)


@pytest.fixture
def make(saved, tmp_path):
    return lambda name: LAYOUTS[name].write(tmp_path / "model", saved)


@pytest.fixture
def folder(make):
    """Write a plain folder: BERT, and the mean."""
    return make(PROMPTED)


def measure(folder, texts=TEXTS, **options):
    told = Told()
    table = attnprobe.census(folder, texts, statistics=["entropy"], progress=told, **options)
    return table, " ".join(told.said)


class TestTexts:
    """What a census reads is what a bare transformer reads of texts that are written so by hand."""

    @pytest.mark.parametrize(
        ("prompt", "before"),
        [(None, "the red house by "), ("query", "the red house by "), ("passage", "on "), ("none", "")],
    )
    def test_prompts(self, folder, saved, prompt, before):
        table, said = measure(str(folder), prompt=prompt)
        expected, _ = measure(str(saved("bert")), [before + text for text in TEXTS])
        assert (table["entropy"] == expected["entropy"]).all()
        name = {"none": None, None: "query"}.get(prompt, prompt)
        assert table.provenance["model"]["embedding"]["prompt_name"] == name
        assert table.provenance["model"]["embedding"]["prompt"] == before
        if before:
            assert (
                f"The prompt {name} ('{before}') stands before each text, and texts are cut after 184" in said
            )

    def test_an_unknown_prompt(self, folder, saved, monkeypatch):
        monkeypatch.setattr(load, "load_tokenizers", None)  # nothing is loaded
        with pytest.raises(
            AttnprobeError, match=r"model has no such prompt; it knows query and passage, or none"
        ):
            attnprobe.census(str(folder), TEXTS, prompt="question")
        with pytest.raises(AttnprobeError, match=r"bert has no such prompt; it has no prompts"):
            attnprobe.census(str(saved("bert")), TEXTS, prompt="query")

    def test_a_short_window(self, make, saved):
        folder = make(SHORT)
        table, said = measure(str(folder))
        expected, _ = measure(str(saved("bert")), max_length=24, truncate=True)
        assert (table["entropy"] == expected["entropy"]).all()
        assert table["n"][0] == len(TEXTS)
        assert "1 document was truncated to 24 tokens." in said
        table, said = measure(str(folder), max_length=24)
        expected, _ = measure(str(saved("bert")), max_length=24)
        assert (table["entropy"] == expected["entropy"]).all()
        assert table["n"][0] > len(TEXTS)
        assert "cut into 2 windows" in said


class TestPlace:
    """Before version 2, the transformer lies in a folder of its own."""

    @pytest.fixture
    def old(self, make):
        return make("switches of version 1")

    def test_it_is_read_and_on_record(self, old, saved):
        table, _ = measure(str(old))
        expected, _ = measure(str(saved("bert")))
        assert (table["entropy"] == expected["entropy"]).all()
        assert set(table["model"]) == {"model"}
        found = table.provenance["model"]
        assert {"model.safetensors"} == found["weights"].keys()
        assert {"modules.json", "1_Pooling/config.json"} == found["modules"].keys()

    @pytest.mark.parametrize(
        "changed", ["1_Pooling/config.json", "modules.json", "0_Transformer/config.json"]
    )
    def test_another_file_is_another_checkpoint(self, old, changed):
        before = CheckpointFiles.read(str(old), LoadOptions()).identity
        (old / changed).write_text((old / changed).read_text() + "\n")
        assert CheckpointFiles.read(str(old), LoadOptions()).identity != before

    def test_what_is_not_there(self, old):
        shutil.rmtree(old / "0_Transformer")
        with pytest.raises(
            AttnprobeError, match="its transformer, 0_Transformer, is not there; download all"
        ):
            attnprobe.census(str(old), TEXTS)

    @pytest.mark.parametrize("path", ["../other", "/etc", "a/../../b", "C:\\x"])
    @pytest.mark.parametrize("number", [0, 1])
    def test_a_path_outside(self, old, path, number):
        listed = json.loads((old / "modules.json").read_text())
        listed[number]["path"] = path
        write(old / "modules.json", listed)
        with pytest.raises(AttnprobeError, match=r"which is not inside the folder"):
            attnprobe.census(str(old), TEXTS)

    def test_a_link_outside(self, old, tmp_path):
        (old / "1_Pooling").rename(tmp_path / "elsewhere")
        (old / "1_Pooling").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(AttnprobeError, match="1_Pooling, which is not inside the folder"):
            attnprobe.census(str(old), TEXTS)

    def test_the_cache_of_the_hub_is_links(self, old, tmp_path):
        snapshot = tmp_path / "models--org--model" / "snapshots" / ("a" * 40)
        blobs = snapshot.parents[1] / "blobs"
        shutil.copytree(old, snapshot)
        blobs.mkdir()
        for number, path in enumerate(sorted(snapshot.rglob("*.*"))):
            path.rename(blobs / str(number))
            path.symlink_to(blobs / str(number))
        found = read_folder(snapshot, "org/model")
        assert is_inside(snapshot, "1_Pooling/config.json")
        (tmp_path / "copy").mkdir()
        copy_modules(found, tmp_path / "copy")
        assert (tmp_path / "copy" / "1_Pooling" / "config.json").read_bytes() == (
            old / "1_Pooling" / "config.json"
        ).read_bytes()
        assert read_folder(tmp_path / "copy", "copy").modules[0].path == ""

    def test_only_named_folders_are_fetched(self, old, tmp_path, monkeypatch):
        (old / "onnx").mkdir()
        cache, asked = tmp_path / "snapshots" / ("a" * 40), []

        def fetch(name, *, allow_patterns, ignore_patterns, revision, **_):
            asked.append(revision)
            for path in old.rglob("*.*"):
                inside = path.relative_to(old)
                if any(inside.match(one) for one in allow_patterns) and not any(
                    inside.match(one) and "/" in one and "/" in str(inside) for one in ignore_patterns
                ):
                    (cache / inside).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, cache / inside)
            return str(cache)

        monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
        found = embed_texts("org/model", TEXTS)
        np.testing.assert_array_equal(found, embed_texts(old, TEXTS))
        assert asked == [None, "a" * 40]
        assert {path.name for path in cache.iterdir() if path.is_dir()} == {"0_Transformer", "1_Pooling"}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        *(("modules.json", content) for content in ("[]", "{}", '"text"', "[1]", '[{"path": 3}]', "null")),
        *(("config_sentence_transformers.json", content) for content in ("[]", "null", "\xff")),
        *(("sentence_bert_config.json", content) for content in ("[]", "[" * 100_000, "{")),
        *(
            ("sentence_bert_config.json", f'{{"max_seq_length": {stated}}}')
            for stated in ('"x"', 0, 1.5, "1e400")
        ),
        ("1_Pooling/config.json", "[]"),
        ("1_Pooling/config.json", '{"pooling_mode_mean_tokens": "x"}'),
    ],
)
def test_a_damaged_description_is_refused(folder, file, content):
    """Read without it, texts would have another prompt, another length or another pooling."""
    (folder / file).write_text(content, encoding="latin-1")
    with pytest.raises(AttnprobeError, match=f"^{file.rpartition('/')[2]} of .* is damaged: "):
        measure(str(folder))


def change(folder, place, **stated):
    path = folder / place
    write(path, (json.loads(path.read_text()) if path.is_file() else {}) | stated)


def _break_dense(folder):
    save_file(
        draw_dense() | {"linear.bias": torch.full((16,), torch.nan)}, folder / "2_Dense/model.safetensors"
    )


def _pickle_dense(folder):
    (folder / "2_Dense/model.safetensors").unlink()
    torch.save(draw_dense(), folder / "2_Dense/pytorch_model.bin")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda f: change(f, "1_Pooling/config.json", pooling_mode="median"), "does not pool by median"),
        (lambda f: write(f / "1_Pooling/config.json", {}), "says nothing of how"),
        (lambda f: list_modules(f, "Pooling", "LSTM"), "does not read its module LSTM"),
        (list_modules, "it has no Pooling"),
        (lambda f: list_modules(f, "Normalize", "Pooling"), "Normalize stands where"),
        (
            lambda f: change(f, "2_Dense/config.json", activation_function="os.system"),
            "does not know the activation os.system",
        ),
        (
            lambda f: change(f, "2_Dense/config.json", module_input_name="token_embeddings"),
            "token_embeddings",
        ),
        (_break_dense, "are not those of a linear map"),
        (_pickle_dense, "--allow-bin if you trust them"),
        (lambda f: (f / "2_Dense/model.safetensors").unlink(), "2_Dense holds no weights"),
        (lambda f: (f / "2_Dense/model.safetensors").write_bytes(b"none"), "2_Dense can't be read"),
        (
            lambda f: change(f, "sentence_bert_config.json", modality_config={"message": {}}),
            "go through a chat template",
        ),
    ],
)
def test_what_is_not_read(make, spoil, reason):
    """Embeddings are refused by name, and a note says so beforehand."""
    folder = make("names of version 6")
    spoil(folder)
    (remark,) = load_checkpoint(str(folder), LoadOptions(device="cpu")).remarks
    assert remark.startswith("the attention of its transformer is read, but its embeddings are not: ")
    assert reason in remark
    with pytest.raises(AttnprobeError, match="embeddings of this model can't be made") as error:
        embed_texts(folder, TEXTS)
    assert reason in str(error.value)


def test_pickled_weights_that_are_trusted(make):
    folder = make("names of version 6")
    expected = embed_texts(folder, TEXTS)
    _pickle_dense(folder)
    checkpoint = load_checkpoint(str(folder), LoadOptions(device="cpu", allow_bin=True))
    assert not checkpoint.embedding.unread
    with torch.inference_mode():
        states = checkpoint.forward(checkpoint.tokenizer(TEXTS[2], return_tensors="pt"))
        np.testing.assert_allclose(checkpoint.embedding(states)[0], expected[2], atol=1e-6)


@pytest.mark.parametrize(
    ("place", "stated"),
    [
        ("config_sentence_transformers.json", {"model_type": "CrossEncoder"}),
        ("sentence_bert_config.json", {"transformer_task": "sequence-classification", "max_seq_length": 6}),
    ],
)
def test_a_cross_encoder_is_a_bare_transformer(folder, saved, place, stated):
    """It scores two texts, and embeds none."""
    change(folder, place, **stated)
    expected = measure(str(saved("bert")))[0]["entropy"]
    assert (measure(str(folder))[0]["entropy"] == expected).all()
    with pytest.raises(AttnprobeError, match="has no such prompt; it has no prompts"):
        load_checkpoint(str(folder), LoadOptions(prompt="query"))


class TestRemoving:
    """What is written embeds as the model does under a mask of heads."""

    @pytest.mark.parametrize(
        ("name", "physical"), [("switches of version 1", False), ("names of version 6", True)]
    )
    def test_it_is_written_with_its_modules(self, make, tmp_path, name, physical):
        folder, target = make(name), tmp_path / "pruned"
        (folder / "1_Pooling" / "outside").symlink_to("/etc/hostname")
        with pytest.warns(AttnprobeWarning):
            table = attnprobe.prune(
                str(folder), TEXTS, objective="representation", save=target, share=0.4, physical=physical
            )
        whole = {path.relative_to(folder) for path in folder.glob("*_*/*.*")}
        written = {path.relative_to(target) for path in target.glob("*_*/*.*")}
        assert {path for path in whole if path.parts[0] != "0_Transformer"} == written
        assert not (target / "1_Pooling" / "outside").exists()
        record = json.loads((target / "attnprobe.json").read_text())
        keep = np.ones((len(record["kept_per_layer"]), 4), bool)
        keep[tuple(zip(*record["removed"], strict=True))] = False
        expected = embed_texts(folder, TEXTS, keep=keep)
        np.testing.assert_allclose(embed_texts(target, TEXTS), expected, atol=1e-5, rtol=1e-5)
        assert np.abs(expected - embed_texts(folder, TEXTS)).max() > 0.01
        notes = " ".join(table.notes)
        assert ("attnprobe.load_pruned" if physical else f"SentenceTransformer('{target}') loads it") in notes

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["switches of version 1", "names of version 6", "lower case"])
    @pytest.mark.parametrize("physical", [False, True])
    def test_sentence_transformers_loads_it(self, make, tmp_path, name, physical):
        from sentence_transformers import SentenceTransformer

        folder, target = make(name), tmp_path / "pruned"
        attnprobe.prune(
            str(folder), TEXTS, objective="representation", save=target, share=0.4, physical=physical
        )
        if physical:
            model = SentenceTransformer(str(folder), device="cpu")
            model[0].model = attnprobe.load_pruned(target)
        else:
            model = SentenceTransformer(str(target), device="cpu")
        np.testing.assert_allclose(embed_texts(target, TEXTS), model.encode(TEXTS), atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_loaded_model(make, name):
    """It is read as the folder it came from."""
    from sentence_transformers import SentenceTransformer

    folder = make(name)
    model = SentenceTransformer(str(folder), device="cpu")
    for prompt in (None, "none"):
        found = attnprobe.importance(model, TEXTS, objective="representation", prompt=prompt)
        expected = attnprobe.importance(str(folder), TEXTS, objective="representation", prompt=prompt)
        np.testing.assert_allclose(found["importance"], expected["importance"], rtol=1e-4)
    expected = attnprobe.entropy(str(folder), TEXTS)["entropy"]
    assert (attnprobe.entropy(model, TEXTS)["entropy"] == expected).all()
    wrapped = torch.nn.DataParallel(model)
    assert (attnprobe.entropy(wrapped, TEXTS, tokenizer=model.tokenizer)["entropy"] == expected).all()
    assert attnprobe.compare([model, str(folder)], TEXTS)["jsd"].max() < 1e-6
