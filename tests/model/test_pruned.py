"""Pruned checkpoints on disk: whole or not there, and loaded as they were."""

import copy
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    AutoModel,
    BertForMaskedLM,
    BertForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from attnprobe.errors import AttnprobeError
from attnprobe.model.check.dry_run import examine
from attnprobe.model.check.trace import relative_difference
from attnprobe.model.checkpoint import Checkpoint
from attnprobe.model.load import load_checkpoint
from attnprobe.model.pruned import RECORD, load_pruned, read_record
from attnprobe.model.reading.gates import gate_attention
from attnprobe.model.removing import bake, check_free, save_pruned, shrink
from attnprobe.model.task_heads import CLASSIFICATION

Tiny = Callable[[str], tuple[PreTrainedModel, PreTrainedTokenizerFast]]
Keep = NDArray[np.bool_]

KEEP = np.array([[False, True, False, True], [False] * 4, [True] * 4])
IDS = torch.randint(8, 90, (3, 40), generator=torch.Generator().manual_seed(5))
SMALLER = ("bart", "bert", "distilbert", "modernbert")
QUERY = "bert.encoder.layer.0.attention.self.query"


def with_head(tiny: Tiny, kind: type[PreTrainedModel], name: str = "bert", **options: Any) -> Checkpoint:
    """Give a tiny model a task head of its own."""
    body, tokenizer = tiny(name)
    torch.manual_seed(0)
    config = copy.deepcopy(body.config)
    for key, value in options.items():
        setattr(config, key, value)
    model: Any = kind(config)
    model.base_model.load_state_dict(body.state_dict(), strict=False)
    return Checkpoint(name, model.eval().requires_grad_(False), tokenizer)


@pytest.fixture
def classifier(tiny: Tiny) -> Checkpoint:
    return with_head(tiny, BertForSequenceClassification, num_labels=3)


def keep_of(checkpoint: Checkpoint) -> Keep:
    """Keep some heads of a layer, none of another; two more layers of each kind where there is a decoder."""
    return np.concatenate([KEEP, KEEP[[2, 0, 0, 1]]]) if checkpoint.decodes else KEEP


def gated(checkpoint: Checkpoint, keep: Keep | None = None, **inputs: Tensor) -> Tensor:
    keep = keep_of(checkpoint) if keep is None else keep
    with torch.inference_mode(), gate_attention(checkpoint.body) as gates:
        gates.set(torch.from_numpy(keep).to(checkpoint.body.dtype)[None])
        return checkpoint.model(input_ids=IDS, **inputs)[0]


def output(model: PreTrainedModel, **inputs: Tensor) -> Tensor:
    with torch.inference_mode():
        return model(input_ids=IDS, **inputs)[0]


def save(
    checkpoint: Checkpoint, folder: Path, *, physical: bool, keep: Keep | None = None, **options: Any
) -> Path:
    """Prune a checkpoint and write it."""
    keep = keep_of(checkpoint) if keep is None else keep
    pruned = (shrink if physical else bake)(checkpoint, keep)
    record = options.pop("record", {})
    save_pruned(pruned, checkpoint, keep, folder, physical=physical, record=record, **options)
    return folder


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], object]):
    """Change the stored weights."""
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def edit(file: Path, **changes: Any):
    """Change entries of a JSON file."""
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def refuses(ask: Callable[[], object], pattern: str):
    """Expect one plain sentence that matches."""
    with pytest.raises(AttnprobeError, match=pattern) as caught:
        ask()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


#: A process that has never heard of attnprobe until it loads the second of two checkpoints.
FRESH = """
import sys, torch
torch.set_num_threads(1)
ids = torch.randint(8, 90, (3, 40), generator=torch.Generator().manual_seed(5))
from transformers import AutoModelForSequenceClassification
baked = AutoModelForSequenceClassification.from_pretrained(sys.argv[1]).eval()
assert "attnprobe" not in sys.modules
from attnprobe.model.pruned import load_pruned
with torch.inference_mode():
    torch.save([model(input_ids=ids).logits for model in (baked, load_pruned(sys.argv[2]))], sys.argv[3])
"""


@pytest.mark.slow
def test_written_for_a_fresh_process(classifier: Checkpoint, tmp_path: Path):
    folders = [save(classifier, tmp_path / str(physical), physical=physical) for physical in (False, True)]
    subprocess.run([sys.executable, "-c", FRESH, *folders, tmp_path / "logits.pt"], check=True)
    expected = gated(classifier)
    for found in torch.load(tmp_path / "logits.pt"):
        assert relative_difference(found, expected) < 1e-5
    assert relative_difference(output(classifier.model), expected) > 1e-3


@pytest.mark.parametrize("physical", [False, True], ids=["baked", "physical"])
class TestWritten:
    """What is written is what the gates gave."""

    def test_in_this_process(self, classifier: Checkpoint, tmp_path: Path, physical: bool):
        folder = save(classifier, tmp_path / "some" / "where", physical=physical)
        found = load_pruned(folder)
        assert type(found) is BertForSequenceClassification
        assert (found.dtype, found.training) == (torch.float32, False)
        assert relative_difference(output(found), gated(classifier)) < 1e-5
        assert load_pruned(str(folder), torch.float64).dtype == torch.float64
        assert sorted(path.name for path in folder.parent.iterdir()) == ["where"]

    def test_record(self, classifier: Checkpoint, tmp_path: Path, physical: bool):
        record = {"by": "random", "seed": 3, "removed": "nonsense"}
        folder = save(classifier, tmp_path / "pruned", physical=physical, record=record)
        removed = [[0, 0], [0, 2], [1, 0], [1, 1], [1, 2], [1, 3]]
        assert json.loads((folder / RECORD).read_text()) == {
            "physical": physical, "removed": removed, "kept_per_layer": [2, 0, 4], "by": "random", "seed": 3,
        }  # fmt: skip
        assert read_record(folder).removed == tuple(map(tuple, removed))

    def test_masked_lm_with_tied_weights(self, tiny: Tiny, tmp_path: Path, physical: bool):
        checkpoint = with_head(tiny, BertForMaskedLM)
        found: Any = load_pruned(save(checkpoint, tmp_path / "pruned", physical=physical))
        assert found.cls.predictions.decoder.weight is found.bert.embeddings.word_embeddings.weight
        assert relative_difference(output(found), gated(checkpoint)) < 1e-5

    @pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16, torch.float64])
    def test_type_of_the_stored_weights(
        self, classifier: Checkpoint, tmp_path: Path, physical: bool, stored: torch.dtype
    ):
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
        assert relative_difference(output(load_pruned(folder, torch.float32)), gated(original)) < 1e-5
        assert original.model.dtype == torch.float32

    @pytest.mark.parametrize("moment", ["tokenizer", "read back", "rename"])
    def test_nothing_half_written(
        self,
        classifier: Checkpoint,
        tmp_path: Path,
        physical: bool,
        moment: str,
        monkeypatch: pytest.MonkeyPatch,
    ):
        def full(*_: Any, **__: Any):
            raise OSError(28, "No space left on device")

        if moment == "tokenizer":
            monkeypatch.setattr(PreTrainedTokenizerFast, "save_pretrained", full)
        elif moment == "rename":
            monkeypatch.setattr(Path, "rename", full)
        else:
            monkeypatch.setattr("attnprobe.model.removing.load_stored", full)
        refuses(
            lambda: save(classifier, tmp_path / "pruned", physical=physical),
            r"pruned can't be written \(no space left on device\)",
        )
        assert not list(tmp_path.iterdir())

    def test_a_full_disk_while_weights_are_written(
        self, classifier: Checkpoint, tmp_path: Path, physical: bool, monkeypatch: pytest.MonkeyPatch
    ):
        """Which safetensors names by a number."""

        def full(*_: Any, **__: Any):
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

        monkeypatch.setattr(type(classifier.model), "save_pretrained", full)
        refuses(
            lambda: save(classifier, tmp_path / "pruned", physical=physical),
            r"^[^:]*pruned can't be written \(no space left on device\); choose another folder.$",
        )

    def test_files_have_the_mode_of_other_files(self, classifier: Checkpoint, tmp_path: Path, physical: bool):
        before = os.umask(0o027)
        try:
            folder = save(classifier, tmp_path / "pruned", physical=physical)
        finally:
            os.umask(before)
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o640}

    def test_interrupted(
        self, classifier: Checkpoint, tmp_path: Path, physical: bool, monkeypatch: pytest.MonkeyPatch
    ):
        """What lay there is still there."""
        folder = save(classifier, tmp_path / "pruned", physical=physical)
        before = {path.name: path.read_bytes() for path in folder.iterdir()}

        def interrupts(*_: Any, **__: Any):
            raise KeyboardInterrupt

        monkeypatch.setattr("attnprobe.model.removing._check_read_back", interrupts)
        with pytest.raises(KeyboardInterrupt):
            save(classifier, folder, physical=physical, keep=np.ones((3, 4), bool), overwrite=True)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("name", [*SMALLER, "eurobert", "t5", "umt5"])
def test_every_architecture_comes_back(tiny: Tiny, tmp_path: Path, name: str):
    model, tokenizer = tiny(name)
    checkpoint = Checkpoint(name, model, tokenizer)
    keep = keep_of(checkpoint)
    inputs = {"input_ids": IDS, "decoder_input_ids": IDS[:, :7]}
    with gate_attention(checkpoint.body) as gates:
        gates.set(torch.from_numpy(keep).float()[None])
        expected = checkpoint.forward(inputs)
    for physical in (False, True) if name in SMALLER else (False,):
        folder = save(checkpoint, tmp_path / str(physical), physical=physical, keep=keep)
        found = Checkpoint(name, load_pruned(folder), tokenizer)
        assert type(found.model) is type(model)
        assert relative_difference(found.forward(inputs), expected) < 1e-5
        again = load_checkpoint(str(folder))
        assert relative_difference(again.forward(inputs), expected) < 1e-5
        assert (again.pruning is not None) == physical
        if not physical:
            plain = Checkpoint(name, AutoModel.from_pretrained(folder).eval(), tokenizer)
            assert relative_difference(plain.forward(inputs), expected) < 1e-5


class TestDestination:
    """Where a pruned checkpoint may go."""

    def test_not_over_another(self, classifier: Checkpoint, tmp_path: Path):
        folder = save(classifier, tmp_path / "pruned", physical=True)
        refuses(lambda: save(classifier, folder, physical=False), "exists; choose another .* --overwrite")
        assert read_record(folder).physical
        save(classifier, folder, physical=False, overwrite=True)
        assert not read_record(folder).physical
        assert list(tmp_path.iterdir()) == [folder]

    def test_not_over_anything_else(self, tmp_path: Path):
        (tmp_path / "thesis.tex").touch()
        refuses(lambda: check_free(tmp_path, overwrite=True), "is no pruned checkpoint and is not replaced")

    def test_a_parent_that_can_not_be_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """It is refused early, in the nearest folder that is there, and nothing is left."""
        asked = []

        def denied(dir: Path):
            asked.append(dir)
            raise PermissionError(13, "Permission denied")

        assert check_free(tmp_path / "new" / "x", overwrite=False) == tmp_path / "new" / "x"
        monkeypatch.setattr("attnprobe.model.folders.tempfile.TemporaryFile", denied)
        refuses(lambda: check_free(tmp_path / "new" / "x", overwrite=False), r"written \(permission denied\)")
        assert asked == [tmp_path]
        assert not list(tmp_path.iterdir())

    def test_read_back_otherwise(
        self, classifier: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("attnprobe.model.removing.load_stored", lambda *_, **__: classifier.model)
        refuses(lambda: save(classifier, tmp_path / "x", physical=False), "reads other weights back")
        assert not list(tmp_path.iterdir())


def shorten(weights: dict[str, Tensor], name: str, rows: int):
    weights[name] = weights[name][:rows].clone()


class TestHostile:
    """Files that are not what they say."""

    @pytest.fixture
    def folder(self, classifier: Checkpoint, tmp_path: Path) -> Path:
        return save(classifier, tmp_path / "pruned", physical=True)

    @pytest.mark.parametrize(
        "content",
        ["", "[]", "{}", "[" * 100_000, '{"physical": 1, "removed": [], "kept_per_layer": []}',
         '{"physical": true, "removed": [[0]], "kept_per_layer": []}',
         '{"physical": true, "removed": [[0, true]], "kept_per_layer": []}',
         '{"physical": true, "removed": [[0, -1]], "kept_per_layer": [1]}',
         '{"physical": true, "removed": 3, "kept_per_layer": [1]}',
         '{"physical": true, "removed": [], "kept_per_layer": [1.5]}'],
    )  # fmt: skip
    def test_record(self, folder: Path, content: str):
        (folder / RECORD).write_text(content)
        refuses(lambda: load_pruned(folder), "says nothing of removed heads")

    @pytest.mark.parametrize(
        "said",
        [
            {"kept_per_layer": [2, 0, 5]},
            {"kept_per_layer": []},
            {"removed": [[0, 0], [0, 0], [1, 0], [1, 1], [1, 2], [1, 3]]},
            {"removed": [[0, 0], [0, 9], [1, 0], [1, 1], [1, 2], [1, 3]]},
            {"removed": [[0, 0], [7, 2], [1, 0], [1, 1], [1, 2], [1, 3]]},
        ],
    )
    def test_record_that_contradicts_itself(self, folder: Path, said: dict[str, Any]):
        edit(folder / RECORD, **said)
        refuses(lambda: load_checkpoint(str(folder)), "contradicts itself about which heads are removed")

    def test_record_that_contradicts_the_weights(self, folder: Path):
        edit(folder / RECORD, kept_per_layer=[3, 0, 3], removed=[[0, 0], *([1, k] for k in range(4)), [2, 0]])
        refuses(lambda: examine(load_checkpoint(str(folder))), "which is not what its record says")

    def test_no_record(self, folder: Path):
        (folder / RECORD).unlink()
        refuses(lambda: load_pruned(folder), "is no pruned checkpoint; load it with transformers")

    def test_said_to_be_baked(self, folder: Path):
        edit(folder / RECORD, physical=False)
        refuses(lambda: load_pruned(folder), "can't be loaded")

    @pytest.mark.parametrize(
        ("change", "pattern"),
        [
            (lambda w: w.pop("classifier.weight"), r"lacks 1 of its weights \(such as classifier.weight\)"),
            (lambda w: w.pop(f"{QUERY}.weight"), "lacks 1 of its weights"),
            (lambda w: w.update(extra=torch.zeros(2)), r"1 weights that its model has no place for"),
            (lambda w: shorten(w, "bert.embeddings.LayerNorm.weight", 8), r"LayerNorm.weight .*\(8\) contra"),
            (lambda w: shorten(w, "bert.embeddings.word_embeddings.weight", 8), "contradicts its config"),
            (lambda w: w.update({f"{QUERY}.weight": torch.zeros(64, 32)}), r"\(64x32\) contradicts"),
            (lambda w: w.update({f"{QUERY}.weight": torch.zeros(16, 16)}), r"\(16x16\) contradicts"),
            (lambda w: w.update({f"{QUERY}.weight": torch.zeros(0, 32)}), r"\(0x32\) contradicts"),
            (lambda w: w.update({f"{QUERY}.weight": torch.zeros(16)}), r"\(16\) contradicts"),
            (lambda w: shorten(w, f"{QUERY}.bias", 8), r"query.bias .*\(8\) contradicts"),
            (
                lambda w: [
                    shorten(w, f"{QUERY.replace('0', '2')}.{kind}", 24) for kind in ("weight", "bias")
                ],
                "do not go together",
            ),
        ],
        ids=["head", "weight", "extra", "norm", "table", "larger", "both", "empty", "flat", "bias", "apart"],
    )
    def test_weights(self, folder: Path, change: Callable[[dict[str, Tensor]], object], pattern: str):
        rewrite(folder, change)
        refuses(lambda: load_pruned(folder), pattern)

    @pytest.mark.parametrize(
        "named",
        [None, [], ["BertModel", "BertModel"], ["NoSuchModel"], ["AutoModel"], ["pipeline"], ["BertConfig"],
         ["RobertaModel"], ["PreTrainedModel"], [3]],
    )  # fmt: skip
    def test_class(self, folder: Path, named: Any):
        edit(folder / "config.json", architectures=named)
        refuses(lambda: load_pruned(folder), "config.json")

    def test_pickled(self, folder: Path):
        torch.save({}, folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
        refuses(lambda: load_pruned(folder), "holds no weights")

    @pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
    def test_broken(self, folder: Path, file: str):
        (folder / file).write_bytes(b"x" * 99)
        refuses(lambda: load_pruned(folder), "is damaged")

    def test_huge(self, folder: Path):
        """Shapes are compared before memory is taken for them."""
        edit(folder / "config.json", hidden_size=2**20, intermediate_size=2**24)
        refuses(lambda: load_pruned(folder), "contradicts its config.json")

    def test_a_folder_with_a_file_of_that_name(self, saved: Callable[[str], Path], tmp_path: Path):
        """Somebody else's file is no reason not to load a checkpoint."""
        for path in saved("bert").iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        (tmp_path / RECORD).write_text("[")
        assert load_checkpoint(str(tmp_path)).model_type == "bert"
