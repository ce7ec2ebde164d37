"""Heads that are really gone: outputs are those under gates, and on disk it is whole or not there."""

import copy
import json
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from spoil import edit_json, edit_weights, refuses
from torch import nn
from transformers import AutoModel, BertForMaskedLM, BertForSequenceClassification, PreTrainedTokenizerFast
from transformers.pytorch_utils import Conv1D

from attnprobe.model.check.dry_run import examine
from attnprobe.model.check.projections import find_projections
from attnprobe.model.check.trace import relative_difference
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.folders import check_free
from attnprobe.model.load import load_checkpoint
from attnprobe.model.pruning import RECORD, load_pruned, save_pruned
from attnprobe.model.quirks import UnsupportedModelError
from attnprobe.model.reading.gates import gate_attention
from attnprobe.model.removing import remove_heads
from attnprobe.model.task_heads import CLASSIFICATION

Keep = NDArray[np.bool_]

KEEP = np.array([[False, True, False, True], [False] * 4, [True] * 4])
IDS = torch.randint(8, 90, (3, 40), generator=torch.Generator().manual_seed(5))
INPUTS = {"input_ids": IDS, "decoder_input_ids": IDS[:, :17]}
SMALLER = ("bart", "bert", "modernbert")
#: Types that can't be made physically smaller, and what is said.
NOT_SMALLER = {"eurobert": "its heads share projections", "t5": "it can't be made physically smaller"}
QUERY = "bert.encoder.layer.0.attention.self.query.weight"

physically = pytest.mark.parametrize("physical", [False, True], ids=["baked", "physical"])


def single(tiny, name):
    return Checkpoint(name, *tiny(name))


def with_head(tiny, kind, **options):
    """Give a tiny model a task head of its own."""
    body, tokenizer = tiny("bert")
    torch.manual_seed(0)
    config = copy.deepcopy(body.config)
    for key, value in options.items():
        setattr(config, key, value)
    model: Any = kind(config)
    model.base_model.load_state_dict(body.state_dict(), strict=False)
    return Checkpoint("bert", model.eval().requires_grad_(False), tokenizer)


@pytest.fixture
def classifier(tiny):
    return with_head(tiny, BertForSequenceClassification, num_labels=3)


def keep_of(checkpoint):
    """Keep some heads of a layer, none of another; two more layers of each kind where there is a decoder."""
    return np.concatenate([KEEP, KEEP[[2, 0, 0, 1]]]) if checkpoint.decodes else KEEP


def gated(checkpoint, run, keep=None):
    """Give what a model gives with the gates of removed heads closed."""
    keep = keep_of(checkpoint) if keep is None else keep
    with torch.inference_mode(), gate_attention(checkpoint.body) as gates:
        gates.set(torch.from_numpy(keep).to(checkpoint.body.dtype)[None])
        return run()


def expected_logits(checkpoint):
    return gated(checkpoint, lambda: checkpoint.model(input_ids=IDS)[0])


def output(model):
    with torch.inference_mode():
        return model(input_ids=IDS)[0]


def save(checkpoint, folder, *, physical, **options):
    """Prune a checkpoint and write it."""
    keep, record = options.pop("keep", keep_of(checkpoint)), options.pop("record", {})
    pruned = remove_heads(checkpoint, keep, physical=physical)
    save_pruned(pruned, checkpoint, keep, folder, physical=physical, record=record, **options)
    return folder


class TestRemoved:
    @pytest.mark.parametrize("name", [*SMALLER, *NOT_SMALLER])
    def test_zeroed(self, tiny, name):
        """The same but for rounding in double precision, and not the original."""
        model, tokenizer = tiny(name)
        checkpoint = Checkpoint(name, copy.deepcopy(model).double(), tokenizer)
        baked = remove_heads(checkpoint, keep_of(checkpoint))
        states = baked.forward(INPUTS)
        assert relative_difference(states, gated(checkpoint, lambda: checkpoint.forward(INPUTS))) < 1e-12
        assert relative_difference(states, checkpoint.forward(INPUTS)) > 1e-3
        shapes = {key: weight.shape for key, weight in checkpoint.model.state_dict().items()}
        assert {key: weight.shape for key, weight in baked.model.state_dict().items()} == shapes

    @pytest.mark.parametrize("name", SMALLER)
    def test_smaller(self, tiny, name):
        """Of each removed head, as many rows or columns go as it is wide; a bias goes with its row."""
        checkpoint = single(tiny, name)
        keep, body = keep_of(checkpoint), checkpoint.body
        small = remove_heads(checkpoint, keep, physical=True)
        expected = gated(checkpoint, lambda: checkpoint.forward(INPUTS))
        assert relative_difference(small.forward(INPUTS), expected) < 1e-5
        gone = 0
        for layer, stays in zip(find_projections(checkpoint), keep, strict=True):
            rows = (4 - max(int(stays.sum()), 1)) * layer.width
            gone += rows * body.get_submodule(layer.output).out_features
            for path, times in [*((path, 1) for path in layer.inputs), (layer.fused, 3)]:
                if path is not None:
                    linear = body.get_submodule(path)
                    gone += times * rows * (linear.in_features + (linear.bias is not None))
        before, after = (sum(p.numel() for p in one.model.parameters()) for one in (checkpoint, small))
        assert before - after == gone > 0

    @pytest.mark.parametrize("name", NOT_SMALLER)
    def test_not_smaller(self, tiny, name):
        checkpoint = single(tiny, name)
        with pytest.raises(UnsupportedModelError, match=f"'{name}'.*{NOT_SMALLER[name]}.*--physical"):
            remove_heads(checkpoint, keep_of(checkpoint), physical=True)

    @physically
    def test_everything_removed(self, tiny, physical):
        checkpoint, keep = single(tiny, "bert"), np.zeros((3, 4), bool)
        expected = gated(checkpoint, lambda: checkpoint.forward(INPUTS), keep)
        states = remove_heads(checkpoint, keep, physical=physical).forward(INPUTS)
        assert relative_difference(states, expected) < 1e-5

    def test_conv1d_is_zeroed_and_not_made_smaller(self, copied):
        model, tokenizer = copied("bert")
        for layer in model.encoder.layer:
            layer.attention.output.dense = Conv1D(32, 32)
            nn.init.normal_(layer.attention.output.dense.weight)
        checkpoint = Checkpoint("conv", model, tokenizer)
        expected = gated(checkpoint, lambda: checkpoint.forward(INPUTS))
        assert relative_difference(remove_heads(checkpoint, KEEP).forward(INPUTS), expected) < 1e-6
        with pytest.raises(UnsupportedModelError, match=r"it has a Conv1D .*\); leave out --physical"):
            remove_heads(checkpoint, KEEP, physical=True)

    def test_a_fused_projection_in_another_order(self, tiny, monkeypatch):
        """Head by head, as GPT-NeoX has it: it runs, but gives something else, so it is refused."""
        checkpoint = single(tiny, "modernbert")
        attention = type(checkpoint.body.get_submodule("layers.0.attn"))
        before = attention.forward

        def interleaved(self, *arguments, **options):
            linear = self.Wqkv
            forward = linear.forward
            linear.forward = lambda x: forward(x).unflatten(-1, (-1, 3, 8)).transpose(-3, -2).flatten(-3)
            try:
                return before(self, *arguments, **options)
            finally:
                del linear.forward

        monkeypatch.setattr(attention, "forward", interleaved)
        with pytest.raises(UnsupportedModelError, match="differs from the head mask by"):
            remove_heads(checkpoint, KEEP, physical=True)


@physically
class TestWritten:
    """What is written is what the gates gave."""

    def test_in_this_process(self, classifier, tmp_path, physical):
        record = {"by": "random", "seed": 3, "removed": "nonsense"}
        folder = save(classifier, tmp_path / "some" / "where", physical=physical, record=record)
        model = load_pruned(folder)
        assert isinstance(model, BertForSequenceClassification)
        assert (type(model).__name__, model.dtype, model.training) == (
            "BertForSequenceClassification", torch.float32, False,
        )  # fmt: skip
        assert relative_difference(output(model), expected_logits(classifier)) < 1e-5
        assert load_pruned(str(folder), torch.float64).dtype == torch.float64
        assert [path.name for path in folder.parent.iterdir()] == ["where"]
        assert json.loads((folder / RECORD).read_text()) == {
            "physical": physical, "kept_per_layer": [2, 0, 4], "by": "random", "seed": 3,
            "removed": [[0, 0], [0, 2], [1, 0], [1, 1], [1, 2], [1, 3]],
        }  # fmt: skip

    def test_masked_lm_with_tied_weights(self, tiny, tmp_path, physical):
        checkpoint = with_head(tiny, BertForMaskedLM)
        model: Any = load_pruned(save(checkpoint, tmp_path / "pruned", physical=physical))
        assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
        assert relative_difference(output(model), expected_logits(checkpoint)) < 1e-5

    @pytest.mark.parametrize("stored", [torch.bfloat16, torch.float32])
    def test_type_of_the_stored_weights(self, classifier, tmp_path, physical, stored):
        """Weights that came from half precision fit into it again."""
        model: Any = copy.deepcopy(classifier.model)
        model.to(stored).save_pretrained(tmp_path / "original")
        classifier.tokenizer.save_pretrained(tmp_path / "original")
        original = load_checkpoint(str(tmp_path / "original"), heads=(CLASSIFICATION,))
        folder = save(original, tmp_path / "pruned", physical=physical)
        assert json.loads((folder / "config.json").read_text())["dtype"] == str(stored).removeprefix("torch.")
        with safe_open(folder / "model.safetensors", framework="pt") as weights:
            assert {weights.get_tensor(name).dtype for name in weights.keys()} == {stored}  # noqa: SIM118
        assert load_pruned(folder).dtype == stored
        assert (
            relative_difference(output(load_pruned(folder, torch.float32)), expected_logits(original)) < 1e-5
        )

    @pytest.mark.parametrize(
        ("owner", "name", "error"),
        [
            (PreTrainedTokenizerFast, "save_pretrained", OSError(28, "No space left on device")),
            (BertForSequenceClassification, "save_pretrained", SafetensorError("No space left on device")),
            ("attnprobe.model.pruning", "load_pruned", OSError(28, "No space left on device")),
        ],
        ids=["tokenizer", "weights", "read back"],
    )
    def test_nothing_half_written(self, classifier, tmp_path, monkeypatch, physical, owner, name, error):
        def fail(*_, **__):
            raise error

        monkeypatch.setattr(*([f"{owner}.{name}"] if isinstance(owner, str) else [owner, name]), fail)
        refuses(
            lambda: save(classifier, tmp_path / "pruned", physical=physical),
            r"pruned can't be written \(no space left on device\); choose another folder",
        )
        assert not list(tmp_path.iterdir())

    def test_interrupted(self, classifier, tmp_path, monkeypatch, physical):
        """What lay there is still there."""
        folder = save(classifier, tmp_path / "pruned", physical=physical)
        before = {path.name: path.read_bytes() for path in folder.iterdir()}

        def interrupt(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr("attnprobe.model.pruning.load_pruned", interrupt)
        with pytest.raises(KeyboardInterrupt):
            save(classifier, folder, physical=physical, keep=np.ones((3, 4), bool), overwrite=True)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("name", [*SMALLER, *NOT_SMALLER])
def test_every_architecture_comes_back(tiny, tmp_path, name):
    checkpoint = single(tiny, name)
    expected = gated(checkpoint, lambda: checkpoint.forward(INPUTS))
    for physical in (False, True) if name in SMALLER else (False,):
        folder = save(checkpoint, tmp_path / str(physical), physical=physical)
        loaded = Checkpoint(name, load_pruned(folder), checkpoint.tokenizer)
        again = load_checkpoint(str(folder))
        assert isinstance(loaded.model, type(checkpoint.model))
        assert (again.kept is not None) == physical
        plain = (
            [] if physical else [Checkpoint(name, AutoModel.from_pretrained(folder).eval(), loaded.tokenizer)]
        )
        for copied in (loaded, again, *plain):
            assert relative_difference(copied.forward(INPUTS), expected) < 1e-5


class TestDestination:
    """Where a pruned checkpoint may go."""

    def test_not_over_another(self, classifier, tmp_path):
        folder = save(classifier, tmp_path / "pruned", physical=True)
        refuses(lambda: save(classifier, folder, physical=False), "exists; choose another .* --overwrite")
        assert load_checkpoint(str(folder)).kept is not None
        save(classifier, folder, physical=False, overwrite=True)
        assert load_checkpoint(str(folder)).kept is None
        assert list(tmp_path.iterdir()) == [folder]

    def test_a_parent_that_can_not_be_written(self, tmp_path, monkeypatch):
        """It is refused early, in the nearest folder that is there, and nothing is left."""
        tried = []

        def denied(dir):
            tried.append(dir)
            raise PermissionError(13, "Permission denied")

        assert check_free(tmp_path / "new" / "x", overwrite=False) == tmp_path / "new" / "x"
        monkeypatch.setattr("attnprobe.files.tempfile.TemporaryFile", denied)
        refuses(lambda: check_free(tmp_path / "new" / "x", overwrite=False), r"written \(permission denied\)")
        assert tried == [tmp_path]

    def test_read_back_otherwise(self, classifier, tmp_path, monkeypatch):
        monkeypatch.setattr("attnprobe.model.pruning.load_pruned", lambda *_, **__: classifier.model)
        refuses(lambda: save(classifier, tmp_path / "x", physical=False), "reads other weights back")
        assert not list(tmp_path.iterdir())


def pickle_weights(folder):
    torch.save({}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def bring_code(folder):
    edit_json(folder / "config.json", model_type="evil", auto_map={"AutoConfig": "evil.Evil"})
    (folder / "evil.py").write_text("raise SystemExit('code of the folder ran')")


class TestHostile:
    """Files that are not what they say."""

    @pytest.fixture
    def folder(self, classifier, tmp_path):
        return save(classifier, tmp_path / "pruned", physical=True)

    @pytest.mark.parametrize(
        "changes",
        [
            {"removed": [[0]]},
            {"removed": None},
            {"kept_per_layer": []},
            {"kept_per_layer": [10**12]},
            {"kept_per_layer": [2, 0, 5]},
            {"removed": [[0, 0], [7, 2], [1, 0], [1, 1], [1, 2], [1, 3]]},
        ],
    )
    def test_record_that_contradicts_itself(self, folder, changes):
        edit_json(folder / RECORD, **changes)
        refuses(lambda: load_checkpoint(str(folder)), "contradicts itself about which heads are removed")

    def test_record_that_contradicts_the_weights(self, folder):
        edit_json(
            folder / RECORD, kept_per_layer=[3, 0, 3], removed=[[0, 0], *([1, k] for k in range(4)), [2, 0]]
        )
        refuses(lambda: examine(load_checkpoint(str(folder))), "which no record says")

    @pytest.mark.parametrize(
        ("spoil", "pattern"),
        [
            (lambda f: (f / RECORD).unlink(), "can't be loaded"),
            (lambda f: (f / RECORD).write_text("[" * 100_000), "can't be loaded"),
            (lambda f: edit_json(f / "config.json", architectures=["AutoModel"]), "config.json"),
            (lambda f: edit_json(f / "config.json", architectures=[3]), "config.json"),
            (pickle_weights, "no file named model.safetensors"),
            (bring_code, "can't be loaded"),
            (lambda f: (f / "model.safetensors").write_bytes(b"x" * 99), "is damaged"),
            # Shapes are compared before memory is taken for them.
            (
                lambda f: edit_json(f / "config.json", hidden_size=2**20, intermediate_size=2**24),
                "is .* there",
            ),
        ],
    )
    def test_refused(self, folder, spoil, pattern):
        spoil(folder)
        refuses(lambda: load_pruned(folder), pattern)

    @pytest.mark.parametrize(
        ("change", "pattern"),
        [
            (lambda weights: weights.pop("classifier.weight"), "classifier.weight is not there"),
            (lambda weights: weights.update(extra=torch.zeros(2)), "extra is not there, or has no place"),
            (lambda weights: weights.update({QUERY: torch.zeros(16)}), "weight is 16 there"),
        ],
    )
    def test_other_weights(self, folder, change, pattern):
        edit_weights(folder, change)
        refuses(lambda: load_pruned(folder), pattern)
