"""Folders of sentence-transformers: texts and embeddings as of ``encode``, what is said, what is refused."""

import json
import shutil
from contextlib import nullcontext
from importlib.util import find_spec
from itertools import zip_longest
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sentence_layouts import LAYOUTS, TEXTS, draw_dense, list_modules, write

import attnprobe
from attnprobe import AttnprobeError, AttnprobeWarning
from attnprobe.corpus.document import Document
from attnprobe.intervention.objectives.embeddings import embed
from attnprobe.model import embedding, load
from attnprobe.model.folders import is_inside, read_sentence_folder
from attnprobe.model.load import load_checkpoint
from attnprobe.model.locate import LoadOptions, locate
from attnprobe.model.reading.gates import gate_attention
from attnprobe.run.options import CorpusOptions
from attnprobe.run.preparation import tokenise


def embed_texts(folder, texts, prompt=None, keep=None, roles=()):
    """Embed texts, with some heads alone if there is a mask of them (layer, head)."""
    checkpoint = load_checkpoint(str(folder), LoadOptions(device="cpu", prompt=prompt))
    documents = [Document(text, role=role) for text, role in zip_longest(texts, roles, fillvalue="")]
    vectors = {}
    with (
        tokenise(checkpoint, documents, CorpusOptions()) as corpus,
        nullcontext() if keep is None else gate_attention(checkpoint.body) as gates,
        torch.no_grad(),
    ):
        if gates is not None:
            gates.set(torch.from_numpy(keep).float()[None])
        for batch in corpus.batches:
            members = batch.members.tolist()
            states = embed(checkpoint, batch, [roles[member] for member in members] if roles else [])
            vectors |= dict(zip(members, states.numpy(), strict=True))
    return np.stack([vectors[number] for number in range(len(vectors))])


def measure(folder, texts=TEXTS, **options):
    progress = Mock()
    table = attnprobe.census(str(folder), texts, statistics=["entropy"], progress=progress, **options)
    return table, " ".join(call.args[0] for call in progress.say.call_args_list)


def change(folder, place, **stated):
    path = folder / place
    write(path, (json.loads(path.read_text()) if path.is_file() else {}) | stated)


@pytest.fixture
def make(saved, tmp_path):
    return lambda name: LAYOUTS[name].write(tmp_path / "model", saved)


@pytest.fixture
def folder(make):
    """Write a plain folder: BERT, and the mean."""
    return make("a prompt that is not pooled")


@pytest.fixture
def old(make):
    """Write one of before version 2, whose transformer lies in a folder of its own."""
    return make("switches of version 1")


@pytest.mark.parametrize("name", LAYOUTS)
def test_it_is_what_encode_makes(make, name):
    from sentence_transformers import SentenceTransformer

    folder = make(name)
    model = SentenceTransformer(str(folder), device="cpu")
    np.testing.assert_allclose(embed_texts(folder, TEXTS), model.encode(TEXTS), atol=1e-5, rtol=1e-5)
    for prompt in ("passage", "none") if "passage" in model.prompts else ():
        expected = model.encode(TEXTS, prompt=model.prompts.get(prompt, ""))
        np.testing.assert_allclose(embed_texts(folder, TEXTS, prompt), expected, atol=1e-5, rtol=1e-5)


def test_queries_and_passages_have_their_own_prompts(folder):
    """One alone is embedded as with the prompt of that name, whoever shares its batch."""
    texts, roles = zip(*[(text, role) for text in TEXTS for role in ("query", "document")], strict=True)
    query, passage, bare = (embed_texts(folder, TEXTS, name) for name in ("query", "passage", "none"))
    assert np.abs(query - passage).max() > 0.01
    # A prompt that is named is that of queries; without any, there is none for either.
    for prompt, queries, passages in [
        (None, query, passage),
        ("passage", passage, passage),
        ("none", bare, bare),
    ]:
        vectors = embed_texts(folder, texts, prompt, roles=roles)
        np.testing.assert_allclose(vectors[::2], queries, atol=1e-6)
        np.testing.assert_allclose(vectors[1::2], passages, atol=1e-6)


class TestTexts:
    """What a census reads is what a bare transformer reads of texts that are written so by hand."""

    @pytest.mark.parametrize(
        ("prompt", "name", "before"),
        [(None, "query", "the red house by "), ("passage", "passage", "on "), ("none", None, "")],
    )
    def test_prompts(self, folder, saved, prompt, name, before):
        table, told = measure(folder, prompt=prompt)
        expected, _ = measure(saved("bert"), [before + text for text in TEXTS])
        assert (table["entropy"] == expected["entropy"]).all()
        record = table.provenance["model"]["embedding"]
        assert (record["prompt_name"], record["prompt"]) == (name, before)
        note = f"The prompt {name} ('{before}') stands before each text, and texts are cut after 184"
        assert (note in told) == bool(before)

    def test_an_unknown_prompt(self, folder, saved, monkeypatch):
        monkeypatch.setattr(load, "read_weights", None)  # nothing is loaded
        with pytest.raises(AttnprobeError, match=r"no such prompt; it knows query, passage and none"):
            attnprobe.census(str(folder), TEXTS, prompt="question")
        with pytest.raises(AttnprobeError, match=r"bert has no such prompt; it knows none"):
            attnprobe.census(str(saved("bert")), TEXTS, prompt="query")

    def test_a_short_window(self, make, saved):
        folder = make("a short window")
        table, told = measure(folder)
        expected, _ = measure(saved("bert"), max_length=24, truncate=True)
        assert (table["entropy"] == expected["entropy"]).all()
        assert "1 document was truncated to 24 tokens." in told
        table, told = measure(folder, max_length=24)
        assert table["n"][0] > len(TEXTS)
        assert "cut into 2 windows" in told

    @pytest.mark.parametrize(
        ("place", "stated"),
        [
            ("config_sentence_transformers.json", {"model_type": "CrossEncoder"}),
            (
                "sentence_bert_config.json",
                {"transformer_task": "sequence-classification", "max_seq_length": 6},
            ),
        ],
    )
    def test_a_cross_encoder_is_a_bare_transformer(self, folder, saved, place, stated):
        """It scores two texts, and embeds none."""
        change(folder, place, **stated)
        assert (measure(folder)[0]["entropy"] == measure(saved("bert"))[0]["entropy"]).all()
        with pytest.raises(AttnprobeError, match="has no such prompt; it knows none"):
            load_checkpoint(str(folder), LoadOptions(prompt="query"))


class TestPlace:
    def test_it_is_read_and_on_record(self, old, saved):
        table, _ = measure(old)
        assert (table["entropy"] == measure(saved("bert"))[0]["entropy"]).all()
        assert set(table["model"]) == {"model"}
        record = table.provenance["model"]
        assert {"model.safetensors"} == record["weights"].keys()
        assert {"modules.json", "1_Pooling/config.json"} == record["modules"].keys()

    def test_another_file_is_another_checkpoint(self, old):
        file = "1_Pooling/config.json"
        before = locate(str(old), LoadOptions(), weights=False).identity
        (old / file).write_text((old / file).read_text() + "\n")
        assert locate(str(old), LoadOptions(), weights=False).identity != before

    def test_what_is_not_there(self, old):
        shutil.rmtree(old / "0_Transformer")
        with pytest.raises(AttnprobeError, match=r"holds no config\.json of a transformer"):
            measure(old)

    @pytest.mark.parametrize(("path", "number"), [("../other", 0), ("/etc", 1), ("a/../../b", 1)])
    def test_a_path_outside(self, old, path, number):
        listed = json.loads((old / "modules.json").read_text())
        listed[number]["path"] = path
        write(old / "modules.json", listed)
        with pytest.raises(AttnprobeError, match=r"which is not inside the folder"):
            measure(old)

    def test_a_link_outside(self, old, tmp_path):
        (old / "1_Pooling").rename(tmp_path / "elsewhere")
        (old / "1_Pooling").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(AttnprobeError, match="1_Pooling, which is not inside the folder"):
            measure(old)

    def test_the_cache_of_the_hub_is_links(self, old, tmp_path):
        snapshot = tmp_path / "models--org--model" / "snapshots" / ("a" * 40)
        blobs = snapshot.parents[1] / "blobs"
        shutil.copytree(old, snapshot)
        blobs.mkdir()
        for number, path in enumerate(sorted(snapshot.rglob("*.*"))):
            path.rename(blobs / str(number))
            path.symlink_to(blobs / str(number))
        assert is_inside(snapshot, "1_Pooling/config.json")
        np.testing.assert_array_equal(embed_texts(snapshot, TEXTS), embed_texts(old, TEXTS))
        (tmp_path / "copy").mkdir()
        read_sentence_folder(snapshot, "org/model").copy_modules(tmp_path / "copy")
        copied = tmp_path / "copy" / "1_Pooling" / "config.json"
        assert copied.read_bytes() == (old / "1_Pooling" / "config.json").read_bytes()
        assert read_sentence_folder(tmp_path / "copy", "copy").transformer == tmp_path / "copy"

    def test_only_named_folders_are_fetched(self, old, tmp_path, monkeypatch):
        (old / "onnx").mkdir()
        cache, revisions = tmp_path / "snapshots" / ("a" * 40), []

        def fetch(name, *, allow_patterns, ignore_patterns, revision, **_):
            revisions.append(revision)
            for path in old.rglob("*.*"):
                inside = path.relative_to(old)
                if any(inside.match(pattern) for pattern in allow_patterns) and not any(
                    inside.match(pattern) and "/" in pattern and "/" in str(inside)
                    for pattern in ignore_patterns
                ):
                    (cache / inside).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, cache / inside)
            return str(cache)

        monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
        np.testing.assert_array_equal(embed_texts("org/model", TEXTS), embed_texts(old, TEXTS))
        assert revisions == [None, "a" * 40]
        assert {path.name for path in cache.iterdir() if path.is_dir()} == {"0_Transformer", "1_Pooling"}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        *(("modules.json", content) for content in ("[]", "{}", "[1]", '[{"path": 3}]', "null")),
        *(("config_sentence_transformers.json", content) for content in ("[]", "null", "\xff")),
        *(("sentence_bert_config.json", content) for content in ("[]", "[" * 100_000, "{")),
    ],
)
def test_a_damaged_description_is_refused(folder, file, content):
    """Read without it, texts would have another prompt or another length."""
    (folder / file).write_text(content, encoding="latin-1")
    with pytest.raises(AttnprobeError, match=f"^{file} of .* is damaged: "):
        measure(folder)


def _break_dense(folder):
    broken = draw_dense() | {"linear.bias": torch.full((16,), torch.nan)}
    save_file(broken, folder / "2_Dense/model.safetensors")


def _pickle_dense(folder):
    (folder / "2_Dense/model.safetensors").unlink()
    torch.save(draw_dense(), folder / "2_Dense/pytorch_model.bin")


def _bring_code(folder):
    list_modules(folder, "Pooling", home="evil")
    (folder / "evil.py").write_text("raise SystemExit('code of the folder ran')")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_bring_code, "does not read its module evil.Pooling, which is code of its own"),
        (lambda f: list_modules(f, "Pooling", "Router"), "does not read its module Router"),
        (list_modules, "it has no Pooling"),
        (lambda f: change(f, "2_Dense/config.json", activation_function="os.system"), "activation os.system"),
        (lambda f: change(f, "2_Dense/config.json", in_features=10**9), "more weights than its file holds"),
        (_pickle_dense, "2_Dense holds only pickled weights"),
        (lambda f: (f / "2_Dense/outside").symlink_to("/etc/hostname"), "a link that leads out"),
        (
            lambda f: change(f, "sentence_bert_config.json", modality_config={"message": {}}),
            "modality_config",
        ),
    ],
)
def test_what_is_not_opened(make, spoil, reason):
    """Embeddings are refused by name, and a note says so beforehand; attention is read."""
    folder = make("names of version 6")
    spoil(folder)
    (remark,) = load_checkpoint(str(folder), LoadOptions(device="cpu")).remarks
    assert remark.startswith("the attention of its transformer is read, but its embeddings are not: ")
    assert reason in remark
    with pytest.raises(AttnprobeError, match="embeddings of this model can't be made") as error:
        embed_texts(folder, TEXTS)
    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (
            lambda f: change(f, "1_Pooling/config.json", pooling_mode="median"),
            "Invalid pooling mode: 'median'",
        ),
        (lambda f: write(f / "1_Pooling/config.json", []), "can't be read"),
        (_break_dense, "hold NaN or infinite numbers"),
        (lambda f: (f / "2_Dense/model.safetensors").write_bytes(b"none" * 999), "can't be read"),
        (lambda f: change(f, "1_Pooling/config.json", pooling_mode=["cls", "max"]), "modules do not fit"),
    ],
)
def test_modules_that_can_not_be_used(make, spoil, reason):
    folder = make("names of version 6")
    spoil(folder)
    with pytest.raises(AttnprobeError, match=reason):
        embed_texts(folder, TEXTS)
    assert np.isfinite(measure(folder)[0]["entropy"]).all()


def test_without_sentence_transformers(folder, monkeypatch):
    """What needs no embedding works, and what does names the extra."""
    hidden = {"sentence_transformers"}
    monkeypatch.setattr(embedding, "find_spec", lambda name: None if name in hidden else find_spec(name))
    assert measure(folder)[0].provenance["model"]["embedding"]["modules"] == ["Pooling", "Normalize"]
    with pytest.raises(AttnprobeError, match=r'pip install "attnprobe\[embeddings\]"'):
        attnprobe.importance(str(folder), TEXTS, objective="representation")


class TestRemoving:
    """What is written embeds as the model does under a mask of heads."""

    @pytest.mark.parametrize(
        ("name", "physical"), [("switches of version 1", False), ("names of version 6", True)]
    )
    def test_it_is_written_with_its_modules(self, make, tmp_path, name, physical):
        from sentence_transformers import SentenceTransformer

        folder, target = make(name), tmp_path / "pruned"
        with pytest.warns(AttnprobeWarning):
            table = attnprobe.prune(
                str(folder), TEXTS, objective="representation", save=target, share=0.4, physical=physical
            )
        record = json.loads((target / "attnprobe.json").read_text())
        keep = np.ones((len(record["kept_per_layer"]), 4), bool)
        keep[tuple(zip(*record["removed"], strict=True))] = False
        expected = embed_texts(folder, TEXTS, keep=keep)
        np.testing.assert_allclose(embed_texts(target, TEXTS), expected, atol=1e-5, rtol=1e-5)
        assert np.abs(expected - embed_texts(folder, TEXTS)).max() > 0.01
        notes = " ".join(table.notes)
        assert ("attnprobe.load_pruned" if physical else f"SentenceTransformer('{target}') loads it") in notes
        model = SentenceTransformer(str(folder if physical else target), device="cpu")
        if physical:
            model[0].model = attnprobe.load_pruned(target)
        np.testing.assert_allclose(model.encode(TEXTS), expected, atol=1e-5, rtol=1e-5)

    def test_no_link_is_followed(self, old, tmp_path):
        (old / "1_Pooling" / "outside").symlink_to("/etc/hostname")
        read_sentence_folder(old, "old").copy_modules(tmp_path)
        assert [path.name for path in (tmp_path / "1_Pooling").iterdir()] == ["config.json"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a prompt that is not pooled", "lower case"])
def test_a_loaded_model(make, name):
    """It is read as the folder it came from."""
    from sentence_transformers import SentenceTransformer

    folder = make(name)
    model = SentenceTransformer(str(folder), device="cpu")
    for prompt in (None, "none"):
        ours = attnprobe.importance(model, TEXTS, objective="representation", prompt=prompt)
        expected = attnprobe.importance(str(folder), TEXTS, objective="representation", prompt=prompt)
        np.testing.assert_allclose(ours["importance"], expected["importance"], rtol=1e-4)
    expected = attnprobe.entropy(str(folder), TEXTS)["entropy"]
    assert (attnprobe.entropy(model, TEXTS)["entropy"] == expected).all()
    wrapped = torch.nn.DataParallel(model)
    assert (attnprobe.entropy(wrapped, TEXTS, tokenizer=model.tokenizer)["entropy"] == expected).all()
    assert attnprobe.compare([model, str(folder)], TEXTS)["jsd"].max() < 1e-6
